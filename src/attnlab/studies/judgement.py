"""From runs to intervals and verdicts: the one place where a study meets the statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.checks.plain_differences import unconfirmed_difference
from attnlab.evaluation.comparability import SURVIVES, Basis, comparability
from attnlab.evaluation.comparison import Comparison
from attnlab.evaluation.paired_results import SeedResult
from attnlab.evaluation.statistics import copies, corrected, differences, mean_of_seeds
from attnlab.metrics.measures import TIMES, Measure, limits_of
from attnlab.metrics.metric import Estimate
from attnlab.runs.reason import Reason, ReasonKind
from attnlab.runs.result import RunResult, RunState
from attnlab.runs.typed import Value
from attnlab.studies.equality import (
    alike_machines,
    as_busy,
    changed_settings,
    inequalities,
    machine_kinds,
    waiting,
)
from attnlab.studies.evidence import (
    Codes,
    idle_seeds,
    mixed_runs,
    training_differences,
    unasked_draws,
    unlearned,
)
from attnlab.studies.extras import extras_of
from attnlab.studies.outcome import Note, NoteKind
from attnlab.studies.run_measures import label_names, read_documents
from attnlab.studies.spec import Study

DOCUMENTS = "documents.safetensors"
TOKEN_BY_TOKEN = "token_by_token_loss"


def estimate(values: Sequence[float], *, of: str = "") -> Estimate:
    """A mean over seeds with its interval; of perplexities it is e^(mean loss), not their own mean."""
    exponential = of.endswith("perplexity")
    values = [math.log(value) for value in values] if exponential else values
    if not all(map(math.isfinite, values)):
        return Estimate(math.nan, math.nan, math.nan, len(values))
    mean = mean_of_seeds(values)
    value, low, high = mean.value, mean.low, mean.high
    if exponential:
        value, low, high = (math.exp(min(end, 700.0)) for end in (value, low, high))
    least, most = limits_of(of)
    return Estimate(value, max(low, least), min(high, most), mean.n)


def comparisons(
    study: Study,
    runs: Sequence[RunResult],
    folder: Path,
    metrics: Mapping[str, Measure],
    *,
    idle: Mapping[str, Sequence[Reason]] | None = None,
    tried: Mapping[str, int] | None = None,
) -> tuple[list[Comparison], list[Note]]:
    """Every arm that may be compared with its baseline; and why the others may not.

    Arms whose tokenizer alone keeps them apart are compared by bits per byte instead. `idle` are the
    reasons why seeds of an arm did nothing, `tried` how many settings were tried for it.
    """
    facts = Facts(study, folder, idle or {}, tried or {})
    usable, apart = comparable(study, runs)
    rows = comparisons_by(facts, usable, metrics[study.metric])
    by_bytes = replace(study, metric=SURVIVES)
    again, still_apart = comparable(by_bytes, runs)
    still = (note for arm, note in still_apart.items() if arm in apart)
    notes = list(dict.fromkeys([*apart.values(), *still]))
    others = {arm: runs for arm, runs in again.items() if arm in study.baselines or arm not in usable}
    if any(arm not in study.baselines for arm in others) and study.baseline in others:
        rows += comparisons_by(replace(facts, study=by_bytes), others, metrics[SURVIVES])
        named = [arm for arm in others if arm not in study.baselines]
        notes.append(Note(NoteKind.BY_BYTES, {"metric": SURVIVES, "arms": named}))
    return rows, notes


@dataclass(frozen=True)
class Facts:
    """A study, and what is known of its runs beside their numbers."""

    study: Study
    folder: Path
    idle: Mapping[str, Sequence[Reason]]
    tried: Mapping[str, int]


def comparisons_by(
    facts: Facts, usable: Mapping[str, Sequence[RunResult]], metric: Measure
) -> list[Comparison]:
    """Arms against their baselines over the seeds that all of them have finished, corrected together."""
    study = facts.study
    if study.baseline not in usable or len(usable) < 2:
        return []
    seeds = set.intersection(*({run.seed for run in runs} for runs in usable.values()))
    if not seeds:
        return []
    paired = {arm: [run for run in runs if run.seed in seeds] for arm, runs in usable.items()}
    results = {
        arm: [seed_result(run, facts.folder, study.metric) for run in runs] for arm, runs in paired.items()
    }
    settings: dict[str, Any] = {
        "metric": study.metric,
        "lower_is_better": metric.lower_is_better,
        "invalid": {arm: unsound for arm, runs in usable.items() if (unsound := unsound_of(runs))},
        "doubts": {arm: doubts_of(facts, arm, paired) for arm in paired},
    }
    compared = []
    for baseline in (name for name in study.baselines if name in results):
        beside = {arm: runs for arm, runs in results.items() if study.baseline_of(arm) == baseline}
        names = label_names(facts.folder / paired[baseline][0].folder)
        compared += [confirmed(c, results, names) for c in differences(beside, baseline, **settings)]
    return [beside_the_change(facts, comparison, paired) for comparison in corrected(compared)]


def confirmed(
    comparison: Comparison, results: Mapping[str, Sequence[SeedResult]], names: Sequence[str]
) -> Comparison:
    """A comparison with a doubt where a second computation does not come to its interval; `names` are those
    of the classes or tags."""
    sides = results[comparison.arm], results[comparison.baseline]
    doubt = unconfirmed_difference(comparison, *sides, names=names)
    return comparison if doubt is None else replace(comparison, doubts=(*comparison.doubts, doubt))


def doubts_of(facts: Facts, arm: str, paired: Mapping[str, Sequence[RunResult]]) -> list[Reason]:
    """Why an arm's runs are no evidence: seeds that did nothing, or training that was not the baseline's."""
    study, own = facts.study, list(facts.idle.get(arm, ()))
    own += unlearned(arm, paired[arm], study.metric)
    if arm in study.baselines:
        return own
    changed = {*changed_settings(study, arm), *(["model.feedforward"] if study.match else [])}
    by_seed = {run.seed: run for run in paired[arm]}
    by_seeds = []
    for other in paired.get(study.baseline_of(arm), ()):
        run = by_seed[other.seed]
        compared = comparability(Basis.of(run), Basis.of(other), changed=changed)
        by_seeds.append(training_differences(run, other, changed=changed) or compared.doubts)
    own += load_doubts(study.metric, paired[arm], paired.get(study.baseline_of(arm), ()))
    return [*own, *next(filter(None, by_seeds), [])]  # what is wrong with one seed is mostly so with all


def load_doubts(metric: str, runs: Sequence[RunResult], baseline: Sequence[RunResult]) -> list[Reason]:
    """That times were taken on other machines, or while the machine was busier for one side; none of other
    metrics."""
    if metric not in TIMES:
        return []
    if not alike_machines(runs, baseline):
        return [Reason(ReasonKind.OTHER_MACHINE, {"kinds": [kinds_of(runs), kinds_of(baseline)]})]
    if as_busy(runs, baseline):
        return []
    return [Reason(ReasonKind.OTHER_LOAD, {"shares": [waiting(runs), waiting(baseline)]})]


def kinds_of(runs: Sequence[RunResult]) -> list[Value]:
    """The kinds of machines that runs were computed by."""
    return [*dict.fromkeys(kind for run in runs for kind in machine_kinds(run))]


def load_notes(study: Study, runs: Sequence[RunResult]) -> list[Note]:
    """That seconds and tokens a second of arms do not mean the same, for all that they concern at once."""
    by_arm = {arm: [run for run in runs if run.arm == arm and run.trained] for arm in study.arms}
    other = [arm for arm in by_arm if not as_busy(by_arm[arm], by_arm[study.baseline_of(arm)])]
    named = dict.fromkeys([study.baseline_of(arm) for arm in other] + other)
    shares = [{"arm": arm, "share": waiting(by_arm[arm])} for arm in named]
    unlike = [arm for arm in by_arm if not alike_machines(by_arm[arm], by_arm[study.baseline_of(arm)])]
    kinds = kinds_of([run for run in runs if run.trained])
    notes = [Note(NoteKind.UNLIKE_MACHINES, {"kinds": kinds, "arms": unlike})] if unlike else []
    return notes + ([Note(NoteKind.BUSY_MACHINE, {"arms": shares})] if other else [])


def beside_the_change(
    facts: Facts, comparison: Comparison, paired: Mapping[str, Sequence[RunResult]]
) -> Comparison:
    """A comparison with how its arms differ beyond what is studied."""
    arm, baseline = comparison.arm, comparison.baseline
    unequal = inequalities(facts.study, arm, paired[arm], paired[baseline], facts.tried)
    alone = without_leak(paired[arm], paired[baseline]) if comparison.leaks else None
    return replace(comparison, unequal=unequal, without_leak=alone)


def without_leak(runs: Sequence[RunResult], baseline: Sequence[RunResult]) -> Estimate | None:
    """The difference of an arm that leaks, by the loss that a leak cannot lower; none where unknown."""
    sides = [{run.seed: run.metrics.get(TOKEN_BY_TOKEN) for run in side} for side in (runs, baseline)]
    pairs = [(sides[0][seed], sides[1][seed]) for seed in sides[0].keys() & sides[1].keys()]
    gaps = [value - two for value, two in pairs if value is not None and two is not None]
    if not gaps or not all(map(math.isfinite, gaps)):
        return None
    return mean_of_seeds(gaps)


def doubtful_arms(
    study: Study, runs: Sequence[RunResult], folder: Path, codes: Codes
) -> tuple[dict[str, list[Reason]], list[Note]]:
    """Why the runs of an arm are no evidence, for each arm of which they are none; and notes.

    They do not rest on the same data or code, or their seeds did nothing.
    """
    mixed, idle, notes = dict[str, list[Reason]](), dict[str, list[Reason]](), list[Note]()
    for arm in study.arms:
        done, baseline = (
            [r for r in runs if r.arm == a and r.trained] for a in (arm, study.baseline_of(arm))
        )
        baseline = [] if arm in study.baselines else baseline
        config, changed = study.config(arm), changed_settings(study, arm)
        drawn = config.data.train_rows != "unlimited"
        mixed[arm] = mixed_runs(arm, done, baseline, changed=changed, codes=codes, drawn=drawn)
        reasons, own_notes = idle_seeds(arm, done, batching=config.data.batching.kind)
        notes += unasked_draws(arm, done, config)
        idle[arm] = reasons or [*copies(arm, [seed_result(run, folder, study.metric) for run in done])]
        notes += own_notes
        notes += [*dict.fromkeys(rows for run in done if (rows := Note.of_rows(arm, run)))][:1]
    notes += load_notes(study, runs)
    notes += [Note(NoteKind.MIXED_RUNS)] if any(mixed.values()) else []
    notes += [Note(NoteKind.IDLE_SEEDS)] if any(idle.values()) else []
    return {arm: reasons for arm in study.arms if (reasons := [*mixed[arm], *idle[arm]])}, notes


def comparable(study: Study, runs: Sequence[RunResult]) -> tuple[dict[str, list[RunResult]], dict[str, Note]]:
    """The arms whose finished runs may stand beside their baseline's, and a note for each other one."""
    arms: dict[str, list[RunResult]] = {}
    notes: dict[str, Note] = {}
    for arm in sorted(study.arms, key=lambda name: name not in study.baselines):
        own = [run for run in runs if run.arm == arm]
        failed = [run for run in own if run.status is RunState.FAILED]
        done = [r for r in own if r.trained and study.metric in r.metrics]
        reasons = reasons_apart(study, arm, done, arms.get(study.baseline_of(arm), []))
        if failed and done:
            counts = {"failed": len(failed), "runs": len(own)}
            notes[arm] = Note(NoteKind.FAILED_RUNS, {"arm": arm, **counts})
        elif reasons:
            why = [reason.as_json() for reason in reasons]
            values = {"arm": arm, "baseline": study.baseline_of(arm), "reasons": why}
            notes[arm] = Note(NoteKind.NOT_COMPARED, values)
        elif done:
            arms[arm] = done
    return arms, notes


def reasons_apart(
    study: Study, arm: str, runs: Sequence[RunResult], baseline: Sequence[RunResult]
) -> list[Reason]:
    """What keeps an arm's numbers from meaning the same as its baseline's, seed by seed."""
    by_seed, own = {run.seed: run for run in baseline}, extras_of(study.extras).metrics
    reasons: list[Reason] = []
    for run in runs:
        other = by_seed.get(run.seed)
        if other is not None and arm not in study.baselines:
            reasons += comparability(Basis.of(run), Basis.of(other), metric=study.metric, own=own).reasons
    return list(dict.fromkeys(reasons))


def seed_result(run: RunResult, folder: Path, metric: str) -> SeedResult:
    documents = read_documents(folder / run.folder / DOCUMENTS)
    return SeedResult(run.seed, run.metrics.get(metric, math.nan), documents)


def unsound_of(runs: Sequence[RunResult]) -> list[str]:
    """The checks that an arm's runs failed."""
    return list(dict.fromkeys(check for run in runs for check in run.unsound))
