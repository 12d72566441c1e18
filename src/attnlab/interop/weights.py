"""The tensors of a folder: safetensors, whole or in shards, or torch's own file without its code.

Names, shapes and types are known before any tensor is read, so that what does not fit is refused
before memory is asked for.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from attnlab.config.untrusted import read_json
from attnlab.config.values import ConfigError

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
OLD, OLD_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


class Weights(Protocol):
    """Tensors by name."""

    metadata: dict[str, str]

    def names(self) -> list[str]: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def dtype(self, name: str) -> str: ...

    def tensor(self, name: str) -> Tensor: ...


class Safe:
    """Safetensors files. Their headers are checked by the library: offsets, sizes, nothing beyond the end."""

    def __init__(self, files: list[Path]):
        from safetensors import SafetensorError, safe_open

        self.metadata: dict[str, str] = {}
        self._held: dict[str, Any] = {}
        for file in files:
            try:
                opened: Any = safe_open(file, "pt")
            except (SafetensorError, OSError, ValueError) as error:
                raise ConfigError(
                    f"{file} is not a complete safetensors file ({error}); download or write it again."
                ) from error
            self.metadata |= opened.metadata() or {}
            for name in opened.keys():  # noqa: SIM118 - no mapping
                if name in self._held:
                    raise ConfigError(
                        f"{name} is in two of the files next to {file}; each tensor must be in one."
                    )
                self._held[name] = opened

    def names(self) -> list[str]:
        return list(self._held)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._held[name].get_slice(name).get_shape())

    def dtype(self, name: str) -> str:
        name_of_type = str(self._held[name].get_slice(name).get_dtype())
        return TYPES.get(name_of_type, name_of_type)

    def tensor(self, name: str) -> Tensor:
        from safetensors import SafetensorError

        try:
            tensor: Tensor = self._held[name].get_tensor(name)
        except (SafetensorError, RuntimeError, OSError) as error:
            raise ConfigError(f"{name} cannot be read: {error}.") from error
        return tensor


class Unpickled:
    """Torch's own files, through `weights_only`: tensors are read, and code in them is refused."""

    def __init__(self, files: list[Path]):
        self.metadata: dict[str, str] = {}
        self._held: dict[str, Tensor] = {}
        for file in files:
            for name, value in _unpickled(file).items():
                if not isinstance(name, str) or not isinstance(value, Tensor):
                    raise ConfigError(
                        f"{file} holds {name!r}, a {type(value).__name__}; only tensors are read."
                    )
                if value.numel() * value.element_size() > value.untyped_storage().nbytes():
                    raise ConfigError(f"{file} has less data than the shape of {name} asks for.")
                self._held[name] = value

    def names(self) -> list[str]:
        return list(self._held)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._held[name].shape)

    def dtype(self, name: str) -> str:
        return str(self._held[name].dtype).removeprefix("torch.")

    def tensor(self, name: str) -> Tensor:
        return self._held[name]


class Renamed:
    """The same tensors under other names."""

    def __init__(self, inner: Weights, name_of: Callable[[str], str]):
        self.inner, self.metadata = inner, inner.metadata
        self._held: dict[str, str] = {}
        for name in inner.names():
            if self._held.setdefault(name_of(name), name) != name:
                raise ConfigError(f"{name} and {self._held[name_of(name)]} are two names for one tensor.")

    def names(self) -> list[str]:
        return list(self._held)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.inner.shape(self._held[name])

    def dtype(self, name: str) -> str:
        return self.inner.dtype(self._held[name])

    def tensor(self, name: str) -> Tensor:
        return self.inner.tensor(self._held[name])


class Joined:
    """The tensors of several, none of which share a name."""

    def __init__(self, parts: list[Weights]):
        self.metadata = {key: value for part in reversed(parts) for key, value in part.metadata.items()}
        self._held = {name: part for part in parts for name in part.names()}

    def names(self) -> list[str]:
        return list(self._held)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._held[name].shape(name)

    def dtype(self, name: str) -> str:
        return self._held[name].dtype(name)

    def tensor(self, name: str) -> Tensor:
        return self._held[name].tensor(name)


def _unpickled(file: Path) -> dict[Any, Any]:
    import pickle

    mapped = zipfile.is_zipfile(file)
    try:
        with (
            warnings.catch_warnings()
        ):  # of pickles older or newer than torch's own; they are read or refused
            warnings.simplefilter("ignore")
            stored = torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        raise ConfigError(
            f"{file} needs code to be executed, or is damaged; only plain tensors are read from such "
            "files. Ask its author for safetensors."
        ) from error
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, IndexError, TypeError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ConfigError(
            f"{file} is not a complete file of tensors ({reason}); download or write it again."
        ) from error
    if not isinstance(stored, dict):
        raise ConfigError(f"{file} holds a {type(stored).__name__}, not tensors by name.")
    return stored


def open_weights(folder: Path) -> Weights:
    """The tensors of a checkpoint's folder, safetensors before anything else."""
    if (folder / WHOLE).is_file():
        return Safe([folder / WHOLE])
    if (folder / INDEX).is_file():
        return Safe(shards(folder, INDEX))
    if (folder / OLD).is_file():
        return Unpickled([folder / OLD])
    if (folder / OLD_INDEX).is_file():
        return Unpickled(shards(folder, OLD_INDEX))
    raise ConfigError(f"{folder} holds no weights: neither {WHOLE}, {INDEX} nor {OLD} is in it.")


def shards(folder: Path, index: str) -> list[Path]:
    """The files that an index names; each must stand beside it."""
    placed = read_json(folder / index).get("weight_map")
    if not isinstance(placed, dict) or not placed:
        raise ConfigError(f"{folder / index} names no tensors; its weight_map is missing or empty.")
    files: dict[Path, None] = {}
    for name in placed.values():
        if not isinstance(name, str) or name in ("", ".", "..") or "\0" in name or Path(name).name != name:
            raise ConfigError(f"{folder / index} names {name!r}; a shard is a file of the same folder.")
        if not (folder / name).is_file():
            raise ConfigError(f"{folder} lacks {name}, which {index} names; fetch it.")
        files[folder / name] = None
    return list(files)
