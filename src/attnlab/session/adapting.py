"""A trained model adapted to a person's labelled texts: the config of the run, and what it will do."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attnlab.config import schema
from attnlab.config.files import identity, load, parse_override
from attnlab.config.values import Choice, ConfigError, without_middle
from attnlab.config.visible_text import visible
from attnlab.config.wording import percent
from attnlab.data.corpora import CORPORA
from attnlab.data.corpora.records import ANSWER_COLUMNS
from attnlab.data.labels import FEW, SHOWN, given, is_number, whole
from attnlab.data.loader import Loader
from attnlab.documents.numbers import duration
from attnlab.model.adapters import ADAPTERS
from attnlab.model.terms import Term, gather
from attnlab.session.setup import Setup, in_order
from attnlab.session.start import start_at
from attnlab.tasks import TASKS
from attnlab.training.accumulate import backward
from attnlab.training.budget import amount
from attnlab.training.features import keeps_features

LENGTH = 512
"""Tokens of a text that are read where nobody says otherwise, if the model reads so many."""
LENGTHS = {"answering": 384}
"""The same by task: a longer passage is read in several windows, and nothing of it is lost."""
HELD_OUT = 0.1
"""The share of the rows that is kept as dev, and the share kept as test, where no files are given."""


@dataclass(frozen=True)
class Recipe:
    """How a method is trained where nobody says otherwise. `patience` counts epochs without a better dev
    score; `warmup` is a share of the steps."""

    learning_rate: float
    epochs: float
    patience: int = 3
    weight_decay: float = 0.01
    warmup: float = 0.1

    def training(self) -> dict[str, Any]:
        """Its settings of [training]."""
        rates = {"learning_rate": self.learning_rate, "weight_decay": self.weight_decay}
        return {
            "optimizer": {"kind": "adamw", **rates, "betas": [0.9, 0.999]},
            "schedule": {"kind": "linear", "warmup": self.warmup},
            "budget": {"epochs": self.epochs},
            "evaluate_every": "epoch",
            "patience": self.patience,
        }


RECIPES = {
    "full": Recipe(learning_rate=5e-5, epochs=4.0),
    "top": Recipe(learning_rate=1e-4, epochs=4.0),
    "head": Recipe(learning_rate=2e-3, epochs=20.0),
    "lora": Recipe(learning_rate=5e-4, epochs=5.0),
    "bitfit": Recipe(learning_rate=1e-3, epochs=5.0),
    "prompt": Recipe(learning_rate=1e-2, epochs=10.0),
    "prefix": Recipe(learning_rate=5e-3, epochs=10.0),
}
"""By adapter: the fewer weights are trained, the larger the rate and the more epochs."""
ANSWERING = {"full": Recipe(learning_rate=2e-4, epochs=3.0)}
"""The same for spans of a passage, by short trials with MiniLM, whose loss fell faster at four times the rate
for classes (docs/lab-notes.md)."""
FORMULAS = 4
"""The most terms of a closed form that are shown one by one."""
BATCHES = {"kind": "bucketed", "batch_size": 32, "tokens": 4096}


# ---------------------------------------------------------------- the config
def adapting_config(
    start: str | Path,
    *,
    data: str | Path,
    adapter: Choice | str = "full",
    task: str = "",
    reading: Mapping[str, Any] | None = None,
    set: Iterable[str] | Mapping[str, Any] = (),
) -> schema.Config:
    """The config of a run that adapts `start` to the rows of `data`.

    `reading` are options of the corpus, such as the columns `text`, `pair` and `label`. Everything that
    follows from them can be set otherwise with `set`.
    """
    overrides = dict(set) if isinstance(set, Mapping) else dict(map(parse_override, set))
    for name in {"start", "adapter", "task", "data.corpus"} & overrides.keys():
        raise ConfigError(f"{name} decides other settings here; give it as an argument, not with --set.")
    columns = {name: value for name, value in (reading or {}).items() if value}
    read = CORPORA.read(str(data), "data")
    chosen = {"kind": read.kind, **read.options, **columns}
    task = task or task_of(CORPORA.resolve(chosen, "data"))
    chosen |= answer_columns(read.kind, columns) if TASKS[task].label_kind == "answer" else {}
    if TASKS[task].label_kind == "tags" and "label" in columns:
        chosen["tags"] = chosen.pop("label")
    corpus = CORPORA.resolve(chosen, "data")
    method = ADAPTERS.resolve(adapter, "adapter")
    if TASKS[task].label_kind == "none":
        raise ConfigError(
            f'task "{task}" learns words, not labels: use attnlab train --set start={start}, or give '
            f"--task {' or '.join(name for name in TASKS if TASKS[name].label_kind != 'none')}."
        )
    held, taught = start_at(str(start)).settings, TASKS[task]
    labelled = "classification" in taught.heads and held.output.kind not in taught.heads
    read_last = labelled and held.family == "decoder"
    graded = taught.label_kind == "pair" and "label" in columns  # a label says how alike two texts are
    form = taught.encodings[0] if "pair" not in columns or "pair" not in taught.encodings else "pair"
    settings = {
        "start": str(start),
        "adapter": method,
        "task": {"kind": task} | ({"objective": "cosine"} if graded else {}),
        "model": {"output": "classification(pooling=last)"} if read_last else {},
        "data": {
            "corpus": corpus,
            "encoding": form,
            "batching": dict(BATCHES),
            "length": min(LENGTHS.get(task, LENGTH), held.length - int(method.options.get("tokens", 0))),
            "dev_share": HELD_OUT,
            "test_share": 0.0 if "dev" in columns else HELD_OUT,
        },
        "training": recipe_of(method.kind, task).training(),
    }
    return load(settings, set=overrides)


def task_of(corpus: Choice) -> str:
    """The task that answers or a column of labels ask for; where that is not plain, a person must say it."""
    found: set[str] = set()
    for example in CORPORA.build(corpus).read("train"):
        if example.answers:
            return "answering"
        if example.words:
            return "tagging"
        if example.pair is not None and example.label is None:
            continue  # a question without an answer
        label = given(example)
        if isinstance(label, tuple):
            return "multilabel"
        found.add(label)
    if all(map(is_number, found)) and (len(found) > FEW or not all(map(whole, found))):
        shown = ", ".join(sorted(found)[:3])
        raise ConfigError(
            f"The label column holds {len(found):,} different numbers, such as {shown}: to predict a number "
            "give --task regression; if they are names of classes, give --task classification."
        )
    return "classification"


def recipe_of(adapter: str, task: str) -> Recipe:
    """How a method is trained on a task; an adapter of a person's own is trained as lora is."""
    recipes = RECIPES | ANSWERING if TASKS[task].label_kind == "answer" else RECIPES
    return recipes.get(adapter, RECIPES["lora"])


def answer_columns(corpus: str, named: Mapping[str, Any]) -> dict[str, Any]:
    """Where a person's table may have its answers: a column of that name is no label then."""
    if corpus not in ("files", "hub"):
        return {}
    usual: dict[str, Any] = {"answers": ANSWER_COLUMNS, "label": ()}
    return {name: value for name, value in usual.items() if name not in named}


def run_folder(config: schema.Config, data: str | Path) -> Path:
    """Where a run goes where nobody says otherwise."""
    return Path("runs") / f"{Path(data).stem}-{config.adapter.kind}-{identity(config)[:8]}"


# ---------------------------------------------------------------- what it will do
@dataclass(frozen=True)
class AdaptingPlan:
    """What a run will do, as a person is told before it begins."""

    rows: Mapping[str, int]
    labels: str
    cut: str
    method: str
    tuned: int
    formulas: Sequence[Term]
    """What is tuned, in closed form."""
    parameters: int
    epochs: float
    steps: int
    patience: int | str
    metric: str
    seconds: float
    folder: Path

    def __str__(self) -> str:
        rows = ", ".join(f"{count:,} {split}" for split, count in self.rows.items())
        share = percent(self.tuned / self.parameters)
        stops = f"; it stops after {self.patience} evaluations without a better dev {self.metric}"
        lines = [
            f"Rows: {rows}. {visible(self.labels)}.",
            f"{self.cut}." if self.cut else "",
            f"Method: {self.method}; it tunes {self.tuned:,} of {self.parameters:,} parameters ({share}).",
            closed_form(self.formulas),
            f"At most {amount(float(f'{self.epochs:.3g}'), 'epochs')}, {amount(self.steps, 'steps')}"
            f"{stops if self.patience != 'unlimited' else ''}.",
            f"Expected time: {duration(self.seconds, 0)} at most, from one measured step.",
            f"The run goes to {visible(str(self.folder))}",
        ]
        return "\n".join(filter(None, lines))


def closed_form(terms: Sequence[Term]) -> str:
    """What the terms add up to: on one line where they are few, else a line for each part of the model."""
    few = len(terms) <= FORMULAS
    told = [f"{term.count:,} ({term.name}: {term.formula})" for term in (terms if few else gather(terms))]
    return "  = " + (" + " if few else "\n  + ").join(told)


def adapting_plan(setup: Setup, folder: Path) -> AdaptingPlan:
    """What a run that is set up will do; one step is made and forgotten, to see how long it takes."""
    config, dataset, model = setup.config, setup.dataset, setup.model
    loader = in_order(setup)
    epochs = _epochs(config.training, len(loader), int(loader.rows.lengths.sum()))
    cuts = dataset.truncation("train")
    assert model.adapter is not None  # a run with a start has one
    return AdaptingPlan(
        rows={split: len(dataset.rows(split)) for split in dataset.splits.names},
        labels=_labels_told(setup),
        cut=f"{cuts} at data.length {config.data.length}" if cuts.cut else "",
        method=_method_told(config.adapter),
        tuned=model.adapter.tuned,
        formulas=model.adapter.tuned_terms(),
        parameters=sum(p.numel() for p in model.parameters()),
        epochs=epochs,
        steps=round(epochs * len(loader) / config.training.accumulate),
        patience=config.training.patience,
        metric=setup.task.metrics[0].replace("_", " "),
        seconds=min(_seconds(setup, loader, epochs), config.training.budget.limits.get("seconds", math.inf)),
        folder=folder,
    )


def _method_told(adapter: Choice) -> str:
    """An adapter with those of its options that are not the usual ones."""
    usual = ADAPTERS.resolve(adapter.kind).options
    chosen = {name: value for name, value in adapter.options.items() if value != usual[name]}
    return str(Choice(adapter.kind, chosen))


def _labels_told(setup: Setup) -> str:
    labels = setup.dataset.labels
    if labels.kind == "answer":
        counts = zip(labels.counts, labels.names, strict=True)
        return f"Questions of train: {', '.join(f'{count:,} {name}' for count, name in counts)}"
    if labels.kind == "pair":
        return f"Pairs of train: {labels.examples:,}; other pairs of a batch are the wrong answers"
    if labels.kind == "number":
        return f"Numbers of mean {labels.mean:.4g} and deviation {labels.deviation:.4g}"
    names = [without_middle(name, SHOWN) for name in labels.names]
    counted = [f"{name} {count:,}" for name, count in zip(names, labels.counts, strict=True)]
    more = f", and {len(counted) - 8} more" if len(counted) > 8 else ""
    return f"{len(counted)} classes: {', '.join(counted[:8])}{more}"


def _epochs(training: schema.TrainingSettings, batches: int, tokens: int) -> float:
    """The epochs that the budget holds, as far as that is known beforehand."""
    each = {"epochs": 1.0, "steps": batches / training.accumulate, "tokens": tokens}
    limits = training.budget.limits
    return min((limits[name] / per for name, per in each.items() if name in limits), default=1.0)


def _seconds(setup: Setup, loader: Loader, epochs: float) -> float:
    """The time of the epochs and of a pass over dev after each, from a batch of the usual size."""
    step, forward = _measured(setup, loader)
    train = _places(loader)
    dev = _places(setup.dataset.scored("dev")) if "dev" in setup.dataset.splits.names else 0.0
    if keeps_features(setup.model, setup.task):
        return forward * (train + dev)  # once; the epochs after the first cost next to nothing
    return epochs * (step * train + forward * dev)


def _places(loader: Loader) -> float:
    """Tokens of an epoch with their padding."""
    return float(sum(size.sum() for size in loader.rows.sizes)) / (1 - loader.waste())


def _measured(setup: Setup, loader: Loader) -> tuple[float, float]:
    """Seconds a place of a step, and of a forward. The generator and the gradients are left as they were."""
    plan = loader.plan(0)
    batch = loader.load(plan, len(plan) // 2)
    device = next(setup.model.parameters()).device
    prepared = setup.task.prepare(batch, 0).to(device)
    with torch.random.fork_rng():
        began = time.perf_counter()
        with torch.no_grad():
            setup.task.loss(setup.model, prepared)
        forward = time.perf_counter() - began
        began = time.perf_counter()
        backward(setup.model, setup.task, [prepared])
        step = time.perf_counter() - began
    setup.model.zero_grad(set_to_none=True)
    return step / batch.places, forward / batch.places
