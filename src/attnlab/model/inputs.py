"""What a model reads: words, pictures, or both."""

from __future__ import annotations

from attnlab.config.pictures import PATCH, SIZE, PictureGrid
from attnlab.config.ranges import Count
from attnlab.config.registry import Registry


class Input:
    """One kind of what a model reads."""


class Text(Input):
    """Text: tokens, each with a vector of a table.

    When it helps: the default.
    """


class Image(Input):
    """Image: a picture as a row of patches, each a token whose vector is a linear map of its pixels.

    Formula: x = W·p + b for the 3·patch² numbers p of a patch, from −1 to 1. The picture is resized to
    size × size, so there are (size/patch)² patches; they stand before the text, where there is one.

    Cost: (size/patch)² tokens a picture: half the patch is four times the tokens.

    When it helps: pictures of data (data.encoding = "image", or "image_text" with "text" beside it).

    Paper: Dosovitskiy et al. 2020, "An Image is Worth 16x16 Words" (ViT).
    """

    def __init__(self, *, size: Count = SIZE, patch: Count = PATCH):
        self.grid = PictureGrid(size, patch)


INPUTS: Registry[Input] = Registry(
    "inputs",
    base="attnlab.model.inputs:Input",
    default="text",
    variants={"text": "attnlab.model.inputs:Text", "image": "attnlab.model.inputs:Image"},
)
