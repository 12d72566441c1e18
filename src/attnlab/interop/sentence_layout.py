"""sentence-transformers' layout: the folder of a trunk, and in subfolders what pools a text and scores it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.config.untrusted import read_json, read_json_list
from attnlab.config.values import ConfigError
from attnlab.interop.family import Family, HeadOf
from attnlab.interop.fields import Classes
from attnlab.interop.weights import WHOLE, Joined, Renamed, Safe, Weights

MODULES, POOLING, READING = "modules.json", "1_Pooling", "sentence_bert_config.json"
POOLINGS = {"mean": "mean_tokens", "first": "cls_token", "last": "lasttoken"}
"""Our poolings, and how their settings end: pooling_mode_…"""
OTHERS = ("max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens")
ACTIVATIONS = {
    "none": "torch.nn.modules.linear.Identity",
    "tanh": "torch.nn.modules.activation.Tanh",
    "relu": "torch.nn.modules.activation.ReLU",
}
APPLIED: dict[str, Callable[[Tensor], Tensor]] = {
    "none": torch.nn.Identity(),
    "tanh": torch.tanh,
    "relu": torch.relu,
}
HEADS = ("classification", "sentence")
"""Our heads that such modules can be."""


@dataclass(frozen=True)
class Dense:
    """A dense layer after the pooling: its folder, our module, and its activation."""

    folder: str
    ours: str
    activation: str


def dense_layers(output: Mapping[str, Any]) -> list[Dense]:
    """Those of a head of ours, in order."""
    if output["kind"] == "sentence":
        return []
    if output["transform"] == "none":
        return [Dense("2_Dense", "head.scores", "none")]
    return [
        Dense("2_Dense", "head.transform.0", output["transform"]),
        Dense("3_Dense", "head.scores", "none"),
    ]


@dataclass(frozen=True)
class SentenceHead(HeadOf):
    """The class of a trunk, and modules of sentence-transformers after it."""

    spare: tuple[str, ...] = ()
    """Layers that the class has and these modules leave out, such as BERT's pooler; written as zeros."""

    @property
    def steps(self) -> str:
        """What the modules do, in order."""
        dense = [
            "dense layer" if layer.activation == "none" else f"dense layer with {layer.activation}"
            for layer in dense_layers(self.output)
        ]
        return ", ".join([f"{self.output['pooling']} pooling", *(dense or ["normalised to length 1"])])


def sentence_heads(family: Family, output: Mapping[str, Any]) -> list[SentenceHead]:
    """What holds a head of ours after a trunk of this family; nothing for heads of another kind, and after
    pictures."""
    if family.colours is not None:
        return []
    trunks = [head for head in family.heads if head.output["kind"] == "features"]
    return [_after(trunk, output) for trunk in trunks if output["kind"] in HEADS]


def _after(trunk: HeadOf, output: Mapping[str, Any]) -> SentenceHead:
    labelled = output["kind"] == "classification"
    return SentenceHead(
        trunk.architecture,
        dict(output),
        names={f"{layer.folder}.linear": layer.ours for layer in dense_layers(output)},
        fields=(*trunk.fields, *[Classes()] * labelled),
        beside=(*trunk.beside, *(f"{name}.*" for name in trunk.names)),
        bare=trunk.bare,
        spare=tuple(trunk.names),
    )


# ---------------------------------------------------------------- written
def write_modules(
    folder: Path, head: SentenceHead, tensors: Mapping[str, Tensor], *, width: int, length: int
) -> dict[str, Tensor]:
    """Write what comes after the trunk, each module in its folder. Returns the tensors of the trunk."""
    from safetensors.torch import save_file

    dense = dense_layers(head.output)
    for layer in dense:
        weight, bias = (tensors[f"{layer.folder}.linear.{leaf}"] for leaf in ("weight", "bias"))
        sizes = {"in_features": weight.shape[1], "out_features": weight.shape[0], "bias": True}
        settings = sizes | {"activation_function": ACTIVATIONS[layer.activation]}
        _write(folder / layer.folder / "config.json", settings)
        own = {"linear.weight": weight, "linear.bias": bias}
        save_file(own, folder / layer.folder / WHOLE, metadata={"format": "pt"})
    modes = {f"pooling_mode_{mode}": False for mode in (*POOLINGS.values(), *OTHERS)}
    modes[f"pooling_mode_{POOLINGS[head.output['pooling']]}"] = True
    _write(folder / POOLING / "config.json", {"word_embedding_dimension": width, **modes})
    _write(folder / READING, {"max_seq_length": length, "do_lower_case": False})
    places = ["", POOLING, *([layer.folder for layer in dense] or ["2_Normalize"])]
    _write(folder / MODULES, [_module(number, path) for number, path in enumerate(places)])
    after = tuple(f"{layer.folder}." for layer in dense)
    trunk = {name: tensor for name, tensor in tensors.items() if not name.startswith(after)}
    for name in head.spare:
        trunk |= {f"{name}.weight": torch.zeros(width, width), f"{name}.bias": torch.zeros(width)}
    return trunk


def _module(number: int, path: str) -> dict[str, Any]:
    kind = path.partition("_")[2] or "Transformer"
    return {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}


def _write(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


# ---------------------------------------------------------------- read
def output_in(folder: Path) -> dict[str, Any] | None:
    """The head that a folder's modules are; None where it has none, or others than we know."""
    if not (folder / MODULES).is_file():
        return None
    kinds = [_kind_of(module) for module in read_json_list(folder / MODULES)]
    pooling = _pooling_in(folder)
    if kinds[:2] != ["Transformer", "Pooling"] or pooling is None:
        return None
    if kinds[2:] == ["Normalize"]:
        return {"kind": "sentence", "pooling": pooling}
    for transform in ACTIVATIONS:
        output = {"kind": "classification", "pooling": pooling, "transform": transform}
        layers = dense_layers(output)
        if kinds[2:] == ["Dense"] * len(layers) and all(
            _activation_in(folder / layer.folder) == ACTIVATIONS[layer.activation] for layer in layers
        ):
            return output
    return None


def _kind_of(module: Any) -> str:
    return str(module.get("type")).rpartition(".")[2] if isinstance(module, Mapping) else ""


def _pooling_in(folder: Path) -> str | None:
    if not (folder / POOLING / "config.json").is_file():
        return None
    settings = read_json(folder / POOLING / "config.json")
    ours = {f"pooling_mode_{theirs}": pooling for pooling, theirs in POOLINGS.items()}
    modes = [ours.get(name) for name, value in settings.items() if name.startswith("pooling_mode_") and value]
    return modes[0] if len(modes) == 1 else None


def _activation_in(place: Path) -> Any:
    file = place / "config.json"
    return read_json(file).get("activation_function") if file.is_file() else None


def with_dense(folder: Path, weights: Weights, output: Mapping[str, Any]) -> Weights:
    """The tensors of a folder, with those of the dense layers after its trunk."""
    return Joined([weights, *(_dense_in(folder, layer.folder) for layer in dense_layers(output))])


def _dense_in(folder: Path, place: str) -> Weights:
    if not (folder / place / WHOLE).is_file():
        raise ConfigError(f"{folder} lacks {place}/{WHOLE}, which {MODULES} names; fetch it.")
    return Renamed(Safe([folder / place / WHOLE]), partial("{}.{}".format, place))


def apply_modules(folder: Path, hidden: Tensor) -> Tensor:
    """What a folder's modules make of the hidden states of one text, (1,T,D) -> (1,C), by its files alone."""
    output = output_in(folder)
    assert output is not None, "asked of folders that have such modules"
    poolings = {"mean": hidden.mean(1), "first": hidden[:, 0], "last": hidden[:, -1]}
    vectors = poolings[output["pooling"]]
    if output["kind"] == "sentence":
        return F.normalize(vectors, dim=-1)
    for layer in dense_layers(output):
        stored = Safe([folder / layer.folder / WHOLE])
        weight, bias = (stored.tensor(f"linear.{leaf}").to(hidden.dtype) for leaf in ("weight", "bias"))
        vectors = APPLIED[layer.activation](vectors @ weight.T + bias)
    return vectors
