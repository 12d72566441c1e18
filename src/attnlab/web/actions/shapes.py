"""Masks, positions and feature maps as pictures that follow their options; no model is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch

from attnlab.config.files import load
from attnlab.config.ranges import Range
from attnlab.config.values import written
from attnlab.explain.position_products import PositionProducts, curve, position_grids
from attnlab.model.attention.linear import Linear
from attnlab.model.positions.rotary import Rotary
from attnlab.model.tokens import Tokens
from attnlab.session.config_explained import explain_mask, position_scheme
from attnlab.web.actions import Answer
from attnlab.web.actions.settings import known_config
from attnlab.web.worker_request import WorkerRequest


@dataclass(frozen=True)
class MaskValues:
    """As the options of `attnlab explain mask`."""

    config: str = ""
    set: tuple[str, ...] = ()
    text: str = ""
    documents: str = ""
    padding: Annotated[int, Range(least=0, most=40)] = 0
    masks: str = ""


@dataclass(frozen=True)
class PositionValues:
    """As the options of `attnlab explain positions`."""

    config: str = ""
    set: tuple[str, ...] = ()
    length: Annotated[int, Range(least=2, most=128)] = 32


@dataclass(frozen=True)
class FeatureValues:
    feature: Literal["elu", "relu"] = "elu"
    points: Annotated[int, Range(least=2, most=400)] = 81


def mask(asked: WorkerRequest) -> Answer:
    values = asked.read(MaskValues)
    picture = explain_mask(
        known_config(values.config),
        list(values.set),
        text=values.text,
        documents=values.documents,
        padding=values.padding,
        masks=values.masks,
    )
    return {
        "words": list(picture.words),
        "source": picture.source,
        "masks": dict(picture.masks),
        "headline": picture.headline,
        "remark": picture.remark,
    }


def positions(asked: WorkerRequest) -> Answer:
    """What a scheme makes of every pair of positions, and by distance; of rotary also by how much it
    turns."""
    values = asked.read(PositionValues)
    settings = load(known_config(values.config), set=values.set).model
    scheme, sizes = position_scheme(settings, values.length)
    name = written(settings.positions)
    made = position_grids(scheme, sizes, scheme=name, length=values.length)
    curves = [curve(title, grid) for title, grid in made.grids.items()]
    products = PositionProducts(name, made.what, values.length, curves, made.learned)
    angles = scheme.angles(Tokens.of(values.length))[0].tolist() if isinstance(scheme, Rotary) else None
    return products.as_json() | {
        "learned": made.learned,
        "grids": [{"name": title, "values": grid.tolist()} for title, grid in made.grids.items()],
        "vectors": None if made.vectors is None else made.vectors.tolist(),
        "angles": angles,
        "title": products.title,
        "headline": products.headline,
        "remark": products.remark,
    }


def feature_map(asked: WorkerRequest) -> Answer:
    """φ of linear attention, by which products of queries and keys become weights."""
    values = asked.read(FeatureValues)
    x = torch.linspace(-4, 4, values.points)
    y = Linear(feature=values.feature).features(x)
    formula = {"elu": "φ(x) = elu(x) + 1", "relu": "φ(x) = max(x, 0)"}[values.feature]
    return {"feature": values.feature, "formula": formula, "x": x.tolist(), "y": y.tolist()}
