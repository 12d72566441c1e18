"""A config before it is trained: its errors, or what it comes to, and the command that trains it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from attnlab.config.files import FOUNDATIONS, identity, load, named_configs, parse_override, to_json
from attnlab.config.schema import SECTIONS, Config
from attnlab.config.values import ConfigError, unknown_name, written
from attnlab.model.counts import count
from attnlab.runs.faults import RunError
from attnlab.session.session import Session, step_flops, step_tokens
from attnlab.web.actions import Answer
from attnlab.web.actions.files_read import outside_error, refuse_parts_outside, text_outside
from attnlab.web.worker_request import WorkerRequest

NO_CODE = (
    "imports asks for code of one's own, and the page runs none; train it from the command line, with "
    "--import."
)
Settings = dict[str, Any]
"""Dotted keys and their values."""


@dataclass(frozen=True)
class ConfigValues:
    """A ready config or preset, settings in sections over it, and over both overrides as `--set` takes
    them."""

    config: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    set: tuple[str, ...] = ()


@dataclass(frozen=True)
class SettingError:
    """A sentence about a config, and the setting that it is about where one alone is wrong."""

    message: str
    setting: str | None = None


def check_settings(asked: WorkerRequest) -> Answer:
    """The errors of a config, or what it comes to."""
    values = asked.read(ConfigValues)
    try:
        name, overrides = known_config(values.config), overrides_of(values)
    except ConfigError as error:
        return {"errors": [asdict(SettingError(str(error)))]}
    if any(key.partition(".")[0] == "imports" for key in overrides):
        return {"errors": [asdict(SettingError(NO_CODE, "imports"))]}
    if errors := errors_of(name, overrides):
        return {"errors": list(map(asdict, errors))}
    try:
        config = load(name, set=overrides)
        refuse_parts_outside(asked, config)
        paths = text_outside(asked, config)
        known = {"errors": [], "outside": str(outside_error(paths[0])) if paths else ""}
        return {**known, **facts_of(Session(config)), "command": command_of(values.config, overrides)}
    except (ConfigError, RunError, ValueError) as error:
        return {"errors": [asdict(SettingError(str(error)))]}


def config_of_values(values: ConfigValues) -> Config:
    """The config as it would be trained; the first thing that is wrong with it is raised."""
    overrides = overrides_of(values)
    if any(key.partition(".")[0] == "imports" for key in overrides):
        raise ConfigError(NO_CODE)
    return load(known_config(values.config), set=overrides)


def overrides_of(values: ConfigValues) -> Settings:
    return dict(flattened(values.settings)) | dict(map(parse_override, values.set))


def known_config(name: str) -> str | None:
    """A ready config or a preset by its name; the page reads no file that a request names."""
    if name and name not in named_configs():
        raise unknown_name("config", name, named_configs())
    return name or None


def flattened(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Settings in sections as dotted keys; a choice with options stays one value."""
    for name, value in settings.items():
        key = f"{above}{name}"
        section = isinstance(value, Mapping) and "kind" not in value and (above or name in SECTIONS)
        if section:
            yield from flattened(value, f"{key}.")
        else:
            yield key, value


def errors_of(name: str | None, overrides: Settings) -> list[SettingError]:
    """What is wrong with the settings: of each that is wrong by itself one sentence, else what is wrong with
    all of them together."""
    together = error_of(name, overrides)
    if not together:
        return []
    foundations = {key: value for key, value in overrides.items() if key in FOUNDATIONS}
    alone = {key: error_of(name, foundations | {key: value}) for key, value in overrides.items()}
    errors = [SettingError(message, key) for key, message in alone.items() if message]
    return errors or [SettingError(together)]


def error_of(name: str | None, overrides: Settings) -> str:
    try:
        load(name, set=overrides)
    except ValueError as error:
        return str(error)
    return ""


def facts_of(session: Session) -> Answer:
    """Sizes, memory and length of a run, counted before any text is read."""
    config = session.config
    length, tokens = config.data.length, step_tokens(config)
    rows = max(1, tokens // (length * config.training.accumulate))
    costs = count(session.draft, length=length, source_length=length, batch=rows)
    flops = step_flops(config, session.draft)
    return {
        **costs.as_json(),
        "rows": rows,
        "step_tokens": tokens,
        "step_flops": flops,
        "expected_tokens": expected_tokens(config, tokens, flops),
        "most_seconds": config.training.budget.limits.get("seconds"),
        "identity": identity(config),
        "config": to_json(config),
    }


def expected_tokens(config: Config, step: int, flops: float) -> float | None:
    """Tokens of text that the budget allows; None where that depends on the text, as of epochs, or on the
    machine, as of seconds alone."""
    limits = config.training.budget.limits
    if "epochs" in limits:
        return None
    each = {"steps": step, "tokens": 1.0, "flops": step / flops}
    return min((limits[name] * each[name] for name in limits if name in each), default=None)


def command_of(name: str, overrides: Settings) -> str:
    """The command that trains it."""
    words = ["attnlab", "train", *([name] if name else [])]
    for key, value in expanded(overrides):
        words += ["--set", f"{key}={setting_text(key, value)}"]
    return shlex.join(words)


def expanded(overrides: Settings) -> Iterator[tuple[str, Any]]:
    """A choice with options as its name, and its options below it: any text can be written so."""
    for key, value in overrides.items():
        options = value if isinstance(value, Mapping) else {}
        if "kind" in options and not any(isinstance(v, (Mapping, list)) for v in options.values()):
            yield key, options["kind"]
            yield from ((f"{key}.{name}", option) for name, option in options.items() if name != "kind")
        else:
            yield key, value


def setting_text(key: str, value: Any) -> str:
    """A value as `--set` reads it back."""
    if isinstance(value, str):
        return value if parse_override(f"{key}={value}")[1] == value else json.dumps(value)
    return toml(value)


def toml(value: Any) -> str:
    """A value in TOML's notation."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {toml(item)}" for name, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value) if isinstance(value, str) else written(value)
