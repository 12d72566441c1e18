"""T5's files: the first version, whose head is tied and scaled, and 1.1, with gates and a head of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attnlab.config.values import ConfigError
from attnlab.interop.families.llama import HeadWidth
from attnlab.interop.family import Family, HeadOf
from attnlab.interop.fields import Field, Hidden, Named, Same, Settings, Theirs, get, put
from attnlab.interop.names import Held
from attnlab.model.presets import PRESETS

GATES = {
    "relu": {"kind": "relu"},
    "gelu": {"kind": "gelu", "approximate": "none"},
    "gated-gelu": {"kind": "geglu", "approximate": "tanh"},
    "gated-silu": {"kind": "swiglu"},
}


@dataclass(frozen=True)
class Scaled(Field):
    """Whether the head scales by 1/√D. Older versions call that `tie_word_embeddings`, whatever is tied."""

    def read(self, theirs: Theirs, ours: Settings) -> None:
        scaled = theirs.get("scale_decoder_outputs", theirs.get("tie_word_embeddings", True))
        put(ours, "output.scale", "inverse_root" if scaled is not False else 1.0)

    def write(self, ours: Settings, theirs: Theirs) -> None:
        scale = get(ours, "output.scale")
        theirs["scale_decoder_outputs"] = scale != 1
        theirs["tie_word_embeddings"] = scale != 1


@dataclass(frozen=True)
class Depth(Field):
    """Both stacks have as many layers here."""

    def read(self, theirs: Theirs, ours: Settings) -> None:
        decoder = theirs.get("num_decoder_layers")
        if decoder is not None and decoder != ours["layers"]:
            raise ConfigError(
                f"config.json has {ours['layers']} layers and num_decoder_layers = {decoder!r}; both stacks "
                "have as many here."
            )

    def write(self, ours: Settings, theirs: Theirs) -> None:
        theirs["num_decoder_layers"] = ours["layers"]


@dataclass(frozen=True)
class EncoderAlone(Field):
    """The encoder without a decoder. Some files say `is_encoder_decoder` all the same: it is not asked."""

    def read(self, theirs: Theirs, ours: Settings) -> None:
        ours["family"] = "encoder"
        ours["mask"] = "bidirectional"

    def write(self, ours: Settings, theirs: Theirs) -> None:
        theirs["is_encoder_decoder"] = False


def _side(side: str, feedforward: int) -> Iterator[tuple[str, str | Held]]:
    """The names of one stack; `feedforward` is its residual's number, after one attention or two."""
    block, layer = f"trunk.{side}.blocks.{{layer}}.residuals.", f"{side}.block.{{layer}}.layer."
    parts = {"q": "projections.query", "k": "projections.key", "v": "projections.value", "o": "output"}
    for number, kind in enumerate(("SelfAttention", "EncDecAttention")[:feedforward]):
        for theirs, ours in parts.items():
            yield f"{layer}{number}.{kind}.{theirs}", f"{block}{number}.inner.{ours}"
    for number in range(feedforward + 1):
        yield f"{layer}{number}.layer_norm", f"{block}{number}.norm"
    dense, part = f"{layer}{feedforward}.DenseReluDense.", f"{block}{feedforward}.inner.part."
    yield f"{dense}wi", Held((f"{part}up",), lacks=f"{part}gate")
    yield f"{dense}wi_1", Held((f"{part}up",), needs=f"{part}gate")
    yield f"{dense}wi_0", f"{part}gate"
    yield f"{dense}wo", f"{part}down"
    bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias"
    yield bias, f"trunk.{side}.embedding.positions.table"
    yield f"{side}.final_layer_norm", f"trunk.{side}.final"
    yield f"{side}.embed_tokens", f"trunk.{side}.embedding.tokens"


T5 = Family(
    model_type="t5",
    preset=PRESETS["t5"],
    prefix="",
    fields=(
        Same("vocab_size", "vocabulary", 32_128),
        Same("n_positions", "length", 512),
        Same("d_model", "width", 512),
        Same("num_layers", "layers", 6),
        Same("num_heads", "heads", 8),
        HeadWidth("d_kv", 64),
        Named("feed_forward_proj", "feedforward", GATES, "relu"),
        Hidden("d_ff", 2048),
        Same("relative_attention_num_buckets", "positions.buckets", 32),
        Same("relative_attention_max_distance", "positions.distance", 128),
        Same("layer_norm_epsilon", "norm.eps", 1e-6),
        Same("dropout_rate", "dropout", 0.1),
        Same("dropout_rate", "attention_dropout", 0.1),
        Same("dropout_rate", "feedforward.dropout", 0.1),
    ),
    names={
        "shared": "trunk.encoder.embedding.tokens",
        **dict(_side("encoder", 1)),
        **dict(_side("decoder", 2)),
    },
    heads=(
        HeadOf(
            "T5ForConditionalGeneration",
            {"kind": "language_model"},
            names={"lm_head": "head.table"},
            fields=(Depth(), Scaled()),
            own_table=("lm_head.weight", "shared.weight"),
        ),
        HeadOf("T5EncoderModel", {"kind": "features"}, fields=(EncoderAlone(),)),
    ),
    beside=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
)
