"""Models of pictures in other projects' files: how pixels become numbers there, and where our parts fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.config.pictures import PictureGrid
from attnlab.config.untrusted import read_json
from attnlab.config.values import ConfigError
from attnlab.interop.fields import Settings
from attnlab.model.model import Model
from attnlab.model.stack import Embedding
from attnlab.model.tokens import Tokens

PROCESSOR = "preprocessor_config.json"
OURS = (0.5, 0.5, 0.5)
"""Mean and deviation of each colour that give numbers from −1 to 1, as pictures are read here."""


def picture_settings(settings: Settings) -> PictureGrid | None:
    """The pictures that a model of these settings reads; None where it reads none."""
    inputs = settings.get("inputs", [])  # which a model of texts alone does not name
    choices = inputs if isinstance(inputs, list) else [inputs]
    options = next((choice for choice in choices if choice["kind"] == "image"), None)
    return None if options is None else PictureGrid(options["size"], options["patch"])


# ---------------------------------------------------------------- read
def picture_entrance(model: Model) -> tuple[nn.Linear, nn.Embedding]:
    """The map of patches, and the positions of the row that they stand in."""
    embedding = next(
        module for module in model.modules() if isinstance(module, Embedding) and module.vectors is not None
    )
    table = getattr(embedding.positions, "table", None)
    assert embedding.vectors is not None and isinstance(table, nn.Embedding)
    return embedding.vectors, table


@torch.no_grad()
def take_processor(
    folder: Path, entrance: nn.Linear, positions: nn.Embedding, usual: tuple[tuple[float, ...], ...]
) -> str:
    """Fold how a folder's pictures are made into numbers into the map of patches, since ours are from −1 to
    1; says so where they were others."""
    file = folder / PROCESSOR
    stored = read_json(file) if file.is_file() else {}
    mean, deviation = (
        _colours(file, name, stored.get(name), values)
        for name, values in zip(("image_mean", "image_std"), usual, strict=True)
    )
    if stored.get("do_normalize") is False:
        mean, deviation = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if mean == deviation == OURS:
        return ""
    pixels = entrance.in_features // 3
    means, deviations = (
        torch.tensor(values).repeat(pixels).to(entrance.weight) for values in (mean, deviation)
    )
    shift = entrance.weight @ ((0.5 - means) / deviations)
    entrance.weight.mul_(0.5 / deviations)
    positions.weight[1:].add_(shift)  # which all patches have, also where their map has no bias
    return f"pictures with mean {list(mean)} and deviation {list(deviation)}, folded into the map of patches"


def _colours(file: Path, name: str, value: Any, usual: tuple[float, ...]) -> tuple[float, ...]:
    if value is None:
        return usual
    if not (isinstance(value, list) and len(value) == 3 and all(isinstance(n, int | float) for n in value)):
        raise ConfigError(f"{file} has {name} = {value!r}; it must be three numbers, one a colour.")
    return tuple(float(n) for n in value)


# ---------------------------------------------------------------- written
def write_processor(folder: Path, size: int, kind: str) -> None:
    """How pictures become numbers, beside a model, as transformers reads it."""
    settings = {
        "image_processor_type": kind,
        "do_resize": True,
        "size": {"height": size, "width": size},
        "do_center_crop": False,
        "do_convert_rgb": True,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(OURS),
        "image_std": list(OURS),
        "resample": 2,
    }
    (folder / PROCESSOR).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def in_order(settings: Settings, weights: Mapping[str, Tensor]) -> tuple[Settings, dict[str, Tensor]]:
    """Settings and weights of an equal encoder of pictures alone, whose patches have one position each in
    their order, and nothing else that all of them share."""
    grid, own = picture_settings(settings), dict(weights)
    place = "trunk.encoder.embedding."
    alone = not isinstance(settings.get("inputs"), list)
    if grid is None or not alone or settings["family"] != "encoder":
        return settings, own
    if settings["positions"]["kind"] != "learned" or settings["vocabulary"] != 2:
        return settings, own
    table = own[f"{place}positions.table.weight"].clone()
    if (rows := own.pop(f"{place}positions.rows.weight", None)) is not None:
        columns = own.pop(f"{place}positions.columns.weight")
        cells = torch.cat([rows.repeat_interleave(grid.side, 0), columns.repeat(grid.side, 1)], 1)
        table[1 : grid.patches + 1] = cells
    own[f"{place}positions.table.weight"] = table[: settings["length"]]
    return settings | {"positions": settings["positions"] | {"patches": "order"}}, without_patch_vector(
        own, place
    )


def without_patch_vector(weights: Mapping[str, Tensor], place: str) -> dict[str, Tensor]:
    """The same where the vector that all patches share stands in their positions, as in other projects."""
    tokens, table = (weights[f"{place}{name}.weight"].clone() for name in ("tokens", "positions.table"))
    table[1:] += tokens[1]
    tokens[1] = 0
    return {**weights, f"{place}tokens.weight": tokens, f"{place}positions.table.weight": table}


def picture_inputs(grid: PictureGrid, pixels: Tensor) -> dict[str, Any]:
    """A class token and then the patches of pictures (B,3,S,S) from −1 to 1, as ours are read."""
    parts = pixels.unflatten(2, (grid.side, grid.patch)).unflatten(4, (grid.side, grid.patch))
    vectors = parts.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
    count, ids = grid.patches, torch.ones(len(pixels), grid.patches + 1, dtype=torch.long)
    ids[:, 0] = 0
    beside = vectors.new_zeros(len(pixels), 1, grid.width)
    tokens = Tokens.of(count + 1, patch=torch.arange(count + 1)[None])
    return {"ids": ids, "tokens": tokens, "vectors": torch.cat([beside, vectors], 1)}


def grid_of(model: Model, pixels: Tensor) -> PictureGrid:
    """The patches that a model of ours cuts pictures (B,3,S,S) into."""
    entrance, _ = picture_entrance(model)
    return PictureGrid(pixels.shape[-1], round((entrance.in_features / 3) ** 0.5))


def drawn_pictures(grid: PictureGrid, count: int = 2) -> Tensor:
    """Pictures of noise, always the same."""
    generator = torch.Generator().manual_seed(7)
    return torch.rand(count, 3, grid.size, grid.size, generator=generator) * 2 - 1


@torch.no_grad()
def picture_scores(model: Model, grid: PictureGrid, pixels: Tensor) -> Tensor:
    """What a model of ours makes of pictures (B,3,S,S)."""
    kind = next(model.parameters())
    inputs = picture_inputs(grid, pixels.to(kind))
    scores: Tensor = model.eval()(**inputs)
    return scores
