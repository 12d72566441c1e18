"""What begins a study, or makes it grow: requests, and the words of the commands that they become."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from attnlab.config.values import ConfigError
from attnlab.web.addresses import folder_at
from attnlab.web.laboratory import Laboratory

Name = Annotated[str, Field(max_length=200)]


class NewStudy(BaseModel):
    """A built-in question by its name, or a TOML file of the served folder."""

    study: Name
    quick: Annotated[str, Field(max_length=8)] = ""
    seeds: Annotated[str, Field(max_length=8)] = ""


class StudyGrowth(BaseModel):
    """More of a study: a number of seeds, or a further arm with what it changes."""

    seeds: Annotated[str, Field(max_length=8)] = ""
    arm: Name = ""
    changes: Annotated[str, Field(max_length=4000)] = ""


def growth(grown: StudyGrowth) -> list[str]:
    """The options of what a study has more."""
    seeds = added_seeds(grown)
    words = ["--seeds", str(seeds)] if seeds else []
    return [*words, *(word for change in added_arm(grown) for word in ("--arm", change))]


def added_seeds(grown: StudyGrowth) -> int:
    """How many seeds it is to have; 0 where nobody says."""
    return whole_number(grown.seeds, "The number of seeds") if grown.seeds.strip() else 0


def added_arm(grown: StudyGrowth) -> list[str]:
    """A further arm as --arm takes it, a setting each."""
    if bool(grown.arm.strip()) != bool(grown.changes.strip()):
        raise ConfigError("A further arm has a name and at least one setting, such as model.width=64.")
    changes = [line.strip() for line in grown.changes.splitlines() if line.strip()]
    return [f"{grown.arm.strip()}:{change}" for change in changes]


def whole_number(text: str, what: str) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) <= 1000:
        raise ConfigError(f'{what} is "{text}"; give a whole number from 1 to 1000.')
    return int(text)


def study_words(laboratory: Laboratory, asked: NewStudy) -> tuple[list[str], str]:
    """The words of the command that begins a study, and its name. A file is of the served folder, and has no
    code: that runs only where a person names it on the command line."""
    words, name = [asked.study.strip()], asked.study.strip()
    if "/" in name or "." in name:
        file = folder_at(laboratory.root, str(Path(name).parent)) if "/" in name else laboratory.root
        file = file / Path(name).name
        if file.suffix != ".toml":
            raise ConfigError(f'"{name}" is not a TOML file. A study in Python: attnlab run {name}')
        if not file.is_file() or not file.resolve().is_relative_to(laboratory.root):
            raise ConfigError(f'There is no file "{name}" in the served folder.')
        words, name = [str(file)], file.stem
    words += ["--quick"] if asked.quick else []
    words += ["--seeds", str(whole_number(asked.seeds, "The number of seeds"))] if asked.seeds.strip() else []
    if not name.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(f'"{name}" is neither a built-in study nor a TOML file of the served folder.')
    return words, f"{name}-quick" if asked.quick else name


def free_folder(root: Path, name: str) -> Path:
    """A folder of this name that nothing has, numbered where it must be."""
    numbers = (name if number == 1 else f"{name}-{number}" for number in range(1, 10_000))
    return next(root / one for one in numbers if not os.path.lexists(root / one))
