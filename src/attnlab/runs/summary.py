"""What the folders of runs say: the state of each, how far it came, its last numbers, whether it is sound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attnlab.config.values import ConfigError
from attnlab.runs.findings import failed_checks, failures, read_findings
from attnlab.runs.metrics_file import METRICS_FILE, read_events
from attnlab.runs.record import RECORD, read_record
from attnlab.runs.result import read_result


def runs_in(folder: Path) -> list[dict[str, Any]]:
    """Every run below a folder, the newest last."""
    if not folder.is_dir():
        raise ConfigError(f"There is no folder {folder}; runs are in runs/ unless --out said otherwise.")
    places = sorted(file.parent for file in folder.rglob(RECORD))
    return sorted((about(place) for place in places), key=lambda run: str(run["date"]))


def about(place: Path) -> dict[str, Any]:
    """What a run's folder says of it."""
    record = read_record(place)
    events = list(read_events(place / METRICS_FILE))
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
