"""CLIP's files: an encoder of pictures and one of texts, each with a section of config.json."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attnlab.config.values import ConfigError
from attnlab.interop.families.gpt2 import ACTIVATIONS
from attnlab.interop.family import Family, HeadOf
from attnlab.interop.fields import Field, Fixed, Hidden, Named, Same, Settings, Theirs, get, put, whole
from attnlab.interop.names import CLASS_VECTOR, PATCHES, Held
from attnlab.model.presets import PRESETS

COLOURS = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
QUICK = {"quick_gelu": {"kind": "gelu", "approximate": "sigmoid"}, **ACTIVATIONS}
OF_PICTURES = "vision_config"


@dataclass(frozen=True)
class Inside(Field):
    """Facts that stand in a section of config.json."""

    section: str
    fields: tuple[Field, ...]

    def read(self, theirs: Theirs, ours: Settings) -> None:
        own = theirs.get(self.section) or {}
        if not isinstance(own, dict):
            raise ConfigError(f"config.json has {self.section} = {own!r:.60}; it must be a table.")
        for field in self.fields:
            field.read(own, ours)

    def write(self, ours: Settings, theirs: Theirs) -> None:
        own = dict(theirs.get(self.section) or {})
        for field in self.fields:
            field.write(ours, own)
        theirs[self.section] = own


@dataclass(frozen=True)
class PicturesAndTexts(Field):
    """The pictures, beside texts."""

    def read(self, theirs: Theirs, ours: Settings) -> None:
        size, patch = theirs.get("image_size", 224), theirs.get("patch_size", 32)
        if not whole(size) or not whole(patch):
            raise ConfigError(
                f"config.json has image_size = {size!r} and patch_size = {patch!r}; each must be a whole "
                "number of pixels."
            )
        ours["inputs"] = [{"kind": "image", "size": size, "patch": patch}, {"kind": "text"}]

    def write(self, ours: Settings, theirs: Theirs) -> None:
        inputs = ours.get("inputs")
        for choice in inputs if isinstance(inputs, list) else ():
            if choice["kind"] == "image":
                theirs["image_size"], theirs["patch_size"] = choice["size"], choice["patch"]


@dataclass(frozen=True)
class Expand(Field):
    """The width of the hidden layers of the encoder of pictures."""

    def read(self, theirs: Theirs, ours: Settings) -> None:
        put(
            ours, "trunk.image_expand", theirs.get("intermediate_size", 3072) / theirs.get("hidden_size", 768)
        )

    def write(self, ours: Settings, theirs: Theirs) -> None:
        width = get(ours, "trunk.image_width")
        if width is not None:
            theirs["intermediate_size"] = round(get(ours, "trunk.image_expand") * width)


@dataclass(frozen=True)
class AsTexts(Field):
    """What both encoders have alike here: it stands in both sections."""

    name: str
    ours: str
    default: object
    words: bool = False

    def read(self, theirs: Theirs, ours: Settings) -> None:
        value = theirs.get(self.name, self.default)
        known = QUICK.get(str(value)) if self.words else value
        held = get(ours, self.ours)
        same = all(held.get(k) == v for k, v in known.items()) if isinstance(known, dict) else known == held
        if not same:
            raise ConfigError(
                f"config.json has {self.name} = {value!r} for pictures, and another one for texts; both are "
                "alike here."
            )

    def write(self, ours: Settings, theirs: Theirs) -> None:
        if not self.words:
            theirs[self.name] = get(ours, self.ours)
        else:
            Named(self.name, self.ours, QUICK, "quick_gelu").write(ours, theirs)


def _layers(theirs: str, ours: str) -> Iterator[tuple[str, str | Held]]:
    """The names of one encoder's layers."""
    block = f"trunk.{ours}.blocks.{{layer}}.residuals."
    layer = f"{theirs}.encoder.layers.{{layer}}."
    for name, own in {"q_proj": "query", "k_proj": "key", "v_proj": "value"}.items():
        yield f"{layer}self_attn.{name}", f"{block}0.inner.projections.{own}"
    yield f"{layer}self_attn.out_proj", f"{block}0.inner.output"
    yield f"{layer}layer_norm1", f"{block}0.norm"
    yield f"{layer}mlp.fc1", f"{block}1.inner.part.up"
    yield f"{layer}mlp.fc2", f"{block}1.inner.part.down"
    yield f"{layer}layer_norm2", f"{block}1.norm"


CLIP = Family(
    model_type="clip",
    preset=PRESETS["clip"],
    prefix="",
    fields=(
        Inside(
            "text_config",
            (
                Same("vocab_size", "vocabulary", 49_408),
                Same("max_position_embeddings", "length", 77),
                Same("hidden_size", "width", 512),
                Same("num_hidden_layers", "layers", 12),
                Same("num_attention_heads", "heads", 8),
                Named("hidden_act", "feedforward", QUICK, "quick_gelu"),
                Hidden("intermediate_size", 2048),
                Same("layer_norm_eps", "norm.eps", 1e-5),
                Same("attention_dropout", "attention_dropout", 0.0),
                Same("projection_dim", "trunk.projection", 512),
            ),
        ),
        Same("projection_dim", "trunk.projection", 512),
        Inside(
            OF_PICTURES,
            (
                Same("hidden_size", "trunk.image_width", 768),
                Same("num_hidden_layers", "trunk.image_layers", 12),
                Same("num_attention_heads", "trunk.image_heads", 12),
                Same("projection_dim", "trunk.projection", 512),
                Expand(),
                AsTexts("hidden_act", "feedforward", "quick_gelu", words=True),
                AsTexts("layer_norm_eps", "norm.eps", 1e-5),
                Fixed("num_channels", 3, "pictures are read in red, green and blue here"),
                PicturesAndTexts(),
            ),
        ),
    ),
    names={
        "text_model.embeddings.token_embedding": "trunk.text.embedding.tokens",
        "text_model.embeddings.position_embedding": "trunk.text.embedding.positions.table",
        **dict(_layers("text_model", "text")),
        "text_model.final_layer_norm": "trunk.text.final",
        "text_projection": "trunk.text_projection",
        "vision_model.embeddings.class_embedding": Held(
            ("trunk.image.embedding.tokens.weight",), form=CLASS_VECTOR
        ),
        "vision_model.embeddings.patch_embedding.weight": Held(
            ("trunk.image.embedding.vectors.weight",), form=PATCHES
        ),
        "vision_model.embeddings.position_embedding": "trunk.image.embedding.positions.table",
        "vision_model.pre_layrnorm": "trunk.image.embedding.norm",
        **dict(_layers("vision_model", "image")),
        "vision_model.post_layernorm": "trunk.image.final",
        "visual_projection": "trunk.image_projection",
    },
    heads=(
        HeadOf("CLIPModel", {"kind": "contrast", "pooling": "ends"}, names={"logit_scale": "head.log_scale"}),
    ),
    beside=("text_model.embeddings.position_ids", "vision_model.embeddings.position_ids"),
    colours=COLOURS,
    processor="CLIPImageProcessor",
)
