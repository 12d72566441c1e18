"""The files beside a run's own folder that it reads: of its corpus, tokenizer and start, and own code."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.config.imports import CodeRecord
from attnlab.config.schema import SCRATCH
from attnlab.data.corpora.own_files import found
from attnlab.runs.checkpoints import FOLDER
from attnlab.session.stored import PACKAGED
from attnlab.studies.engines.engine import JobRequest
from attnlab.studies.spec import OF_STUDY

READ_FROM = ("path", "dev", "test", "target_path", "target_dev", "target_test")
"""Options of a corpus that name files."""


def data_paths(config: Mapping[str, Any]) -> Iterator[str]:
    """The paths of data in a config, as it is recorded: of its corpus, and of tokenizers that are given."""
    yield from text_paths(config)
    yield from tokenizer_paths(config)


def text_paths(config: Mapping[str, Any]) -> Iterator[str]:
    corpus = config["data"]["corpus"]
    if corpus["kind"] == "files":
        for option in READ_FROM:
            named = corpus.get(option, ())
            yield from (named,) if isinstance(named, str) else named


def tokenizer_paths(config: Mapping[str, Any]) -> Iterator[str]:
    tokenizers = [config["data"]["tokenizer"], config["data"].get("target_tokenizer")]
    for tokenizer in tokenizers if config["start"] == SCRATCH else ():
        if isinstance(tokenizer, Mapping) and tokenizer["kind"] == "file":
            path = str(tokenizer["path"])
            yield from () if path.startswith(OF_STUDY) else (path,)


def model_paths(config: Mapping[str, Any]) -> Iterator[str]:
    """The model that it begins from, where that is a path."""
    start = str(config["start"])
    if start != SCRATCH and start not in PACKAGED and not start.startswith(OF_STUDY):
        yield start


@dataclass(frozen=True)
class FilesRead:
    """What a job reads beside its own folder: files by their absolute paths, what another seed's run has
    found by now, the strings of its request that are absolute paths, and the folders that its own modules
    are imported from."""

    files: tuple[Path, ...]
    findings: tuple[Path, ...]
    paths: frozenset[str]
    modules: tuple[str, ...] = ()


def files_read(request: JobRequest) -> FilesRead:
    """All that a machine without this one's files needs for a job. What is not there is left out: the run
    says so itself, and the others go on."""
    config = request.config
    data, models = list(data_paths(config)), list(model_paths(config))
    named = [*data, *models, *paths_in(config["data"]), request.folder, request.first]
    named += [record["file"] for record in request.imports]
    files = [file for path in data for file in files_at(path)]
    files += [Path(path) for path in paths_in(config["data"])]
    files += [file for path in models for file in model_files(Path(path).expanduser())]
    files += [file for record in request.imports for file in code_files(record)]
    modules = [top for record in request.imports if (top := package_folder(record))]
    return FilesRead(
        tuple(dict.fromkeys(file.absolute() for file in files if file.is_file())),
        tuple(file.absolute() for file in first_findings(request.first)),
        frozenset(path for path in named if path and Path(path).expanduser().is_absolute()),
        tuple(dict.fromkeys(modules)),
    )


def files_at(path: str) -> list[Path]:
    try:
        return found(path)
    except (ValueError, OSError):
        return []


def paths_in(value: Any) -> Iterator[str]:
    """The strings of a config that are paths of files, whatever part asks for them."""
    if isinstance(value, str):
        yield from (value,) if "/" in value and Path(value).expanduser().is_file() else ()
    elif isinstance(value, Mapping):
        yield from (path for inner in value.values() for path in paths_in(inner))
    elif isinstance(value, (list, tuple)):
        yield from (path for inner in value for path in paths_in(inner))


def model_files(place: Path) -> Iterator[Path]:
    """Those of a model's folder; of one checkpoint of a run, what the run's other checkpoints share, too."""
    if place.parent.name == FOLDER and place.is_dir():
        yield from (file for folder in place.parents[:2] for file in folder.iterdir() if is_sent(file))
    yield from (file for file in place.rglob("*") if is_sent(file)) if place.is_dir() else (place,)


def is_sent(file: Path) -> bool:
    return file.is_file() and not file.name.startswith(".") and file.name != "lock"


def first_findings(first: str) -> Iterator[Path]:
    """What another seed's run of the same arm has found before training, if it has by now."""
    if first:
        yield from (file for name in ("run.json", "checks.json") if (file := Path(first, name)).is_file())


def code_files(record: CodeRecord) -> Iterable[Path]:
    """A file of own code, and the modules beside and below it that it has imported."""
    own = Path(record["file"])
    top = Path(package_folder(record) or own.parent)
    loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    beside = [Path(file) for file in loaded if isinstance(file, str) and Path(file).is_relative_to(top)]
    return [own, *(file for file in beside if file != own and "site-packages" not in file.parts)]


def package_folder(record: CodeRecord) -> str:
    """The folder that a module of a package is imported from; empty of a file of its own."""
    depth = record["module"].count(".") + (Path(record["file"]).name == "__init__.py")
    return str(Path(record["file"]).parents[depth]) if depth else ""
