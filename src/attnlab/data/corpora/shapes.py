"""Coloured shapes and how they stand to each other, drawn on the spot."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from attnlab.config.ranges import Range, Seed
from attnlab.config.streams import stream_seed
from attnlab.data.corpora.corpus import Corpus
from attnlab.data.corpora.synthetic import Examples
from attnlab.data.example import Example
from attnlab.data.images.picture import Picture

COLOURS = {
    "red": (214, 39, 40),
    "green": (44, 160, 44),
    "blue": (31, 90, 200),
    "yellow": (240, 190, 20),
    "purple": (130, 60, 170),
    "black": (30, 30, 30),
}
SHAPES = ("circle", "square", "triangle", "cross")
RELATIONS = {"left of": (1, 0), "right of": (-1, 0), "above": (0, 1), "below": (0, -1)}
"""Where the second shape stands, seen from the first: columns to the right, rows down."""
HELD_OUT = frozenset({("red", "circle"), ("green", "square"), ("blue", "triangle"), ("yellow", "cross")})
"""Colours and shapes that are together in dev and test alone; each of them is in train with others."""
FINE = 4
"""Points across a pixel: what a shape covers of it, it colours."""

Shown = tuple[str, str]
"""A colour and a shape."""
Points = NDArray[np.float64]


@dataclass(frozen=True)
class Scene:
    """What a picture shows: shapes, and how each stands to the next."""

    shapes: tuple[Shown, ...]
    relations: tuple[str, ...]

    @property
    def caption(self) -> str:
        """In words: "a red circle left of a blue square"."""
        parts = [f"a {' '.join(self.shapes[0])}"]
        for number, (relation, shape) in enumerate(zip(self.relations, self.shapes[1:], strict=True)):
            joined = relation if not number else f"that is {relation}"
            parts.append(f"{joined} a {' '.join(shape)}")
        return " ".join(parts)

    @property
    def held_out(self) -> bool:
        """Whether a colour and a shape are together that train does not show together."""
        return not HELD_OUT.isdisjoint(self.shapes)

    @property
    def distinct(self) -> bool:
        """Whether no two shapes are the same: which of them was meant would not be known."""
        return len(set(self.shapes)) == len(self.shapes)


class Shapes(Corpus):
    """Two or three coloured shapes and their relation: "a red circle left of a blue square".

    `task` says what is asked. `label`: which shape is the first, from the left or from above (of each picture
    alone). `matching`: does a caption belong to its picture? Half of them do, and the others differ in one
    word (a colour, a shape or a relation); true and false captions are drawn from the same captions, and so
    are pictures: neither alone says anything. `caption`: the caption is the target.

    Four pairs of a colour and a shape, such as red circles, are in dev and test alone, where every example
    has one of them: what is learned of colours and of shapes must be joined anew.
    """

    def __init__(
        self,
        *,
        task: Literal["label", "matching", "caption"] = "label",
        shapes: Annotated[int, Range(least=2, most=3)] = 2,
        size: Annotated[int, Range(least=16, most=512)] = 32,
        examples: Examples = 4000,
        seed: Seed = 0,
    ):
        self.task, self.shapes, self.side, self.examples, self.seed = task, shapes, size, examples, seed
        self._drawn: dict[str, list[Example]] = {}

    @property
    def given(self) -> tuple[str, ...]:
        return ("train", "dev", "test")

    def read(self, split: str = "train") -> Iterator[Example]:
        self.check_given(split)
        if split not in self._drawn:
            count = self.examples if split == "train" else max(self.examples // 8, 8)
            self._drawn[split] = [self.example(split, number) for number in range(count)]
        yield from self._drawn[split]

    def fingerprint(self) -> str:
        settings = sorted((name, value) for name, value in vars(self).items() if not name.startswith("_"))
        return hashlib.sha256(repr(("Shapes", settings)).encode()).hexdigest()[:16]

    def example(self, split: str, number: int) -> Example:
        """One example, a function of (seed, split, number) alone."""
        random = Random(stream_seed(self.seed, f"shapes {split}", number))
        scene, other = self.scenes(random, held_out=split != "train")
        pixels, first = drawn(scene, self.side, random)
        picture = Picture(b"P6 %d %d 255\n" % (self.side, self.side) + pixels.tobytes())
        example = Example("", place=f"shapes, {split} {number + 1}", image=picture)
        if self.task == "label":
            return replace(example, label=first)
        if self.task == "caption":
            return replace(example, target=scene.caption)
        true = random.random() < 0.5
        return replace(example, text=(scene if true else other).caption, label=str(true).lower())

    def scenes(self, random: Random, *, held_out: bool) -> tuple[Scene, Scene]:
        """A scene and one that differs from it in one word. Both are drawn anew until both are of the split:
        as often as one is changed into the other, the other is into the one, so that each is as frequent as
        a false caption as it is as a true one."""
        while True:
            scene = Scene(
                tuple((random.choice([*COLOURS]), random.choice(SHAPES)) for _ in range(self.shapes)),
                tuple(random.choice([*RELATIONS]) for _ in range(self.shapes - 1)),
            )
            other = changed(scene, random)
            if all(one.distinct and one.held_out == held_out for one in (scene, other)):
                return scene, other


def changed(scene: Scene, random: Random) -> Scene:
    """The same but for one word."""
    place = random.randrange(2 * len(scene.shapes) + len(scene.relations))
    if place >= 2 * len(scene.shapes):
        relations = list(scene.relations)
        at = place - 2 * len(scene.shapes)
        relations[at] = random.choice([name for name in RELATIONS if name != relations[at]])
        return replace(scene, relations=tuple(relations))
    shapes = list(scene.shapes)
    colour, shape = shapes[place // 2]
    if place % 2:
        shapes[place // 2] = colour, random.choice([name for name in SHAPES if name != shape])
    else:
        shapes[place // 2] = random.choice([name for name in COLOURS if name != colour]), shape
    return replace(scene, shapes=tuple(shapes))


# ---------------------------------------------------------------- drawing
def drawn(scene: Scene, side: int, random: Random) -> tuple[NDArray[np.uint8], str]:
    """The picture (side, side, 3), and the name of its first shape in reading order."""
    places = np.cumsum([(0, 0), *(RELATIONS[relation] for relation in scene.relations)], 0).astype(float)
    while len({tuple(place) for place in places}) < len(places):  # the third on the first: one step further
        places[-1] += RELATIONS[scene.relations[-1]]
    spread = np.ptp(places, 0).max()
    cell = side / (spread + 1)
    corner = (side - cell * (np.ptp(places, 0) + 1)) / 2
    centres = corner + (places - places.min(0) + 0.5) * cell
    radius = min(cell, side / 2) * 0.32
    room = max(min(cell, side / 2) / 2 - radius - 0.5, 0.0)
    canvas = np.full((side, side, 3), 255.0)
    for (colour, shape), (x, y) in zip(scene.shapes, centres, strict=True):
        x, y = (at + random.uniform(-room, room) for at in (x, y))
        size = radius * random.uniform(0.85, 1.1)
        rows, columns = (slice(max(int(at - size) - 1, 0), int(at + size) + 2) for at in (y, x))
        part = canvas[rows, columns]
        cover = coverage(shape, part.shape[:2], x - columns.start, y - rows.start, size)[..., None]
        canvas[rows, columns] = part * (1 - cover) + np.array(COLOURS[colour], float) * cover
    first = min(range(len(centres)), key=lambda n: (centres[n][1], centres[n][0]))
    return canvas.round().astype(np.uint8), scene.shapes[first][1]


def coverage(shape: str, pixels: tuple[int, ...], x: float, y: float, radius: float) -> Points:
    """(rows, columns) how much of each pixel a shape covers."""
    rows, columns = pixels
    down, across = ((np.arange(count * FINE) + 0.5) / FINE for count in pixels)
    inside = INSIDE[shape]((across - x)[None] / radius, (down - y)[:, None] / radius)
    return inside.reshape(rows, FINE, columns, FINE).mean((1, 3))


def in_circle(x: Points, y: Points) -> NDArray[np.bool_]:
    return x**2 + y**2 <= 1


def in_square(x: Points, y: Points) -> NDArray[np.bool_]:
    return np.maximum(abs(x), abs(y)) <= 0.9


def in_triangle(x: Points, y: Points) -> NDArray[np.bool_]:
    return (y <= 0.85) & (2 * abs(x) <= y + 1.05)


def in_cross(x: Points, y: Points) -> NDArray[np.bool_]:
    return (np.maximum(abs(x), abs(y)) <= 1) & (np.minimum(abs(x), abs(y)) <= 0.33)


INSIDE = {"circle": in_circle, "square": in_square, "triangle": in_triangle, "cross": in_cross}
