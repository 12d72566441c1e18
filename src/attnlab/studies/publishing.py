"""A study as one file that others run: its settings, own code and data, with hashes and relative paths."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, cast

from attnlab.config.files import plain
from attnlab.config.imports import CodeRecord, changed_code
from attnlab.config.values import ConfigError, Settings
from attnlab.data.corpora.own_files import found
from attnlab.runs.atomic import as_bytes, hash_of
from attnlab.runs.faults import reading
from attnlab.runs.summary import STUDY_FILE, ResolvedRecord
from attnlab.studies.archive import MANIFEST, Packed, unpack, write_archive
from attnlab.studies.files_read import data_paths, model_paths
from attnlab.studies.resolved import from_record
from attnlab.studies.runner import read_study_record
from attnlab.studies.spec import Study
from attnlab.studies.study_files import GIVEN, load_study

CODE, DATA, TOML = "code", "data", "study.toml"


@dataclass(frozen=True)
class PublishedStudy:
    """What an archive holds, and what whoever runs it must bring along."""

    file: Path
    code: tuple[str, ...]
    data: tuple[str, ...]
    left_out: tuple[str, ...]
    """Files of data that are named by their hash alone."""
    needs: tuple[str, ...]
    """Models that arms begin from, which are not packed."""


def publish(folder: Path, target: Path, *, with_data: bool = False) -> PublishedStudy:
    """Write a study's folder as one zip file: its study.json and TOML, own code, and `with_data` its data."""
    record = read_study_record(folder)
    if record is None:
        raise ConfigError(f"{folder} holds no study: there is no {STUDY_FILE} in it.")
    if target.suffix != ".zip":
        raise ConfigError(f"{target} must end in .zip.")
    if target.exists():
        raise ConfigError(f"{target} already exists; give another name, or remove it.")
    configs = list(record.get("configs", {}).values())
    with reading(folder / STUDY_FILE):
        names, data = data_names(configs)
        needs = tuple(sorted({start for config in configs for start in model_paths(config)}))
    code = {f"{CODE}/{Path(one['file']).name}": one for one in record.get("imports", ())}
    for archived, one in code.items():
        _refuse_changed(archived, one)
    kept = _with_names({name: record[name] for name in ("study", "identity")}, names)
    _refuse_paths_within(kept, names)
    kept["imports"] = [{**one, "file": archived} for archived, one in code.items()]
    files: dict[str, Path | bytes] = {
        STUDY_FILE: as_bytes(kept),
        TOML: toml_of(kept["study"], [*code]).encode(),
        **{archived: Path(one["file"]) for archived, one in code.items()},
        **(data if with_data else {}),
    }
    left_out = {} if with_data else data
    write_archive(target, files, left_out)
    return PublishedStudy(target, tuple(code), tuple(data if with_data else ()), tuple(left_out), needs)


def data_names(configs: Sequence[Settings]) -> tuple[dict[str, str], dict[str, Path]]:
    """What paths of data are called in an archive, as configs have them; and the file of each name there."""
    paths = dict.fromkeys(path for config in configs for path in data_paths(config))
    names, files, taken = dict[str, str](), dict[str, Path](), set[str]()
    for number, path in enumerate(paths):
        single = Path(path).expanduser().is_file()
        name = Path(path).name if single else f"{number}"
        name = name if name not in taken else f"{number}-{name}"
        taken.add(name)
        names[path] = f"{DATA}/{name}"
        for file in found(path):
            archived = names[path] if single else f"{names[path]}/{_below(file, path)}"
            files[archived] = file
    return names, files


def _below(file: Path, path: str) -> str:
    folder = Path(path).expanduser()
    return file.relative_to(folder).as_posix() if folder.is_dir() else file.name


def _refuse_changed(archived: str, record: CodeRecord) -> None:
    """Stop where own code is gone, or is not what the study was run with."""
    file = Path(record["file"])
    if not file.is_file():
        raise ConfigError(f"The study uses {file}, which is gone; restore it, and publish again.")
    if hash_of(file)[:16] != record["hash"]:
        raise ConfigError(
            f"{file} has changed since the study was run (hash {record['hash']}); restore it, or run the "
            "study again."
        )


def _refuse_paths_within(value: Any, names: Mapping[str, str]) -> None:
    """Stop where a path is written within another value, and would be one of this machine elsewhere."""
    if isinstance(value, (Mapping, list)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            _refuse_paths_within(inner, names)
    elif isinstance(value, str) and value.startswith("files(") and any(path in value for path in names):
        raise ConfigError(
            f'The study has its data as "{value}"; write data.corpus.path as a table to publish it.'
        )


def _with_names(value: Any, names: Mapping[str, str]) -> Any:
    """A record in which paths of data have other names."""
    if isinstance(value, Mapping):
        return {key: _with_names(inner, names) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_names(inner, names) for inner in value]
    return names.get(value, value) if isinstance(value, str) else value


# ---------------------------------------------------------------- run elsewhere
def open_study(source: str | Path) -> Study:
    """A study by its name or file, as `load_study`; a published one (.zip); or one that was run, by its
    folder or its study.json. Its own code is run only where the person has agreed to it."""
    place = Path(source)
    if place.suffix == ".zip" and place.is_file():
        return _unpacked(place)
    folder = place.parent if place.name == STUDY_FILE else place
    if not (folder / STUDY_FILE).is_file():
        return load_study(source)
    if (folder / MANIFEST).is_file():
        return _published(folder)
    record = read_study_record(folder)
    assert record is not None
    with reading(folder / STUDY_FILE):
        return from_record(record)


def _unpacked(archive: Path) -> Study:
    folder = Path(archive.stem)
    for name, packed in unpack(archive, folder).items():
        _refuse_missing(folder / name, packed)
    return _published(folder)


def _refuse_missing(file: Path, packed: Packed) -> None:
    """Stop where data that was left out is not there, or is another file."""
    if not file.is_file():
        raise ConfigError(
            f"The study was published without {file.name} ({packed.bytes:,} bytes, SHA-256 {packed.sha256}); "
            f"put it at {file}, and run the study again."
        )
    if hash_of(file) != packed.sha256:
        raise ConfigError(f"{file} is not the file of the published study (SHA-256 {packed.sha256}).")


def _published(folder: Path) -> Study:
    """The study of an unpacked archive, its data and its code in that folder."""
    file = folder / STUDY_FILE
    with reading(file):
        record = cast(ResolvedRecord, json.loads(file.read_text(encoding="utf-8")))
        names = {name: str(folder / name) for name in _named_data(record)}
        code = [
            cast(CodeRecord, {**one, "file": str((folder / one["file"]).resolve())})
            for one in record.get("imports", ())
        ]
        here = cast(ResolvedRecord, {**_with_names(record, names), "imports": code})
        study = from_record(here)
    if changed := changed_code(code):
        raise ConfigError(f"{' '.join(changed)} Import {folder / CODE}, as it was published.")
    return study


def _named_data(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (name for inner in value.values() for name in _named_data(inner))
    elif isinstance(value, list):
        yield from (name for inner in value for name in _named_data(inner))
    elif isinstance(value, str) and value.startswith(f"{DATA}/"):
        yield value


# ---------------------------------------------------------------- as a person reads and changes it
def toml_of(study: Settings, code: list[str]) -> str:
    """A study's settings as a TOML file that `attnlab run` takes."""
    usual = {
        f.name: json.loads(json.dumps(plain(f.default))) for f in fields(Study) if f.default is not MISSING
    }
    settings = {
        name: value
        for name, value in study.items()
        if name not in GIVEN and value != usual.get(name) and value != {}
    }
    tables = {name: settings.pop(name) for name in list(settings) if isinstance(settings[name], Mapping)}
    lines = [f"{name} = {_value(value)}" for name, value in settings.items()]
    lines += [f"imports = {_value(code)}"] if code else []
    for name, table in tables.items():
        if all(isinstance(inner, Mapping) for inner in table.values()):
            for key, inner in table.items():
                lines += ["", f"[{name}.{_key(key)}]", *_lines(inner)]
        else:
            lines += ["", f"[{name}]", *_lines(table)]
    return "\n".join(["# In this folder: attnlab run study.toml", *lines]) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {_value(value)}" for name, value in table.items()]


def _key(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    """A value in TOML: its strings and numbers are those of JSON."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_value(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return json.dumps(value, ensure_ascii=False)
