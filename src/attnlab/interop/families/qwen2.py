"""Qwen2's files (and those of Qwen2.5): LLaMA's names, with biases of queries, keys and values."""

from __future__ import annotations

from attnlab.interop.families.llama import NAMES, HeadWidth, KeyHeads, Rope
from attnlab.interop.family import Family, HeadOf
from attnlab.interop.fields import Fixed, Hidden, Same
from attnlab.model.presets import PRESETS

QWEN2 = Family(
    model_type="qwen2",
    preset=PRESETS["qwen2"],
    prefix="model",
    fields=(
        Same("vocab_size", "vocabulary", 151_936),
        Same("max_position_embeddings", "length", 32_768),
        Same("hidden_size", "width", 4096),
        Same("num_hidden_layers", "layers", 32),
        Same("num_attention_heads", "heads", 32),
        KeyHeads(),
        HeadWidth("head_dim"),
        Hidden("intermediate_size", 22_016),
        Same("rms_norm_eps", "norm.eps", 1e-6),
        Same("attention_dropout", "attention_dropout", 0.0),
        Rope(),
        Fixed("hidden_act", "silu", "the gate of this family is SiLU"),
        Fixed("use_sliding_window", False, "a window in some layers and not in others is not known here"),
    ),
    names=NAMES,
    heads=(
        HeadOf(
            "Qwen2ForCausalLM",
            {"kind": "language_model"},
            names={"lm_head": "head.table"},
            fields=(Same("tie_word_embeddings", "output.tied", False),),
        ),
        HeadOf("Qwen2Model", {"kind": "features"}, bare=True),
    ),
)
