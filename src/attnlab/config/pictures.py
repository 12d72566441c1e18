"""The patches that a picture is cut into: what data and model must agree on."""

from __future__ import annotations

from dataclasses import dataclass

from attnlab.config.values import ConfigError

SIZE, PATCH = 32, 4
"""Pixels of a side of a picture, and of a patch, where nobody says."""


@dataclass(frozen=True)
class PictureGrid:
    """Pictures of size × size pixels, in patches of patch × patch."""

    size: int = SIZE
    patch: int = PATCH
    apart: bool = False
    """Whether an encoder of their own reads them, so that the length of texts does not bound theirs."""

    def __post_init__(self) -> None:
        if self.size % self.patch:
            fitting = [n for n in range(1, self.size + 1) if self.size % n == 0]
            nearest = sorted(fitting, key=lambda n: abs(n - self.patch))[:3]
            raise ConfigError(
                f"image(size={self.size}, patch={self.patch}): {self.size} pixels are not divisible into "
                f"patches of {self.patch}; use patch {', '.join(map(str, sorted(nearest)))}, or a "
                f"size of {self.size // self.patch * self.patch or self.patch}."
            )

    @property
    def side(self) -> int:
        """Patches across, and down."""
        return self.size // self.patch

    @property
    def patches(self) -> int:
        return self.side**2

    @property
    def width(self) -> int:
        """Numbers of a patch: red, green and blue of each pixel."""
        return 3 * self.patch**2
