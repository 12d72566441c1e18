"""run.json: what a run was begun with, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Required, TypedDict

from attnlab.config.imports import CodeRecord
from attnlab.config.upgrade import upgrade
from attnlab.config.values import Choice, ConfigError
from attnlab.runs.faults import read_object, reading

RECORD = "run.json"


class BestRecord(TypedDict, total=False):
    """The checkpoint that dev chose, and beside it the very best score: where that is of another step, the
    two lie within its standard error."""

    step: int
    metric: str
    value: float | None
    top_step: int
    top_value: float | None
    top_error: float


class LabelRecord(TypedDict, total=False):
    """What is known of the labels that a model learned."""

    kind: str
    names: list[str]
    counts: list[int]
    examples: int
    mean: float
    deviation: float


class AveragedRecord(TypedDict):
    """Of which run, and of which of its steps, the weights are the mean."""

    run: str
    steps: list[int]


class MachineKind(TypedDict):
    """A machine that a run was computed by; `accelerator` is empty where that was the processor."""

    node: str
    processor: str
    accelerator: str


class ProcessesRecord(TypedDict, total=False):
    """How several processes trained a model together, when it was last begun or resumed."""

    strategy: str
    processes: int
    hosts: list[str]
    backend: str


class RunRecord(TypedDict, total=False):
    """What run.json may hold; earlier versions wrote less of it."""

    config: Required[dict[str, Any]]
    identity: str
    seed: Required[int]
    imports: list[CodeRecord]
    status: str
    error: str
    reason: str
    versions: dict[str, Any]
    processes: ProcessesRecord
    step: int
    best: BestRecord
    parameters: int
    flops: float
    tokens: int
    seconds: float
    processor: dict[str, float]
    machines: list[MachineKind]
    sound: bool
    unsound: list[str]
    failures: list[str]
    text: str | None
    data: dict[str, str] | None
    tokenizer: str
    order: str | None
    tokenizer_identity: dict[str, Any]
    tokenizer_text: dict[str, Any] | None
    start: str
    given: dict[str, str]
    fresh: list[str]
    labels: LabelRecord
    truncation: dict[str, dict[str, float]]
    epoch_batches: int | None
    trace: dict[str, dict[str, str] | None] | None
    initial: dict[str, str] | None
    averaged: AveragedRecord


@dataclass(frozen=True, kw_only=True)
class Fingerprints:
    """What decides a run's batches and their order, as run.json holds it."""

    text: str | None
    data: Mapping[str, str]
    tokenizer: str
    order: str
    tokenizer_identity: Mapping[str, Any]
    tokenizer_text: Mapping[str, Any] | None
    start: str
    given: Mapping[str, str]
    """Of splits that have files of their own, whatever share of the other text is held out."""


def read_record(path: Path) -> dict[str, Any]:
    """A run's run.json, its config in today's names."""
    file = path / RECORD
    try:
        with reading(file):
            return upgrade(read_object(file, RunRecord))
    except FileNotFoundError:
        raise ConfigError(f"{path} holds no run: there is no {RECORD} in it.") from None


def refuse_changes(
    before: Mapping[str, Any], now: Mapping[str, Any], path: Path, *, free: tuple[str, ...] = ()
) -> None:
    """Stop where another setting than those below `free` changed."""
    refused = [change for change in differences(before, now) if not change.setting.startswith(free)]
    changes = "; ".join(map(str, refused))
    if changes:
        raise ConfigError(
            f"{path} cannot be resumed: the config changed ({changes}). Resume with the "
            "config unchanged, or start a new run with another --out."
        )


@dataclass(frozen=True)
class Change:
    """A setting by its dotted name, with the value that it had and the one it has."""

    setting: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.setting} was {setting_text(self.before)}, now {setting_text(self.now)}"


def setting_text(value: Any) -> str:
    """A setting's value in a record, as a person writes it."""
    if isinstance(value, Mapping) and "kind" in value:
        return str(Choice(value["kind"], {name: v for name, v in value.items() if name != "kind"}))
    return "not set" if value == ABSENT else str(value)


ABSENT = "absent"


def differences(before: Any, now: Any, where: str = "") -> Iterator[Change]:
    """What changed between two configs."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*before, *now]):
            inner = f"{where}.{key}" if where else str(key)
            yield from differences(before.get(key, ABSENT), now.get(key, ABSENT), inner)
    elif before != now and not (_is_list(before) and _is_list(now) and list(before) == list(now)):
        yield Change(where, before, now)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


DECIDING = ("torch", "machine", "threads", "products")
ONE_PROCESS = {"processes": 1, "strategy": "one"}
"""What the last bits of a run depend on; several processes sum in another order."""


def other_versions(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Why a resumed run may differ in its last bits."""
    begun = {"products": "MKL", **ONE_PROCESS, **before}  # by which every product was made before
    here = ONE_PROCESS | dict(now)
    changed = [name for name in (*DECIDING, *ONE_PROCESS) if begun.get(name) != here[name]]
    if changed:
        what = "; ".join(f"{name} was {begun.get(name)}, now {here[name]}" for name in changed)
        yield f"The run was begun in another environment ({what}): it continues, but not bit for bit."


def fingerprints_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a run was trained and judged on, by its record."""
    own = {name: record.get(name) for name in ("text", "data", "tokenizer", "order")}
    given = {"given": record["given"]} if record.get("given") else {}
    return own | {"task": record["config"]["task"]} | given
