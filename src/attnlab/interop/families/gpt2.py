"""GPT-2's files: matrices as (in, out), and queries, keys and values in one."""

from __future__ import annotations

from attnlab.interop.family import Family, HeadOf
from attnlab.interop.fields import Also, Fixed, Hidden, Named, Same
from attnlab.interop.names import Held
from attnlab.model.presets import PRESETS

ACTIVATIONS = {
    "gelu_new": {"kind": "gelu", "approximate": "tanh"},
    "gelu_pytorch_tanh": {"kind": "gelu", "approximate": "tanh"},
    "gelu": {"kind": "gelu", "approximate": "none"},
    "relu": {"kind": "relu"},
}
_BLOCK = "trunk.decoder.blocks.{layer}.residuals."
_PROJECTIONS = _BLOCK + "0.inner.projections."


def _transposed(*ours: str) -> Held:
    return Held(ours, transposed=True)


GPT2 = Family(
    model_type="gpt2",
    preset=PRESETS["gpt2"],
    prefix="transformer",
    fields=(
        Same("vocab_size", "vocabulary", 50_257),
        Same("n_positions", "length", 1024),
        Same("n_embd", "width", 768),
        Same("n_layer", "layers", 12),
        Same("n_head", "heads", 12),
        Named("activation_function", "feedforward", ACTIVATIONS, "gelu_new"),
        Hidden("n_inner"),
        Same("layer_norm_epsilon", "norm.eps", 1e-5),
        Same("resid_pdrop", "dropout", 0.1),
        Also("embd_pdrop", "dropout", "resid_pdrop"),
        Same("attn_pdrop", "attention_dropout", 0.1),
        Fixed("scale_attn_weights", True, "scores are always scaled here"),
        Fixed("scale_attn_by_inverse_layer_idx", False, "all layers have one scale here"),
        Fixed("add_cross_attention", False, "a GPT-2 with cross-attention has no preset here"),
    ),
    names={
        "wte": "trunk.decoder.embedding.tokens",
        "wpe": "trunk.decoder.embedding.positions.table",
        "h.{layer}.ln_1": _BLOCK + "0.norm",
        "h.{layer}.attn.c_attn": _transposed(*(_PROJECTIONS + part for part in ("query", "key", "value"))),
        "h.{layer}.attn.c_proj": _transposed(_BLOCK + "0.inner.output"),
        "h.{layer}.ln_2": _BLOCK + "1.norm",
        "h.{layer}.mlp.c_fc": _transposed(_BLOCK + "1.inner.part.up"),
        "h.{layer}.mlp.c_proj": _transposed(_BLOCK + "1.inner.part.down"),
        "ln_f": "trunk.decoder.final",
    },
    heads=(
        HeadOf(
            "GPT2LMHeadModel",
            {"kind": "language_model"},
            names={"lm_head": "head.table"},
            fields=(Same("tie_word_embeddings", "output.tied", True),),
        ),
        HeadOf("GPT2Model", {"kind": "features"}, bare=True),
    ),
    beside=("h.*.attn.bias", "h.*.attn.masked_bias"),
)
