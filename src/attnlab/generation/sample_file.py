"""What a run writes at each evaluation: the same prompts and seed, so that runs can be read side by side.

A decoder writes from the start token on, an encoder-decoder for the first sources of dev, and whatever
describes pictures for the first of those. A masked model writes nothing, UniLM's neither: it was only ever
asked for words hidden within a text, never for the next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.config.streams import stream_seed
from attnlab.config.visible_text import visible
from attnlab.data.dataset import Dataset
from attnlab.data.encode.texts import ends
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.generation.decoder import PlacedPicture
from attnlab.generation.generate import Written, generate
from attnlab.generation.rules import Sample
from attnlab.generation.target_writer import TargetSource, pictures_of
from attnlab.model.isolation import undisturbed
from attnlab.model.model import Model
from attnlab.runs.events import Evaluated, Event
from attnlab.tasks.task import Task

SAMPLES = 3
LENGTH = 40


@dataclass(frozen=True)
class ShownSource:
    """What a sample is written for, and how that is shown."""

    read: TargetSource
    shown: str


class SampleFile:
    """Adds a few texts to samples.txt whenever the run is evaluated.

    A run that goes on at a step forgets what was written after it: those steps come again.
    """

    def __init__(
        self,
        file: Path,
        model: Model,
        tokenizer: Tokenizer,
        *,
        length: int,
        step: int,
        sources: Sequence[ShownSource] = (),
    ):
        self.file, self.model, self.tokenizer, self.length = file, model, tokenizer, length
        self.sources = sources
        self.last: list[Written] = []  # what was written at the last evaluation, led by no source
        before = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        file.write_text("".join(until(before, step)), encoding="utf-8")

    def __call__(self, event: Event) -> None:
        if isinstance(event, Evaluated):
            with self.file.open("a", encoding="utf-8") as out:
                out.write(self.text(event.step))

    def text(self, step: int) -> str:
        """The samples of a step. They disturb no other stream, and leave the model as it was; compiled code
        is for whole batches, and not for a token at a time."""
        with undisturbed(self.model):
            lines = self.answers() if self.sources else self.alone()
        numbered = (f"{n}. {visible(text)}" for n, text in enumerate(lines, start=1))
        return f"step {step}\n" + "\n".join(numbered) + "\n\n"

    def alone(self) -> list[str]:
        self.last = sampled(self.model, self.tokenizer, length=self.length, number=SAMPLES)
        return [line(self.tokenizer, sample) for sample in self.last]

    def answers(self) -> list[str]:
        """Each source, and what was written for it."""
        read = [source.read for source in self.sources]
        targets = answered(self.model, self.tokenizer, read, length=self.length)
        pairs = zip(self.sources, targets, strict=True)
        return [f"{source.shown} → {line(self.tokenizer, new).strip()}" for source, new in pairs]


def sample_files(
    file: Path, model: Model, task: Task, dataset: Dataset, *, length: int, step: int = 0
) -> list[SampleFile]:
    """The file of a model that writes; none of one that does not."""
    pictured = model.writes and dataset.rows("train").has("pixels")
    if not task.two_stacks and not pictured and not (model.writes and task.continues):
        return []
    sources = pictures_shown(dataset) if pictured else sources_of(task, dataset) if task.two_stacks else ()
    return [SampleFile(file, model, dataset.tokenizer, length=length, step=step, sources=sources)]


def split_shown(dataset: Dataset) -> str:
    """Dev, or train where there is no dev."""
    return "dev" if "dev" in dataset.splits.names else "train"


def sources_of(task: Task, dataset: Dataset) -> list[ShownSource]:
    """What the encoder reads of the first texts."""
    rows = dataset.rows(split_shown(dataset))
    texts = (rows.ragged("ids", row).astype(np.int64) for row in range(min(SAMPLES, len(rows))))
    read = [task.read(ids, stream_seed(0, "samples", n)).tolist() for n, ids in enumerate(texts)]
    return [ShownSource(TargetSource(ids), source_line(dataset.tokenizer, ids)) for ids in read]


def pictures_shown(dataset: Dataset) -> list[ShownSource]:
    """The first pictures, by their places, with what is to be written for each."""
    split = split_shown(dataset)
    rows = dataset.rows(split)
    numbers: list[int] = rows.scalars("example")[:SAMPLES].tolist()
    examples = list(islice(dataset.examples(split), max(numbers, default=-1) + 1))
    asked = [(examples[number].place, examples[number].target or "") for number in numbers]
    return [
        ShownSource(TargetSource.of_rows(rows, row), f"{place} (right: {target})".replace("\n", "⏎"))
        for row, (place, target) in enumerate(asked)
    ]


def answered(
    model: Model, tokenizer: Tokenizer, sources: Sequence[TargetSource], *, length: int
) -> list[Written]:
    """A text for each source, always with the same chance; `length` is the model's."""
    ids, pictures = [source.ids for source in sources], pictures_of(sources)
    if not model.trunk.reads_source:
        return written(model, tokenizer, ids, length=length, pictures=pictures)
    start, _ = ends(tokenizer)
    prompts = [[start]] * len(sources)
    return written(model, tokenizer, prompts, length=length, sources=ids, pictures=pictures)


def sampled(model: Model, tokenizer: Tokenizer, *, length: int, number: int) -> list[Written]:
    """Texts from the start token on, always with the same chance; `length` is the model's."""
    first = tokenizer.form.before or (tokenizer.pad,)
    return written(model, tokenizer, [list(first)] * number, length=length)


def written(
    model: Model,
    tokenizer: Tokenizer,
    prompts: list[list[int]],
    *,
    length: int,
    sources: Sequence[Sequence[int]] | None = None,
    pictures: Sequence[PlacedPicture] | None = None,
) -> list[Written]:
    stop = {token for token in (tokenizer.target.specials.stop,) if token is not None}
    rule = Sample(temperature=0.8, top_p=0.95)
    room = max(length - len(prompts[0]), 1)
    settings: dict[str, Any] = {"rule": rule, "length": min(LENGTH, room), "stop": stop, "sources": sources}
    return generate(model, prompts, pictures=pictures, seed=stream_seed(0, "samples"), **settings)


def line(tokenizer: Tokenizer, sample: Written) -> str:
    """A sample on one line; … where it was cut."""
    text = tokenizer.target.written(sample.new).replace("\n", "⏎")
    return text if sample.stopped else f"{text} …"


def source_line(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """A source on one line, with what is unknown or hidden in it."""
    return tokenizer.written(ids, holes=True).strip().replace("\n", "⏎")


def until(text: str, step: int) -> list[str]:
    """The parts of a samples file up to a step."""
    parts = [
        f"step {part}"
        for part in re.split(r"^step (?=\d+$)", text, flags=re.MULTILINE)
        if part.split("\n")[0].isdigit()
    ]
    return [part for part in parts if int(part.split("\n")[0].removeprefix("step ")) <= step]
