"""Checkpoints: whole or not there, verified when they are read, nothing pickled.

`checkpoints/step-N/` holds model.safetensors, optimizer.safetensors and state.json, and last of
all manifest.json with the size and hash of each. It is written in a hidden folder, flushed, and
renamed; a folder of another name is never read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor, nn

from attnlab.model.assign import assign, without_memory
from attnlab.model.model import Model
from attnlab.model.witness import differs
from attnlab.training.errors import RunError
from attnlab.training.files import as_bytes, hash_of, sync_folder, write_bytes

FORMAT = 1
MANIFEST = "manifest.json"


class DamagedError(Exception):
    """A checkpoint that is not what was written, and why."""


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to go on as if nothing had happened."""

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    answer: tuple[float, ...] = ()
    """What the model answers to a fixed input, so that a mistake of loading shows; in the manifest."""


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
            f"The checkpoint does not fit the model: missing {listed(missing)}; unknown {listed(surplus)}."
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
            f"The checkpoint was loaded, and the model is not the one that was saved: {difference}. Its code "
            "or its config has changed since; go back to those it was trained with."
        )


def listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - 3} more" if len(ordered) > 3 else ""
    return ", ".join(ordered[:3]) + more if ordered else "nothing"


class Checkpoints:
    """The checkpoints of a run folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step}"

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, in order."""
        if not self.folder.is_dir():
            return []
        names = (entry.name for entry in self.folder.iterdir() if entry.is_dir())
        return sorted(
            int(n.removeprefix("step-")) for n in names if n.startswith("step-") and n[5:].isdigit()
        )

    def save(self, step: int, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint. One that is already there for this step holds the same, and stays."""
        place, beside = self.path(step), self.folder / f".step-{step}.new"
        if place.exists():
            return place
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(beside, ignore_errors=True)
        try:
            beside.mkdir()
            self._write(beside, checkpoint)
            os.rename(beside, place)
        except OSError:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        sync_folder(self.folder)
        return place

    def _write(self, folder: Path, checkpoint: Checkpoint) -> None:
        files = {}
        contents: dict[str, Callable[[], bytes]] = {
            "model.safetensors": lambda: save(_contiguous(checkpoint.model)),
            "optimizer.safetensors": lambda: save(_contiguous(checkpoint.optimizer)),
            "state.json": lambda: as_bytes(checkpoint.state),
        }
        for name, content_of in contents.items():
            content = content_of()
            write_bytes(folder / name, content)
            files[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        manifest = {"format": FORMAT, "files": files, "answer": list(checkpoint.answer)}
        write_bytes(folder / MANIFEST, as_bytes(manifest))
        sync_folder(folder)

    def read(self, step: int) -> Checkpoint:
        """A checkpoint, verified; DamagedError says what is wrong with it."""
        folder = self.path(step)
        manifest = verify(folder)
        return Checkpoint(
            model=load((folder / "model.safetensors").read_bytes()),
            optimizer=load((folder / "optimizer.safetensors").read_bytes()),
            state=json.loads((folder / "state.json").read_text(encoding="utf-8")),
            answer=tuple(manifest.get("answer", ())),
        )

    def newest(self, warn: Callable[[str], None]) -> Checkpoint | None:
        """The last sound checkpoint. A damaged one is named, set aside, and the one before it taken."""
        for step in reversed(self.steps()):
            try:
                return self.read(step)
            except DamagedError as damage:
                aside = self._set_aside(step)
                warn(f"The checkpoint of step {step} is damaged: {damage} It was set aside as {aside.name}.")
        return None

    def _set_aside(self, step: int) -> Path:
        aside = self.folder / f"damaged-step-{step}"
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(self.path(step), aside)
        return aside

    def prune(self, keep: int, best: int) -> None:
        """Remove all but the last `keep` and the best."""
        steps = self.steps()
        for step in steps[:-keep]:
            if step != best:
                leaving = self.folder / f".step-{step}.old"  # out of sight first: never half there
                os.rename(self.path(step), leaving)
                shutil.rmtree(leaving, ignore_errors=True)

    def tidy(self) -> None:
        """Remove what a killed process left half written or half removed."""
        if self.folder.is_dir():
            for entry in self.folder.glob(".step-*"):
                shutil.rmtree(entry, ignore_errors=True)


def verify(folder: Path) -> dict[str, Any]:
    """The manifest; DamagedError unless every file is there, of its size and hash."""
    try:
        manifest = dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
        files = dict(manifest["files"])
    except FileNotFoundError:
        raise DamagedError("manifest.json is missing.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"manifest.json cannot be read ({error}).") from error
    if manifest.get("format") != FORMAT:
        raise RunError(f"{folder} was written by another version (format {manifest.get('format')}).")
    for name, expected in files.items():
        file = folder / name
        if not file.is_file():
            raise DamagedError(f"{name} is missing.")
        if file.stat().st_size != expected["bytes"]:
            raise DamagedError(f"{name} has {file.stat().st_size:,} bytes, not {expected['bytes']:,}.")
        if hash_of(file) != expected["sha256"]:
            raise DamagedError(f"{name} does not have the hash that it was written with.")
    return manifest


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.contiguous() for name, tensor in tensors.items()}
