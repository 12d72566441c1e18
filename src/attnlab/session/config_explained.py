"""What a config means before anything is trained: its mask as a picture, its positions, its counts."""

from __future__ import annotations

import torch

from attnlab.config import schema
from attnlab.config.files import load
from attnlab.config.schema import Config
from attnlab.config.values import ConfigError, written
from attnlab.config.wording import count_of
from attnlab.explain.mask_picture import MaskPicture
from attnlab.explain.model_counts import ModelCounts
from attnlab.explain.position_products import PositionProducts, PositionSizes, position_products
from attnlab.model.assemble import build_model
from attnlab.model.counts import count
from attnlab.model.initial import initialise
from attnlab.model.masks import MASKS, incremental
from attnlab.model.positions import POSITIONS
from attnlab.model.positions.position import Position
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.transformer import transformer_of
from attnlab.session.session import draft_settings

SENTENCE = "Jill Birt [MASK] outdoor activities | He was [MASK] hiking"
MOST_WORDS = 40
UNILM = ("causal", "bidirectional", "prefix")
"""UniLM's masks: from left to right, both sides, and from a source to a target."""


def explain_counts(config: Config, *, batch: int) -> ModelCounts:
    """Parameters, operations and memory of a training step of so many rows."""
    model = build_model(draft_settings(config), device="meta")
    length = config.model.length
    return ModelCounts(count(model, length=length, source_length=length, batch=batch))


# ---------------------------------------------------------------- masks
def explain_mask(
    config: str | None,
    set: list[str],
    *,
    text: str = "",
    documents: str = "",
    padding: int = 0,
    masks: str = "",
    numbers: bool = False,
) -> MaskPicture:
    """Who may attend to whom by a config with overrides, or by several `masks` in its place.

    `text` is words, whose source ends with |; `documents` are lengths of packed ones; `padding` is on the
    left."""
    settings = load(config, set=set)
    words, source = words_of(text)
    lengths = lengths_of(documents, len(words))
    words = ["[PAD]"] * padding + words
    lengths[:1] = [length + padding for length in lengths[:1]]  # padding goes with the first document
    places = torch.arange(len(words))
    ids = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)) if lengths else None
    tokens = Tokens.of(
        len(words),
        real=(places >= padding)[None] if padding else None,
        source=((places >= padding) & (places < padding + source))[None],
        document=None if ids is None else ids[None],
    )
    grids = {}
    for name in masks_of(masks, str(settings.model.mask)):
        chosen = load(config, set=[*set, f"model.mask={name}", *family_of(name)]) if masks else settings
        trunk = transformer_of(build_model(draft_settings(chosen), device="meta").trunk)
        grids[name] = trunk.ways(tokens)[0].near.tolist()
    return MaskPicture(words, source, grids, written(settings.model.attention), numbers)


def masks_of(text: str, own: str) -> list[str]:
    """The masks that are drawn: the config's own, or those that are named."""
    if not text:
        return [own]
    names = (
        list(UNILM) if text.strip() == "unilm" else [name.strip() for name in text.split(",") if name.strip()]
    )
    return list(dict.fromkeys(names))


def family_of(mask: str) -> list[str]:
    """A decoder sees nothing to its right, so that a mask which does is drawn in an encoder."""
    return [] if incremental(MASKS.build(MASKS.read(mask, "--masks"))) else ["model.family=encoder"]


def words_of(text: str) -> tuple[list[str], int]:
    """The words, and how many of them stand before the bar."""
    before, bar, after = (text or SENTENCE).partition("|")
    words = before.split() + after.split()
    if not words:
        raise ConfigError('The text has no words; write for example "the cat | le chat".')
    if len(words) > MOST_WORDS:
        raise ConfigError(
            f"The text has {len(words)} words; a drawing of more than {MOST_WORDS} cannot be read."
        )
    return words, len(before.split()) if bar else 0


def lengths_of(documents: str, total: int) -> list[int]:
    if not documents:
        return []
    try:
        lengths = [int(part) for part in documents.split(",")]
    except ValueError:
        lengths = [0]
    if min(lengths) < 1 or sum(lengths) != total:
        words = count_of(total, "word")
        raise ConfigError(
            f'Lengths of documents are whole numbers that add up to {words}, not "{documents}".'
        )
    return lengths


# ---------------------------------------------------------------- positions
def position_scheme(settings: schema.ModelSettings, length: int) -> tuple[Position, PositionSizes]:
    """A model's position scheme as it begins, for rows of `length` at the least, and the sizes it has."""
    sizes = PositionSizes(settings.width, settings.heads, settings.each_head_width)
    scheme = POSITIONS.build(
        settings.positions, layers=settings.layers, length=max(length, settings.length), **vars(sizes)
    )
    initialise(scheme, 0)
    return scheme, sizes


def explain_positions(config: Config, length: int) -> PositionProducts:
    """What the scheme of a config makes of each distance between two of `length` positions."""
    scheme, sizes = position_scheme(config.model, length)
    return position_products(scheme, sizes, scheme=written(config.model.positions), length=length)
