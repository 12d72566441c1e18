"""Passages nearest in meaning to a query: of pasted text, or of a file in the folder that is served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from attnlab.config.ranges import Range
from attnlab.config.values import ConfigError
from attnlab.data.passage_index import Hit
from attnlab.data.passages import passages_of
from attnlab.session.embedding import Embedder
from attnlab.web.actions import Answer
from attnlab.web.worker_request import WorkerRequest


@dataclass(frozen=True)
class SearchValues:
    """`texts` are pasted, or `file` is one below the served folder."""

    query: str
    texts: tuple[str, ...] = ()
    file: str = ""
    top: Annotated[int, Range(least=1, most=50)] = 5


def search(asked: WorkerRequest) -> Answer:
    values, trained = asked.read(SearchValues), asked.trained
    if not values.query.strip():
        raise ConfigError("The query is empty; say what to search for.")
    if bool(values.file) == any(text.strip() for text in values.texts):
        raise ConfigError("Paste texts to search in, or name a file of the served folder; one of the two.")
    if values.file:
        hits = trained.search(values.query, inside=served_file(asked, values.file), top=values.top)
        return {"hits": [{**vars_of(hit), "file": values.file} for hit in hits]}
    return {"hits": list(map(vars_of, nearest(Embedder.of(trained), values.query, values.texts, values.top)))}


def served_file(asked: WorkerRequest, name: str) -> Path:
    """A file by its path below the served folder."""
    place = asked.root / name
    if not asked.holds(place) or not place.is_file():
        raise ConfigError(f'There is no file "{name}" in the folder that is served; give one that is in it.')
    return place


def nearest(embedder: Embedder, query: str, texts: Sequence[str], top: int) -> list[Hit]:
    """The passages of pasted texts by their cosine with the query."""
    passages = [
        (f"text {number}" if len(texts) > 1 else "text", passage)
        for number, text in enumerate(texts, start=1)
        for passage in passages_of(text.splitlines(keepends=True))
    ]
    scores = embedder.vectors([passage.text for _, passage in passages]) @ embedder.vectors([query])[0]
    order = sorted(range(len(passages)), key=lambda n: -scores[n])[:top]
    return [Hit(float(scores[n]), passages[n][1].text, passages[n][0], passages[n][1].where) for n in order]


def vars_of(hit: Hit) -> Answer:
    return {"score": hit.score, "text": hit.text, "file": hit.file, "where": hit.where}
