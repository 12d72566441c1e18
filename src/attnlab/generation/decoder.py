"""A model that is given tokens and answers with the scores of the next one, remembering what it saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from attnlab.model.cache import Cache
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens

LAST = slice(None), slice(-1, None)
"""The last place of every row."""
Beyond = Literal["refuse", "window"]


@dataclass(frozen=True, eq=False)
class PlacedPicture:
    """The patches of a picture in a row that is read: their vectors (N,W), from the token `first` on."""

    first: int
    vectors: Tensor


class Decoder:
    """One batch of texts being written. Prompts of different lengths are padded on the left.

    `pictures` stand in the sources, a picture a row; in the prompts where there are no sources.
    """

    def __init__(
        self,
        model: Model,
        prompts: Sequence[Sequence[int]],
        *,
        sources: Sequence[Sequence[int]] | None = None,
        pictures: Sequence[PlacedPicture] | None = None,
    ):
        if not prompts or not all(len(p) for p in prompts):
            raise ValueError("Every prompt needs at least one token; begin with the start token.")
        self.model = model
        self.device = next(model.parameters()).device
        self.cache: Cache = model.trunk.cache()
        self.next = self._read(prompts, sources, pictures)

    def _read(
        self,
        prompts: Sequence[Sequence[int]],
        sources: Sequence[Sequence[int]] | None,
        pictures: Sequence[PlacedPicture] | None,
    ) -> Tensor:
        """The prompts in one pass, and what is encoded with them, which the cache holds from then on; gives
        the scores (B, V) of the first new token."""
        ids, real = padded(prompts, side="left", device=self.device)
        marked = None
        if self.model.trunk.asks_for_source:
            marked = torch.ones_like(ids, dtype=torch.bool) if real is None else real
        beside: dict[str, Any] = {}
        patch = None
        if pictures is not None and sources is None:
            patch, beside["vectors"] = placed(prompts, pictures, side="left", device=self.device)
        tokens = Tokens.of(ids.shape[1], real=real, source=marked, patch=patch, device=self.device)
        if sources is not None:
            beside = self._sources(sources, pictures)
        return self._scores(ids, tokens, **beside)

    def _sources(
        self, sources: Sequence[Sequence[int]], pictures: Sequence[PlacedPicture] | None
    ) -> dict[str, Any]:
        """What an encoder reads."""
        ids, real = padded(sources, side="right", device=self.device)
        inputs: dict[str, Any] = {"source": ids}
        patch = None
        if pictures is not None:
            patch, inputs["vectors"] = placed(sources, pictures, side="right", device=self.device)
        inputs["source_tokens"] = Tokens.of(ids.shape[1], real=real, patch=patch, device=self.device)
        return inputs

    def _scores(self, ids: Tensor, tokens: Tokens, **beside: Any) -> Tensor:
        scores: Tensor = self.model(ids, tokens, cache=self.cache, places=LAST, **beside)
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


def placed(
    rows: Sequence[Sequence[int]],
    pictures: Sequence[PlacedPicture],
    *,
    side: str,
    device: torch.device | None = None,
) -> tuple[Tensor, Tensor]:
    """Which patch each token of padded rows is, (B|1,T) from 1 on, 0 for none; and what is read there,
    (B,T,W)."""
    longest, width = max(len(row) for row in rows), pictures[0].vectors.shape[1]
    patch = torch.zeros(len(rows), longest, dtype=torch.long)
    vectors = torch.zeros(len(rows), longest, width)
    for line, (row, picture) in enumerate(zip(rows, pictures, strict=True)):
        begin = picture.first + (longest - len(row) if side == "left" else 0)
        count = len(picture.vectors)
        patch[line, begin : begin + count] = torch.arange(1, count + 1)
        vectors[line, begin : begin + count] = picture.vectors
    alike = bool((patch == patch[:1]).all())
    return (patch[:1] if alike else patch).to(device), vectors.to(device)


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
