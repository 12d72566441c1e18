"""A picture, and a text with it, as a trained model reads them: for looking inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from attnlab.config.pictures import PictureGrid
from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch, collate
from attnlab.data.encode.pictures import Image, ImagePrefix, ImageText, ImageTranslation, Pictured
from attnlab.data.example import Example
from attnlab.data.images.decoding import PictureError, pixels_of, png_of
from attnlab.data.images.picture import Picture
from attnlab.data.labels import UNREAD
from attnlab.data.rows import in_memory
from attnlab.explain.attention_maps import RowOfText, attention_maps
from attnlab.explain.model_reading import words_by
from attnlab.explain.picture_attention import PictureAttention, PictureRow
from attnlab.model.losses import IGNORE
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.two_encoders import TwoEncoders
from attnlab.tasks.task import tokens_of

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

READ_WITH_TEXT: Mapping[str, type[Pictured]] = {
    "image_text": ImageText,
    "image_prefix": ImagePrefix,
    "image_translation": ImageTranslation,
}
"""Encodings whose model reads a text with a picture, or writes one for it; else a picture is read alone."""


MEAN_OF_ALL = "Means over all tokens, since the output is computed from their mean."


def picture_attention(
    trained: Trained, image: str | Path | Picture, text: str = "", *, layer: int = -1, head: int = -1
) -> PictureAttention:
    """Where each head looks on a picture and its text, and what happens without it."""
    read = picture_row(trained, image, text)
    return PictureAttention(attention_maps(trained.model, read.row, layer=layer, head=head), read)


def picture_row(trained: Trained, image: str | Path | Picture, text: str = "") -> PictureRow:
    """A picture as a row; its text in it, or beside it, where the model reads both. Where a model writes for
    pictures and no text is given, it is what the model writes."""
    grid = trained.config.model.picture
    if grid is None:
        raise ConfigError("This model reads no pictures (model.inputs is text); give --text.")
    picture = picture_of_file(image)
    kind = READ_WITH_TEXT.get(trained.config.data.encoding.kind, Image)
    if not trained.captions and (kind is ImageText) != bool(text):
        apart = "text" in trained.config.model.modalities
        raise ConfigError(
            "This model reads a picture with its text; give both: --image FILE --text TEXT."
            if kind is ImageText
            else "This model reads a picture or a text, each by itself; leave out --text, or --image."
            if apart
            else "This model reads a picture by itself; leave out --text."
        )
    fit = trained.config.data.encoding.options.get("fit", "pad")
    try:
        seen = png_of(pixels_of(picture, grid.size, fit))
    except PictureError as error:
        raise ConfigError(f"{picture.name or 'The picture'} cannot be used: {error}.") from None
    by_model = trained.captions and not text
    text = trained.candidates([picture], best=1)[0][0].text if by_model else text
    encoding = kind(trained.tokenizer, trained.config.data.length, reader=UNREAD, pictures=grid, fit=fit)
    beside = Example("", target=text) if trained.captions else Example(text)
    example = replace(beside, image=picture)
    rows = in_memory(encoding.rows([example]), vocabulary=trained.tokenizer.size)
    if encoding.cuts.cut and not by_model:
        raise ConfigError(
            f"The text is longer than this model reads with a picture ({encoding.cuts}); shorten it."
        )
    batch = collate(rows, [np.array([0])], pad=trained.tokenizer.pad)
    if trained.captions:
        return written_row(trained, batch, seen, grid, text, by_model=by_model)
    return labelled_row(trained, batch, seen, grid, with_text=kind is ImageText)


def picture_of_file(image: str | Path | Picture) -> Picture:
    if isinstance(image, Picture):
        return image
    file = Path(image).expanduser()
    if not file.is_file():
        raise ConfigError(f"There is no file {file}; give a picture with --image FILE.")
    return Picture(file, file.name)


def labelled_row(
    trained: Trained, batch: Batch, seen: bytes, grid: PictureGrid, *, with_text: bool
) -> PictureRow:
    """Of a model that says something of a whole row: a label, or a vector."""
    patch: list[int] = batch.patch[0].tolist()
    inputs: dict[str, Any] = {"ids": batch.ids, "tokens": tokens_of(batch), "vectors": batch.vectors}
    if isinstance(trained.model.trunk, TwoEncoders):  # the picture's encoder reads one token and the patches
        begin, end = patch.index(1) - 1, patch.index(grid.patches) + 1
        patch = patch[begin:end]
        tokens = Tokens.of(len(patch), patch=torch.tensor([patch]))
        inputs = {"ids": batch.ids[:, begin:end], "tokens": tokens, "vectors": batch.vectors[:, begin:end]}
    row = row_of(trained, inputs, patch, grid)
    pooling = getattr(trained.model.head, "pooling", "")
    if with_text:
        others = {place: row.words[place] for place, number in enumerate(patch) if not number}
        return PictureRow(row, seen, patch, grid.side, others, "Means over the tokens that are not patches.")
    if pooling == "mean":
        every = dict(enumerate(row.words))
        return PictureRow(row, seen, patch, grid.side, every, MEAN_OF_ALL)
    place = patch.index(1) - 1 if pooling == "ends" else len(patch) - 1 if pooling == "last" else 0
    whole = f"The look of {row.words[place]} alone, whose output stands for the whole picture."
    return PictureRow(row, seen, patch, grid.side, {place: row.words[place]}, whole)


def written_row(
    trained: Trained, batch: Batch, seen: bytes, grid: PictureGrid, text: str, *, by_model: bool
) -> PictureRow:
    """Of a model that writes a text for a picture, with the text as it has written it: what it reads when it
    is trained on both."""
    prepared = trained.task.prepare(batch, 0)
    patch: list[int] = batch.patch[0].tolist()
    targets: list[int] = prepared.targets[0].tolist()
    wanted = [target for target in targets if target != IGNORE]
    written = words_by(trained.tokenizer.target, wanted)
    places = [place for place, target in enumerate(targets) if target != IGNORE]
    readers = dict(zip(places, written, strict=True))
    asked = trained.tokenizer.target.decode(wanted).strip() if by_model else text, by_model
    if trained.model.trunk.reads_source:
        ids: list[int] = prepared.ids[0].tolist()
        words = words_by(trained.tokenizer.target, ids)
        special = trained.tokenizer.target.special_ids
        source = patch_words(trained, batch.ids[0].tolist(), patch, grid)
        row = RowOfText(prepared.inputs, words, [token in special for token in ids], source, written)
        reading = "Means over the written words where attention crosses, and over all tokens in the encoder."
        return PictureRow(row, seen, patch, grid.side, readers, reading, *asked)
    # What the output would be at patches was never asked for in training.
    inputs = prepared.inputs | {"places": (slice(None), torch.tensor(places))}
    row = row_of(trained, inputs, patch, grid)
    reading = "Means over the places where words are written; a word is named where it is written."
    return PictureRow(row, seen, patch, grid.side, readers, reading, *asked)


def row_of(trained: Trained, inputs: dict[str, Any], patch: list[int], grid: PictureGrid) -> RowOfText:
    """A picture, and its text where there is one, in a single row."""
    ids: list[int] = inputs["ids"][0].tolist()
    special = trained.tokenizer.special_ids
    delimiters = [not number and token in special for token, number in zip(ids, patch, strict=True)]
    return RowOfText(inputs, patch_words(trained, ids, patch, grid), delimiters)


def patch_words(trained: Trained, ids: list[int], patch: list[int], grid: PictureGrid) -> list[str]:
    """Each token as a person reads it, patches by their row and column."""
    return [
        f"patch {(number - 1) // grid.side},{(number - 1) % grid.side}" if number else word
        for word, number in zip(words_by(trained.tokenizer, ids), patch, strict=True)
    ]
