"""A study with every arm's complete config, checked before any work."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from attnlab.config.files import layered, load, to_json
from attnlab.config.imports import CodeRecord, code_of, refuse_loose, require_code
from attnlab.config.schema import Config
from attnlab.config.upgrade import renamed, renamed_keys
from attnlab.config.values import ConfigError, Settings
from attnlab.metrics import METRICS
from attnlab.metrics.metric import OF_TEXTS, is_of_texts
from attnlab.runs.summary import ResolvedRecord
from attnlab.session.start import Start
from attnlab.studies.matching import match_parameters
from attnlab.studies.outcome import Note, NoteKind
from attnlab.studies.spec import Study
from attnlab.studies.starts import plan_starts, trained_first, with_start
from attnlab.studies.study_files import GIVEN, study_of

SHARED = ("name", "match", "learning_rates", "probes", "sentence", "extras", "is_quick")
"""What of a study decides how each run is made or measured; the rest is said of them afterwards."""


@dataclass(frozen=True)
class Resolved:
    """A study with every arm's config as it will be trained, and what was done to get there.

    `refused` are the arms that cannot be built, and why; `configs` has the others.
    """

    study: Study
    base: Config
    configs: Mapping[str, Config]
    notes: tuple[Note, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    starts: Mapping[str, Config] = field(default_factory=dict)
    """The runs to train first, by their names in the study."""

    def config(self, arm: str, seed: int) -> Config:
        return replace(self.configs[arm], seed=seed)

    @property
    def imports(self) -> list[CodeRecord]:
        """The code of a person's own that its runs use, and their processes import."""
        code = code_of(*self.configs.values())
        refuse_loose(code)
        return code

    @property
    def identity(self) -> str:
        """Equal for studies that share a folder: more arms, seeds or budget, or another judgement of the same
        runs, are the same study grown."""
        return hashlib.sha256(json.dumps(self.shared, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def shared(self) -> Settings:
        """What all runs of a study have in common, however it grows."""
        measured = {name: getattr(self.study, name) for name in SHARED}
        base = to_json(self.base)
        base["training"] = {name: value for name, value in base["training"].items() if name != "budget"}
        base["training"]["schedule"] = {  # the warm-up is a share of the budget, and changes with it
            name: value for name, value in base["training"]["schedule"].items() if name != "warmup"
        }
        starts = {"starts": {name: to_json(config) for name, config in self.starts.items()}}
        return {**measured, "base": base, **(starts if self.starts else {})}


def resolve(study: Study) -> Resolved:
    """Every arm's config, matched where asked. An arm that cannot be built is refused here, and the others
    run; where that is a baseline, nothing could be compared, and the study is refused."""
    starts = trained_first(study)
    beginnings = plan_starts(study, starts)
    written = {arm: study.config(arm) for arm in study.arms}  # a slip of the pen stops all
    configs, refused, notes = dict[str, Config](), dict[str, str](), list[Note]()
    for arm, config in written.items():
        try:
            configs[arm] = arm_config(study, config, beginnings)
        except ValueError as error:
            if arm in study.baselines:
                raise ConfigError(f'Arm "{arm}" of {study.name}: {error}') from error
            refused[arm] = str(error)
    if study.match == "parameters":
        configs, notes = match_parameters(configs, study.baseline, given=study.arms)
    base = load(study.base, set=layered(study.budgeted(), study.set))
    return Resolved(study, base, configs, tuple(notes + _equal(configs)), refused, starts)


def arm_config(study: Study, config: Config, beginnings: Mapping[str, Start]) -> Config:
    """An arm's config with what its start decides; refused if it could not be trained."""
    checked = with_start(config, beginnings)
    _check_metric(study.metric, checked)
    return checked


def _check_metric(metric: str, config: Config) -> None:
    """Refuse a metric that the task's examples do not have what it needs for."""
    from attnlab.tasks import TASKS

    task, writes = config.task.kind, config.training.generate_every != "never"
    given = TASKS[task].metrics
    columns = {column for name in given for column in METRICS[name].needs} | {*(OF_TEXTS if writes else ())}
    if metric in METRICS and not writes and is_of_texts(METRICS[metric]):
        raise ConfigError(
            f'metric "{metric}" is of texts that a model writes; set training.generate_every, at which steps '
            "it does."
        )
    if metric in METRICS and not columns.issuperset(METRICS[metric].needs):
        raise ConfigError(
            f'metric "{metric}" is made of {" and ".join(METRICS[metric].needs)}, which "{task}" does not '
            f"give; its metrics are {', '.join(given)}."
        )


def _equal(configs: Mapping[str, Config]) -> list[Note]:
    """Arms that are one and the same: a comparison of a thing with itself should find nothing."""
    first_of: dict[str, str] = {}
    notes = []
    for arm, config in configs.items():
        same = first_of.setdefault(repr(config), arm)
        if same != arm:
            notes.append(Note(NoteKind.SAME_CONFIG, {"arms": [same, arm]}))
    return notes


def to_record(resolved: Resolved) -> ResolvedRecord:
    """What study.json holds of it; `from_record` reads it back."""
    study = asdict(resolved.study)
    configs = {"base": to_json(resolved.base)} | {a: to_json(c) for a, c in resolved.configs.items()}
    return {
        "study": study,
        "identity": resolved.identity,
        "imports": resolved.imports,
        "configs": configs,
    }


def _upgrade(recorded: Mapping[str, Any]) -> Settings:
    """A study as it would be recorded today; what its report showed beside its metric is no setting now."""
    now = {name: value for name, value in recorded.items() if name != "metrics"}
    if "rates" in now:
        now["learning_rates"] = now.pop("rates")
    if isinstance(now.get("base"), Mapping):
        now["base"] = renamed(now["base"])
    for name in ("set", "overrides"):
        now |= {name: renamed_keys(now[name])} if name in now else {}
    now["arms"] = {arm: renamed_keys(changes) for arm, changes in now["arms"].items()}
    if "set" in now.get("quick", {}):
        now["quick"] = now["quick"] | {"set": renamed_keys(now["quick"]["set"])}
    return now


def from_record(record: ResolvedRecord) -> Study:
    """The study that a folder was begun with."""
    settings = _upgrade(record["study"])
    require_code(record.get("imports", ()), f"Study {settings['name']}")
    extra = {name: settings.pop(name) for name in GIVEN if name in settings}
    return replace(study_of(settings, name=settings["name"]), **extra)
