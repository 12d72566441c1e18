"""A study: a question, a base config, arms that each change named fields, seeds and a budget."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from attnlab.checks import CHECKS
from attnlab.config.files import layered, load
from attnlab.config.schema import Budget, Config
from attnlab.config.values import ConfigError, Settings, unknown_name
from attnlab.metrics.measures import measures
from attnlab.session.start import start_at
from attnlab.studies.equality import TOPICS
from attnlab.studies.extras import extras_of
from attnlab.targets.recipes import RECIPES
from attnlab.tasks import TASKS

PROBES = (
    "After learning language models model natural language.",
    "The quick brown fox jumps over the lazy dog.",
    "Amidst the twilight, the ancient ruins whispered secrets long forgotten.",
    "Quantum entanglement fascinates physicists and philosophers alike, bridging worlds with invisible "
    "threads.",
)
MOST_SEEDS = 100_000
"""Of a study: each is a run of every arm, and all are listed before the first."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
RATE = "training.optimizer.learning_rate"
BUDGET = "training.budget"
OF_STUDY = "study:"
"""Before the name of one of the study's own starts: start = "study:encoder"."""
QUICK_SEEDS, QUICK_SHARE = 3, 0.1


@dataclass(frozen=True, kw_only=True)
class Quick:
    """What --quick changes: fewer seeds, a smaller budget, and settings of its own."""

    seeds: int = QUICK_SEEDS
    budget: Mapping[str, float] = field(default_factory=dict)  # empty: a tenth of every limit
    set: Mapping[str, Any] = field(default_factory=dict)
    arms: Mapping[str, Any] = field(default_factory=dict)  # "NAME.KEY": of arms, as with --set arms.NAME.KEY


@dataclass(frozen=True, kw_only=True)
class Study:
    """Every field can be a key of a study's TOML file; `attnlab show masking` shows one at work."""

    name: str = "study"
    question: str
    arms: Mapping[str, Mapping[str, Any]]
    baseline: str = ""  # empty: the first arm
    against: Mapping[str, str] = field(default_factory=dict)  # arms that have a baseline of their own
    hypothesis: str = ""
    card: str = ""
    base: str | Mapping[str, Any] = "mini-gpt"
    set: Mapping[str, Any] = field(default_factory=dict)  # what all arms change in the base
    starts: Mapping[str, Any] = field(default_factory=dict)
    """Models that arms begin from, as start = "study:NAME" (and data.tokenizer = "study:NAME" has the same
    tokenizer without its weights). Each is a path, or a run that is trained first: a table of `base`, `set`
    and what --quick sets (`quick`)."""
    seeds: int | tuple[int, ...] = 5
    budget: Mapping[str, float] = field(default_factory=dict)  # empty: the base's own
    match: Literal["", "parameters"] = ""
    about: tuple[str, ...] = ()  # differences between arms that are the point: size, budget, learning_rate, …
    metric: str = "loss"
    learning_rates: tuple[float, ...] = ()  # to try for every arm, before the study itself
    collapse: Literal["invalid", "result"] = "invalid"  # what a classifier at the majority share is
    allow: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # checks an arm may fail and go on
    probes: tuple[str, ...] = PROBES
    sentence: str = PROBES[1]  # whose attention is drawn
    extras: str = ""  # "package.module:Class" with measures of the study's own
    quick: Quick = Quick()
    is_quick: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)  # what a person changed with --set

    def __post_init__(self) -> None:
        _set(self, "arms", {name: flat(changes) for name, changes in self.arms.items()})
        _set(self, "set", flat(self.set))
        _set(self, "starts", {name: start_settings(name, start) for name, start in self.starts.items()})
        _set(self, "baseline", self.baseline or next(iter(self.arms), ""))
        if isinstance(self.seeds, int):
            _set(self, "seeds", tuple(range(min(self.seeds, MOST_SEEDS + 1))))
        _check(self)

    @property
    def all_seeds(self) -> tuple[int, ...]:
        assert isinstance(self.seeds, tuple)
        return self.seeds

    @property
    def baselines(self) -> tuple[str, ...]:
        """The arms that others are set beside; they are compared with nothing themselves."""
        return tuple(dict.fromkeys([self.baseline, *self.against.values()]))

    def baseline_of(self, arm: str) -> str:
        """What an arm is set beside; a baseline has only itself."""
        return arm if arm in self.baselines else self.against.get(arm, self.baseline)

    def quickly(self) -> Study:
        """The same study, small: it says so wherever it is shown."""
        budget = self.quick.budget or {k: v * QUICK_SHARE for k, v in self._limits().items()}
        whole = {k: int(v) if k in ("steps", "tokens") else v for k, v in budget.items()}
        seeds = self.all_seeds[: self.quick.seeds]
        starts = {
            name: start if isinstance(start, str) else start | {"set": {**start["set"], **start["quick"]}}
            for name, start in self.starts.items()
        }
        settings, arms = {**self.set, **self.quick.set}, dict(self.arms)
        for key, value in self.quick.arms.items():
            change_arms(arms, key, value)
        given: dict[str, Any] = {"budget": whole, "set": settings, "starts": starts, "arms": arms}
        return replace(self, **given, seeds=seeds, is_quick=True)

    def _limits(self) -> dict[str, float]:
        return load(self.base, set=layered(self.set, self.budgeted())).training.budget.limits

    def budgeted(self) -> Settings:
        """The budget as a setting, where the study has its own."""
        return {"training.budget": dict(self.budget)} if self.budget else {}

    def changed(self, changes: Mapping[str, Any]) -> Study:
        """With --set, which changes the base, with starts.NAME one of the starts, and with arms.NAME.KEY some
        of the arms; what arms differ in is not the base's to say."""
        settings = {key: v for key, v in changes.items() if not key.startswith(("starts.", "arms."))}
        for key in settings:
            own = BUDGET if key.startswith(f"{BUDGET}.") else key  # one limit takes the place of another
            if all(own in arm or any(k.startswith(f"{own}.") for k in arm) for arm in self.arms.values()):
                raise ConfigError(
                    f"--set {key} changes nothing: every arm of {self.name} sets it itself. For some of the "
                    f"arms: --set arms.{next(iter(self.arms))}.{key}=…, for all: arms.*.{key}=…"
                )
            if key == "seed":
                raise ConfigError("--set seed: a study has several seeds; give their number with --seeds.")
        starts, arms = dict(self.starts), dict(self.arms)
        rates = self.rates_of_starts(changes)
        for arm, rate in rates.items():
            arms[arm] = {**arms[arm], RATE: rate}
        for key, value in changes.items():
            section, _, rest = key.partition(".")
            if section == "starts":
                change_start(starts, rest, value)
            elif section == "arms":
                change_arms(arms, rest, value)
        about = tuple(dict.fromkeys((*self.about, *(["learning_rate"] if rates else ()))))
        overrides = {**self.overrides, **changes}
        changed = replace(self, starts=starts, arms=arms, about=about, overrides=overrides)
        if not settings:
            return changed
        return replace(changed, set=layered(self.set, self.budgeted(), settings), budget={})

    def rates_of_starts(self, changes: Mapping[str, Any]) -> dict[str, float]:
        """By arm, the learning rate that `attnlab adapt` has for its method, where a model of a person's own
        takes the place of the start that the study's rates are made for; those that are set remain."""
        given = {
            OF_STUDY + key.removeprefix("starts."): value
            for key, value in changes.items()
            if is_path(key, value)
        }
        if RATE in changes or not given:
            return {}
        rates = {}
        for arm, config in ((arm, self.config(arm)) for arm in self.arms):
            target = TASKS[config.task.kind].target
            if config.start in given and not target.of_words:
                recipe = target.recipes.get(config.adapter.kind, RECIPES["lora"])
                rates[arm] = recipe.rate(start_at(given[config.start]).settings.width)
        return rates

    def only(self, names: Iterable[str]) -> Study:
        """With some of the arms, and the baselines that they need."""
        wanted = list(names)
        for name in wanted:
            if name not in self.arms:
                raise unknown_name("--only", name, self.arms)
        needed = {self.baseline, *wanted, *map(self.baseline_of, wanted)}
        kept = {n: c for n, c in self.arms.items() if n in needed}
        allow = {n: a for n, a in self.allow.items() if n in kept}
        return replace(
            self, arms=kept, allow=allow, against={n: b for n, b in self.against.items() if n in kept}
        )

    def starts_of(self, arm: str) -> frozenset[str]:
        """The study's own starts that an arm asks for."""
        settings = {**self.set, **self.arms[arm]}
        values = [settings.get(name, "") for name in ("start", "data.tokenizer", "data.tokenizer.path")]
        named = [value.get("path", "") if isinstance(value, Mapping) else value for value in values]
        return frozenset(n.removeprefix(OF_STUDY) for n in map(str, named) if n.startswith(OF_STUDY))

    def config(self, arm: str) -> Config:
        """An arm's config, before the seed."""
        try:
            return load(self.base, set=layered(self.budgeted(), self.set, self.arms[arm]))
        except ValueError as error:
            raise ConfigError(f'Arm "{arm}" of {self.name}: {error}') from error


def _set(study: Study, name: str, value: Any) -> None:
    object.__setattr__(study, name, value)  # what a person may write shorter is kept in one form


def _check(study: Study) -> None:
    """Refuse a study that could not be run, or would answer nothing."""
    if not NAME.fullmatch(study.name):
        raise ConfigError(f'A study\'s name is letters, digits, ".", "_" and "-", not "{study.name}".')
    if not study.question.strip():
        raise ConfigError('A study needs a question that its verdict answers; set question = "…".')
    if not study.arms:
        raise ConfigError(f"{study.name} has no arms; give at least one with [arms.NAME].")
    for arm, changes in study.arms.items():
        if not NAME.fullmatch(arm):
            raise ConfigError(f'An arm\'s name is letters, digits, ".", "_" and "-", not "{arm}".')
        if "seed" in changes:
            raise ConfigError(f'Arm "{arm}" sets `seed`; every arm has the seeds of the study.')
        for start in study.starts_of(arm):
            if start not in study.starts:
                raise unknown_name(f'Arm "{arm}": starts', start, study.starts)
    if study.baseline not in study.arms:
        raise unknown_name("baseline", study.baseline, study.arms)
    _check_against(study)
    seeds = study.all_seeds
    if len(seeds) > MOST_SEEDS:
        raise ConfigError(f"A study has at most {MOST_SEEDS:,} seeds; give fewer.")
    if not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError(f"seeds are {list(seeds)}; give at least one, each once.")
    limits: dict[str, Any] = dict(study.budget) or {"steps": 1}
    Budget(**limits)  # its own rules
    for arm, checks in study.allow.items():
        if arm not in study.arms:
            raise unknown_name("allow", arm, study.arms)
        for check in checks:
            if check not in CHECKS:
                raise unknown_name(f"allow.{arm}", check, CHECKS)
    known = measures(extras_of(study.extras).metrics)
    if study.metric not in known:
        raise unknown_name("metric", study.metric, known)
    for topic in study.about:
        if topic not in TOPICS:
            raise unknown_name("about", topic, TOPICS)
    if any(rate <= 0 for rate in study.learning_rates):
        raise ConfigError(
            f"learning_rates are {list(study.learning_rates)}; a learning rate must be above 0."
        )


def _check_against(study: Study) -> None:
    for arm, baseline in study.against.items():
        for name in (arm, baseline):
            if name not in study.arms:
                raise unknown_name("against", name, study.arms)
        if arm in study.baselines:
            raise ConfigError(
                f'against: "{arm}" is compared with "{baseline}", and is itself the baseline of another arm.'
            )


START_SETTINGS = ("base", "set", "quick")


def start_settings(name: str, given: Any) -> str | Settings:
    """A start as it is kept: a path, or the three parts of a run to train first."""
    if not NAME.fullmatch(name):
        raise ConfigError(f'A start\'s name is letters, digits, ".", "_" and "-", not "{name}".')
    if isinstance(given, str):
        return given
    if not isinstance(given, Mapping) or "base" not in given:
        raise ConfigError(
            f"starts.{name} is {given!r}; give the path of a model, or a table with the `base` of a run to "
            "train first, and what it changes there (`set`)."
        )
    for key in given:
        if key not in START_SETTINGS:
            raise unknown_name(f"starts.{name}", key, START_SETTINGS)
    tables = {key: flat(given.get(key, {})) for key in ("set", "quick")}
    return {"base": given["base"], **tables}


def is_path(key: str, value: Any) -> bool:
    """Whether --set KEY=VALUE gives the path of a model that is trained already."""
    return key.startswith("starts.") and key.count(".") == 1 and isinstance(value, str)


def change_start(starts: Settings, key: str, value: Any) -> None:
    """--set starts.NAME=PATH, or starts.NAME.KEY=VALUE for one setting of its training."""
    name, _, setting = key.partition(".")
    if name not in starts:
        raise unknown_name("starts", name, starts)
    start = starts[name]
    if setting and isinstance(start, str):
        raise ConfigError(f"--set starts.{key}: {start} is trained already; give another path.")
    starts[name] = start | {"set": {**start["set"], setting: value}} if setting else value


def change_arms(arms: dict[str, Mapping[str, Any]], key: str, value: Any) -> None:
    """--set arms.NAME.KEY=VALUE; an asterisk in the name stands for anything."""
    whole = next((arm for arm in arms if key.startswith(f"{arm}.")), "")  # a name may have full stops
    pattern = whole or key.partition(".")[0]
    setting = key.removeprefix(f"{pattern}.")
    chosen = fnmatch.filter(arms, pattern)
    if not chosen or setting == key:
        raise unknown_name("--set arms", pattern, arms)
    for arm in chosen:
        arms[arm] = {**arms[arm], setting: value}


def flat(changes: Mapping[str, Any], where: str = "") -> Settings:
    """Nested tables as dotted keys; a table with `kind` is a choice and stays whole."""
    keys: Settings = {}
    for key, value in changes.items():
        name = f"{where}.{key}" if where else key
        if isinstance(value, Mapping) and "kind" not in value:
            keys |= flat(value, name)
        else:
            keys[name] = value
    return keys
