"""`attnlab convert`: what a source is decides the direction, and a run is opened before it is given out."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from attnlab.config.untrusted import read_json
from attnlab.config.values import ConfigError
from attnlab.experiment.stored import without_adapter
from attnlab.experiment.trained import open_run
from attnlab.interop.certificate import Certificate
from attnlab.interop.class_names import counted, in_unit
from attnlab.interop.exchange import give_onnx, give_out, take_in
from attnlab.interop.fetch import fetch
from attnlab.interop.foreign import CONFIG
from attnlab.runs.record import RECORD


def convert(
    source: str | Path,
    target: str | Path,
    *,
    output: Any = None,
    tokenizer: str | Path | None = None,
    accept: Collection[str] = (),
    vocabulary: int | None = None,
    length: int | None = None,
) -> Certificate:
    """Take a folder of transformers (or a hub's owner/name) in, or give a run of ours out; certified."""
    place, out = Path(source), Path(target)
    choices: dict[str, Any] = {
        "output": output,
        "tokenizer": tokenizer,
        "accept": accept,
        "vocabulary": vocabulary,
        "length": length,
    }
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise ConfigError(f"{out} is there already and not empty; give a folder that is not there yet.")
    if (place / RECORD).is_file() or place.parent.name == "checkpoints":
        if any(choices.values()):
            raise ConfigError(
                f"{place} is a run, which is exported unchanged; --head, --vocabulary, --length and "
                "--accept are for importing."
            )
        return _give_out(place, out)
    if out.suffix == ".onnx":
        raise ConfigError(
            f"Only a run can be exported as ONNX; import {source} first: attnlab convert {source} FOLDER"
        )
    if (place / CONFIG).is_file():
        return take_in(place, out, **choices)
    if place.exists():
        raise ConfigError(f"{place} holds neither a run ({RECORD}) nor a checkpoint ({CONFIG}).")
    return take_in(fetch(str(source)), out, **choices)


def _give_out(run: Path, target: Path) -> Certificate:
    trained = open_run(run)
    model, settings = without_adapter(trained.model, run), trained.config.model
    labels = trained.labels
    if labels.kind != "none":
        model, settings = in_unit(model, labels), counted(settings, labels)
    if target.suffix == ".onnx":
        return give_onnx(model, settings, target)
    base = read_json(trained.folder / RECORD).get("source", {}).get("config", {})
    return give_out(model, settings, trained.tokenizer, target, base=base, labels=labels)
