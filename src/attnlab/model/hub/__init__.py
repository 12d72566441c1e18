"""Checkpoints of other projects: one file a family, one line here."""

from __future__ import annotations

from attnlab.model.hub.bert import BERT
from attnlab.model.hub.distilbert import DISTILBERT
from attnlab.model.hub.family import Family
from attnlab.model.hub.gpt2 import GPT2
from attnlab.model.hub.llama import LLAMA
from attnlab.model.hub.roberta import ROBERTA
from attnlab.model.hub.t5 import T5

FAMILIES: dict[str, Family] = {
    family.model_type: family for family in (GPT2, BERT, ROBERTA, DISTILBERT, LLAMA, T5)
}
"""By their `model_type`."""
