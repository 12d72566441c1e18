"""What a model is for: one file a task, one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab.config.registry import Registry

if TYPE_CHECKING:
    from attnlab.tasks.task import Task

TASKS: Registry[Task] = Registry(
    "tasks",
    base="attnlab.tasks.task:Task",
    default="causal",
    variants={
        "causal": "attnlab.tasks.causal:Causal",
        "masked": "attnlab.tasks.masked:Masked",
        "span": "attnlab.tasks.span:Span",
        "prefix": "attnlab.tasks.prefix:Prefix",
        "unilm": "attnlab.tasks.unilm:UniLM",
        "seq2seq": "attnlab.tasks.seq2seq:SequenceToSequence",
        "denoising": "attnlab.tasks.denoising:Denoising",
        "classification": "attnlab.tasks.classification:Classification",
        "multilabel": "attnlab.tasks.multilabel:Multilabel",
        "regression": "attnlab.tasks.regression:Regression",
        "answering": "attnlab.tasks.answering:Answering",
    },
)
