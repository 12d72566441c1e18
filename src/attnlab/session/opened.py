"""A run opened again: its config, its own tokenizer, its verified weights, and what follows from them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from attnlab.checks.decoding import miswrites
from attnlab.config.schema import Config
from attnlab.config.values import ConfigError
from attnlab.data.corpora.records import ANSWER_COLUMNS, Columns, Names
from attnlab.data.labels import Labels
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.interop.exchange import read_published
from attnlab.model.model import Model
from attnlab.runs.findings import unsound_of
from attnlab.runs.record import read_record
from attnlab.session.stored import is_published, model_folder, name_of, stored_at
from attnlab.tasks import TASKS
from attnlab.tasks.task import Task
from attnlab.tasks.vocabulary import Vocabulary


@dataclass(frozen=True, repr=False)
class Opened:
    """A trained model with everything that gives its numbers a meaning."""

    folder: Path
    step: int
    config: Config
    tokenizer: Tokenizer
    model: Model
    labels: Labels = Labels()
    settled: Mapping[str, float] = field(default_factory=dict)
    """What its predictions go by that was chosen on dev, such as the threshold of answers."""
    imported: bool = False
    """Whether it comes from another project: what it was trained on is then not known."""

    @classmethod
    def at(cls, path: str | Path, *, which: Literal["last", "best"] = "best") -> Self:
        """A run's folder, one of its checkpoints (…/checkpoints/step-N), a folder in transformers' layout, or
        a packaged model by its name: verified before it is used.

        Of a run, the checkpoint that was best on dev, and the last where none was evaluated.
        """
        place = model_folder(path)
        if is_published(place):
            found = read_published(place)
            return cls(place, 0, found.config, found.tokenizer, found.model, found.labels, imported=True)
        stored = stored_at(place, which=which)
        parts = stored.folder, stored.step, stored.config, stored.tokenizer, stored.model()
        return cls(*parts, stored.labels, stored.settled, stored.imported)

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.model.parameters())
        held = f"{name_of(self.folder)!r}, step {self.step:,}, {self.config.task.kind}, {count:,} parameters"
        return f"{type(self).__name__}({held})"

    @property
    def checkpoint(self) -> str:
        """Which checkpoint it is, in words."""
        if self.imported:
            return "as it was published"
        best = read_record(self.folder).get("best") or {}
        which = ", the best on dev" if best.get("value") is not None and best.get("step") == self.step else ""
        return f"step {self.step:,}{which}"

    @property
    def unsound(self) -> list[str]:
        """The checks that the run failed: while there is one, its numbers do not mean what they say."""
        found = unsound_of(self.folder)
        return sorted({*found, "decoding"}) if self.miswrites else found

    @cached_property
    def miswrites(self) -> bool:
        """Whether cached decoding gives other scores than each text alone, as the model is now."""
        return miswrites(self.model, self.tokenizer.size, self.config.longest_text)

    @cached_property
    def task(self) -> Task:
        """What it was trained to predict."""
        vocabulary = Vocabulary.of(self.tokenizer)
        return TASKS.build(self.config.task, vocabulary=vocabulary, labels=self.labels)

    @cached_property
    def deciding(self) -> Task:
        """The same, with what was chosen on dev: for texts that it was not chosen on."""
        return self.task.settled(self.settled)

    def refuse_headless(self) -> None:
        """Say what can be done with a model whose head gives neither words nor labels, such as a trunk."""
        if self.config.model.output.kind not in self.task.heads:
            name = name_of(self.folder)
            raise ConfigError(
                f"{name} has no head for words or labels. Get the vectors of texts in Python: "
                f'lab.open("{name}").embed(["…"]); or train a head: attnlab adapt {shlex.quote(name)} '
                "--data FILE"
            )

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of an example that its task reads from a table with what is right."""
        return self.task.target.columns

    def columns(self, part: str) -> Names:
        """Where a part of an example stands in a table: as in the run's own, else by the usual names."""
        own, usual = self.config.data.corpus.options.get(part), getattr(Columns(), part)
        usual = ANSWER_COLUMNS if part == "answers" else usual
        return (own, *usual) if isinstance(own, str) else usual

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
