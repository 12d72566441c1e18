"""What a run is, and does not change while it goes on: its settings, its data, its record."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnlab.config.files import to_json
from attnlab.config.schema import Config
from attnlab.config.values import ConfigError
from attnlab.documents.nodes import (
    Code,
    Definitions,
    Details,
    Inline,
    Node,
    Number,
    Sentence,
    Table,
    TableColumn,
)
from attnlab.runs.faults import RunError, read_object
from attnlab.runs.record import RECORD, RunRecord
from attnlab.web.indexed import IndexedRun


def still_parts(run: IndexedRun) -> dict[str, list[Node]]:
    """What does not change while it runs."""
    return {
        "What differs from the defaults": config_nodes(run),
        "Data": data_nodes(run),
        "Record": record_nodes(run),
    }


def config_nodes(run: IndexedRun) -> list[Node]:
    """The settings that are not at their defaults, and all of them on request."""
    usual, own = dict(_settings(to_json(Config()))), dict(_settings(run.summary.config))
    changed = [key for key, value in own.items() if not _same(value, usual.get(key))]
    rows = [
        (Code(key), Code(plain_setting(own[key])), Code(plain_setting(usual.get(key, "–"))))
        for key in changed
    ]
    columns = (TableColumn("setting", whole=True), "here", "default")
    nothing = Sentence("Nothing: every setting is at its default.")
    return [Table(columns, rows) if rows else nothing, _whole_config(run)]


def _settings(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting by its dotted name; a choice with its options is one."""
    for name, value in settings.items():
        key = f"{above}.{name}" if above else str(name)
        if isinstance(value, Mapping) and "kind" not in value:
            yield from _settings(value, key)
        else:
            yield key, value


def _same(value: Any, usual: Any) -> bool:
    """Whether a setting is at its default; a default choice may leave options out."""
    if isinstance(value, Mapping) and isinstance(usual, Mapping):
        return all(value.get(name) == own for name, own in usual.items())
    return bool(value == usual)


def _whole_config(run: IndexedRun) -> Node:
    rows = [(Code(key), Code(plain_setting(value))) for key, value in _settings(run.summary.config)]
    return Details(
        "All settings", [Table((TableColumn("setting", whole=True), "value"), rows)], only_pages=True
    )


def plain_setting(value: Any) -> str:
    """A recorded setting as a person writes it."""
    if isinstance(value, Mapping) and "kind" in value:
        options = ", ".join(f"{name}={plain_setting(own)}" for name, own in value.items() if name != "kind")
        return f"{value['kind']}({options})" if options else str(value["kind"])
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def data_nodes(run: IndexedRun) -> list[Node]:
    """Which text, how it was cut, and by which fingerprints it is known."""
    record = record_of(run.folder)
    rows: list[tuple[Inline, ...]] = []
    for split, cut in (record.get("truncation") or {}).items():
        shares = [
            Number(cut.get(name), form="percent", decimals=2)
            for name in ("texts_cut_share", "tokens_cut_share")
        ]
        rows.append(
            (split, Number(cut.get("texts"), form="count"), Number(cut.get("tokens"), form="count"), *shares)
        )
    columns = [TableColumn("split"), *(TableColumn(name, right=True) for name in CUTS)]
    given = record.get("data") or {}
    prints: list[tuple[Inline, Inline]] = [
        (f"fingerprint of {split}", Code(str(value))) for split, value in given.items()
    ]
    prints += [
        ("tokenizer", Code(str(record.get("tokenizer", "–")))),
        ("start", str(record.get("start", "scratch"))),
    ]
    corpus = plain_setting(run.summary.config.get("data", {}).get("corpus", "–"))
    shown: list[Node] = [Definitions([("corpus", Code(corpus)), *prints], "config")]
    return [Table(columns, rows, title="What was cut off"), *shown] if rows else shown


CUTS = ("texts", "tokens", "texts cut", "tokens cut")


def record_nodes(run: IndexedRun) -> list[Node]:
    record = record_of(run.folder)
    versions = [(name, str(value)) for name, value in (record.get("versions") or {}).items()]
    again = shlex.join(["attnlab", "train", "--from", str(run.folder)])
    return [
        Sentence("The same again, in a new folder:"),
        Code(again),
        Definitions([("identity", Code(str(record.get("identity", "–")))), *versions], "config"),
    ]


def record_of(folder: Path) -> Mapping[str, Any]:
    """run.json as it is; empty where it cannot be read, which the run's state says."""
    try:
        return read_object(folder / RECORD, RunRecord)
    except (RunError, ConfigError, OSError):
        return {}
