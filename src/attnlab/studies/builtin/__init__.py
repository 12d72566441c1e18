"""The studies that come with attnlab: one file a question, one line here."""

from __future__ import annotations

import inspect
from dataclasses import replace

from attnlab.config.registry import locate
from attnlab.config.values import unknown_name
from attnlab.studies.spec import Study

STUDIES = {
    "masking": "attnlab.studies.builtin.masking:study",
    "attention": "attnlab.studies.builtin.attention:study",
    "projections": "attnlab.studies.builtin.projections:study",
    "positions": "attnlab.studies.builtin.positions:study",
    "scale": "attnlab.studies.builtin.scale:study",
    "heads": "attnlab.studies.builtin.heads:study",
    "heads-matter": "attnlab.studies.builtin.heads_matter:study",
    "batching": "attnlab.studies.builtin.batching:study",
    "long-context": "attnlab.studies.builtin.long_context:study",
    "recall": "attnlab.studies.builtin.recall:study",
    "recurrent": "attnlab.studies.builtin.recurrent:study",
    "tasks": "attnlab.studies.builtin.tasks:study",
    "pooling": "attnlab.studies.builtin.pooling:study",
    "transfer": "attnlab.studies.builtin.transfer:study",
    "adaptation": "attnlab.studies.builtin.adaptation:study",
    "learning-rates": "attnlab.studies.builtin.learning_rates:study",
    "checkpoints": "attnlab.studies.builtin.checkpoints:study",
    "fusion": "attnlab.studies.builtin.fusion:study",
    "translation": "attnlab.studies.builtin.translation:study",
    "understanding": "attnlab.studies.builtin.understanding:study",
    "recipe": "attnlab.studies.builtin.recipe:study",
    "sizes": "attnlab.studies.builtin.sizes:study",
}
"""Each a function that gives its Study; the file's docstring is its card."""


def builtin(name: str) -> Study:
    """A study by its name, with its card."""
    if name not in STUDIES:
        raise unknown_name("Studies", name, STUDIES)
    make = locate(STUDIES[name])
    text = inspect.cleandoc(inspect.getmodule(make).__doc__ or "")
    return replace(make(), name=name, card=text)
