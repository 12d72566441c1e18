"""From runs to intervals and verdicts: the one place where a study meets the statistics."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnlab.evaluation.pairs import SeedResult
from attnlab.evaluation.spread import RATIOS
from attnlab.evaluation.statistics import corrected, differences, mean_of_seeds
from attnlab.studies.guards import SURVIVES, unequal, unspelt
from attnlab.studies.measure import read_documents
from attnlab.studies.metrics import COSTS, Metric
from attnlab.studies.spec import Study

DOCUMENTS = "documents.safetensors"

Run = Mapping[str, Any]


def estimate(values: Sequence[float], *, of: str = "") -> dict[str, Any]:
    """A mean over seeds with its interval; of perplexities it is e^(mean loss), not their own mean."""
    exponential = of.endswith("perplexity")
    values = [math.log(value) for value in values] if exponential else values
    if not all(map(math.isfinite, values)):
        return {"value": None, "low": None, "high": None, "n": len(values)}
    found = mean_of_seeds(values)
    low = max(found.low, 0.0) if of in COSTS else found.low  # nothing takes less than no time
    ends = {"value": found.value, "low": low, "high": found.high}
    if exponential:
        ends = {name: math.exp(min(end, 700.0)) for name, end in ends.items()}
    return {**ends, "n": found.n}


def comparisons(
    study: Study, runs: Sequence[Run], folder: Path, metrics: Mapping[str, Metric]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Every arm that may be set beside its baseline, against it; and why the others may not.

    Arms whose tokenizer alone keeps them apart are compared by bits per byte instead.
    """
    usable, apart = comparable(study, runs)
    rows = compared(study, usable, folder, metrics[study.metric])
    by_bytes = replace(study, metric=SURVIVES)
    again, still_apart = comparable(by_bytes, runs)
    still = (note for arm, note in still_apart.items() if arm in apart)
    notes = list(dict.fromkeys([*apart.values(), *still]))
    others = {arm: held for arm, held in again.items() if arm in study.baselines or arm not in usable}
    if any(arm not in study.baselines for arm in others) and study.baseline in others:
        rows += compared(by_bytes, others, folder, metrics[SURVIVES])
        named = " and ".join(arm for arm in others if arm not in study.baselines)
        notes.append(f"By {SURVIVES}, which a change of tokenizer leaves comparable: {named}.")
    return rows, notes


def compared(
    study: Study, usable: Mapping[str, Sequence[Run]], folder: Path, metric: Metric
) -> list[dict[str, Any]]:
    """Arms against their baselines over the seeds that all of them have finished, corrected together."""
    if study.baseline not in usable or len(usable) < 2:
        return []
    seeds = set.intersection(*({run["seed"] for run in held} for held in usable.values()))
    if not seeds:
        return []
    results = {
        arm: [seed_result(run, folder, study.metric) for run in held if run["seed"] in seeds]
        for arm, held in usable.items()
    }
    settings: dict[str, Any] = {
        "metric": study.metric,
        "lower_is_better": metric.lower_is_better,
        "invalid": {arm: unsound for arm, held in usable.items() if (unsound := unsound_of(held))},
    }
    found = []
    for baseline in (name for name in study.baselines if name in results):
        beside = {arm: held for arm, held in results.items() if study.baseline_of(arm) == baseline}
        found += differences(beside, baseline, **settings)
    return [comparison.row() for comparison in corrected(found)]


def comparable(study: Study, runs: Sequence[Run]) -> tuple[dict[str, list[Run]], dict[str, str]]:
    """The arms whose finished runs may stand beside their baseline's, and a sentence for each other one."""
    arms: dict[str, list[Run]] = {}
    notes: dict[str, str] = {}
    for arm in sorted(study.arms, key=lambda name: name not in study.baselines):
        own = [run for run in runs if run["arm"] == arm]
        failed = [run for run in own if run["status"] == "failed"]
        done = [r for r in own if r["status"] in ("finished", "invalid") and study.metric in r["metrics"]]
        reasons = reasons_apart(study, arm, done, arms.get(study.baseline_of(arm), []))
        if failed and done:
            notes[arm] = (
                f"{arm} is not compared: {len(failed)} of its {len(own)} runs failed, and those left over "
                "would flatter it."
            )
        elif reasons:
            notes[arm] = f"{arm} is not set beside {study.baseline_of(arm)}: {'; '.join(reasons)}."
        elif done:
            arms[arm] = done
    return arms, notes


def reasons_apart(study: Study, arm: str, runs: Sequence[Run], baseline: Sequence[Run]) -> list[str]:
    """What keeps an arm from standing beside its baseline, seed by seed."""
    by_seed = {run["seed"]: run for run in baseline}
    changed = {*study.arms[arm], *study.arms[study.baseline_of(arm)]}
    reasons: list[str] = []
    for run in runs:
        other = by_seed.get(run["seed"])
        if other is not None and arm not in study.baselines:
            found = unequal(run["fingerprints"], other["fingerprints"], metric=study.metric, changed=changed)
            reasons += found
            tokenizers = {each["fingerprints"].get("tokenizer") for each in (run, other)}
            if study.metric == SURVIVES and len(tokenizers) > 1:
                reasons += unspelt(run["metrics"], other["metrics"])
    return list(dict.fromkeys(reasons))


def seed_result(run: Run, folder: Path, metric: str) -> SeedResult:
    documents = read_documents(folder / run["folder"] / DOCUMENTS) if metric in RATIOS else None
    return SeedResult(run["seed"], run["metrics"][metric], documents)


def unsound_of(runs: Sequence[Run]) -> list[str]:
    """The checks that an arm's runs failed."""
    return list(dict.fromkeys(check for run in runs for check in run.get("unsound", ())))


def verdict(study: Study, arms: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> str:
    """The study's answer in a sentence."""
    beside: dict[str, list[str]] = {}
    means = {arm["name"]: arm["metrics"] for arm in arms}
    for row in rows:
        verb = "shows" if row["verdict"].startswith("no difference") else "is"
        said = f"{row['arm']} {verb} {row['words']}{honestly(row, means)}"
        beside.setdefault(row["baseline"], []).append(said)
    compared = {row["arm"] for row in rows} | set(study.baselines)
    rest = [
        f"{arm['name']} was not compared ({briefly(arm['reason']) or arm['status']})"
        for arm in arms
        if arm["name"] not in compared
    ]
    if not rows:
        return "Nothing can be said yet" + (f": {'; '.join(rest)}." if rest else ": no run has ended.")
    beside[next(reversed(beside))] += rest
    return " ".join(f"Beside {baseline}, {'; '.join(said)}." for baseline, said in beside.items())


def briefly(reason: str) -> str:
    """A reason up to the end of its first part; the whole of it stands with the arm."""
    return re.split(r"[:.;] ", reason, maxsplit=1)[0].rstrip(".")


def honestly(row: Mapping[str, Any], means: Mapping[str, Mapping[str, Any]]) -> str:
    """What an invalid arm's loss is where nothing can leak, beside its baseline's."""
    found = [means.get(row[side], {}).get("incremental_loss") for side in ("arm", "baseline")]
    if row["verdict"] != "invalid" or not all(one and one["value"] is not None for one in found):
        return ""
    arm, baseline = (f"{one['value']:.3f}" for one in found if one)
    return f"; scored from the prefix alone its loss is {arm}, {row['baseline']}'s {baseline}"
