"""Studies from TOML and Python files, and as a person asks for them."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from attnlab.config.elsewhere import unknown_setting
from attnlab.config.files import parse_override, read
from attnlab.config.imports import IMPORTED, import_code, loaded_from, refuse_unseen, registers
from attnlab.config.schema import Budget, Config
from attnlab.config.values import ConfigError, Settings, coerce, unknown_name
from attnlab.studies.extras import refuse_unseen_extras
from attnlab.studies.spec import QUICK_SEEDS, Quick, Study, flat

GIVEN = ("card", "is_quick", "overrides")
"""What a study's file does not say: it comes from how the study was found and asked for."""


def study_of(settings: Mapping[str, Any], *, name: str, beside: Path | None = None) -> Study:
    """A study from a file's settings; unknown keys and values are named with the nearest valid one.

    Code that it asks for, `beside` its file or elsewhere, has been imported before, or nothing is done.
    """
    settings, place = dict(settings), beside or Path.cwd()
    refuse_unseen(settings.pop("imports", ()), f"Study {name}", beside=place)
    refuse_unseen_extras(settings.get("extras"), f"Study {name}", beside=place)
    hints = typing.get_type_hints(Study, include_extras=True)
    declared = [f.name for f in fields(Study) if f.name not in GIVEN]
    for key in settings:
        if key not in declared:
            raise unknown_setting(f"Settings of study {name}", key, settings[key], [*declared, "imports"])
    for needed in ("question", "arms"):
        if needed not in settings:
            raise ConfigError(f"Study {name} has no `{needed}`; {_NEEDS[needed]}")
    values = {"name": name} | {key: _value(key, value, hints[key]) for key, value in settings.items()}
    return Study(**values)


_NEEDS = {
    "question": "say in a sentence what its verdict should answer.",
    "arms": 'write [arms.NAME] tables, each with the settings that it changes: "model.attention" = "linear".',
}


def _value(key: str, value: Any, kind: Any) -> Any:
    if key == "quick":
        return _quick(value)
    if key in ("arms", "against", "set", "starts", "budget", "allow"):
        return _table(key, value)
    if key == "base":
        return _base(value)
    return coerce(value, kind, key)


def _table(key: str, value: Any) -> Settings:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{key} is a table, not {value!r}.")
    if key == "budget":
        hints = typing.get_type_hints(Budget, include_extras=True)
        for name in value:
            if name not in hints:
                raise unknown_setting("budget", name, value[name], hints)
        return {name: coerce(limit, hints[name], f"budget.{name}") for name, limit in value.items()}
    if key == "allow":
        return {arm: coerce(checks, tuple[str, ...], f"allow.{arm}") for arm, checks in value.items()}
    if key == "against":
        return {arm: coerce(baseline, str, f"against.{arm}") for arm, baseline in value.items()}
    if key == "arms":
        return {arm: _table(f"arms.{arm}", changes) for arm, changes in value.items()}
    return dict(value)


def _base(value: Any) -> str | Settings:
    if isinstance(value, Mapping):
        known = [f.name for f in fields(Config) if f.name != "seed"]
        for name in value:
            if name not in known:
                raise unknown_setting("base", name, value[name], known)
        return dict(value)
    return str(coerce(value, str, "base"))


def _quick(value: Any) -> Quick:
    given = _table("quick", value)
    hints = typing.get_type_hints(Quick, include_extras=True)
    for name in given:
        if name not in hints:
            raise unknown_setting("quick", name, given[name], hints)
    tables = {name: _table(name, given[name]) for name in ("budget", "set") if name in given}
    return Quick(
        seeds=coerce(given.get("seeds", QUICK_SEEDS), int, "quick.seeds"),
        budget=tables.get("budget", {}),
        set=flat(tables.get("set", {})),
        arms=flat(_table("quick.arms", given.get("arms", {}))),
    )


def load_study(source: str | Path) -> Study:
    """A built-in study by its name, a TOML file's, or what the function `study` of a Python file gives."""
    from attnlab.studies.builtin import STUDIES, builtin

    file = Path(source)
    if str(source) in STUDIES:
        return builtin(str(source))
    if not file.is_file():
        raise ConfigError(
            f"{unknown_name('Studies', source, STUDIES)} A study of your own is a TOML or Python file."
        )
    if file.suffix == ".py":
        return _from_python(file)
    return study_of(read(file), name=file.stem, beside=file.parent)


def _from_python(file: Path) -> Study:
    """A person who names a Python file to run has agreed to its code; workers import it, too."""
    code = import_code(file)
    module = loaded_from(code.file)
    made = getattr(module, "study", lambda: None)()
    if not isinstance(made, Study):
        raise ConfigError(
            f"{file} must have a function `study` that gives an attnlab.studies.spec.Study; it gave "
            f"{type(made).__name__}."
        )
    if not registers(code) and not made.extras.startswith(f"{code.module}:"):
        del IMPORTED[code.file]  # no run needs it again
    return replace(made, card=made.card or (module.__doc__ or "").strip())


def adjusted(
    study: Study,
    *,
    quick: bool = False,
    seeds: int | None = None,
    set: Iterable[str] | Mapping[str, Any] = (),
    only: Iterable[str] = (),
    more: Iterable[str] = (),
) -> Study:
    """A study as a person asked for it on the command line or from Python; `more` are further arms, each
    "NAME:KEY=VALUE"."""
    study = study.quickly() if quick else study
    study = replace(study, arms=with_arms(study.arms, more)) if more else study
    changes = dict(set) if isinstance(set, Mapping) else dict(map(parse_override, set))
    study = study.changed(changes) if changes else study
    study = study.only(only) if only else study
    if seeds is not None:
        if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
            raise ConfigError(f"--seeds is {seeds!r}; it must be a whole number of at least 1.")
        study = replace(study, seeds=seeds)
    return study


def with_arms(arms: Mapping[str, Mapping[str, Any]], more: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Arms and further ones, each given as "NAME:KEY=VALUE"; of one name, all of its settings."""
    added: dict[str, Settings] = {}
    for text in more:
        name, colon, change = text.partition(":")
        if not colon or not name.strip():
            raise ConfigError(
                f'--arm "{text}" is not NAME:KEY=VALUE; write for example --arm narrow:model.width=64.'
            )
        if name.strip() in arms:
            raise ConfigError(
                f'The study has an arm "{name.strip()}" already; give another name, or change it with '
                f"--set arms.{name.strip()}.{change}."
            )
        key, value = parse_override(change)
        added.setdefault(name.strip(), {})[key] = value
    return {**arms, **added}
