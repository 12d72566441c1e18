"""Whether an export is the run that it came from: both are asked about the run's own dev texts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from attnlab.config.pictures import PictureGrid
from attnlab.config.values import ConfigError
from attnlab.data.encode import ENCODINGS
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.images.decoding import pixels_of, png_of
from attnlab.data.images.patches import vectors_of
from attnlab.data.images.picture import Picture
from attnlab.interop.class_names import NAMED, unit_scores
from attnlab.interop.read_back import ReadBack, ReadText, precise, scores_of_model
from attnlab.runs.faults import RunError, UnsoundError, fault_phrase
from attnlab.runs.findings import Finding, Outcome
from attnlab.runs.typed import Value
from attnlab.session.trained import Trained
from attnlab.tasks.answer_spans import AnswerSpans

TEXTS, TRIED = 16, 200
"""Dev texts that are compared, and among how many those are looked for that are read whole."""
FIXED = ("The quick brown fox jumps over the lazy dog.", "A second text, which is longer than the first one.")
"""What is compared where the run's own text cannot be read, or is not known."""
ROLES = {"pad": "pad", "unk": "unknown", "bos": "start", "eos": "stop", "mask": "mask"}
"""Special tokens as transformers names them, and as ours do."""


@dataclass(frozen=True)
class Exported:
    """A run before it was exported, opened anew: its adapter is not merged and nothing is folded."""

    trained: Trained

    @cached_property
    def texts(self) -> tuple[Example, ...]:
        """Texts of dev, whole where some are read whole; fixed ones where the run's own cannot be had; of
        pictures those of dev, or one that is drawn."""
        if self.pictures is not None:
            return self.with_pictures(self.pictures)
        pair = FIXED[1] if self.reads_pairs else None
        given = self.dev or tuple(Example(text, pair) for text in FIXED)
        whole = [example for example in given if self.fits(example)]
        return tuple(whole[:TEXTS]) or tuple(map(self.cut, given[:TEXTS]))

    def with_pictures(self, grid: PictureGrid) -> tuple[Example, ...]:
        """Pictures of dev, or one of noise; and texts, where those are read apart."""
        noise = np.random.default_rng(0).integers(0, 256, (grid.size, grid.size, 3), np.uint8)
        pictures = self.dev[:TEXTS] or (Example("", image=Picture(png_of(noise))),)
        written = [example.second for example in pictures if example.second] or list(FIXED)
        texts = [Example(text) for text in written if grid.apart]
        return (*pictures, *(self.cut(text) for text in texts))

    @property
    def pictures(self) -> PictureGrid | None:
        """Those that the run reads."""
        return self.trained.config.model.picture

    @cached_property
    def dev(self) -> tuple[Example, ...]:
        if self.trained.imported:
            return ()
        try:
            dataset = self.trained.dataset
            return dataset.first("dev" if "dev" in dataset.splits.names else "train", TRIED)
        except (ConfigError, DataError, RunError, OSError):
            return ()

    @cached_property
    def reads_pairs(self) -> bool:
        return "pair" in ENCODINGS[self.trained.config.data.encoding.kind].uses

    @property
    def prompted(self) -> bool:
        """Whether it continues texts: they are exported without the token that ends them."""
        return self.trained.model.writes and not self.trained.model.trunk.reads_source

    def fits(self, example: Example) -> bool:
        read = self.read(example)
        return 0 < len(read.ids) <= self.room and len(read.source or ()) <= self.room

    @property
    def room(self) -> int:
        return self.trained.config.longest_text

    def cut(self, example: Example) -> Example:
        """As much of a text as the model reads at once."""
        while not self.fits(example) and len(example.text) > 1:
            texts = (example.text, example.pair, example.target)
            text, pair, target = (text and text[: max(1, len(text) * 3 // 4)] for text in texts)
            example = replace(example, text=text or "", pair=pair, target=target)
        return example

    def read(self, example: Example) -> ReadText:
        """A text, or a picture, as the run reads it."""
        if self.pictures is not None and example.image is not None:
            return ReadText([], pixels=self.pixels(example, self.pictures))
        tokenizer, settings = self.trained.tokenizer, self.trained.config.model
        first, form = tokenizer.encode(example.text), tokenizer.form
        if self.trained.model.trunk.reads_source:
            target = tokenizer.target.encode(example.target or example.text)
            return ReadText([tokenizer.target.first, *target], source=form.single(first))
        if self.reads_pairs and example.pair is not None:
            second = tokenizer.encode(example.pair)
            types = form.pair_types(len(first), len(second)) if settings.token_types > 1 else None
            return ReadText(form.pair(first, second), types)
        return ReadText([*form.before, *first] if self.prompted else form.single(first))

    def pixels(self, example: Example, grid: PictureGrid) -> Tensor:
        """(1,3,S,S) from −1 to 1."""
        assert example.image is not None
        fit = self.trained.config.data.encoding.options.get("fit", "pad")
        pixels = torch.from_numpy(vectors_of(pixels_of(example.image, grid.size, fit)))
        return pixels.permute(2, 0, 1)[None]

    @cached_property
    def scores(self) -> list[Tensor]:
        """Of each text, in numbers of the labels' own unit."""
        model, _ = precise(self.trained.model)
        with torch.no_grad():
            scores = [scores_of_model(model, self.read(example)) for example in self.texts]
        return [unit_scores(each, self.trained.labels) for each in scores]

    @property
    def threshold(self) -> float | None:
        task = self.trained.deciding
        return task.threshold if isinstance(task, AnswerSpans) and task.threshold != "dev" else None


def confirm_export(run: Path, target: Path, read_back: Callable[[], ReadBack]) -> list[Finding]:
    """That an export says what the run says. Where it does not, it is deleted, and UnsoundError says why."""
    exported = Exported(Trained.at(run))
    own = exported.scores
    try:
        back = read_back()
        gap = max(map(score_gap, own, their_scores(exported, back)))
    except Exception as error:  # whatever another project's code raises at what was written
        findings = [finding_of("", Outcome.FAIL, "cannot_run", {"error": fault_phrase(error)})]
    else:
        findings = compare(exported, back, gap)
    faults = [finding for finding in findings if finding.outcome is Outcome.FAIL]
    if faults:
        shutil.rmtree(target) if target.is_dir() else target.unlink()
        reasons = "\n".join(fault.sentence for fault in faults)
        raise UnsoundError(f"{run} was not exported: what was written is not what was trained.\n{reasons}")
    return findings


def compare(exported: Exported, back: ReadBack, gap: float) -> list[Finding]:
    """Everything in which an export differs from its run, the plainest first; or that it does not. `gap` is
    how far scores are from the run's own, of the largest."""
    differences = list(contradictions(exported, back))
    if not gap <= back.equal:
        values = {"texts": len(exported.texts)}
        return [*differences, finding_of(back.implementation, Outcome.FAIL, "scores_differ", values, gap)]
    agreeing = finding_of(back.implementation, Outcome.PASS, "agree", counts(exported, back), gap)
    return [agreeing, *differences]


def contradictions(exported: Exported, back: ReadBack) -> Iterator[Finding]:
    if back.lost:
        yield finding_of(back.implementation, Outcome.FAIL, "tensors_lost", {"names": list(back.lost)})
    tuned = tuned_numbers(exported.trained)
    if back.numbers is not None and back.numbers < tuned:  # peft also saves heads that were not tuned
        yield finding_of(
            back.implementation, Outcome.FAIL, "numbers_differ", {"own": tuned, "theirs": back.numbers}
        )
    yield from other_tokens(exported, back)
    yield from other_labels(exported, back)


def tuned_numbers(trained: Trained) -> int:
    """How many numbers were tuned: the adapter's own, and those of the head beside it."""
    adapter = trained.model.adapter
    if adapter is None:
        return 0
    return sum(parameter.numel() for parameter in adapter.parameters().values())


def other_tokens(exported: Exported, back: ReadBack) -> Iterator[Finding]:
    for example in exported.texts:
        read = exported.read(example)
        if read.pixels is not None:
            continue
        own = list(read.ids if read.source is None else read.source)
        pair = example.pair if exported.reads_pairs else None
        theirs = back.ids(example.text, pair)
        if theirs is not None and theirs != own:
            shown: dict[str, Value] = {"text": example.text[:60], "own": own[:12], "theirs": theirs[:12]}
            plain = back.plain_ids(example.text, pair) == own
            outcome, kind = (Outcome.WARN, "other_class") if plain else (Outcome.FAIL, "tokens_differ")
            yield finding_of(back.implementation, outcome, kind, shown)
            break
    specials = exported.trained.tokenizer.specials
    for role, number in (back.special_ids or {}).items():
        own_number = getattr(specials, ROLES[role])
        if own_number is not None and number != own_number:
            values: dict[str, Value] = {"role": role, "own": own_number, "theirs": number}
            yield finding_of(back.implementation, Outcome.FAIL, "special_differs", values)


def other_labels(exported: Exported, back: ReadBack) -> Iterator[Finding]:
    names = class_names(exported)
    if back.names is not None and names and back.names != names:
        yield finding_of(
            back.implementation,
            Outcome.FAIL,
            "names_differ",
            {"own": list(names), "theirs": list(back.names)},
        )
    if back.names is not None and back.threshold != exported.threshold:
        thresholds = {"own": exported.threshold, "theirs": back.threshold}
        yield finding_of(back.implementation, Outcome.FAIL, "threshold_differs", thresholds)


def class_names(exported: Exported) -> tuple[str, ...]:
    """The names of its classes or tags, where it has some that others store."""
    labels = exported.trained.labels
    return labels.names if labels.kind in NAMED else ()


def their_scores(exported: Exported, back: ReadBack) -> list[Tensor]:
    """Of each text, by place where the run's own are."""
    by_place = exported.scores[0].ndim == 3
    return [back.scores(exported.read(example), by_place=by_place) for example in exported.texts]


def score_gap(own: Tensor, theirs: Tensor) -> float:
    if own.shape != theirs.shape:
        return torch.inf
    largest = own.abs().max().clamp(min=1e-30)
    return float(((own.double() - theirs.double()).abs().max() / largest).nan_to_num(torch.inf))


def counts(exported: Exported, back: ReadBack) -> dict[str, Value]:
    return {
        "by": back.implementation,
        "texts": len(exported.texts),
        "of_dev": bool(exported.dev),
        "classes": 0 if back.names is None else len(class_names(exported)),
        "threshold": back.threshold,
        "tokens": back.ids("a", None) is not None,
        "tuned": back.numbers,
    }


def finding_of(
    implementation: str, outcome: Outcome, kind: str, values: Mapping[str, Value], number: float | None = None
) -> Finding:
    return Finding(
        check="export",
        when="after",
        outcome=outcome,
        kind=kind,
        number=number,
        values=values,
        implementation=implementation,
    )
