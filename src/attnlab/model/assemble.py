"""From a model's settings to the model: every part built and put in its place."""

from __future__ import annotations

from contextlib import nullcontext

import torch

from attnlab.config import schema
from attnlab.config.values import ConfigError
from attnlab.model.draws import Undrawn
from attnlab.model.heads import HEADS
from attnlab.model.initial import initialise
from attnlab.model.model import Model
from attnlab.model.norms import NORMS
from attnlab.model.trunks import build_trunk


def build_model(
    config: schema.ModelSettings, *, seed: int = 0, device: str = "cpu", labels: int = 2
) -> Model:
    """The model of a config, initialised from the seed, with a head for so many labels, if it is for labels.

    On the device "meta" nothing is allocated.
    """
    try:
        with torch.device(device), Undrawn() if device == "meta" else nullcontext():
            model = _assemble(config, labels)
    except ConfigError:
        raise
    except ValueError as error:  # a part refused its options or sizes
        raise ConfigError(str(error)) from error
    except (RuntimeError, OverflowError) as error:
        if device != "meta":
            raise
        reason = next(iter(str(error).splitlines()), "")
        raise ConfigError(f"The model has sizes that no tensor can have: {reason}.") from error
    if device != "meta":
        initialise(model, seed)
    return model


def _assemble(settings: schema.ModelSettings, labels: int) -> Model:
    trunk = build_trunk(settings)
    head = HEADS.build(
        settings.output,
        width=trunk.width,
        tokens=trunk.tables()[0],
        norm=lambda width: NORMS.build(settings.norm, width=width, bias=settings.biased("norm")),
        dropout=settings.dropout,
        labels=labels,
    )
    return Model(trunk, head)
