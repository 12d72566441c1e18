"""Checkpoints of other projects: one file a family, one line here."""

from __future__ import annotations

from attnlab.interop.families.bert import BERT
from attnlab.interop.families.clip import CLIP
from attnlab.interop.families.distilbert import DISTILBERT
from attnlab.interop.families.gpt2 import GPT2
from attnlab.interop.families.llama import LLAMA
from attnlab.interop.families.qwen2 import QWEN2
from attnlab.interop.families.roberta import ROBERTA
from attnlab.interop.families.t5 import T5
from attnlab.interop.families.vit import VIT
from attnlab.interop.family import Family

FAMILIES: dict[str, Family] = {
    family.model_type: family for family in (GPT2, BERT, ROBERTA, DISTILBERT, LLAMA, QWEN2, T5, VIT, CLIP)
}
"""By their `model_type`."""
