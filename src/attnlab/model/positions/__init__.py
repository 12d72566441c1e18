"""Position schemes: how a stack knows where its tokens stand. One class, one idea."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab.config.registry import Registry

if TYPE_CHECKING:
    from attnlab.model.positions.position import Position

POSITIONS: Registry[Position] = Registry(
    "positions",
    base="attnlab.model.positions.position:Position",
    default="sinusoidal",
    variants={
        "none": "attnlab.model.positions.position:NoPosition",
        "sinusoidal": "attnlab.model.positions.absolute:Sinusoidal",
        "learned": "attnlab.model.positions.absolute:Learned",
        "concat": "attnlab.model.positions.absolute:Concat",
        "relative": "attnlab.model.positions.biases:Relative",
        "bucketed": "attnlab.model.positions.biases:Bucketed",
        "alibi": "attnlab.model.positions.biases:Alibi",
        "rotary": "attnlab.model.positions.rotary:Rotary",
    },
)
