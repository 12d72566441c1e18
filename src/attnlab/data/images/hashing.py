"""Perceptual hashes: pictures that look alike have hashes that differ in few bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ROWS, COLUMNS = 8, 9
"""Of the small picture whose neighbours are compared: 8 × 8 comparisons a colour."""
BITS = ROWS * (COLUMNS - 1)
NEAR_BITS = 6
"""Of 192, in how many the hashes of near duplicates may differ."""
NEAR_PIXELS = 12.0
"""Of 255, how far their pixels may be apart, by the root of the mean square: of simple drawings hashes alone
say little, and a square differs from a circle in few pixels, but by much."""

Hashes = NDArray[np.uint64]


def shrunk(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """(N, size, size, 3) -> (N, 8, 9, 3), each value the mean of what it covers."""
    if pixels.shape[1] < COLUMNS:  # each pixel several times, so that every value covers one
        pixels = pixels.repeat(COLUMNS, 1).repeat(COLUMNS, 2)
    size = pixels.shape[1]
    rows = (np.arange(ROWS) * size) // ROWS
    columns = (np.arange(COLUMNS) * size) // COLUMNS
    sums = np.add.reduceat(np.add.reduceat(pixels.astype(np.float64), rows, 1), columns, 2)
    heights = np.diff([*rows, size])[:, None, None]
    widths = np.diff([*columns, size])[:, None]
    return sums / (heights * widths)


def difference_hashes(pixels: NDArray[np.uint8]) -> Hashes:
    """dHash of each picture, (N, size, size, 3) -> (N, 3): a bit for each place and colour, 1 where it is
    brighter than its right neighbour."""
    small = shrunk(pixels)
    brighter = small[:, :, :-1] > small[:, :, 1:] + 1e-6
    bits = brighter.transpose(0, 3, 1, 2).reshape(len(pixels), 3, BITS)
    weights = np.uint64(1) << np.arange(BITS, dtype=np.uint64)
    return (bits * weights).sum(-1, dtype=np.uint64)


def near_pairs(
    first: NDArray[np.uint8], second: NDArray[np.uint8], *, most: int = 100_000
) -> NDArray[np.int64]:
    """The pairs (k, 2) of a picture of `second` with the nearest of `first` that looks the same: hashes that
    differ in few bits, and pixels that hardly differ."""
    if not len(first) or not len(second):
        return np.zeros((0, 2), np.int64)
    one, other = difference_hashes(first), difference_hashes(second)
    pairs: list[tuple[int, int]] = []
    for number, own in enumerate(other):
        apart = np.unpackbits((one ^ own).view(np.uint8), axis=1).sum(1)
        candidates = np.flatnonzero(apart <= NEAR_BITS)[:most]
        if not len(candidates):
            continue
        difference = first[candidates].astype(np.float32) - second[number].astype(np.float32)
        distances = np.sqrt((difference**2).mean((1, 2, 3)))
        best = int(distances.argmin())
        if distances[best] <= NEAR_PIXELS:
            pairs.append((int(candidates[best]), number))
    return np.array(pairs, np.int64).reshape(-1, 2)
