"""The models that a study's arms begin from: which there are, and what an arm's config makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from attnlab.config.files import load
from attnlab.config.schema import Config
from attnlab.config.values import ConfigError
from attnlab.session.session import Session, draft_settings
from attnlab.session.start import Start, planned_start, start_at
from attnlab.studies.spec import OF_STUDY, Study


def trained_first(study: Study) -> dict[str, Config]:
    """The configs of the starts that the study's arms ask for and that are not there yet."""
    wanted = {name for arm in study.arms for name in study.starts_of(arm)}
    configs = {}
    for name, given in study.starts.items():
        if name in wanted and not isinstance(given, str):
            try:
                configs[name] = Session(load(given["base"], set=given["set"])).config
            except ValueError as error:
                raise ConfigError(f"starts.{name} of {study.name}: {error}") from error
    return configs


def plan_starts(study: Study, first: Mapping[str, Config]) -> dict[str, Start]:
    """Every start, before any is trained."""
    wanted = {name for arm in study.arms for name in study.starts_of(arm)}
    there = {name: path for name, path in study.starts.items() if name in wanted and isinstance(path, str)}
    starts = {name: start_at(path) for name, path in there.items()}
    for name, config in first.items():
        starts[name] = planned_start(f"{OF_STUDY}{name}", draft_settings(config), config.data)
    return starts


def with_start(config: Config, starts: Mapping[str, Start]) -> Config:
    """A config with the study's names of starts replaced by what they stand for, validated."""
    named = str(config.data.tokenizer.options.get("path", ""))
    if named.startswith(OF_STUDY):
        tokenizer = starts[named.removeprefix(OF_STUDY)].tokenizer_of_others
        config = replace(config, data=replace(config.data, tokenizer=tokenizer))
    if not config.start.startswith(OF_STUDY):
        return Session(config).config
    start = starts[config.start.removeprefix(OF_STUDY)]
    return Session(replace(config, start=start.name), start=start).config
