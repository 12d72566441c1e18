"""What a run that adapts a model will do, as a person is told before it begins."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from attnlab.config import schema
from attnlab.config.values import Choice
from attnlab.config.visible_text import visible
from attnlab.config.wording import percent
from attnlab.data.label_quality import LabelQuality, label_quality
from attnlab.data.loader import Loader
from attnlab.data.reading_wording import decimal_sentence, quality_sentences, separator_sentences
from attnlab.documents.numbers import duration
from attnlab.evaluation.features import keeps_features
from attnlab.interop.exchange import ExportPlan, export_plan
from attnlab.model.adapters import ADAPTERS
from attnlab.model.terms import Term, gather
from attnlab.session.folds import has_folds
from attnlab.session.session import Session
from attnlab.session.training import in_order
from attnlab.targets.wording import labels_sentence
from attnlab.training.budget import amount, patience_phrase
from attnlab.training.loop import backward

FEW_ROWS = 2000
"""Rows below which a part of them, kept as dev, says little."""
FORMULAS = 4
"""The most terms of a closed form that are shown one by one."""


@dataclass(frozen=True)
class DataPlan:
    """The rows that a run will read, and what is doubtful about them."""

    rows: Mapping[str, int]
    labels: str
    quality: LabelQuality
    separators: Mapping[Path, str]

    def lines(self) -> list[str]:
        rows = ", ".join(f"{count:,} {split}" for split, count in self.rows.items())
        lines = [
            *separator_sentences(self.separators),
            f"Rows: {rows}. {visible(self.labels)}.",
            decimal_sentence(self.quality),
            *(f"Warning: {visible(sentence)}" for sentence in quality_sentences(self.quality)),
        ]
        return list(filter(None, lines))


@dataclass(frozen=True)
class AdaptingPlan:
    """What a run will do, as a person is told before it begins."""

    data: DataPlan
    cut: str
    method: str
    tuned: int
    formulas: Sequence[Term]
    """What is tuned, in closed form."""
    parameters: int
    epochs: float
    steps: int
    patience: int | Literal["unlimited"]
    metric: str
    seconds: float
    export: ExportPlan
    folder: Path
    folds: bool = False
    """Whether its rows could be cross-validated instead."""

    def __str__(self) -> str:
        share = percent(self.tuned / self.parameters)
        stops = (
            ""
            if self.patience == "unlimited"
            else f"; it stops {patience_phrase(self.patience, self.metric)}"
        )
        lines = [
            *self.data.lines(),
            f"{self.cut}." if self.cut else "",
            f"Method: {self.method}; it tunes {self.tuned:,} of {self.parameters:,} parameters ({share}).",
            closed_form(self.formulas),
            f"At most {amount(float(f'{self.epochs:.3g}'), 'epochs')}, {amount(self.steps, 'steps')}{stops}.",
            f"Expected time of training: {duration(self.seconds)} at most, from one measured step; checks "
            "come before and after it, and the first of them show how long they take.",
            export_sentence(self.export),
            few_rows_sentence(self.data.rows) if self.folds else "",
            f"The run goes to {visible(str(self.folder))}",
        ]
        return "\n".join(filter(None, lines))


def few_rows_sentence(rows: Mapping[str, int]) -> str:
    """That dev is small, and how every row can be scored instead."""
    train, dev = rows.get("train", 0), rows.get("dev", 0)
    if not dev or train + dev >= FEW_ROWS:
        return ""
    return f"Dev has {dev:,} rows, which say little: --folds 5 scores all {train + dev:,}, each by others."


def export_sentence(export: ExportPlan) -> str:
    """Who will be able to load the model."""
    if export.refused is not None:
        return f"attnlab convert will not export it to transformers: {export.refused}"
    steps = f", {export.steps}" if export.steps else ""
    as_class = f"; for one class of transformers: {export.class_settings}" if export.class_settings else ""
    return f"attnlab convert will export it to {export.library} ({export.architecture}{steps}){as_class}."


def closed_form(terms: Sequence[Term]) -> str:
    """What the terms add up to: on one line where they are few, else a line for each part of the model."""
    few = len(terms) <= FORMULAS
    parts = [f"{term.count:,} ({term.name}: {term.formula})" for term in (terms if few else gather(terms))]
    return "  = " + (" + " if few else "\n  + ").join(parts)


def adapting_plan(session: Session, folder: Path) -> AdaptingPlan:
    """What a run that is set up will do; one step is made and forgotten, to see how long it takes."""
    config, dataset, model = session.config, session.dataset, session.model
    loader = in_order(session)
    epochs = _epochs(config.training, len(loader), int(loader.rows.lengths.sum()))
    cuts = dataset.truncation("train")
    limits = config.training.budget.limits
    assert model.adapter is not None  # a run with a start has one
    return AdaptingPlan(
        data=data_plan(session),
        cut=f"{cuts} at data.length {config.data.length}" if cuts.cut else "",
        method=_method_told(config.adapter),
        tuned=model.adapter.tuned,
        formulas=model.adapter.tuned_terms(),
        parameters=sum(p.numel() for p in model.parameters()),
        epochs=epochs,
        steps=round(epochs * len(loader) / config.training.accumulate),
        patience=config.training.patience,
        metric=session.task.metrics[0].replace("_", " "),
        seconds=min(_seconds(session, loader, epochs), limits.get("seconds", math.inf)),
        export=export_plan(model, config.model, session.labels),
        folder=folder,
        folds=task_folds(session),
    )


def task_folds(session: Session) -> bool:
    """Whether dev is a part of the training rows, each of which can be scored by others."""
    return has_folds(session.task) and "dev" not in session.dataset.corpus.given


def data_plan(session: Session) -> DataPlan:
    """What the rows of a session are."""
    dataset = session.dataset
    return DataPlan(
        rows={split: len(dataset.rows(split)) for split in dataset.splits.names},
        labels=labels_sentence(**vars(session.labels)),
        quality=label_quality(dataset.splits.every(), dataset.splits.names),
        separators=dataset.corpus.separators(),
    )


def _method_told(adapter: Choice) -> str:
    """An adapter with those of its options that are not the usual ones."""
    usual = ADAPTERS.resolve(adapter.kind).options
    chosen = {name: value for name, value in adapter.options.items() if value != usual[name]}
    return str(Choice(adapter.kind, chosen))


def _epochs(training: schema.TrainingSettings, batches: int, tokens: int) -> float:
    """The epochs that the budget holds, as far as that is known beforehand."""
    each = {"epochs": 1.0, "steps": batches / training.accumulate, "tokens": tokens}
    limits = training.budget.limits
    return min((limits[name] / per for name, per in each.items() if name in limits), default=1.0)


def _seconds(session: Session, loader: Loader, epochs: float) -> float:
    """The time of the epochs and of a pass over dev after each, from a batch of the usual size."""
    step, forward = _measured(session, loader)
    train = _places(loader)
    dev = _places(session.dataset.scored("dev")) if "dev" in session.dataset.splits.names else 0.0
    if keeps_features(session.model, session.task):
        return forward * (train + dev)  # once; the epochs after the first cost next to nothing
    return epochs * (step * train + forward * dev)


def _places(loader: Loader) -> float:
    """Tokens of an epoch with their padding."""
    return float(sum(size.sum() for size in loader.rows.sizes)) / (1 - loader.waste())


def _measured(session: Session, loader: Loader) -> tuple[float, float]:
    """Seconds a place of a step, and of a forward. The generator and the gradients are left as they were."""
    plan = loader.plan(0)
    batch = loader.load(plan, len(plan) // 2)
    device = next(session.model.parameters()).device
    prepared = session.task.prepare(batch, 0).to(device)
    with torch.random.fork_rng():
        began = time.perf_counter()
        with torch.no_grad():
            session.task.loss(session.model, prepared)
        forward = time.perf_counter() - began
        began = time.perf_counter()
        backward(session.model, session.task, [prepared])
        step = time.perf_counter() - began
    session.model.zero_grad(set_to_none=True)
    return step / batch.places, forward / batch.places
