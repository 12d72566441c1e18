"""Runs that were made before: what is in a folder, and which of them may stand side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attnlab.config.schema import SECTIONS
from attnlab.config.values import ConfigError
from attnlab.experiment.soundness import failed_checks, failures, read_findings
from attnlab.studies.evidence import fed_apart
from attnlab.studies.guards import SURVIVES, dev, judged_apart, trained_apart, unspelt
from attnlab.studies.pool import read_result
from attnlab.training.folder import RECORD, read_record
from attnlab.training.listeners.metrics import read

MEASURES = ("loss", "perplexity", "bits_per_byte", "train_loss", "incremental_loss", "seconds")
JUDGED = ("loss", "perplexity")
"""Measures that count tokens, and so are withheld where tokenizers differ."""


def runs_in(folder: Path) -> list[dict[str, Any]]:
    """Every run below a folder, the newest last."""
    if not folder.is_dir():
        raise ConfigError(f"There is no folder {folder}; runs are in runs/ unless --out said otherwise.")
    places = sorted(file.parent for file in folder.rglob(RECORD))
    return sorted((about(place) for place in places), key=lambda run: str(run["date"]))


def about(place: Path) -> dict[str, Any]:
    """What a run's folder says of it."""
    record = read_record(place)
    events = list(read(place / "metrics.jsonl"))
    result = read_result(place)
    last = next((e for e in reversed(events) if e["event"] == "evaluated"), None)
    steps = max((e["step"] for e in events if e["event"] == "stepped"), default=0)
    seconds = sum(e["seconds"] for e in events if e["event"] == "stepped")
    evaluated = {"loss": last["loss"], **last["scores"]} if last is not None else {}
    findings = read_findings(place)  # all there is of a run that was refused or killed
    unsound = record.get("unsound") or failed_checks(findings)
    return {
        "folder": str(place),
        "name": name_of(place, record),
        "status": record.get("status", "unknown"),
        "seed": record["seed"],
        "steps": steps,
        "date": record.get("versions", {}).get("started", ""),
        "sound": not unsound,
        "unsound": unsound,
        "failures": failures(findings) or unsound,
        "measures": evaluated | {"seconds": seconds} | result.get("metrics", {}),
        "whole": result.get("status") == "finished" or whole_dev(record),
        **{name: record.get(name) for name in ("trace", "initial")},
        "fingerprints": {name: record.get(name) for name in ("text", "data", "tokenizer", "order")}
        | {"task": record["config"]["task"]},
        "config": record["config"],
    }


def name_of(place: Path, record: dict[str, Any]) -> str:
    """By the folder: the config's name with its hash, or study, arm and seed."""
    study = place.parents[2] / "study.json" if len(place.parts) > 3 else None
    if place.name.startswith("seed-") and study is not None and study.is_file():
        held = json.loads(study.read_text(encoding="utf-8"))
        return f"{held['study']['name']}: {place.parent.name}, {place.name.replace('-', ' ')}"
    return place.name


def whole_dev(record: dict[str, Any]) -> bool:
    """Whether the run's own evaluations went over all of dev."""
    return bool(record["config"]["training"]["evaluate_batches"] == "all")


def compared(places: Sequence[Path]) -> dict[str, Any]:
    """Runs side by side under a study's guards: what may not be set beside the first is withheld.

    Runs that were not judged on the same text are refused altogether. Where tokenizers differ, bits per
    byte is left; where training data or order differ, every number stands, but not as equals.
    """
    runs = [about(place) for place in places]
    for run in runs:
        if dev(run["fingerprints"]) is None:
            raise ConfigError(f"{run['folder']} has no dev split, so that there is nothing to compare it by.")
    first, notes = runs[0], list[str]()
    withheld: set[str] = set()
    for run in runs[1:]:
        pair = f"{run['folder']} beside {first['folder']}"
        reasons = judged_apart(run["fingerprints"], first["fingerprints"], metric=SURVIVES)
        if reasons:
            raise ConfigError(f"{pair}: {'; '.join(reasons)}. Their numbers do not mean the same.")
        by_tokens = judged_apart(run["fingerprints"], first["fingerprints"], metric="loss")
        if by_tokens:
            withheld.update(JUDGED, ("train_loss", "incremental_loss"))
            unpaid = unspelt(run["measures"], first["measures"])
            withheld.update([SURVIVES] if unpaid else [])
            notes.append(f"{pair}: {'; '.join([*by_tokens, *unpaid])}.")
        trained = trained_apart(run["fingerprints"], first["fingerprints"])
        if not trained and run["seed"] == first["seed"]:
            trained = fed_apart(run, first, changed=changed_settings(run["config"], first["config"]))
        notes += [f"Not equals: {pair}: {reason}." for reason in trained]
    notes += list(remarks(runs))
    shown = [m for m in MEASURES if m not in withheld and any(m in run["measures"] for run in runs)]
    return {"runs": runs, "measures": shown, "notes": list(dict.fromkeys(notes))}


def changed_settings(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The settings in which two recorded configs differ: "model.attention"."""
    found = []
    for name in dict.fromkeys([*one, *other]):
        mine, theirs = one.get(name), other.get(name)
        if name in SECTIONS and isinstance(mine, dict) and isinstance(theirs, dict):
            found += [f"{name}.{key}" for key in {*mine, *theirs} if mine.get(key) != theirs.get(key)]
        elif mine != theirs:
            found.append(name)
    return found


def remarks(runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    for run in runs:
        if not run["sound"]:
            checks = " and ".join(run["failures"])
            yield f"{run['folder']} is not sound: it failed the check {checks}, so its loss is not real."
        if run["status"] != "finished":
            yield f"{run['folder']} is {run['status']} at step {run['steps']}."
        if not run["whole"]:
            yield f"{run['folder']} was evaluated on a part of dev only (training.evaluate_batches)."
    if len(runs) > 1:
        yield "Single runs: how much is the luck of a seed, only a study with several seeds tells."
