"""A model that is given tokens and answers with the scores of the next one, remembering what it saw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from attnlab.model.cache import Cache
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens

LAST = slice(None), slice(-1, None)
"""The last place of every row."""
Beyond = Literal["refuse", "window"]


class Decoder:
    """One batch of texts being written. Prompts of different lengths are padded on the left."""

    def __init__(
        self,
        model: Model,
        prompts: Sequence[Sequence[int]],
        *,
        sources: Sequence[Sequence[int]] | None = None,
    ):
        if not prompts or not all(len(p) for p in prompts):
            raise ValueError("Every prompt needs at least one token; begin with the start token.")
        self.model = model
        self.device = next(model.parameters()).device
        self.source = {} if sources is None else self._read_sources(sources)
        self.cache: Cache = model.trunk.cache()
        self.next = self._read(prompts)

    def _read_sources(self, sources: Sequence[Sequence[int]]) -> dict[str, Any]:
        """What is encoded with the prompts; from then on the cache holds it."""
        ids, real = padded(sources, side="right", device=self.device)
        return {"source": ids, "source_tokens": Tokens.of(ids.shape[1], real=real, device=self.device)}

    def _read(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """The prompts in one pass; gives the scores (B, V) of the first new token."""
        ids, real = padded(prompts, side="left", device=self.device)
        source = None
        if self.model.trunk.asks_for_source:
            source = torch.ones_like(ids, dtype=torch.bool) if real is None else real
        tokens = Tokens.of(ids.shape[1], real=real, source=source, device=self.device)
        return self._scores(ids, tokens)

    def _scores(self, ids: Tensor, tokens: Tokens) -> Tensor:
        scores: Tensor = self.model(ids, tokens, cache=self.cache, places=LAST, **self.source)
        return scores[:, 0]

    def step(self, chosen: Tensor) -> Tensor:
        """Write one token (B) in every row; gives the scores of the next."""
        self.next = self._scores(chosen[:, None], self.cache.following(1))
        return self.next

    def select(self, rows: Tensor) -> None:
        """Go on with these rows only, in this order: a beam's survivors."""
        self.cache.select(rows)


def check_length(prompts: Sequence[Sequence[int]], length: int, context: int | None, beyond: Beyond) -> None:
    """Refuse what would go beyond the context that a model was trained on, unless it may forget."""
    if context is None or beyond == "window":
        return
    longest = max(map(len, prompts), default=0)
    if longest + length > context:
        fewer = (
            f"ask for at most {context - longest} new tokens" if longest < context else "shorten the prompt"
        )
        raise ValueError(
            f"Prompt and new text make {longest} + {length} tokens, and this model was trained on "
            f"{context}; it cannot be trusted beyond that. Either {fewer}, or let it forget the beginning "
            "(beyond=window, --beyond window)."
        )


def window_start(start: int, length: int, context: int | None) -> int:
    """From where a text of this length is read: a window that is full is left for its last half."""
    if context is None or length - start <= context:
        return start
    return length - max(context // 2, 1)


def padded(
    rows: Sequence[Sequence[int]], *, side: str, device: torch.device | None = None
) -> tuple[Tensor, Tensor | None]:
    """Rows as one tensor, and which places are real; None where all are."""
    longest = max(len(row) for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    real = torch.zeros(len(rows), longest, dtype=torch.bool)
    for i, row in enumerate(rows):
        place = slice(longest - len(row), longest) if side == "left" else slice(0, len(row))
        ids[i, place] = torch.tensor(row, dtype=torch.long)
        real[i, place] = True
    return ids.to(device), None if bool(real.all()) else real.to(device)
