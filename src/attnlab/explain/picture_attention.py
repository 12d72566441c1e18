"""Attention over a picture: where each head looks on it, and which words look at which patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attnlab.documents.nodes import Node, PictureItem, Pictures
from attnlab.documents.numbers import short
from attnlab.explain.attention_maps import AttentionMaps, HeadReading, RowOfText
from attnlab.explain.explanation import Explanation

SHOWN, WORDS = 8, 24
"""Heads, and words of one head, that are drawn."""
Weights = list[list[float]]


@dataclass(frozen=True)
class PictureRow:
    """A picture, as the model sees it (PNG), and the row that it is read in.

    `patch` numbers the patches of that row from 1, 0 at all other tokens. `readers` are the queries whose
    look at the picture is shown, by their names, in layers where that row attends to itself; `reading` says
    which they are. `text` is what a decoder has written there, `by_model` whether by its own choice.
    """

    row: RowOfText
    picture: bytes
    patch: Sequence[int]
    side: int
    readers: Mapping[int, str]
    reading: str
    text: str = ""
    by_model: bool = False


@dataclass(frozen=True)
class PictureAttention(Explanation):
    """Attention maps of a row with a picture, and the part of them that is on its patches."""

    maps: AttentionMaps
    read: PictureRow

    kind = "attention"

    @property
    def headline(self) -> str:
        return self.maps.headline

    @property
    def remark(self) -> str:
        written = f' The text is what the model writes: "{self.read.text}".' if self.read.by_model else ""
        return f"{self.maps.remark}{written}"

    @property
    def patch(self) -> Sequence[int]:
        return self.read.patch

    @property
    def side(self) -> int:
        return self.read.side

    def looks(self, head: HeadReading) -> bool:
        """Whether the picture is among what a head sees: of a decoder behind an encoder, cross-attention."""
        return head.name.crosses or not head.name.heads.startswith("decoder.")

    @property
    def ranked(self) -> list[HeadReading]:
        """The heads that see the picture, in the order of what the output loses without them."""
        return [head for head in self.maps.ranked if self.looks(head)]

    def over_picture(self, head: HeadReading) -> Tensor:
        """(T, patches) the weights of a head's queries on the patches, row by row of the picture."""
        layer = self.maps.layers[head.layer]
        before = len(layer.keys) - len(self.patch)  # tokens that stand before the row
        keys = [before + place for place, number in enumerate(self.patch) if number]
        return layer.weights[head.name.number][:, keys]

    def readers(self, head: HeadReading) -> Mapping[int, str]:
        """The queries of a head whose look at the picture is shown, and their names."""
        if head.name.crosses or head.name.heads.startswith("encoder."):
            return dict(enumerate(self.maps.layers[head.layer].queries))
        return self.read.readers

    def by_reader(self, head: HeadReading) -> Tensor:
        """(readers, patches) the weights of those queries."""
        return self.over_picture(head)[list(self.readers(head))]

    def share(self, head: HeadReading) -> float:
        """How much of its readers' weight a head has on the picture."""
        return float(self.by_reader(head).sum(-1).mean())

    @property
    def worded(self) -> HeadReading:
        """The head whose look is shown word by word: the one that was asked for, else the one that matters
        most on the picture by what the output loses without it times its weight there. Behind an encoder
        it is one of cross-attention."""
        asked = (self.maps.shown, self.maps.shown_head) != (-1, -1)
        if asked and self.looks(self.maps.chosen):
            return self.maps.chosen
        crossing = [head for head in self.ranked if head.name.crosses]
        return max(crossing or self.ranked, key=lambda head: head.effect * self.share(head))

    def of_heads(self) -> Pictures:
        """The heads that the output loses most without, on the picture."""
        items = []
        for head in self.ranked[:SHOWN]:
            note = f"without it {short(head.effect)}; {self.share(head):.0%} of weight on the picture"
            items.append(
                PictureItem(self.read.picture, str(head.name), note, self.cells(self.by_reader(head).mean(0)))
            )
        return Pictures(
            items,
            title="Where heads look on the picture",
            note=f"{self.read.reading} The brightest patch has the most weight of its head, and what is "
            "dark next to none. Heads are in the order of what the output loses without them: "
            f"{self.maps.effect}.",
        )

    def of_words(self) -> Pictures:
        """Each word's look, by one head."""
        head = self.worded
        names, looks = list(self.readers(head).values()), self.by_reader(head)
        items = [
            PictureItem(self.read.picture, name, f"{float(look.sum()):.0%} on the picture", self.cells(look))
            for name, look in zip(names[:WORDS], looks, strict=False)
        ]
        return Pictures(items, title=self.words_title(head))

    def words_title(self, head: HeadReading) -> str:
        """What is shown word by word: words, or where patches look themselves all tokens."""
        readers = self.readers(head)
        of_patches = any(self.patch[place] for place in readers) and not head.name.crosses
        cut = f"; the first {WORDS} of {len(readers)}" if len(readers) > WORDS else ""
        whose = "Which tokens" if of_patches else "Which words"
        return f"{whose} look at which patches, by {head.name}{cut}"

    def cells(self, weights: Tensor) -> Weights:
        rows: Weights = weights.reshape(self.side, self.side).tolist()
        return rows

    def parts(self) -> list[Node]:
        return [Pictures(self.of_heads().items[:2], self.of_heads().title), *self.maps.parts()]

    def page_parts(self) -> list[Node]:
        of_words = [self.of_words()] if len(self.readers(self.worded)) > 1 else []
        return [self.of_heads(), *of_words, *self.maps.page_parts()]

    def as_json(self) -> dict[str, Any]:
        return self.maps.as_json() | {"patch": list(self.patch), "side": self.side, "text": self.read.text}
