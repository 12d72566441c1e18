"""From files and --set to one complete, checked config, and to its identity."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from attnlab.config import schema
from attnlab.config.elsewhere import unknown_setting
from attnlab.config.imports import refuse_unseen
from attnlab.config.registry import Registry, as_json, locate, table
from attnlab.config.schema import FAMILIES, SECTIONS, Config
from attnlab.config.untrusted import beyond_python, refuse_device
from attnlab.config.values import Choice, ConfigError, choice_of, choices_of, coerce, nearest, unknown_name

FOUNDATIONS = ("model.preset", "model.family", "task")
"""Settings that bring others with them, and so come before all others."""


def load(
    file: str | Path | Mapping[str, Any] | None = None, *, set: Iterable[str] | Mapping[str, Any] = ()
) -> Config:
    """The config of a TOML file, a preset, plain settings or the defaults, with overrides.

    Code that it asks for with `imports` has been imported before, or nothing is done.
    """
    settings = _settings(file)
    if "imports" in settings:
        named = isinstance(file, (str, Path))
        place = Path(file).parent if isinstance(file, (str, Path)) else Path.cwd()
        refuse_unseen(settings.pop("imports"), str(file) if named else "The config", beside=place)
    overrides = list(set.items() if isinstance(set, Mapping) else map(parse_override, set))
    for key, value in overrides:
        if key in FOUNDATIONS:
            override(settings, key, value)
    settings = _with_task(settings)  # so that options are set on the task's and the preset's own choices
    override_all(settings, [(key, value) for key, value in overrides if key not in FOUNDATIONS])
    return config_of(settings)


def _settings(file: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    if file is None:
        return {}
    if isinstance(file, Mapping):
        return dict(file)
    presets = locate("attnlab.model.presets:PRESETS")
    if str(file) in presets:
        return {"model": {"preset": str(file)}}
    ready = ready_configs()
    if str(file) in ready:
        return read(ready[str(file)])
    if not Path(file).is_file():
        raise ConfigError(
            f"{file} is neither a file, a ready config nor a preset.{nearest(file, named_configs())} "
            f"Configs: {', '.join(ready)}. Presets: {', '.join(presets)}."
        )
    return read(Path(file))


def ready_configs() -> dict[str, Path]:
    """The configs that come with the package, by name."""
    folder = Path(__file__).parent.parent / "configs"
    return {file.stem: file for file in sorted(folder.glob("*.toml"))}


def named_configs() -> list[str]:
    """What a config may be begun from by its name: ready configs and presets."""
    return [*ready_configs(), *locate("attnlab.model.presets:PRESETS")]


def read(file: Path) -> dict[str, Any]:
    """The settings of a TOML or JSON file."""
    try:
        refuse_device(file)
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.") from error
    notation = "JSON" if file.suffix == ".json" else "TOML"
    try:
        settings = json.loads(text) if notation == "JSON" else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file} is not valid {notation}: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read: it has {beyond_python(error)}.") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"{file} must hold a table of settings, not {type(settings).__name__}.")
    return settings


def parse_override(text: str) -> tuple[str, Any]:
    """`key=value` with the value in TOML's notation; what TOML cannot read is plain text."""
    key, equals, written = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f'--set "{text}" is not key=value; write for example --set model.width=256.')
    try:
        return key.strip(), tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), written.strip()
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--set {key.strip()} cannot be read: it has {beyond_python(error)}.") from None


BUDGET = "training.budget"


def is_limit(key: str, value: Any) -> bool:
    """Whether a setting limits a run."""
    return key == BUDGET or (key.startswith(f"{BUDGET}.") and value != "unlimited")


def layered(*levels: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys of several levels as one. Of the limits of a run those that were set last count, alone."""
    merged: dict[str, Any] = {}
    for level in levels:
        if any(is_limit(key, value) for key, value in level.items()):
            merged = {key: value for key, value in merged.items() if not f"{key}.".startswith(f"{BUDGET}.")}
        merged |= level
    return merged


def override_all(settings: dict[str, Any], overrides: Iterable[tuple[str, Any]]) -> None:
    """Set dotted keys. Limits of a run take the place of all that were set before."""
    overrides = list(overrides)
    training = settings.get("training")
    if isinstance(training, Mapping) and any(is_limit(key, value) for key, value in overrides):
        settings["training"] = {name: value for name, value in training.items() if name != "budget"}
    for key, value in overrides:
        override(settings, key, value)


def override(settings: dict[str, Any], key: str, value: Any) -> None:
    """Set one dotted key. A key below a choice sets an option of that choice."""
    *path, last = key.split(".")
    place = settings
    for depth, name in enumerate(path):
        inner = place.get(name, {})
        within = depth > 0 or name not in SECTIONS
        if within and choices_of(inner) is not None:
            raise ConfigError(
                f"--set {key}: {'.'.join(path[: depth + 1])} is a list with one entry for each layer; set "
                "the whole list."
            )
        if within and not isinstance(inner, dict):  # a choice by its name: make room for options
            choice = written_choice(inner, path[: depth + 1])
            inner = {"kind": choice.kind, **choice.options}
        elif within and not inner and depth < 2:
            default = getattr(SECTIONS.get(path[0]) if depth else Config, name, None)
            inner = {"kind": default.kind} if isinstance(default, Choice) else {}
        if not isinstance(inner, dict):
            raise ConfigError(f'--set {key}: "{name}" is not a table.')
        place[name] = dict(inner)
        place = place[name]
    choices = table_of(path, last)
    place[last] = choices.instead(place[last], value, key) if choices and last in place else value


def written_choice(value: Any, path: list[str]) -> Choice:
    """A choice as its own table reads it: a corpus may be written as a path."""
    choices, where = table_of(path[:-1], path[-1]), ".".join(path)
    return choices.read(value, where) if choices else choice_of(value, where)


def table_of(path: list[str], name: str) -> Registry[Any] | None:
    """The table that a setting's choice is from, if it is one."""
    section = SECTIONS.get(path[0]) if len(path) == 1 else None if path else Config
    field = getattr(section, "__dataclass_fields__", {}).get(name)
    return table(field.metadata["table"]) if field and "table" in field.metadata else None


def config_of(settings: Mapping[str, Any]) -> Config:
    """A complete Config from plain settings: names checked, options filled in."""
    try:
        return _config_of(settings)
    except RecursionError:
        raise ConfigError("Choices are nested too deep to be read; nest a few at the most.") from None


def _config_of(settings: Mapping[str, Any]) -> Config:
    known = [f.name for f in fields(Config)]
    for name in settings:
        if name not in known:
            raise unknown_setting("Settings", name, settings[name], known)
    settings, values = _with_task(settings), {}
    for f in fields(Config):
        if f.name in SECTIONS:
            values[f.name] = section_of(f.name, settings.get(f.name, {}))
        elif "table" in f.metadata:
            values[f.name] = table(f.metadata["table"]).resolve(settings.get(f.name, f.default), f.name)
        elif f.name in settings:
            values[f.name] = coerce(settings[f.name], schema.declared(Config)[f.name], f.name)
    return Config(**values)


def section_of(name: str, settings: Any) -> Any:
    """One section, every choice in it complete."""
    if is_dataclass(settings):
        return settings
    if not isinstance(settings, Mapping):
        raise ConfigError(f"[{name}] is a table of settings, not {settings!r}.")
    section = SECTIONS[name]
    if name == "model":
        settings = _with_defaults(settings)
    return _filled(section, settings, name)


def _filled(section: Any, settings: Mapping[str, Any], name: str) -> Any:
    """A dataclass from settings; a field that is a dataclass itself is a table inside the table."""
    hints = schema.declared(section)
    declared = {f.name: f for f in fields(section)}
    for key in settings:
        if key not in declared:
            raise unknown_setting(f"Settings of [{name}]", key, settings[key], declared)
    values = {}
    for key, f in declared.items():
        where = f"{name}.{key}"
        if "word" in f.metadata and settings.get(key, f.default) == f.metadata["word"]:
            values[key] = f.default
        elif "table" in f.metadata:
            choices = table(f.metadata["table"])
            resolve = choices.resolve_each if f.metadata["by_layer"] else choices.resolve
            values[key] = resolve(settings.get(key, f.default), where)
        elif is_dataclass(hints[key]) and isinstance(settings.get(key), Mapping):
            values[key] = _filled(hints[key], settings[key], where)
        elif key in settings:
            values[key] = coerce(settings[key], hints[key], where)
    return section(**values)


def _with_task(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the head, the encoding and the batching that the task needs, where none are set."""
    sections = {name: settings.get(name, {}) for name in ("model", "data")}
    tasks = table("tasks")
    kind = tasks.read(settings.get("task", tasks.default), "task").kind
    if kind not in tasks or not all(isinstance(section, Mapping) for section in sections.values()):
        return dict(settings)  # told when they are resolved
    task = tasks[kind]
    model, data = dict(sections["model"]), dict(sections["data"])
    chosen = model.get("output")
    model = _with_defaults(model)
    if chosen is None and choice_of(model.get("output", "none"), "model.output").kind not in task.heads:
        model["output"] = task.head
    data = {"encoding": task.encodings[0], **({} if task.packs else {"batching": "bucketed"})} | data
    return {**settings, "model": model, "data": data}


def _with_defaults(model: Mapping[str, Any]) -> dict[str, Any]:
    """A model's settings over those of its preset, over those of its family."""
    presets = locate("attnlab.model.presets:PRESETS")
    settings = dict(model)
    preset = settings.pop("preset", None)
    if preset is not None:
        if not isinstance(preset, str) or preset not in presets:
            raise unknown_name("model.preset", preset, presets)
        settings = presets[preset] | settings
    return FAMILIES.get(str(settings.get("family", "decoder")), {}) | settings


def to_json(config: Config) -> dict[str, Any]:
    """The complete config as plain JSON; `config_of` reads it back."""
    result: dict[str, Any] = {}
    for f in fields(config):
        value = getattr(config, f.name)
        result[f.name] = plain(value)
    return result


def plain(value: Any) -> Any:
    """A section or a choice as the tables that files hold."""
    if is_dataclass(value) and not isinstance(value, (type, Choice)):
        settings = {f.name: getattr(value, f.name) for f in fields(value)}
        later = [f.name for f in fields(value) if f.metadata.get("later") and settings[f.name] == f.default]
        return {name: plain(setting) for name, setting in settings.items() if name not in later}
    return as_json(value)


def identity(config: Config) -> str:
    """The hash of the complete config: equal settings, however written, are equal here."""
    text = json.dumps(to_json(config), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
