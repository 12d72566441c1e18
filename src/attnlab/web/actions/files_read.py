"""What a training that the page begins would read: nothing outside the served folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.config.files import load, named_configs, to_json
from attnlab.config.schema import Config
from attnlab.config.values import ConfigError
from attnlab.data.corpora import CORPORA
from attnlab.runs.faults import reading
from attnlab.runs.folder import RunFolder
from attnlab.runs.summary import STUDY_FILE
from attnlab.studies.builtin import STUDIES
from attnlab.studies.files_read import files_at, model_paths, text_paths, tokenizer_paths
from attnlab.studies.resolved import from_record, resolve
from attnlab.studies.runner import read_study_record
from attnlab.studies.spec import OF_STUDY, Study
from attnlab.studies.study_files import adjusted, load_study
from attnlab.training.continuing import resumable_step
from attnlab.web.actions import Answer
from attnlab.web.worker_request import WorkerRequest


@dataclass(frozen=True)
class StudyValues:
    """A built-in study or a TOML file of the served folder; empty: the study of the folder that is asked."""

    study: str = ""
    quick: bool = False
    arms: tuple[str, ...] = ()


@dataclass(frozen=True)
class ResumeValues:
    """What is set anew, as --set has it."""

    set: tuple[str, ...] = ()


def run_to_resume(asked: WorkerRequest) -> Answer:
    """Refuse to resume a run that reads files outside the served folder, that needs code of its own, or that
    has used up the budget that it is given."""
    values = asked.read(ResumeValues)
    config = RunFolder(asked.named_folder).config()
    refuse_outside(asked, config)
    if values.set:
        resumable_step(config, load(to_json(config), set=values.set), asked.named_folder)
    return {}


def study_to_run(asked: WorkerRequest) -> Answer:
    """Refuse a study, or arms that it is given, that cannot be trained or read files outside the folder."""
    values = asked.read(StudyValues)
    stored = stored_study(asked, values.study)
    base = stored.base if isinstance(stored.base, str) else ""
    if base and base not in named_configs() and not asked.holds(Path(base).expanduser()):
        raise outside_error(base)
    study = adjusted(stored, quick=values.quick, more=values.arms)
    for path in written_paths([study.base, study.starts]):
        if outside(asked, [path]):
            raise outside_error(path)
    for arm in study.arms:
        refuse_outside(asked, study.config(arm))
    resolved = resolve(study)
    for config in (*resolved.configs.values(), *resolved.starts.values()):
        refuse_outside(asked, config)
    return {}


def stored_study(asked: WorkerRequest, source: str) -> Study:
    if not source:
        folder = asked.named_folder
        record = read_study_record(folder)
        if record is None:
            raise ConfigError(f"{folder.name} holds no study: there is no {STUDY_FILE} in it.")
        with reading(folder / STUDY_FILE):
            return from_record(record)
    if source not in STUDIES:
        file = Path(source)
        if file.suffix != ".toml" or not asked.holds(file):
            raise ConfigError(f'"{source}" is neither a built-in study nor a TOML file of the served folder.')
    return load_study(source)


def refuse_outside(asked: WorkerRequest, config: Config) -> None:
    """Refuse text, pictures, tokenizers and starts that are not in the served folder."""
    refuse_parts_outside(asked, config)
    for path in text_outside(asked, config):
        raise outside_error(path)
    if config.model.picture is not None:
        refuse_pictures_outside(asked, config)


def refuse_pictures_outside(asked: WorkerRequest, config: Config) -> None:
    """Refuse pictures that rows of the text name, and that are elsewhere."""
    corpus = CORPORA.build(config.data.corpus)
    for split in corpus.given:
        for example in corpus.read(split):
            source = None if example.image is None else example.image.source
            if isinstance(source, Path) and not asked.holds(source):
                raise outside_error(str(source))


def refuse_parts_outside(asked: WorkerRequest, config: Config) -> None:
    """Refuse tokenizers and starts, which are read already where a config is checked."""
    written = to_json(config)
    for path in outside(asked, (*tokenizer_paths(written), *model_paths(written))):
        raise outside_error(path)


def text_outside(asked: WorkerRequest, config: Config) -> list[str]:
    """The paths of a config's text that are not in the served folder; what the hub has is in none."""
    corpus = config.data.corpus
    if corpus.kind == "hub":
        return [f"hub:{corpus.options['name']}"]
    return outside(asked, text_paths(to_json(config)))


def outside(asked: WorkerRequest, paths: Iterable[str]) -> list[str]:
    """Those of which any file is not in the served folder, links and patterns followed."""
    return [
        path
        for path in paths
        if not (asked.holds(Path(path).expanduser()) and all(map(asked.holds, files_at(path))))
    ]


def outside_error(path: str) -> ConfigError:
    return ConfigError(
        f"{path} is not in the folder that is served, so that the page does not read it; begin it from the "
        "command line."
    )


def written_paths(value: Any) -> Iterator[str]:
    """Every text in settings that is a path of something that exists."""
    if isinstance(value, str):
        exists = not value.startswith(OF_STUDY) and "/" in value and Path(value).expanduser().exists()
        yield from (value,) if exists else ()
    elif isinstance(value, Mapping):
        yield from (path for item in value.values() for path in written_paths(item))
    elif isinstance(value, (list, tuple)):
        yield from (path for item in value for path in written_paths(item))
