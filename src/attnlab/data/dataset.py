"""A corpus made ready for a run: split, tokenised once, batched."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from attnlab.config.pictures import PictureGrid
from attnlab.config.schema import DataSettings
from attnlab.config.streams import stream_seed
from attnlab.config.values import Choice
from attnlab.config.wording import in_words
from attnlab.data import shards
from attnlab.data.batching import BATCHING, Batching
from attnlab.data.columns import Row
from attnlab.data.corpora import CORPORA
from attnlab.data.corpora.corpus import Corpus
from attnlab.data.encode import ENCODINGS
from attnlab.data.encode.encoding import Cuts, Encoding
from attnlab.data.example import Example
from attnlab.data.labels import WRITTEN, LabelReader, Labels
from attnlab.data.loader import Loader
from attnlab.data.overlap import Gathering, overlap_between, overlap_of
from attnlab.data.reading import JointProgress, SplitEncoder, TextObserver, read_for
from attnlab.data.rows import Rows, in_memory
from attnlab.data.splits import Splits, drawn, fraction
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_files import cached, load
from attnlab.data.tokenizers.tokenizer_recipe import TokenizerRecipe
from attnlab.data.tokenizers.training_text import text_of
from attnlab.data.verified_arrays import seal, unseal
from attnlab.data.workers import cores
from attnlab.runs.faults import FAULTS

ProgressOf = Callable[[str], shards.Progress]
"""Gives the progress of a piece of work by its name."""


OVERLAP = "overlap-between-splits-2"  # another number where what is kept changes


def no_progress(work: str) -> shards.Progress:
    return shards.silent


class Dataset:
    """What the settings of [data] come to. Everything is made when first used, and only once.

    `reader` says how a task reads labels; `seed` is the run's, which draws the rows of data.train_rows. With
    a `cache` folder, text is tokenised once into memory-mapped shards, and found there again as long as text,
    tokenizer and settings are the same; without one, rows are held in memory. `pictures` are those that the
    model reads.
    """

    def __init__(
        self,
        settings: DataSettings,
        *,
        reader: LabelReader = WRITTEN,
        seed: int = 0,
        cache: Path | None = None,
        progress: ProgressOf = no_progress,
        pictures: PictureGrid = PictureGrid(),  # noqa: B008 - frozen
    ):
        self.settings, self.reader, self.cache, self.progress = settings, reader, cache, progress
        self.pictures = pictures
        self.seed = seed
        self.corpus = CORPORA.build(settings.corpus)
        self.splits = Splits(self.corpus, settings.dev_share, settings.test_share, settings.split_seed)
        self.cuts: dict[str, Cuts] = {}
        self._rows: dict[str, Rows] = {}
        self._first: dict[tuple[str, int], tuple[Example, ...]] = {}
        self._texts_of: dict[str, tuple[Example, ...]] = {}
        self._gathering = Gathering()
        self.notes: dict[str, Any] = {}
        """What others made of this text, kept with it."""

    @functools.cached_property
    def text_fingerprint(self) -> str:
        """A hash of the text and of how it is split."""
        shares = (self.settings.dev_share, self.settings.test_share, self.settings.split_seed)
        return hashed(self.corpus.fingerprint(), shares)

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """Trained on the training split alone, or read from files. Rows that data.train_rows leaves out teach
        it too, by their text and not their labels: runs with few rows have the same dev tokens as others.

        Targets may have one of their own: each is then trained on its own side of the pairs alone."""
        settings = self.settings
        if settings.target_tokenizer == "shared":
            return self._tokenizer(settings.tokenizer, SIDES)
        source = self._tokenizer(settings.tokenizer, SIDES[:-1])
        return source.with_target(self._tokenizer(settings.target_tokenizer, SIDES[-1:]))

    def _tokenizer(self, choice: Choice, sides: tuple[str, ...]) -> Tokenizer:
        """The tokenizer of these sides of the examples."""
        recipe = TOKENIZERS.build(choice)
        share = self._taught(recipe)
        source = "train" if share == 1 else f"a sample of train ({share:.0%} of its texts)"
        source = source if sides == SIDES else f"the {SIDE_NAMES[sides]} of {source}"
        if self.cache is None or not recipe.trains:
            return recipe.train(self._texts(share, source, sides), source=source)
        name = hashed(self.text_fingerprint, str(choice), *(() if sides == SIDES else sides))
        file = self.cache / f"tokenizer-{name}.json"
        made = cached(file)
        if made is None:
            recipe.train(self._texts(share, source, sides), source=source).save(file)
            made = load(file)
        if made.text is None:  # of an earlier version: trained again, some kinds would be another
            made.text = text_of(self._texts(1.0, "train", sides), tokenizer=made.fingerprint, source="train")
            made.text.save(file)
        return made

    def _taught(self, recipe: TokenizerRecipe) -> float:
        """The share of the training texts that a tokenizer learns from: of a large text a sample teaches it
        the same, to a few of its last merges."""
        size = self.corpus.size or 0
        return TAUGHT / size if recipe.samples and size > TAUGHT else 1.0

    @functools.cached_property
    def labels(self) -> Labels:
        """What the labels of the training split come to."""
        name = f"labels-{hashed(self.reader.identity, *self.limits)}"
        return Labels.of(self.kept(name, lambda: asdict(self.reader.summary(self.examples("train")))))

    def refuse_unknown_labels(self) -> None:
        """Labels of any split that train does not have, or that cannot be read: before any work."""
        if not self.reader.form.of_words:
            self.kept(f"labels-known-{hashed(self.reader.identity, *self.limits)}", self._known_labels)

    def _known_labels(self) -> int:
        count = 0
        for _, example in self.splits.every():
            self.reader.check(self.labels, example)
            count += 1
        return count

    @functools.cached_property
    def overlap(self) -> dict[str, Any]:
        """What the splits share (see overlap.py): of their text alone, so that it is counted once."""
        return dict(self.kept(OVERLAP, self._overlap))

    def _overlap(self) -> dict[str, Any]:
        gathered, self._gathering = self._gathering, Gathering()
        if set(gathered.found) != set(self.splits.names):  # not all was encoded just now
            return overlap_of(self.splits)
        return overlap_between(gathered.complete(self.splits.names))

    def read_for(self, *observers: TextObserver) -> None:
        """Read all text once for these observers; what is not encoded yet is encoded on the way."""
        for given in sorted(self.corpus.given, key="train".__eq__):
            self._read(given, observers)

    def examples(self, split: str) -> Iterator[Example]:
        """The examples of a split; of train those that data.train_rows leaves."""
        read = self.splits.read(split)
        if split != "train" or self.settings.train_rows == "unlimited":
            return read
        return (example for number, example in enumerate(read) if number in self._drawn)

    @functools.cached_property
    def _drawn(self) -> frozenset[int]:
        """The numbers of the training examples that data.train_rows leaves."""
        assert self.settings.train_rows != "unlimited"
        classes = [self.reader.stratum(example) for example in self.splits.read("train")]
        return frozenset(drawn(classes, self.settings.train_rows, self.seed))

    @property
    def limits(self) -> tuple[int, ...]:
        """What decides which training rows are left, where not all are."""
        rows = self.settings.train_rows
        return () if rows == "unlimited" else (rows, self.seed)

    def first(self, split: str, count: int) -> tuple[Example, ...]:
        """The first examples of a split, read once and held."""
        if (split, count) not in self._first:
            self._first[split, count] = tuple(islice(self.examples(split), count))
        return self._first[split, count]

    def texts(self, split: str) -> tuple[Example, ...]:
        """All examples of a split, by their numbers, read once and held."""
        if split not in self._texts_of:
            self._texts_of[split] = tuple(self.examples(split))
        return self._texts_of[split]

    def truncation(self, split: str) -> Cuts:
        """What data.length removed from a split's texts."""
        self.rows(split)
        return self.cuts[split]

    def rows(self, split: str) -> Rows:
        """The encoded rows of a split."""
        if split not in self._rows:
            self._rows[split] = self._encoded(split)
        return self._rows[split]

    def loader(self, split: str, *, seed: int, batching: Batching | None = None) -> Loader:
        """Batches of a split in the order of this seed."""
        chosen = batching or BATCHING.build(self.settings.batching, length=self.settings.length)
        side = self.settings.padding
        return Loader(self.rows(split), chosen, seed=seed, pad=self.tokenizer.pad, side=side)

    def trained(self, seed: int) -> Loader:
        """The batches that a run of this seed is trained on, in its order."""
        return self.loader("train", seed=stream_seed(seed, "data"))

    def scored(self, split: str) -> Loader:
        """The batches that a split is scored in, by the data's own seed: runs of every seed are judged on the
        same ones."""
        return self.loader(split, seed=stream_seed(self.settings.split_seed, "evaluation"))

    def fingerprint(self, split: str) -> str:
        """The identity of a split's rows: equal for two runs that were judged on the same examples."""
        parts = split, self.text_fingerprint, self.tokenizer.fingerprint, self._encoding().settings()
        if split != "train":
            return hashed(*parts)
        tokens = [] if self.settings.tokens == "unlimited" else [self.settings.tokens]
        rows = [{"train_rows": self.limits}] if self.limits else []
        return hashed(*parts, *tokens, *rows)

    def given_fingerprints(self) -> dict[str, str]:
        """The identity of the rows and of the text of each split that is held out in a file of its own: no
        share of the other text decides it."""
        text, encoded = self.corpus.fingerprint(), (self.tokenizer.fingerprint, self._encoding().settings())
        splits = [split for split in self.corpus.given if split != "train"]
        rows = {split: hashed(split, text, *encoded) for split in splits}
        return rows | {f"{split} text": hashed(split, text) for split in splits}

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        """What all text must be read for, made once and kept in the cache."""
        if self.cache is None:
            return make()
        file = self._kept_file(name)
        with suppress(FileNotFoundError, *FAULTS):  # a cache that is damaged is made anew
            return unseal(file)
        made = make()
        file.parent.mkdir(parents=True, exist_ok=True)
        seal(file, made)
        return unseal(file)

    def _kept_file(self, name: str) -> Path:
        assert self.cache is not None
        return self.cache / f"{name}-{self.text_fingerprint}.json"

    def _texts(self, share: float, source: str, sides: tuple[str, ...]) -> Iterator[str]:
        """These sides of the texts of train, or of a share of them, which a hash of each decides."""
        progress = self.progress(f"Training the tokenizer on {source}")
        for number, example in enumerate(self.splits.read("train")):
            if number % PROGRESS_EVERY == 0:
                progress(number, 0, self.corpus.share_read)
            if share == 1 or fraction(example.text, TAUGHT_SEED) < share:
                yield from (text for side in sides if (text := getattr(example, side)) is not None)

    def _encoding(self) -> Encoding:
        chosen, length = self.settings.encoding, self.settings.length
        # Only where they are wanted: to find them, all the text is read.
        labels = self.labels.names if ENCODINGS[chosen.kind].labelled else ()
        given = {"length": length, "labels": labels, "reader": self.reader, "pictures": self.pictures}
        return ENCODINGS.build(chosen, tokenizer=self.tokenizer, **given)

    def _encoded(self, split: str) -> Rows:
        if self.cache is None or self._limited(split):
            return self._encoded_alone(split)
        rows = self._found(split)
        if rows is None:
            names, given = (self.splits.names, "train") if split == "train" else ((split,), split)
            given = "train" if split in self.splits.made else given
            self._read(given, self._gatherers(given), names)
            rows = self._found(split)
        if rows is None:
            next(self.splits.read(split))  # which says that there is no text
        assert rows is not None
        return rows

    def _limited(self, split: str) -> bool:
        """Whether not all examples of a split are encoded."""
        limits = self.settings.tokens, self.settings.train_rows
        return split == "train" and limits != ("unlimited", "unlimited")

    def _gatherers(self, given: str) -> tuple[TextObserver, ...]:
        """What looks at the text while it is encoded, for a check that would read it again."""
        known = self._gathering.found.keys() & {*self.splits.sides(given)}
        return () if known or self._kept_file(OVERLAP).exists() else (self._gathering,)

    def _read(self, given: str, observers: Sequence[TextObserver], names: Sequence[str] = ()) -> None:
        """Read a given split once: for the observers, and to encode those of `names` that are not yet."""
        sides = self.splits.sides(given)
        wanted = [n for n in names or sides if n in sides and not self._limited(n) and n not in self._rows]
        missing = [] if self.cache is None else [name for name in wanted if self._found(name) is None]
        try:
            with ExitStack() as stack:
                if missing:
                    progress = JointProgress(self.progress(f"Tokenising {in_words(missing)}"))
                    writer_of = functools.partial(self._writer, progress)
                    size = max(self.tokenizer.sizes)
                    encoder = SplitEncoder(self._encoding(), size, missing, writer_of, stack)
                    observers = (*observers, encoder)
                read_for(observers, self.splits.every(given), processes=processes_for(self.corpus))
        except BaseException:
            self._gathering = Gathering()  # half of a text is not what a check asks for
            raise

    def _found(self, split: str) -> Rows | None:
        """The rows of a split where they are in the cache."""
        fingerprint = self.fingerprint(split)
        stored = shards.opened(self._folder(fingerprint), fingerprint)
        if stored is None:
            return None
        rows, about = stored
        self.cuts[split] = Cuts(**about["cuts"])
        return rows

    def _folder(self, fingerprint: str) -> Path:
        assert self.cache is not None
        return self.cache / f"rows-{fingerprint}"

    def _writer(self, progress: JointProgress, split: str, cuts: Cuts) -> shards.ShardWriter:
        """Writes the rows of a split into the cache."""
        folder = self._folder(self.fingerprint(split))
        return shards.ShardWriter(folder, **self._facts(split, cuts, progress.of(split)))

    def _facts(self, split: str, cuts: Cuts, progress: shards.Progress) -> dict[str, Any]:
        """What a writer of a split's rows has to know."""
        return {
            "fingerprint": self.fingerprint(split),
            "about": lambda: {"split": split, "cuts": asdict(cuts)},
            "progress": progress,
            "share": lambda: self.corpus.share_read,
        }

    def _encoded_alone(self, split: str) -> Rows:
        """The rows of a split that is held in memory, or of which not all examples are encoded."""
        encoding, fingerprint, vocabulary = (
            self._encoding(),
            self.fingerprint(split),
            max(self.tokenizer.sizes),
        )
        most = self.settings.tokens if split == "train" else "unlimited"
        if self.cache is not None and (found := self._found(split)) is not None:
            return found
        rows = encoding.rows(self.examples(split))
        if most != "unlimited":
            rows = first_tokens(rows, most)
        self.cuts[split] = encoding.cuts
        if self.cache is None:
            return in_memory(rows, vocabulary=vocabulary, fingerprint=fingerprint)
        facts = self._facts(split, encoding.cuts, self.progress(f"Tokenising {split}"))
        return shards.write(rows, self._folder(fingerprint), vocabulary=vocabulary, **facts)


SIDES = ("text", "pair", "target")
"""The texts of an example; what it reads, and last what is written for it."""
SIDE_NAMES = {SIDES[:-1]: "sources", SIDES[-1:]: "targets"}
TAUGHT, TAUGHT_SEED = 64 << 20, -1
"""Bytes of text beyond which a tokenizer is trained on a sample of that size, and what chooses it."""
PROGRESS_EVERY = 1000
"""Texts after which the progress of a reading is given."""
LARGE = 8 << 20
"""Bytes of text from which on several processes tokenise it: fewer are done before those have begun."""


def processes_for(corpus: Corpus) -> int:
    """How many processes read a corpus at once."""
    return cores() if (corpus.size or 0) >= LARGE else 1


def first_tokens(rows: Iterable[Row], tokens: int) -> Iterator[Row]:
    """Rows from the first on, until they hold so many tokens: the last one may go over."""
    for row in rows:
        if tokens <= 0:
            return
        tokens -= len(row.ids) + len(row.target or ())
        yield row


def hashed(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]
