"""The query that reaches wanted weights over keys, and how near the others come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from attnlab.config.ranges import Range
from attnlab.config.values import ConfigError
from attnlab.config.wording import first_upper
from attnlab.explain.query_answers import EXAMPLE, query_answers
from attnlab.web.actions import Answer
from attnlab.web.worker_request import WorkerRequest

MOST_KEYS = 64
LARGEST = 1e9


@dataclass(frozen=True)
class QueryValues:
    """Rows of `keys`, the example's where there are none; or those of a run's head on a text."""

    target: tuple[float, ...]
    keys: tuple[tuple[float, ...], ...] = EXAMPLE
    text: str = ""
    layer: Annotated[int, Range(least=0)] = 0
    head: Annotated[int, Range(least=0)] = 0
    scale: Annotated[float, Range(least=0.001, most=1000)] = 1.0
    tolerance: Annotated[float, Range(above=0, below=1)] = 0.01


def query(asked: WorkerRequest) -> Answer:
    values = asked.read(QueryValues)
    keys: Any = values.keys
    names, scale = list[str](), values.scale
    if values.text:
        own = asked.trained.reading.keys(values.text, values.layer, values.head)
        keys, names, scale = own.keys, own.words, own.scale
    else:
        refuse_ragged(values.keys)
    if len(keys) > MOST_KEYS:
        raise ConfigError(f"There are {len(keys)} keys; the page takes at most {MOST_KEYS}.")
    answers = query_answers(
        keys, {"weights": values.target}, names=names, scale=scale, tolerance=values.tolerance
    )
    (found,) = answers.answers
    record = answers.as_json()
    return {
        "keys": record["keys"],
        "names": list(answers.names),
        "scores_scale": scale,
        **record["targets"][0],
        "outcome": first_upper(found.outcome),
        "reason": found.reason,
        "length": float(np.linalg.norm(found.found.query)),
    }


def refuse_ragged(keys: Sequence[Sequence[float]]) -> None:
    if not keys or not keys[0] or any(len(key) != len(keys[0]) for key in keys):
        raise ConfigError("Keys are rows of as many numbers each, such as 0,1,2; 1,1,2.")
    if max(map(len, keys)) > MOST_KEYS or max(abs(x) for key in keys for x in key) > LARGEST:
        raise ConfigError(f"Every key has at most {MOST_KEYS} numbers, each at most {LARGEST:,.0f}.")
