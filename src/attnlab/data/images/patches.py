"""A picture cut into patches, each a vector, and put together again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnlab.data.images.decoding import Pixels


def patches_of(pixels: Pixels, patch: int) -> NDArray[np.uint8]:
    """(size, size, 3) -> (N, 3·patch²): patches row by row, and so the pixels of each, colour by colour."""
    rows = pixels.shape[0] // patch
    cut = pixels.reshape(rows, patch, rows, patch, 3).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(cut.reshape(rows * rows, patch * patch * 3))


def vectors_of(patches: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bytes as a model reads them: from −1 (black) to 1."""
    vectors: NDArray[np.float32] = patches * np.float32(2 / 255) - np.float32(1)
    return vectors


def picture_of_patches(patches: NDArray[np.uint8], patch: int) -> Pixels:
    """The reverse."""
    rows = round(len(patches) ** 0.5)
    cut = patches.reshape(rows, rows, patch, patch, 3).transpose(0, 2, 1, 3, 4)
    return cut.reshape(rows * patch, rows * patch, 3)
