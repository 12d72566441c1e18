"""Search in a person's files: an index that is kept, and passages nearest to a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.checks.query_duplicates import QueryDuplicates
from attnlab.config.values import ConfigError
from attnlab.data.corpora.own_files import Files
from attnlab.data.dataset import hashed
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.images.picture import is_picture_file
from attnlab.data.images.picture_reader import PictureReader
from attnlab.data.passage_index import Hit, IndexUpdate, PassageIndex, Progress
from attnlab.data.passages import files_in
from attnlab.evaluation.retrieval import (
    Questions,
    RankingResult,
    by_vectors,
    chance_scores,
    rank_scores,
)
from attnlab.metrics.metric import Examples
from attnlab.session.embedding import Embedder
from attnlab.session.session import default_cache


@dataclass(frozen=True)
class Searcher:
    """An up-to-date index and the model that it was made with."""

    embedder: Embedder
    index: PassageIndex
    update: IndexUpdate

    @classmethod
    def of(
        cls,
        embedder: Embedder,
        inside: str | Path,
        *,
        index: str | Path | None = None,
        encoding: str = "utf-8",
        progress: Progress = lambda done, of: None,
    ) -> Searcher:
        """Of the files below a folder; of its pictures, where it has some and the model reads them. The index
        is kept in `index`, or in the cache, apart for each model and folder."""
        source = Path(inside).expanduser()
        place = index_folder(embedder, source) if index is None else Path(index)
        if embedder.reads_pictures and any(map(is_picture_file, files_in(source))):
            return cls.of_pictures(embedder, source, place, progress)
        passages = PassageIndex(place, embedder.identity)
        return cls(
            embedder,
            passages,
            passages.update(source, embedder.vectors, encoding=encoding or "utf-8", progress=progress),
        )

    @classmethod
    def of_pictures(cls, embedder: Embedder, source: Path, place: Path, progress: Progress) -> Searcher:
        """Of the pictures below a folder; other files are left alone."""
        reader = PictureReader()
        index = PassageIndex(place, f"pictures {embedder.identity}", reader)

        def vectors(digests: Sequence[str]) -> NDArray[np.float32]:
            return embedder.picture_vectors([reader.pictures[digest] for digest in digests])

        return cls(embedder, index, index.update(source, vectors, wanted=is_picture_file, progress=progress))

    def search(self, query: str, *, top: int = 5) -> list[Hit]:
        """The passages nearest to a query, best first."""
        if not query.strip():
            raise ConfigError("The query is empty; say what to search for.")
        if top < 1:
            raise ConfigError(f"top is {top}; it must be at least 1.")
        return self.index.nearest(self.embedder.vectors([query])[0], top)


def index_folder(embedder: Embedder, source: Path) -> Path:
    return default_cache() / f"index-{hashed(str(source.resolve()), embedder.identity)}"


def skipped_told(update: IndexUpdate, most: int = 5) -> Sequence[str]:
    """What was left out, a line each; of many the first."""
    lines = list(map(str, update.skipped))
    more = len(lines) - most
    return lines if more <= 0 else [*lines[:most], f"… and {more:,} more"]


# ---------------------------------------------------------------- how well it finds
PART = 256
"""Texts that are embedded between two words of progress."""


def score_search(
    embedder: Embedder, file: str | Path, *, progress: Progress = lambda done, of: None, **reading: Any
) -> RankingResult:
    """How well the queries of a file find their own passages, with BM25 compared on the same ones."""
    corpus = Files(path=str(file), **reading)
    examples = [example for split in corpus.given for example in corpus.read(split)]
    pairs = [(example.text, example.pair) for example in examples if example.pair is not None]
    if len(pairs) < len(examples) or not pairs:
        raise DataError(
            f"{file} has no passage in {len(examples) - len(pairs):,} of {len(examples):,} rows; name the "
            "columns of the query and of its passage with --text COLUMN and --pair COLUMN."
        )
    questions = Questions.of([(query, passage) for query, passage in pairs if passage is not None])
    texts = [*questions.passages, *questions.queries]
    parts = []
    for first in range(0, len(texts), PART):
        parts.append(embedder.vectors(texts[first : first + PART]))
        progress(min(first + PART, len(texts)), len(texts))
    vectors = np.concatenate(parts)
    passages, queries = vectors[: len(questions.passages)], vectors[len(questions.passages) :]
    return compare_with_words(questions, by_vectors(queries, passages, questions.own))


def compare_pairs(texts: Sequence[Example], examples: Examples) -> RankingResult:
    """How texts find their second one, compared with BM25 on the same; pictures theirs, with chance."""
    if any(text.image is not None for text in texts):
        passages = len({text.second for text in texts})
        return RankingResult(len(texts), passages, chance_scores(passages, examples), ())
    return compare_with_words(Questions.of([(text.text, text.pair or "") for text in texts]), examples)


def compare_with_words(questions: Questions, examples: Examples) -> RankingResult:
    """The scores of a model, those of BM25, and their difference query by query."""
    pairs = [(q, questions.passages[own]) for q, own in zip(questions.queries, questions.own, strict=True)]
    duplicates = QueryDuplicates().judge("evaluation", pairs)
    return RankingResult(
        len(questions.queries), len(questions.passages), rank_scores(questions, examples), (duplicates,)
    )
