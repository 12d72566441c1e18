"""What a run writes at each evaluation: the same prompts and seed, so that runs can be read side by side."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from attnlab.config.streams import stream_seed
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.generation.generate import Written, generate
from attnlab.generation.rules import Sample
from attnlab.model.model import Model
from attnlab.training.events import Evaluated, Event

SAMPLES = 3
LENGTH = 40


class SampleFile:
    """Adds a few texts to samples.txt whenever the run is evaluated.

    A run that goes on at a step forgets what was written after it: those steps come again.
    """

    def __init__(self, file: Path, model: Model, tokenizer: Tokenizer, *, length: int, step: int):
        self.file, self.model, self.tokenizer, self.length = file, model, tokenizer, length
        self.last: list[Written] = []  # what was written at the last evaluation
        held = file.read_text(encoding="utf-8") if file.exists() else ""
        file.write_text("".join(until(held, step)), encoding="utf-8")

    def __call__(self, event: Event) -> None:
        if isinstance(event, Evaluated):
            with self.file.open("a", encoding="utf-8") as out:
                out.write(self.text(event.step))

    def text(self, step: int) -> str:
        """The samples of a step. Evaluation disturbs no other stream, and leaves the model as it was."""
        training = self.model.training
        try:
            self.last = sampled(self.model, self.tokenizer, length=self.length, number=SAMPLES)
        finally:
            self.model.train(training)
        lines = (f"{n}. {line(self.tokenizer, sample)}" for n, sample in enumerate(self.last, start=1))
        return f"step {step}\n" + "\n".join(lines) + "\n\n"


def sampled(model: Model, tokenizer: Tokenizer, *, length: int, number: int) -> list[Written]:
    """Texts from the start token on, always with the same chance; `length` is the model's."""
    first = tokenizer.form.before or (tokenizer.pad,)
    stop = {token for token in (tokenizer.specials.stop,) if token is not None}
    rule = Sample(temperature=0.8, top_p=0.95)
    room = max(length - len(first), 1)
    settings: dict[str, Any] = {"rule": rule, "length": min(LENGTH, room), "stop": stop}
    return generate(model, [list(first)] * number, seed=stream_seed(0, "samples"), **settings)


def line(tokenizer: Tokenizer, sample: Written) -> str:
    """A sample on one line; … where it was cut."""
    text = tokenizer.written(sample.new).replace("\n", "⏎")
    return text if sample.stopped else f"{text} …"


def until(text: str, step: int) -> list[str]:
    """The parts of a samples file up to a step."""
    parts = [
        f"step {part}"
        for part in re.split(r"^step (?=\d+$)", text, flags=re.MULTILINE)
        if part.split("\n")[0].isdigit()
    ]
    return [part for part in parts if int(part.split("\n")[0].removeprefix("step ")) <= step]
