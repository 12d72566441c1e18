"""The models that a study's arms begin from: which there are, and what an arm's config makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from attnlab.config.files import load
from attnlab.config.schema import Config
from attnlab.config.values import Choice, ConfigError
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.session.setup import check, draft
from attnlab.session.start import Start, planned_start, start_at
from attnlab.studies.spec import OF_STUDY, Study


@dataclass(frozen=True)
class Beginning:
    """A start as an arm's config names it, and its tokenizer; `planned` where it is still to be trained."""

    name: str
    tokenizer: Choice
    planned: Start | None = None


def given(path: str) -> Beginning:
    """A start that exists."""
    tokenizer = {"kind": "file", "path": str(start_at(path).tokenizer_path)}
    return Beginning(path, TOKENIZERS.resolve(tokenizer))


def trained_first(study: Study) -> dict[str, Config]:
    """The configs of the starts that the study's arms ask for and that are not there yet."""
    wanted = {name for arm in study.arms for name in study.starts_of(arm)}
    found = {}
    for name, held in study.starts.items():
        if name in wanted and not isinstance(held, str):
            try:
                found[name] = check(load(held["base"], set=held["set"]))
            except ValueError as error:
                raise ConfigError(f"starts.{name} of {study.name}: {error}") from error
    return found


def planned(study: Study, first: Mapping[str, Config]) -> dict[str, Beginning]:
    """Every start, before any is trained."""
    wanted = {name for arm in study.arms for name in study.starts_of(arm)}
    there = {name: held for name, held in study.starts.items() if name in wanted and isinstance(held, str)}
    found = {name: given(path) for name, path in there.items()}
    for name, config in first.items():
        place, tokenizer = f"{OF_STUDY}{name}", config.data.tokenizer
        found[name] = Beginning(place, tokenizer, planned_start(Path(place), draft(config), tokenizer))
    return found


def begun(config: Config, beginnings: Mapping[str, Beginning]) -> Config:
    """A config with the study's names of starts replaced by what they stand for, checked."""
    named = str(config.data.tokenizer.options.get("path", ""))
    if named.startswith(OF_STUDY):
        tokenizer = beginnings[named.removeprefix(OF_STUDY)].tokenizer
        config = replace(config, data=replace(config.data, tokenizer=tokenizer))
    if not config.start.startswith(OF_STUDY):
        return check(config)
    start = beginnings[config.start.removeprefix(OF_STUDY)]
    return check(replace(config, start=start.name), start.planned)
