"""A run opened again: its config, its own tokenizer, its verified weights, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from attnlab.checks.decoding import miswrites
from attnlab.config.schema import Config
from attnlab.config.values import Choice, ConfigError
from attnlab.data.labels import Labels
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_files import load as load_tokenizer
from attnlab.model.assemble import build_model
from attnlab.model.model import Model
from attnlab.runs.checkpoints import Checkpoints, DamagedError
from attnlab.runs.findings import unsound_of
from attnlab.runs.folder import RunFolder
from attnlab.runs.record import RECORD, read_record
from attnlab.runs.run_error import RunError
from attnlab.tasks import TASKS
from attnlab.tasks.task import Task
from attnlab.tasks.vocabulary import Vocabulary
from attnlab.training.checkpoint import load_checked, read_checkpoint


@dataclass(frozen=True)
class Opened:
    """A trained model with everything that gives its numbers a meaning."""

    folder: Path
    step: int
    config: Config
    tokenizer: Tokenizer
    model: Model
    labels: Labels = Labels()

    @classmethod
    def at(cls, path: str | Path, *, which: Literal["last", "best"] = "last") -> Self:
        """A run's folder, or one of its checkpoints (…/checkpoints/step-N): verified before it is used."""
        place = Path(path)
        folder, step = place, None
        if place.name.startswith("step-") and place.parent.name == "checkpoints":
            folder, step = place.parent.parent, int(place.name.removeprefix("step-"))
        if (folder / "config.json").is_file() and not (folder / RECORD).is_file():
            raise ConfigError(
                f"{folder} is a checkpoint of another project; take it in first: "
                f"attnlab convert {folder} TARGET"
            )
        record = read_record(folder)
        config = RunFolder(folder).config()
        tokenizer = load_tokenizer(folder / "tokenizer.json")
        if record.get("tokenizer", tokenizer.fingerprint) != tokenizer.fingerprint:
            raise RunError(
                f"{folder / 'tokenizer.json'} is not the tokenizer that this run was trained with "
                f"({tokenizer.fingerprint}, not {record['tokenizer']}): its ids would mean other words."
            )
        if record.get("status") == "converted":  # its tokenizer is its own file, wherever the folder is
            own = Choice("file", {"path": str(folder / "tokenizer.json")})
            config = replace(config, data=replace(config.data, tokenizer=own))
        step = _step(record, folder, which) if step is None else step
        labels = Labels.of(record["labels"]) if "labels" in record else Labels()
        settings = config.model.with_tokenizer(tokenizer.size)
        model = build_model(settings, device="meta", labels=labels.outputs)
        try:
            load_checked(model, read_checkpoint(Checkpoints.of(folder), step))
        except DamagedError as damage:
            raise RunError(f"The checkpoint of step {step} in {folder} is damaged: {damage}") from damage
        return cls(folder, step, config, tokenizer, model.eval(), labels)

    @property
    def unsound(self) -> list[str]:
        """The checks that the run failed: while there is one, its numbers do not mean what they say."""
        found = unsound_of(self.folder)
        return sorted({*found, "decoding"}) if self.miswrites else found

    @cached_property
    def miswrites(self) -> bool:
        """Whether cached decoding gives other scores than each text alone, as the model is now."""
        return miswrites(self.model, self.tokenizer.size, self.config.model.length)

    @cached_property
    def task(self) -> Task:
        """What it was trained to predict."""
        vocabulary = Vocabulary.of(self.tokenizer)
        return TASKS.build(self.config.task, vocabulary=vocabulary, labels=self.labels)

    def prompt(self, text: str) -> list[int]:
        """A text as the beginning of one: the tokens before it, its own, and none that end it."""
        return [*self.tokenizer.form.before, *self.tokenizer.encode(text)] or [self.tokenizer.first]

    @property
    def unknown(self) -> int:
        """The token of words that the tokenizer does not know; no token (-1) where it knows every text."""
        found = self.tokenizer.specials.unknown
        return -1 if found is None else found

    @property
    def stop(self) -> set[int]:
        """The tokens that end a text."""
        ends = self.tokenizer.form.end or (self.tokenizer.specials.stop,)
        return {token for token in ends if token is not None}

    @property
    def continues(self) -> bool:
        """Whether it was trained to go on with any text, and so gives one a probability."""
        return self.model.writes and self.task.continues

    @property
    def fills(self) -> bool:
        """Whether it was trained to say what is hidden within a text."""
        hides = self.tokenizer.specials.mask is not None
        return hides and self.model.head.scores_words and self.task.fills

    @property
    def reads_source(self) -> bool:
        """Whether what it writes stands apart from the prompt, which is its source."""
        return self.model.trunk.reads_source


def _step(record: dict[str, object], folder: Path, which: str) -> int:
    steps = Checkpoints.of(folder).steps()
    if not steps:
        raise RunError(
            f"{folder} has no checkpoint yet; train on with: attnlab train --resume --out {folder}"
        )
    best = record.get("best")
    if which == "best" and isinstance(best, dict) and best.get("step") in steps:
        return int(best["step"])
    return steps[-1]
