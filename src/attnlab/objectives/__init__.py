"""What a model is trained to predict: one file an objective, one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab.config.registry import Registry

if TYPE_CHECKING:
    from attnlab.objectives.objective import Objective

OBJECTIVES: Registry[Objective] = Registry(
    "objectives",
    base="attnlab.objectives.objective:Objective",
    default="causal",
    variants={
        "causal": "attnlab.objectives.causal:Causal",
        "masked": "attnlab.objectives.masked:Masked",
        "span": "attnlab.objectives.span:Span",
        "prefix": "attnlab.objectives.prefix:Prefix",
        "unilm": "attnlab.objectives.unilm:UniLM",
        "seq2seq": "attnlab.objectives.seq2seq:SequenceToSequence",
        "denoising": "attnlab.objectives.denoising:Denoising",
    },
)
