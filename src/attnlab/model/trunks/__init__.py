"""Trunks: what turns token ids into hidden states. A transformer is one."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

from attnlab.config.registry import Registry, table
from attnlab.config.schema import FAMILIES, ModelSettings
from attnlab.config.values import ConfigError, written
from attnlab.model.trunks.trunk import Trunk

TRUNKS: Registry[Trunk] = Registry(
    "trunks",
    base="attnlab.model.trunks.trunk:Trunk",
    default="transformer",
    variants={
        "transformer": "attnlab.model.trunks.transformer:Transformer",
        "two_encoders": "attnlab.model.trunks.two_encoders:TwoEncoders",
        "gru": "attnlab.model.trunks.recurrent:Gru",
        "lstm": "attnlab.model.trunks.recurrent:Lstm",
    },
)
SHARED = ("trunk", "vocabulary", "length", "width", "norm", "bias", "dropout", "output")
"""Settings of every model: a head or the data needs them, whatever the trunk."""


def build_trunk(settings: ModelSettings) -> Trunk:
    """The trunk of a model's settings.

    A constructor asks for settings by name (`vocabulary`, `width`, `layers`, …), and its keyword-only
    parameters are options of `model.trunk`. A trunk that is put together from parts has a class method
    `from_settings`.
    """
    kind = settings.trunk.kind
    assemble = getattr(TRUNKS[kind], "from_settings", None)
    if assemble is not None:
        return assemble(settings)
    given = {f.name: getattr(settings, f.name) for f in fields(settings)}
    given |= {"vocabulary": settings.tokens, "head_width": settings.each_head_width}
    _refuse_unused(settings)
    return TRUNKS.build(settings.trunk, **given)


def trunk_uses(kind: str, setting: str) -> bool:
    """Whether a setting of [model] changes anything of models with this trunk; its own options do not count,
    which may have a setting's name."""
    if setting in SHARED or hasattr(TRUNKS[kind], "from_settings"):
        return True
    asked = inspect.signature(TRUNKS[kind]).parameters.values()
    return setting in {parameter.name for parameter in asked if parameter.kind != parameter.KEYWORD_ONLY}


def _refuse_unused(settings: ModelSettings) -> None:
    """Stop at a setting that changes nothing of this trunk: a result would be recorded under its name."""
    for f in fields(settings):
        value, default = getattr(settings, f.name), FAMILIES[settings.family].get(f.name, f.default)
        if trunk_uses(settings.trunk.kind, f.name) or value in (default, _complete(f.metadata, default)):
            continue
        raise ConfigError(
            f'model.{f.name} is {written(value)}, and trunk "{settings.trunk}" does not use it; leave '
            f"model.{f.name} out, or set it to {written(default)}, which it is by default."
        )


def _complete(metadata: Any, default: Any) -> Any:
    """A field's default as a config that was loaded has it."""
    return table(metadata["table"]).resolve(default) if "table" in metadata else default
