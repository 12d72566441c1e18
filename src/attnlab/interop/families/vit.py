"""ViT's files: pictures alone, a class token and then the patches."""

from __future__ import annotations

from dataclasses import dataclass

from attnlab.config.pictures import PictureGrid
from attnlab.config.values import ConfigError
from attnlab.interop.families.gpt2 import ACTIVATIONS
from attnlab.interop.family import Family, HeadOf
from attnlab.interop.fields import Biases, Classes, Field, Fixed, Hidden, Named, Same, Settings, Theirs, whole
from attnlab.interop.names import CLASS_TOKEN, ONE_MORE, PATCHES, Held
from attnlab.interop.picture_models import OURS
from attnlab.model.presets import PRESETS

_BLOCK = "trunk.encoder.blocks.{layer}.residuals."
_EMBEDDING = "trunk.encoder.embedding."


@dataclass(frozen=True)
class PictureSize(Field):
    """The pictures that are read, and with them the length of a row: a class token and the patches."""

    size: int = 224
    patch: int = 16

    def read(self, theirs: Theirs, ours: Settings) -> None:
        size, patch = theirs.get("image_size", self.size), theirs.get("patch_size", self.patch)
        for name, value in (("image_size", size), ("patch_size", patch)):
            if not whole(value):
                raise ConfigError(
                    f"config.json has {name} = {value!r}; pictures and patches are square here, so it must "
                    "be a whole number of pixels."
                )
        ours["inputs"] = {"kind": "image", "size": size, "patch": patch}
        ours["length"] = PictureGrid(size, patch).patches + 1
        ours["vocabulary"] = 2

    def write(self, ours: Settings, theirs: Theirs) -> None:
        inputs = ours.get("inputs")
        if isinstance(inputs, dict) and inputs["kind"] == "image":
            theirs["image_size"], theirs["patch_size"] = inputs["size"], inputs["patch"]


VIT = Family(
    model_type="vit",
    preset=PRESETS["vit"],
    prefix="vit",
    fields=(
        Same("hidden_size", "width", 768),
        Same("num_hidden_layers", "layers", 12),
        Same("num_attention_heads", "heads", 12),
        Named("hidden_act", "feedforward", ACTIVATIONS, "gelu"),
        Hidden("intermediate_size", 3072),
        Same("layer_norm_eps", "norm.eps", 1e-12),
        Same("hidden_dropout_prob", "dropout", 0.0),
        Same("attention_probs_dropout_prob", "attention_dropout", 0.0),
        Biases("qkv_bias", ("query_key_value",)),
        Fixed("num_channels", 3, "pictures are read in red, green and blue here"),
        PictureSize(),
    ),
    names={
        "embeddings.cls_token": Held((_EMBEDDING + "tokens.weight",), form=CLASS_TOKEN),
        "embeddings.position_embeddings": Held((_EMBEDDING + "positions.table.weight",), form=ONE_MORE),
        "embeddings.patch_embeddings.projection.weight": Held((_EMBEDDING + "vectors.weight",), form=PATCHES),
        "embeddings.patch_embeddings.projection.bias": _EMBEDDING + "vectors.bias",
        "encoder.layer.{layer}.layernorm_before": _BLOCK + "0.norm",
        "encoder.layer.{layer}.attention.attention.query": _BLOCK + "0.inner.projections.query",
        "encoder.layer.{layer}.attention.attention.key": _BLOCK + "0.inner.projections.key",
        "encoder.layer.{layer}.attention.attention.value": _BLOCK + "0.inner.projections.value",
        "encoder.layer.{layer}.attention.output.dense": _BLOCK + "0.inner.output",
        "encoder.layer.{layer}.layernorm_after": _BLOCK + "1.norm",
        "encoder.layer.{layer}.intermediate.dense": _BLOCK + "1.inner.part.up",
        "encoder.layer.{layer}.output.dense": _BLOCK + "1.inner.part.down",
        "layernorm": "trunk.encoder.final",
    },
    heads=(
        HeadOf(
            "ViTForImageClassification",
            {"kind": "classification", "pooling": "first"},
            names={"classifier": "head.scores"},
            fields=(Classes(),),
        ),
        HeadOf(
            "ViTModel",
            {"kind": "features", "pooling": "first", "transform": "tanh"},
            names={"pooler.dense": "head.transform.0"},
            bare=True,
        ),
    ),
    beside=("embeddings.mask_token",),
    pictured=True,
    colours=(OURS, OURS),
    processor="ViTImageProcessor",
)
