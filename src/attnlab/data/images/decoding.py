"""From the bytes of a picture to pixels: every form in three colours on white, nothing in silence."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from attnlab.data.errors import DataError, reason_of
from attnlab.data.images.picture import Picture

if TYPE_CHECKING:
    from PIL import Image

Pixels = NDArray[np.uint8]
"""(size, size, 3): rows, columns, and red, green, blue."""
Fit = Literal["pad", "crop", "stretch"]
"""How a picture that is not square becomes one: with white at its sides, without its longer ends, or
distorted."""
WHITE = (255, 255, 255)


class PictureError(DataError):
    """A picture that cannot be used: what is wrong with it, for the middle of a sentence."""


@dataclass(frozen=True)
class PictureFacts:
    """What a picture's header says of it."""

    width: int
    height: int
    mode: str  # of Pillow: RGB, L (grey), P (palette), RGBA, CMYK, …
    frames: int
    transparent: bool

    @property
    def animated(self) -> bool:
        return self.frames > 1


def pillow() -> None:
    """Refuse to go on without Pillow."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise DataError(
            'Pictures are decoded by Pillow, which is not installed: pip install "attnlab[images]".'
        ) from None


def opened(picture: Picture) -> Image.Image:
    """The picture with its header read, and not its pixels; a DataError says what is wrong with it."""
    pillow()
    from PIL import Image, UnidentifiedImageError

    content = picture.read()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(content))
    except UnidentifiedImageError:
        raise PictureError(f"its {len(content):,} bytes are no picture that Pillow knows") from None
    except Image.DecompressionBombError as error:
        raise PictureError(f"it is too large: {reason_of(error)}") from None
    except Exception as error:
        raise PictureError(f"its header cannot be read: {reason_of(error)}") from None
    most = Image.MAX_IMAGE_PIXELS
    if most is not None and image.width * image.height > most:
        raise PictureError(
            f"it is too large: {image.width:,} × {image.height:,} pixels, and the limit against "
            f"decompression bombs is {most:,} in all (PIL.Image.MAX_IMAGE_PIXELS); make it smaller"
        )
    return image


def facts_of(picture: Picture) -> PictureFacts:
    """What its header says."""
    return _facts(opened(picture))


def _facts(image: Image.Image) -> PictureFacts:
    see_through = image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info
    return PictureFacts(image.width, image.height, image.mode, getattr(image, "n_frames", 1), see_through)


def pixels_of(picture: Picture, size: int, fit: Fit = "pad") -> Pixels:
    """Its first frame in red, green and blue, what is transparent on white, resized to size × size.

    Resized by Pillow's bicubic filter, which averages where it makes smaller; `fit` says how to a square.
    """
    image = opened(picture)
    try:
        image.load()
        return np.asarray(square(coloured(image), size, fit), np.uint8)
    except Exception as error:  # a decoder's faults are of many kinds, and all mean the same
        raise PictureError(f"its pixels cannot be decoded: {reason_of(error)}") from None


def coloured(image: Image.Image) -> Image.Image:
    """In red, green and blue: grey, palettes and CMYK are converted, and transparency is laid on white."""
    from PIL import Image

    if not _facts(image).transparent:
        return deep_grey(image).convert("RGB")
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, (*WHITE, 255)), layer).convert("RGB")


def deep_grey(image: Image.Image) -> Image.Image:
    """Grey of 16 or 32 bits in 8, of which Pillow would cut off all that is brighter than 255."""
    if not image.mode.startswith(("I", "F")):
        return image
    from PIL import Image

    values = np.asarray(image, np.float64)
    low, high = float(values.min()), float(values.max())
    if image.mode.startswith("I") and low >= 0:
        low, high = 0.0, 65535.0 if high <= 65535 else high
    scaled = (values - low) * (255 / (high - low)) if high > low else np.zeros_like(values)
    return Image.fromarray(scaled.round().astype(np.uint8), "L")


def square(image: Image.Image, size: int, fit: Fit) -> Image.Image:
    """Resized to size × size."""
    from PIL import Image, ImageOps

    if image.size == (size, size):
        return image
    filtering = Image.Resampling.BICUBIC
    if fit == "stretch":
        return image.resize((size, size), filtering)
    if fit == "crop":
        return ImageOps.fit(image, (size, size), filtering)
    return ImageOps.pad(image, (size, size), filtering, color=WHITE)


def png_of(pixels: Pixels) -> bytes:
    """Pixels as a picture that every browser shows."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def thumbnail(picture: Picture, side: int = 160) -> bytes:
    """A picture no larger than `side` in both directions, as PNG; smaller ones keep their size."""
    image = opened(picture)
    try:
        image.load()
        small = coloured(image)
    except Exception as error:  # a decoder's faults are of many kinds, and all mean the same
        raise PictureError(f"its pixels cannot be decoded: {reason_of(error)}") from None
    small.thumbnail((side, side))
    return png_of(np.asarray(small, np.uint8))
