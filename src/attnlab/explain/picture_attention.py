"""Attention over a picture: where each head looks on it, and which words look at which patches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attnlab.documents.nodes import Node, PictureItem, Pictures
from attnlab.documents.numbers import short
from attnlab.explain.attention_maps import AttentionMaps, HeadReading
from attnlab.explain.explanation import Explanation

SHOWN, WORDS = 8, 24
"""Heads, and words of one head, that are drawn."""
Weights = list[list[float]]


@dataclass(frozen=True)
class PictureAttention(Explanation):
    """Attention maps of a row with a picture; `patch` numbers its patches from 1, 0 at all other tokens."""

    maps: AttentionMaps
    picture: bytes
    """As the model sees it, as PNG."""
    patch: Sequence[int]
    side: int

    kind = "attention"

    @property
    def headline(self) -> str:
        return self.maps.headline

    @property
    def remark(self) -> str:
        return self.maps.remark

    def over_picture(self, head: HeadReading) -> Tensor:
        """(T, patches) the weights of a head's queries on the patches, row by row of the picture."""
        layer = self.maps.layers[head.layer]
        before = len(layer.keys) - len(self.patch)  # tokens that stand before the row
        keys = [before + place for place, number in enumerate(self.patch) if number]
        return layer.weights[head.name.number][:, keys]

    @property
    def readers(self) -> list[int]:
        """The tokens whose look at the picture is shown: all that are no patches."""
        return [place for place, number in enumerate(self.patch) if not number]

    @property
    def asked(self) -> bool:
        """Whether a layer or a head was asked for."""
        return (self.maps.shown, self.maps.shown_head) != (-1, -1)

    def worth(self, head: HeadReading) -> float:
        return head.effect * float(self.over_picture(head)[self.readers].sum(-1).mean())

    def of_heads(self) -> Pictures:
        """The heads that the output loses most without, on the picture."""
        items = []
        for head in self.maps.ranked[:SHOWN]:
            looks = self.over_picture(head)[self.readers]
            note = (
                f"without it {short(head.effect)}; {float(looks.sum(-1).mean()):.0%} of weight on the picture"
            )
            items.append(PictureItem(self.picture, str(head.name), note, self.cells(looks.mean(0))))
        return Pictures(
            items,
            title="Where heads look on the picture",
            note="Means over the tokens that are not patches. The brightest patch has the most weight of its "
            "head, and what is dark next to none. Heads are in the order of what the output loses without "
            f"them: {self.maps.effect}.",
        )

    def of_words(self) -> Pictures:
        """Each word's look, by the head that was asked for, else by the one that matters most on the picture:
        what the output loses without it, times its weight there."""
        head = self.maps.chosen if self.asked else max(self.maps.ranked, key=self.worth)
        layer = self.maps.layers[head.layer]
        looks = self.over_picture(head)
        items = [
            PictureItem(
                self.picture,
                str(layer.queries[place]),
                f"{float(looks[place].sum()):.0%} on the picture",
                self.cells(looks[place]),
            )
            for place in self.readers[:WORDS]
        ]
        return Pictures(items, title=f"Which words look at which patches, by {head.name}")

    def cells(self, weights: Tensor) -> Weights:
        rows: Weights = weights.reshape(self.side, self.side).tolist()
        return rows

    def parts(self) -> list[Node]:
        return [Pictures(self.of_heads().items[:2], self.of_heads().title), *self.maps.parts()]

    def page_parts(self) -> list[Node]:
        return [self.of_heads(), self.of_words(), *self.maps.page_parts()]

    def as_json(self) -> dict[str, Any]:
        return self.maps.as_json() | {"patch": list(self.patch), "side": self.side}
