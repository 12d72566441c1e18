"""LLaMA's files, and those of models with its layout (SmolLM2, TinyLlama, …)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attnlab.config.values import ConfigError
from attnlab.interop.family import Family, HeadOf
from attnlab.interop.fields import Biases, Field, Fixed, Hidden, Same, Settings, Theirs, get, put, whole
from attnlab.interop.names import Table
from attnlab.model.presets import PRESETS

_BLOCK = "trunk.decoder.blocks.{layer}.residuals."


@dataclass(frozen=True)
class Rope(Field):
    """The base of the rotation, under its old name and its new one."""

    def read(self, theirs: Theirs, ours: Settings) -> None:
        scaling = theirs.get("rope_parameters") or theirs.get("rope_scaling") or {}
        kind = (
            scaling.get("rope_type", scaling.get("type", "default"))
            if isinstance(scaling, Mapping)
            else scaling
        )
        if kind != "default":
            raise ConfigError(
                f"config.json stretches its rotary positions ({kind!r}); only plain ones are known here."
            )
        put(ours, "positions.base", scaling.get("rope_theta", theirs.get("rope_theta", 10_000.0)))

    def write(self, ours: Settings, theirs: Theirs) -> None:
        base = get(ours, "positions.base") or 10_000.0
        theirs.pop("rope_scaling", None)
        theirs["rope_theta"] = base  # read by versions before 5
        theirs["rope_parameters"] = {"rope_type": "default", "rope_theta": base}


@dataclass(frozen=True)
class KeyHeads(Field):
    """Fewer heads of keys and values than of queries are grouped; as many are separate."""

    def read(self, theirs: Theirs, ours: Settings) -> None:
        shared = theirs.get("num_key_value_heads")
        if shared is not None and not whole(shared):
            raise ConfigError(f"config.json has num_key_value_heads = {shared!r}; it must be a whole number.")
        apart = shared is None or shared == ours["heads"]
        ours["projections"] = {"kind": "separate"} if apart else {"kind": "grouped", "shared": shared}

    def write(self, ours: Settings, theirs: Theirs) -> None:
        theirs["num_key_value_heads"] = get(ours, "projections.shared") or ours["heads"]


@dataclass(frozen=True)
class HeadWidth(Field):
    """A head's width. `default` is what their library takes where the file is silent; without one it takes
    width / heads."""

    theirs: str
    default: int | None = None

    def read(self, theirs: Theirs, ours: Settings) -> None:
        width = theirs.get(self.theirs, self.default)
        if width is not None:
            ours["head_width"] = width

    def write(self, ours: Settings, theirs: Theirs) -> None:
        each = ours["head_width"]
        if each == "even" and self.default is None:
            theirs.pop(self.theirs, None)
        else:
            theirs[self.theirs] = ours["width"] // ours["heads"] if each == "even" else each


NAMES: Table = {
    "embed_tokens": "trunk.decoder.embedding.tokens",
    "layers.{layer}.input_layernorm": _BLOCK + "0.norm",
    "layers.{layer}.self_attn.q_proj": _BLOCK + "0.inner.projections.query",
    "layers.{layer}.self_attn.k_proj": _BLOCK + "0.inner.projections.key",
    "layers.{layer}.self_attn.v_proj": _BLOCK + "0.inner.projections.value",
    "layers.{layer}.self_attn.o_proj": _BLOCK + "0.inner.output",
    "layers.{layer}.post_attention_layernorm": _BLOCK + "1.norm",
    "layers.{layer}.mlp.gate_proj": _BLOCK + "1.inner.part.gate",
    "layers.{layer}.mlp.up_proj": _BLOCK + "1.inner.part.up",
    "layers.{layer}.mlp.down_proj": _BLOCK + "1.inner.part.down",
    "norm": "trunk.decoder.final",
}

LLAMA = Family(
    model_type="llama",
    preset=PRESETS["llama"],
    prefix="model",
    fields=(
        Same("vocab_size", "vocabulary", 32_000),
        Same("max_position_embeddings", "length", 2048),
        Same("hidden_size", "width", 4096),
        Same("num_hidden_layers", "layers", 32),
        Same("num_attention_heads", "heads", 32),
        KeyHeads(),
        HeadWidth("head_dim"),
        Hidden("intermediate_size", 11_008),
        Same("rms_norm_eps", "norm.eps", 1e-6),
        Biases("attention_bias", ("query_key_value", "attention_output")),
        Biases("mlp_bias", ("feedforward",)),
        Same("attention_dropout", "attention_dropout", 0.0),
        Rope(),
        Fixed("hidden_act", "silu", "the gate of this family is SiLU"),
    ),
    names=NAMES,
    heads=(
        HeadOf(
            "LlamaForCausalLM",
            {"kind": "language_model"},
            names={"lm_head": "head.table"},
            fields=(Same("tie_word_embeddings", "output.tied", False),),
        ),
        HeadOf("LlamaModel", {"kind": "features"}, bare=True),
    ),
    beside=("layers.*.self_attn.rotary_emb.inv_freq",),
)
