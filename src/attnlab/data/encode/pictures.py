"""Rows of a picture's patches: alone, before a text, or as the source of a target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from attnlab.config.pictures import PictureGrid
from attnlab.data.columns import Row
from attnlab.data.encode.encoding import Cut, Encoding, cut_to
from attnlab.data.encode.texts import ends
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.images.decoding import Fit, PictureError, pixels_of
from attnlab.data.images.patches import patches_of
from attnlab.data.labels import WRITTEN, LabelReader, at
from attnlab.data.tokenizers.sized import Sized
from attnlab.data.tokenizers.tokenizer import Tokenizer

SHOWN = 5


class Pictured(Encoding):
    """A row with a picture. Its patches stand where the words of a text would, each under the same id; the
    picture's first frame in colour, what is transparent on white, is resized to the model's size by `fit`."""

    pictured = True
    with_text = False

    def __init__(
        self,
        tokenizer: Tokenizer,
        length: int,
        labels: Sequence[str] = (),
        reader: LabelReader = WRITTEN,
        pictures: PictureGrid = PictureGrid(),  # noqa: B008 - frozen
        *,
        fit: Fit = "pad",
        cut: Cut = "end",
    ):
        super().__init__(tokenizer, length, labels, reader)
        self.fit: Fit = fit
        self.cut: Cut = cut
        self.picture_size, self.patch = pictures.size, pictures.patch
        self._grid = pictures

    def pixels(self, chunk: Sequence[Example]) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
        """The patches (N, W) of each example; those that cannot be decoded are all named at once."""
        decoded, broken = [], []
        for example in chunk:
            try:
                if example.image is None:
                    raise PictureError(
                        f"{type(self).__name__} encoding needs a picture in every example; name the column "
                        "that holds it with data.corpus.image"
                    )
                whole = pixels_of(example.image, self.picture_size, self.fit)
                decoded.append(patches_of(whole, self.patch))
            except PictureError as error:
                broken.append(f"{example.place or 'an example'}: {error}.")
        if broken:
            more = f"\n  … and {len(broken) - SHOWN:,} more." if len(broken) > SHOWN else ""
            lines = "\n".join(f"  {line}" for line in broken[:SHOWN])
            raise DataError(
                f"{len(broken):,} of {len(chunk):,} pictures cannot be used:\n{lines}{more}\n"
                "Repair them, or skip them with --skip-bad (skip_bad = true)."
            )
        return decoded

    @property
    def blank(self) -> Sized:
        """The ids of a picture's patches: one and the same, by which they are known from words."""
        blank = self.tokenizer.specials.unknown
        blank = self.tokenizer.pad if blank is None else blank
        return Sized([blank] * self._grid.patches, [0] * self._grid.patches)

    def numbers(self, before: int, length: int) -> list[int]:
        """Which patch each token is, from 1 on; 0 for all others."""
        count = self._grid.patches
        return [0] * before + [*range(1, count + 1)] + [0] * (length - before - count)

    def picture_room(self, special: int) -> int:
        """How many tokens of text fit beside a picture."""
        taken = special if self._grid.apart else self._grid.patches + special
        if self.length < taken:
            raise DataError(
                f"data.length {self.length} is less than the {self._grid.patches} patches of a picture and "
                f"{special} special tokens; use at least {taken}, or larger patches (model.inputs)."
            )
        return self.length - taken

    def source_rows(self, chunk: Sequence[Example]) -> Iterator[Row]:
        """What is read of each picture before its target, which is not looked at."""
        whole, before = self.source_form(), len(self.tokenizer.form.before)
        patch = self.numbers(before, len(whole))
        for number, pixels in enumerate(self.pixels(chunk)):
            yield Row(whole.ids, number, whole.sizes, patch=patch, pixels=pixels)

    def source_form(self) -> Sized:
        """The ids of a picture as a source."""
        return self.picture_row()

    def picture_row(self) -> Sized:
        """A picture by itself, in the form of a single text."""
        form = self.tokenizer.form
        self.picture_room(form.single_room)
        return form.single_sized(self.blank)


class Image(Pictured):
    """One picture, one row, with its label: [CLS] patches [SEP], or what the tokenizer's own form is.

    Texts that go with the pictures are not read: image_text reads both.
    """

    labelled = True

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        whole = self.picture_row()
        patch = self.numbers(len(self.tokenizer.form.before), len(whole))
        for number, pixels in enumerate(self.pixels(chunk)):
            self.cuts.count(len(pixels), 0)
            yield Row(
                whole.ids,
                first + number,
                whole.sizes,
                patch=patch,
                pixels=pixels,
                **self.label(chunk[number]),
            )


class ImageText(Pictured):
    """A picture and then its text in one row, with its label: [CLS] patches [SEP] text [SEP].

    A text that does not fit beside the patches loses its end (or its start), counted.
    """

    labelled = True
    with_text = True

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        texts = self.tokenizer.encode_sized([example.text for example in chunk])
        for number, (pixels, text) in enumerate(zip(self.pixels(chunk), texts, strict=True)):
            columns = self.joined(pixels, text, chunk[number])
            yield Row(example=first + number, **columns, **self.label(chunk[number]))

    def joined(self, pixels: np.ndarray[Any, Any], text: Sized, example: Example) -> dict[str, Any]:
        """A picture and a text in one row, cuts counted."""
        form = self.tokenizer.form
        kept = cut_to(text, self.picture_room(form.pair_room), self.cut, example)
        self.cuts.count(len(text), len(text) - len(kept))
        whole = form.pair_sized(self.blank, kept)
        patch = self.numbers(len(form.before), len(whole))
        return {"ids": whole.ids, "sizes": whole.sizes, "patch": patch, "pixels": pixels}


class ImageApart(Pictured):
    """A picture and its text apart, each in the form of a single text.

    `ids` are the picture's patches, and `target` the text (the example's text, or its target where it has
    none). One model reads both, one after the other, as in search: neither sees the other. A text beyond the
    length loses its end (or its start), counted.
    """

    uses = ("target",)

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        form, whole = self.tokenizer.form, self.picture_row()
        patch = self.numbers(len(form.before), len(whole))
        texts = self.tokenizer.encode_sized([self.text_of(example) for example in chunk])
        for number, (pixels, text) in enumerate(zip(self.pixels(chunk), texts, strict=True)):
            kept = cut_to(text, self.room(form.single_room), self.cut, chunk[number])
            self.cuts.count(len(text), len(text) - len(kept))
            other = form.single_sized(kept)
            yield Row(
                whole.ids,
                first + number,
                whole.sizes,
                target=other.ids,
                target_sizes=other.sizes,
                patch=patch,
                pixels=pixels,
                **self.label(chunk[number]),
            )

    def text_of(self, example: Example) -> str:
        if not example.second:
            raise DataError(
                f"A picture{at(example)} has no text, and the image_apart encoding needs one; name the "
                "column that holds it with data.corpus.text."
            )
        return example.second


class ImagePrefix(ImageText):
    """A picture and its target in one row, the picture marked as the source.

    <START> patches <SEP> target <STOP>, or what the tokenizer's own form is. For a decoder that
    describes what it is shown: the picture is its prefix (task prefix).
    """

    with_text = False
    uses = ("target",)
    labelled = False

    def source_form(self) -> Sized:
        self.picture_room(self.tokenizer.form.pair_room)
        form, blank = self.tokenizer.form, self.blank
        ids = [*form.before, *blank.ids, *form.middle]
        return Sized(ids, [0] * len(ids))

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        source = len(self.source_form())
        targets = self.tokenizer.encode_sized([self.needs(example, "target") for example in chunk])
        for number, (pixels, target) in enumerate(zip(self.pixels(chunk), targets, strict=True)):
            yield Row(example=first + number, source=source, **self.joined(pixels, target, chunk[number]))


class ImageTranslation(Pictured):
    """A picture and its target apart, for an encoder and a decoder: `target` is <START> … <STOP>."""

    uses = ("target",)
    two_vocabularies = True

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        whole, (start, stop) = self.picture_row(), ends(self.tokenizer)
        patch = self.numbers(len(self.tokenizer.form.before), len(whole))
        targets = self.tokenizer.target.encode_sized([self.needs(example, "target") for example in chunk])
        for number, (pixels, target) in enumerate(zip(self.pixels(chunk), targets, strict=True)):
            kept = cut_to(target, self.room(2), self.cut, chunk[number])
            self.cuts.count(len(target), len(target) - len(kept))
            yield Row(
                whole.ids,
                first + number,
                whole.sizes,
                target=[start, *kept.ids, stop],
                target_sizes=[0, *kept.sizes, 0],
                patch=patch,
                pixels=pixels,
            )
