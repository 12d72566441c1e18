"""What the pictures of a corpus are like, and which of them are in two splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from attnlab.data.example import Example
from attnlab.data.images.decoding import facts_of
from attnlab.data.images.hashing import near_pairs
from attnlab.data.rows import Rows

HEADERS = 10_000
"""Pictures whose headers are read."""
COMPARED, AGAINST = 2_000, 20_000
"""Pictures of a split that are looked for in another, and of the other."""
SHOWN = 5


@dataclass(frozen=True)
class PictureSurvey:
    """Pictures by what their headers say; sizes are width × height, the most frequent first."""

    pictures: int
    sizes: dict[str, int]
    modes: dict[str, int]
    animated: int
    transparent: int
    smallest: tuple[int, int]
    largest: tuple[int, int]

    def resized(self, size: int) -> int:
        """How many are not size × size."""
        return self.pictures - self.sizes.get(f"{size} × {size}", 0)

    @property
    def converted(self) -> int:
        """How many are not in red, green and blue, transparency aside."""
        return self.pictures - self.modes.get("RGB", 0) - self.modes.get("RGBA", 0)


def survey(examples: Iterable[Example]) -> PictureSurvey | None:
    """Of the first pictures of some examples; None where there is none."""
    pictured = (example.image for example in examples if example.image is not None)
    facts = [facts_of(picture) for picture in islice(pictured, HEADERS)]
    if not facts:
        return None
    areas = sorted((one.width * one.height, one.width, one.height) for one in facts)
    sizes = Counter(f"{one.width} × {one.height}" for one in facts)
    return PictureSurvey(
        pictures=len(facts),
        sizes=dict(sizes.most_common()),
        modes=dict(Counter(one.mode for one in facts).most_common()),
        animated=sum(one.animated for one in facts),
        transparent=sum(one.transparent for one in facts),
        smallest=areas[0][1:],
        largest=areas[-1][1:],
    )


@dataclass(frozen=True)
class SharedPictures:
    """Pictures of a split, as a model reads them, that are in another one: the same pixels, or near ones."""

    pictures: int
    same: int
    near: int
    pairs: tuple[tuple[int, int], ...]  # examples of the other split and of this one

    @property
    def share(self) -> float:
        return (self.same + self.near) / max(self.pictures, 1)


def shared_pictures(rows: Rows, others: Rows) -> SharedPictures:
    """Those of `rows` that are in `others`, by a perceptual hash and then by their pixels."""
    own, known = pictures_in(rows, COMPARED), pictures_in(others, AGAINST)
    pairs = near_pairs(known, own)
    same = sum(np.array_equal(known[first], own[second]) for first, second in pairs)
    mine, theirs = rows.scalars("example"), others.scalars("example")
    shown = tuple((int(theirs[first]), int(mine[second])) for first, second in pairs[:SHOWN])
    return SharedPictures(len(own), same, len(pairs) - same, shown)


def duplicates_in(rows: Rows) -> int:
    """How many of the first pictures of a split are the same, in every pixel, as an earlier one."""
    pictures = pictures_in(rows, AGAINST)
    return len(pictures) - len({picture.tobytes() for picture in pictures})


def pictures_in(rows: Rows, most: int) -> NDArray[np.uint8]:
    """(n, size, size, 3) the pictures of the first rows, as they were cut into patches."""
    parts, count = [], 0
    for part in rows.parts:
        bounds = part["pixels.bounds"]
        each = int(bounds[1] - bounds[0])
        parts.append(part["pixels"].reshape(-1, each, part["pixels"].shape[1])[: most - count])
        count += len(parts[-1])
        if count >= most:
            break
    if not parts:
        return np.zeros((0, 1, 1, 3), np.uint8)
    patches = np.concatenate(parts)
    side, patch = round(patches.shape[1] ** 0.5), round((patches.shape[2] / 3) ** 0.5)
    cut = patches.reshape(-1, side, side, patch, patch, 3).transpose(0, 1, 3, 2, 4, 5)
    return np.ascontiguousarray(cut.reshape(len(patches), side * patch, side * patch, 3))
