"""What a checkpoint holds: model.safetensors, optimizer.safetensors and state.json; nothing pickled.

Weights that are not trained are the same in all checkpoints of a run: they are in frozen.safetensors beside
them, once.

Where checkpoints are kept, and that each is whole or not there, is runs/checkpoints.py.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from attnlab.config.wording import first_few
from attnlab.model.initial import assign, without_memory
from attnlab.model.model import Model
from attnlab.model.witness import differs
from attnlab.runs.atomic import as_bytes
from attnlab.runs.checkpoints import Checkpoints, DamagedError
from attnlab.runs.faults import FAULTS, RunError, fault_phrase, reading

FROZEN, STATE = "frozen.safetensors", "state.json"
MODEL, OPTIMIZER = "model", "optimizer"


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to resume as if nothing had happened."""

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    answer: tuple[float, ...] = ()
    """What the model answers to a fixed input, so that a mistake of loading shows; in the manifest."""
    frozen: frozenset[str] = frozenset()
    """Of the model, the weights that are not trained."""


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """A model's weights by name; a tied table is one module, and so is there once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Copy weights into a model, or assign them where it has no memory yet.

    Every tensor must find its place, and every place its tensor.
    """
    places = dict(model.named_parameters())
    missing, surplus = places.keys() - weights.keys(), weights.keys() - places.keys()
    if missing or surplus:
        raise RunError(
            f"The checkpoint does not fit the model: missing {first_few(sorted(missing))}; "
            f"unknown {first_few(sorted(surplus))}."
        )
    for name, parameter in places.items():
        if parameter.shape != weights[name].shape:
            shapes = tuple(weights[name].shape), tuple(parameter.shape)
            raise RunError(f"The checkpoint does not fit the model: {name} is {shapes[0]}, not {shapes[1]}.")
    if without_memory(model):
        assign(model, weights)
        return
    for name, parameter in places.items():
        parameter.data.copy_(weights[name])


def load_checked(model: Model, checkpoint: Checkpoint) -> None:
    """Copy a checkpoint's weights into a model, and see that it answers as it did when they were saved."""
    load_weights(model, checkpoint.model)
    difference = differs(model, checkpoint.answer) if checkpoint.answer else ""
    if difference:
        raise RunError(
            f"The loaded model differs from the saved one: {difference}. Its code "
            "or its config has changed since; go back to those it was trained with."
        )


def save_checkpoint(checkpoints: Checkpoints, step: int, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint; gives its folder."""
    model, frozen = checkpoint.model, checkpoint.frozen
    files: dict[str, Callable[[], bytes]] = {
        "model.safetensors": lambda: save(_contiguous(_without(model, frozen))),
        "optimizer.safetensors": lambda: save(_contiguous(checkpoint.optimizer)),
        STATE: lambda: as_bytes(checkpoint.state),
    }
    shared = frozen_file(_without(model, model.keys() - frozen))
    return checkpoints.write(step, files, shared, answer=list(checkpoint.answer))


def frozen_file(weights: dict[str, Tensor]) -> dict[str, Callable[[], bytes]]:
    """The file of weights that are not trained, which all checkpoints of a run share; none where all are."""
    return {FROZEN: lambda: save(_contiguous(weights))} if weights else {}


def read_checkpoint(checkpoints: Checkpoints, step: int) -> Checkpoint:
    """A checkpoint, verified; DamagedError says what is wrong with it."""
    folder, manifest = checkpoints.path(step), checkpoints.manifest(step)
    try:
        return _read(folder, checkpoints, manifest)
    except (*FAULTS, OSError, SafetensorError) as error:
        raise DamagedError(f"its files are not those of a checkpoint ({fault_phrase(error)}).") from error


def _read(folder: Path, checkpoints: Checkpoints, manifest: dict[str, Any]) -> Checkpoint:
    frozen = load((checkpoints.folder / FROZEN).read_bytes()) if "shared" in manifest else {}
    return Checkpoint(
        model=_tensors(folder, MODEL, manifest) | frozen,
        frozen=frozenset(frozen),
        optimizer=_tensors(folder, OPTIMIZER, manifest),
        state=dict(json.loads((folder / STATE).read_text(encoding="utf-8"))),
        answer=tuple(manifest.get("answer", ())),
    )


def _tensors(folder: Path, name: str, manifest: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors of a file; or, where every process wrote its part of them, of a folder, put together."""
    file = f"{name}.safetensors"
    if file in manifest["files"]:
        return load((folder / file).read_bytes())
    if not any(written.startswith(f"{name}/") for written in manifest["files"]):
        return {}
    # slow to import, and few checkpoints are in parts
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load as load_parts

    def reader() -> HuggingFaceStorageReader:
        return HuggingFaceStorageReader(str(folder / name))

    described: dict[str, Any] = dict(reader().read_metadata().state_dict_metadata)
    tensors = {key: torch.empty(part.size, dtype=part.properties.dtype) for key, part in described.items()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # as is asked for
        load_parts(dict[str, Any](tensors), storage_reader=reader(), no_dist=True)
    return tensors


def decision_in(checkpoints: Checkpoints, step: int) -> dict[str, float]:
    """What a checkpoint's predictions go by that was chosen on dev; its weights are not read."""
    with reading(file := checkpoints.path(step) / STATE):
        return dict(json.loads(file.read_text(encoding="utf-8")).get("settled", {}))


def newest_checkpoint(checkpoints: Checkpoints, warn: Callable[[str], None]) -> Checkpoint | None:
    """The last sound checkpoint. A damaged one is named, set aside, and the one before it taken."""
    for step in reversed(checkpoints.steps()):
        try:
            return read_checkpoint(checkpoints, step)
        except DamagedError as damage:
            aside = checkpoints.set_aside(step)
            warn(f"The checkpoint of step {step} is damaged: {damage} It was set aside as {aside.name}.")
    return None


def _without(tensors: dict[str, Tensor], names: Collection[str]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if name not in names}


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.contiguous() for name, tensor in tensors.items()}
