"""Texts that a trained model writes for sources: translations and summaries, of a few or of a file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.config.memory import refuse_beyond_memory
from attnlab.config.values import ConfigError
from attnlab.config.wording import count_of
from attnlab.data.corpora.readers import lines_of, read_text, reader_of, undecoded
from attnlab.data.corpora.records import Broken, Tally
from attnlab.data.encode.encoding import Cut, Cuts, Encoding
from attnlab.data.encode.pictures import Pictured
from attnlab.data.errors import unusable
from attnlab.data.example import Example
from attnlab.data.images.picture import Picture
from attnlab.data.rows import in_memory
from attnlab.generation.beam import Hypothesis
from attnlab.generation.packed_weights import by_columns
from attnlab.generation.request import several
from attnlab.generation.target_writer import TargetSource, TargetWriter, each_of
from attnlab.session.predicting import encoding_of, pictured_example
from attnlab.session.writing import refuse_pictured
from attnlab.tasks.task import Prediction

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

BEAM = 4
CHUNK = 1024
"""Texts that are in memory at a time, among which neighbours in length are written together."""
SHOWN = 5


@dataclass(frozen=True)
class Candidate:
    """A text that was written for a source. `log_probability` is that of all its tokens, `score` what it is
    ranked by: log-probability / tokens^penalty. `stopped` says whether it ended by itself."""

    text: str
    score: float
    log_probability: float
    tokens: int
    stopped: bool

    @property
    def probability(self) -> float:
        return math.exp(self.log_probability)


class Translator:
    """Writes a target for each source, a text or a picture, with the most likely texts that a beam finds.

    A source that is longer than the model reads is refused, or loses its end or its start (`cut`), counted in
    `cuts`. An empty source has no target. `unended` counts the texts that the model did not end by itself,
    `unseen` has the characters of sources that the training text does not have.
    """

    pairs = False  # an example is one text, as for a Predictor

    def __init__(
        self, trained: Trained, *, beam: int = BEAM, penalty: float = 1.0, best: int = 1, cut: Cut = "refuse"
    ):
        refuse_untranslating(trained, "caption" if trained.captions else "translate")
        if best > beam:
            raise ConfigError(
                f"A beam of width {beam} ends with {beam} texts, not {best}; use --beam {best}."
            )
        self.trained, self.beam, self.penalty, self.best = trained, beam, penalty, best
        self.writer = TargetWriter(
            model=trained.model,
            tokenizer=trained.tokenizer,
            context=trained.config.longest_text,
            beam=beam,
            penalty=penalty,
        )
        self.cut: Cut = cut
        self.encoding: Encoding = encoding_of(trained)
        self.cuts, self.unended = Cuts(), 0
        self.unseen: dict[str, None] = {}

    def __call__(self, examples: Iterable[Example]) -> Iterator[Prediction]:
        """The best text of each example, in order, with the probability that the model gives it."""
        remaining = iter(examples)
        while chunk := list(islice(remaining, CHUNK)):
            for best, *_ in self.candidates(chunk):
                yield Prediction(answer=best.text, confidence=best.probability)

    def candidates(self, examples: Sequence[Example]) -> list[list[Candidate]]:
        """The `best` texts of each example, best first."""
        sources = self._sources(examples)
        by_columns(self.trained.model)
        some = [source for source in sources if source is not None]
        written = iter(each_of(some, self._search, device=self.writer.device))
        nothing = [Candidate("", 0.0, 0.0, 0, True)]
        candidates = [nothing if source is None else next(written) for source in sources]
        self.unended += sum(not best.stopped for best, *_ in candidates)
        if (known := self.trained.tokenizer.text) is not None:
            self.unseen |= dict.fromkeys(known.unseen("".join(example.text for example in examples)))
        return candidates

    @property
    def pictured(self) -> bool:
        """Whether a source is a picture."""
        return self.encoding.pictured

    @property
    def reads_text(self) -> bool:
        return not self.pictured

    @property
    def room(self) -> int:
        """How many tokens of a source fit; where the target shares its row, one is left for that."""
        form, length = self.trained.tokenizer.form, self.trained.config.longest_text
        return length - form.single_room if self.trained.reads_source else length - form.pair_room - 1

    def is_too_long(self, text: str) -> bool:
        return len(self.trained.tokenizer.encode(text.strip())) > self.room

    def _sources(self, examples: Sequence[Example]) -> list[TargetSource | None]:
        """What is read of each example; nothing of an empty text."""
        if isinstance(self.encoding, Pictured):
            read = self.encoding.source_rows(examples)
            rows = in_memory(read, vocabulary=self.trained.tokenizer.size)
            return [TargetSource.of_rows(rows, row) for row in range(len(rows))]
        form = self.trained.tokenizer.form
        if self.trained.reads_source:
            return [TargetSource(form.single(ids)) if ids else None for ids in self._ids(examples)]
        return [
            TargetSource([*form.before, *ids, *form.middle]) if ids else None for ids in self._ids(examples)
        ]

    def _ids(self, examples: Sequence[Example]) -> list[list[int]]:
        """The ids of each text without special tokens."""
        sources = self.trained.tokenizer.encode_many([example.text.strip() for example in examples])
        if self.cut == "refuse":
            refuse_long(examples, sources, self.room)
        kept = [source[-self.room :] if self.cut == "start" else source[: self.room] for source in sources]
        for source, rest in zip(sources, kept, strict=True):
            self.cuts.count(len(source), len(source) - len(rest))
        return kept

    def _search(self, sources: Sequence[TargetSource]) -> list[list[Candidate]]:
        trained = self.trained
        size = len(sources) * self.beam * trained.tokenizer.target.size
        work = f"Writing {len(sources):,} texts with a beam of {self.beam}"
        refuse_beyond_memory(size, work, "lower --beam, or give fewer texts")
        searches = self.writer.search(trained.model, sources)
        return [[self._candidate(text) for text in search[: self.best]] for search in searches]

    def _candidate(self, text: Hypothesis) -> Candidate:
        written = self.trained.tokenizer.target.decode(text.new).strip()
        return Candidate(written, text.score(self.penalty), text.total, len(text.new), text.stopped)


def refuse_untranslating(trained: Trained, command: str) -> None:
    """Say which command fits a model that was not trained to write a target for a source."""
    trained.refuse_headless()
    if command == "caption" and not trained.captions:
        raise ConfigError(f"{trained.folder} writes no text for a picture; {trained.fitting_command}.")
    if command != "caption":
        refuse_pictured(trained)
    if not trained.translates:
        raise ConfigError(
            f'{trained.folder} was trained for task "{trained.config.task.kind}" and not on pairs of source '
            f"and target, so it cannot {command}; {trained.fitting_command}."
        )


def examples_of(given: Any, translator: Translator) -> list[Example]:
    """The texts, or the pictures, that a target is to be written for."""
    if not translator.pictured:
        return [Example(text) for text in several(given, "texts")]
    listed = [given] if isinstance(given, (str, Path, bytes)) else list(given)
    made = [pictured_example(picture, with_text=False) for picture in listed]
    for picture, example in zip(listed, made, strict=True):
        if isinstance(example, str):
            raise ConfigError(f"{picture_name(picture)} cannot be described: {example}.")
    return [example for example in made if isinstance(example, Example)]


def picture_name(picture: str | Path | bytes | Picture) -> str:
    """What a person calls it."""
    if isinstance(picture, Picture):
        return picture.name or "A picture"
    return "A picture" if isinstance(picture, bytes) else str(picture)


def refuse_long(examples: Sequence[Example], sources: Sequence[Sequence[int]], room: int) -> None:
    """Stop where sources are longer than the model reads: a part's translation is not that of the whole."""
    both = enumerate(zip(examples, sources, strict=True), start=1)
    long = [
        f"{example.place or f'text {number}'} ({len(source)} tokens)"
        for number, (example, source) in both
        if len(source) > room
    ]
    if long:
        verb = "has" if len(long) == 1 else "have"
        more = f" and {len(long) - SHOWN} more" if len(long) > SHOWN else ""
        raise ConfigError(
            f"{count_of(len(long), 'text')} of {len(sources):,} {verb} more than the {room} tokens that this "
            f"model reads: {', '.join(long[:SHOWN])}{more}. Split the text into sentences, or let the rest "
            'be left out: --cut end (cut="end" in Python).'
        )


@dataclass
class LineTranslations:
    """A text for each line of a file, in order; an empty line for an empty one.

    Lines that cannot be read stop it before anything is written; with `skip_bad` they become empty lines,
    which `skipped` counts.
    """

    translator: Translator
    file: Path
    encoding: str = "utf-8"
    skip_bad: bool = False
    skipped: int = 0

    def __iter__(self) -> Iterator[str]:
        if not self.file.is_file():
            raise ConfigError(f"There is no file {self.file}; give a file with a text on each line.")
        if reader_of(self.file) is not read_text:
            raise ConfigError(
                f"{self.file} is a table, and a .txt has a line for each line of a plain text; write a table "
                "with --out out.tsv, which has the translations in a column of their own."
            )
        tally = Tally(str(self.file), self.skip_bad)
        for _ in tally.sound(self._lines()):
            pass
        self.skipped = tally.broken
        lines = (line if isinstance(line, Example) else Example("") for line in self._lines())
        for prediction in self.translator(lines):
            yield " ".join(str(prediction.answer).split("\n"))

    def _lines(self) -> Iterator[Example | Broken]:
        for number, line in enumerate(lines_of(self.file, self.encoding), start=1):
            place = f"{self.file} line {number}"
            reason = undecoded(line, self.encoding) or unusable(line) or self._too_long(line)
            yield Broken(place, reason) if reason else Example(line.rstrip("\n"), place=place)

    def _too_long(self, line: str) -> str:
        room = self.translator.room
        if self.translator.cut != "refuse" or len(line.encode()) <= room:  # a token has a byte at the least
            return ""
        tokens = len(self.translator.trained.tokenizer.encode(line.strip()))
        long = f"it has {tokens} tokens, and this model reads {room} (--cut end leaves the rest out)"
        return long if tokens > room else ""
