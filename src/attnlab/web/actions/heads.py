"""Where heads look, and two texts patched into one another."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.config.visible_text import visible
from attnlab.explain import attention_page
from attnlab.explain.attention_maps import RowOfText, attention_maps, layers_heads
from attnlab.explain.picture_attention import WORDS, PictureAttention, PictureRow
from attnlab.explain.text_patching import patch_texts as patch_rows
from attnlab.session.picture_reading import picture_row
from attnlab.web.actions import Answer
from attnlab.web.actions.pictures import as_base64, asked_picture, text_beside
from attnlab.web.actions.predict import refuse_missing_pair
from attnlab.web.worker_request import WorkerRequest

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

MOST_WEIGHTS = 24_000_000
"""Bytes of weights that a page can draw."""


@dataclass(frozen=True, kw_only=True)
class RowValues:
    """A text, or two; a `picture`, and a text where the model reads both or has written it."""

    text: str = ""
    pair: str = ""
    picture: dict[str, Any] = field(default_factory=dict)


Values = TypeVar("Values", bound=RowValues)


@dataclass(frozen=True)
class PatchValues:
    """`at` is the token after which words are looked at: the last of the text where nobody says. For an
    encoder-decoder both texts are sources, and `target` is what it has written: what it writes for the
    first, where nobody gives one."""

    first: str
    second: str
    target: str = ""
    at: int | None = None


def attention(asked: WorkerRequest) -> Answer:
    """What the interactive figure of attention maps is drawn from; of a picture also what is drawn on it."""
    values, trained = with_pair(asked.trained, asked.read(RowValues)), asked.trained
    read = row_asked(asked, values)
    row = read.row if isinstance(read, PictureRow) else read
    refuse_many_weights(trained, row)
    maps = attention_maps(trained.model, row)
    shown = {
        "maps": attention_page.page_data(maps),
        "weights": as_base64(attention_page.quantised(maps)),
        "headline": maps.headline,
        "notes": attention_page.notes(maps),
    }
    if not isinstance(read, PictureRow):
        read_text = {"text": values.text, "pair": values.pair}
        return shown | read_text | {"picture": None, "remark": maps.remark}
    looks = PictureAttention(maps, read)
    about = {"picture": on_picture(looks), "remark": looks.remark}
    return shown | about | {"text": read.text or values.text, "pair": ""}


def row_asked(asked: WorkerRequest, values: RowValues) -> RowOfText | PictureRow:
    """What is read: a text, a pair, or a picture."""
    trained = asked.trained
    pictured = trained.config.model.picture is not None
    if not pictured or (text_beside(trained) == "instead" and values.text.strip()):
        return trained.reading.row(values.text, values.pair)
    return picture_row(trained, asked_picture(asked, values.picture).image, values.text)


def on_picture(looks: PictureAttention) -> Answer:
    """The heads that see a picture, in the order of what the output loses without them: where each looks, as
    a whole and word by word."""
    return {
        "png": as_base64(looks.read.picture),
        "side": looks.side,
        "reading": looks.read.reading,
        "measure": looks.maps.effect,
        "worded": [looks.worded.layer, looks.worded.name.number],
        "heads": [
            {
                "layer": head.layer,
                "head": head.name.number,
                "name": str(head.name),
                "effect": head.effect,
                "share": looks.share(head),
                "title": looks.words_title(head),
                "cells": rounded(looks.by_reader(head).mean(0)),
                "words": [
                    {"text": visible(word), "share": float(look.sum()), "cells": rounded(look)}
                    for word, look in zip(
                        list(looks.readers(head).values())[:WORDS], looks.by_reader(head), strict=False
                    )
                ],
            }
            for head in looks.ranked
        ],
    }


def rounded(weights: Tensor) -> list[float]:
    """To four digits, which is finer than a shade."""
    return [float(f"{weight:.4g}") for weight in weights.tolist()]


def with_pair(trained: Trained, values: Values) -> Values:
    """The same with the second text, where a model of texts writes it itself; one that is missing is
    refused."""
    if trained.config.model.picture is not None:
        return values
    refuse_missing_pair(trained, values.pair)
    return replace(values, pair=pair_of(trained, values.text, values.pair))


def pair_of(trained: Trained, text: str, pair: str) -> str:
    """The second text; of a translator what it writes for the first, where nobody gives one."""
    if not trained.translates or pair:
        return pair
    if not (written := str(trained.translate(text))):
        raise ConfigError("The model writes nothing for this text; give what it is to have written.")
    return written


def refuse_many_weights(trained: Trained, row: RowOfText) -> None:
    heads = sum(map(len, layers_heads(trained.model, pictured=row.pictured)))
    longest = max(len(row.words), len(row.source_words))
    if (size := heads * longest**2) > MOST_WEIGHTS:
        fewer = int((MOST_WEIGHTS / heads) ** 0.5)
        raise ConfigError(
            f"{heads} heads on {longest} tokens have {size:,} weights, and the page draws at most "
            f"{MOST_WEIGHTS:,}; give a text of at most {fewer} tokens."
        )


def patch_texts(asked: WorkerRequest) -> Answer:
    """How far the output goes from the second text's to the first one's, layer by layer and place by
    place."""
    values, trained = asked.read(PatchValues), asked.trained
    trained.refuse_headless()
    target = pair_of(trained, values.first, values.target) if trained.reads_source else ""
    first, second = (trained.reading.row(text, target) for text in (values.first, values.second))
    last = None if trained.reads_source else -1 - len(trained.tokenizer.form.end)
    return patch_rows(trained.model, first, second, at=last if values.at is None else values.at).as_json()
