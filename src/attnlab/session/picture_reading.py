"""A picture, and a text with it, as a trained model reads them: for looking inside."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from attnlab.config.values import ConfigError
from attnlab.data.batch import collate
from attnlab.data.encode.pictures import Image, ImageText
from attnlab.data.example import Example
from attnlab.data.images.decoding import PictureError, pixels_of, png_of
from attnlab.data.images.picture import Picture
from attnlab.data.labels import UNREAD
from attnlab.data.rows import in_memory
from attnlab.explain.attention_maps import RowOfText, attention_maps
from attnlab.explain.model_reading import words_by
from attnlab.explain.picture_attention import PictureAttention
from attnlab.tasks.task import tokens_of

if TYPE_CHECKING:
    from attnlab.session.trained import Trained


@dataclass(frozen=True)
class PictureRow:
    """A picture, as the model sees it (PNG), and the row that it is read in."""

    row: RowOfText
    picture: bytes
    patch: list[int]
    side: int


def picture_attention(
    trained: Trained, image: str | Path, text: str = "", *, layer: int = -1, head: int = -1
) -> PictureAttention:
    """Where each head looks on a picture and its text, and what happens without it."""
    read = picture_row(trained, image, text)
    maps = attention_maps(trained.model, read.row, layer=layer, head=head)
    return PictureAttention(maps, read.picture, read.patch, read.side)


def picture_row(trained: Trained, image: str | Path, text: str = "") -> PictureRow:
    """A picture, and its text where the model reads both, as one row."""
    grid, file = trained.config.model.picture, Path(image).expanduser()
    if grid is None:
        raise ConfigError("This model reads no pictures (model.inputs is text); give --text.")
    if trained.model.trunk.reads_source:
        raise ConfigError("Pictures are looked into in models of one stack; this one is an encoder-decoder.")
    if not file.is_file():
        raise ConfigError(f"There is no file {file}; give a picture with --image FILE.")
    reads_both = trained.config.data.encoding.kind == "image_text"
    if reads_both != bool(text):
        raise ConfigError(
            "This model reads a picture with its text; give both: --image FILE --text TEXT."
            if reads_both
            else "This model reads a picture by itself; leave out --text."
        )
    fit = trained.config.data.encoding.options.get("fit", "pad")
    picture = Picture(file, file.name)
    kind = ImageText if reads_both else Image
    encoding = kind(trained.tokenizer, trained.config.data.length, reader=UNREAD, pictures=grid, fit=fit)
    try:
        pixels = pixels_of(picture, grid.size, fit)
    except PictureError as error:
        raise ConfigError(f"{file} cannot be used: {error}.") from None
    rows = in_memory(encoding.rows([Example(text, image=picture)]), vocabulary=trained.tokenizer.size)
    batch = collate(rows, [np.array([0])], pad=trained.tokenizer.pad)
    patch: list[int] = batch.patch[0].tolist()
    ids: list[int] = batch.ids[0].tolist()
    words = [
        f"patch {(number - 1) // grid.side},{(number - 1) % grid.side}" if number else word
        for word, number in zip(words_by(trained.tokenizer, ids), patch, strict=True)
    ]
    special = trained.tokenizer.special_ids
    delimiters = [not number and token in special for token, number in zip(ids, patch, strict=True)]
    inputs = {"ids": batch.ids, "tokens": tokens_of(batch), "vectors": batch.vectors}
    return PictureRow(RowOfText(inputs, words, delimiters), png_of(pixels), patch, grid.side)
