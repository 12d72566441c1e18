"""From runs to intervals and verdicts: the one place where a study meets the statistics."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.evaluation.comparability import SURVIVES, Basis, comparability
from attnlab.evaluation.paired_results import SeedResult
from attnlab.evaluation.statistics import copies, corrected, differences, mean_of_seeds
from attnlab.metrics import METRICS
from attnlab.metrics.measures import COSTS, Measure
from attnlab.runs.result import ENDED, RunResult
from attnlab.studies.equality import changed_settings, inequalities
from attnlab.studies.evidence import apart, idle_seeds
from attnlab.studies.extras import extras_of
from attnlab.studies.run_measures import read_documents
from attnlab.studies.spec import Study

DOCUMENTS = "documents.safetensors"
TOKEN_BY_TOKEN = "token_by_token_loss"
LEAKS = frozenset({"dependency", "honesty"})
"""The checks that find a leak."""
CURE = (
    "Seeds that change nothing: look for code with its own generator (torch.manual_seed, a fixed seed "
    "in initialise, in the loader or in dropout) where the run's named streams belong."
)


def estimate(values: Sequence[float], *, of: str = "") -> dict[str, Any]:
    """A mean over seeds with its interval; of perplexities it is e^(mean loss), not their own mean."""
    exponential = of.endswith("perplexity")
    values = [math.log(value) for value in values] if exponential else values
    if not all(map(math.isfinite, values)):
        return {"value": None, "low": None, "high": None, "n": len(values)}
    found = mean_of_seeds(values)
    least, most = limits_of(of)
    ends = {"value": found.value, "low": max(found.low, least), "high": min(found.high, most)}
    if exponential:
        ends = {name: math.exp(min(end, 700.0)) for name, end in ends.items()}
    return {**ends, "n": found.n}


def limits_of(measure: str) -> tuple[float, float]:
    """The values that a measure can have; nothing takes less than no time."""
    if measure in COSTS:
        return 0.0, math.inf
    name = measure.removeprefix("train_")
    return METRICS[name].limits if name in METRICS else (-math.inf, math.inf)


def comparisons(
    study: Study,
    runs: Sequence[RunResult],
    folder: Path,
    metrics: Mapping[str, Measure],
    *,
    idle: Mapping[str, Sequence[str]] | None = None,
    tried: Mapping[str, int] | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Every arm that may be compared with its baseline; and why the others may not.

    Arms whose tokenizer alone keeps them apart are compared by bits per byte instead. `idle` are the
    reasons why seeds of an arm did nothing, `tried` how many settings were tried for it.
    """
    facts = Facts(study, folder, idle or {}, tried or {})
    usable, apart = comparable(study, runs)
    rows = compared(facts, usable, metrics[study.metric])
    by_bytes = replace(study, metric=SURVIVES)
    again, still_apart = comparable(by_bytes, runs)
    still = (note for arm, note in still_apart.items() if arm in apart)
    notes = list(dict.fromkeys([*apart.values(), *still]))
    others = {arm: held for arm, held in again.items() if arm in study.baselines or arm not in usable}
    if any(arm not in study.baselines for arm in others) and study.baseline in others:
        rows += compared(replace(facts, study=by_bytes), others, metrics[SURVIVES])
        named = " and ".join(arm for arm in others if arm not in study.baselines)
        notes.append(f"Compared by {SURVIVES}, which is comparable across tokenizers: {named}.")
    return rows, notes


@dataclass(frozen=True)
class Facts:
    """A study, and what is known of its runs beside their numbers."""

    study: Study
    folder: Path
    idle: Mapping[str, Sequence[str]]
    tried: Mapping[str, int]


def compared(
    facts: Facts, usable: Mapping[str, Sequence[RunResult]], metric: Measure
) -> list[dict[str, Any]]:
    """Arms against their baselines over the seeds that all of them have finished, corrected together."""
    study = facts.study
    if study.baseline not in usable or len(usable) < 2:
        return []
    seeds = set.intersection(*({run.seed for run in held} for held in usable.values()))
    if not seeds:
        return []
    paired = {arm: [run for run in held if run.seed in seeds] for arm, held in usable.items()}
    results = {
        arm: [seed_result(run, facts.folder, study.metric) for run in held] for arm, held in paired.items()
    }
    settings: dict[str, Any] = {
        "metric": study.metric,
        "lower_is_better": metric.lower_is_better,
        "invalid": {arm: unsound for arm, held in usable.items() if (unsound := unsound_of(held))},
        "doubts": {arm: doubts_of(facts, arm, paired) for arm in paired},
    }
    found = []
    for baseline in (name for name in study.baselines if name in results):
        beside = {arm: held for arm, held in results.items() if study.baseline_of(arm) == baseline}
        found += differences(beside, baseline, **settings)
    return [told(facts, comparison.row(), paired) for comparison in corrected(found)]


def doubts_of(facts: Facts, arm: str, paired: Mapping[str, Sequence[RunResult]]) -> list[str]:
    """Why an arm's runs are no evidence: seeds that did nothing, or training that was not the baseline's."""
    study, own = facts.study, list(facts.idle.get(arm, ()))
    if arm in study.baselines:
        return own
    changed = {*changed_settings(study, arm), *(["model.feedforward"] if study.match else [])}
    by_seed = {run.seed: run for run in paired[arm]}
    found = []
    for other in paired.get(study.baseline_of(arm), ()):
        run = by_seed[other.seed]
        compared = comparability(Basis.of(run), Basis.of(other), changed=changed)
        found.append(apart(run, other, changed=changed) or compared.doubts)
    return [*own, *next(filter(None, found), [])]  # what is wrong with one seed is mostly so with all


def told(facts: Facts, row: dict[str, Any], paired: Mapping[str, Sequence[RunResult]]) -> dict[str, Any]:
    """A comparison's row with how its arms differ beyond what is studied."""
    arm, baseline = row["arm"], row["baseline"]
    unequal = inequalities(facts.study, arm, paired[arm], paired[baseline], facts.tried)
    said = {"unequal": unequal, "words": f"{row['words']}. {unequal}".removesuffix(". ")}
    leaks = LEAKS & {*unsound_of(paired[arm])}
    return row | said | ({"without_leak": without_leak(paired[arm], paired[baseline])} if leaks else {})


def without_leak(runs: Sequence[RunResult], baseline: Sequence[RunResult]) -> dict[str, Any] | None:
    """The difference of an arm that leaks, by the loss that a leak cannot lower; none where unknown."""
    sides = [{run.seed: run.metrics.get(TOKEN_BY_TOKEN) for run in side} for side in (runs, baseline)]
    pairs = [(sides[0][seed], sides[1][seed]) for seed in sides[0].keys() & sides[1].keys()]
    gaps = [one - two for one, two in pairs if one is not None and two is not None]
    if not gaps or not all(map(math.isfinite, gaps)):
        return None
    found = mean_of_seeds(gaps)
    ends = {"low": found.low, "high": found.high} if found.n > 1 else {"low": None, "high": None}
    return {"difference": found.value, **ends, "seeds": found.n}


def idle_arms(
    study: Study, runs: Sequence[RunResult], folder: Path
) -> tuple[dict[str, list[str]], list[str]]:
    """Why the seeds of an arm are not independent results, for each arm where they are not; and notes."""
    found, notes = dict[str, list[str]](), list[str]()
    for arm in study.arms:
        done = [r for r in runs if r.arm == arm and r.trained]
        reasons, said = idle_seeds(arm, done, batching=study.config(arm).data.batching.kind)
        reasons = reasons or [*copies(arm, [seed_result(run, folder, study.metric) for run in done])]
        found |= {arm: reasons} if reasons else {}
        notes += said
    return found, [*notes, *([CURE] if found else [])]


def comparable(study: Study, runs: Sequence[RunResult]) -> tuple[dict[str, list[RunResult]], dict[str, str]]:
    """The arms whose finished runs may stand beside their baseline's, and a sentence for each other one."""
    arms: dict[str, list[RunResult]] = {}
    notes: dict[str, str] = {}
    for arm in sorted(study.arms, key=lambda name: name not in study.baselines):
        own = [run for run in runs if run.arm == arm]
        failed = [run for run in own if run.status == "failed"]
        done = [r for r in own if r.trained and study.metric in r.metrics]
        reasons = reasons_apart(study, arm, done, arms.get(study.baseline_of(arm), []))
        if failed and done:
            notes[arm] = (
                f"{told_failures(arm, failed, len(own))} The rest are a biased sample: they get no verdict."
            )
        elif reasons:
            notes[arm] = f"{arm} is not compared with {study.baseline_of(arm)}: {'; '.join(reasons)}."
        elif done:
            arms[arm] = done
    return arms, notes


def reasons_apart(
    study: Study, arm: str, runs: Sequence[RunResult], baseline: Sequence[RunResult]
) -> list[str]:
    """What keeps an arm's numbers from meaning the same as its baseline's, seed by seed."""
    by_seed, own = {run.seed: run for run in baseline}, extras_of(study.extras).metrics
    reasons: list[str] = []
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


def verdict(
    study: Study,
    arms: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    notes: Sequence[str] = (),
) -> str:
    """The study's answer, a sentence or two for each arm; `notes` say why some were not compared."""
    known = {arm["name"]: arm for arm in arms}
    failed = [told for arm in arms if (told := failure_of(arm, notes))]
    said = [sentence(row, known) for row in rows] + apart_from_that(rows)
    compared = {row["arm"] for row in rows} | set(study.baselines)
    others = [arm for arm in arms if arm["name"] not in compared and not failure_of(arm, notes)]
    rest = [left_out(arm, notes) for arm in others]
    if not rows:
        ended = [arm["name"] for arm in arms if arm["status"] in ENDED]
        alone = f"{', '.join(ended)} ended, with nothing to be compared with" if ended else "no run has ended"
        why = "; ".join(rest) or ("" if failed else alone)
        rest = ["No verdict yet" + (f": {why}" if why else "")]
    return " ".join([*failed, *said, *(f"{one}." for one in rest)])


def failure_of(arm: Mapping[str, Any], notes: Sequence[str]) -> str:
    """That runs of an arm failed, or that it could not be built, with the cause; else nothing."""
    name, reason = arm["name"], first_sentence(arm["reason"])
    if arm["status"] == "refused":
        return f"{name}: refused, it cannot be built: {briefly(arm['reason'])}."
    if arm["status"] == "failed":
        return f"{name}: all runs failed: {reason}."
    return next(
        (note for note in notes if re.match(rf"{re.escape(name)}: \d+ of \d+ runs failed: ", note)), ""
    )


def told_failures(arm: str, failed: Sequence[RunResult], runs: int) -> str:
    return f"{arm}: {len(failed)} of {runs} runs failed: {first_sentence(failed[0].reason)}."


def left_out(arm: Mapping[str, Any], notes: Sequence[str]) -> str:
    """Why an arm was not compared."""
    name = arm["name"]
    note = next((note for note in notes if note.startswith(f"{name} is not compared")), "")
    return note.rstrip(".") or f"{name} was not compared ({briefly(arm['reason']) or arm['status']})"


def sentence(row: Mapping[str, Any], arms: Mapping[str, Mapping[str, Any]]) -> str:
    """A comparison as one would tell it to a colleague."""
    arm, baseline, found = row["arm"], row["baseline"], row["verdict"]
    because = row["words"].removesuffix(row.get("unequal") or "").removeprefix(found).removeprefix(": ")
    checks = arms.get(arm, {}).get("unsound") or []
    if found == "invalid" and checks:
        named = f"check{'s' if len(checks) > 1 else ''} {', '.join(checks)}"
        leaks = LEAKS & {*checks}
        return f"{arm} is invalid: {fault_of(checks)} ({named}).{honestly(row, arms) if leaks else ''}"
    if found in ("better", "worse"):
        said = f"{arm} is {found} than {baseline}"
    else:
        said = f"{arm} compared with {baseline} (baseline): {found}"
    return f"{': '.join(filter(None, [said, because]))}".rstrip(". ") + "."


def apart_from_that(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """That arms differ in more than is compared: of one in what, by ratios; the counts, and what several
    differ in, stand with the comparisons."""
    unequal = [row["unequal"] for row in rows if row.get("unequal") and row["verdict"] != "invalid"]
    if len(unequal) > 1:
        return ["Arms differ from their baselines in more than what is compared; the report says in what."]
    return [re.sub(r" \([^()]*\)", "", said).replace(";", ",") for said in unequal]


def fault_of(checks: Sequence[str]) -> str:
    """What an arm that failed these checks does wrong, in a few words."""
    if {*checks} >= LEAKS:
        return "it sees future tokens"
    if "dependency" in checks:
        return "its outputs depend on tokens that they must not see"
    return "its numbers do not measure what they say"


def first_sentence(reason: str) -> str:
    """A reason up to the end of its first sentence, without the stop; the whole of it stands with the arm."""
    return reason.split("\n")[0].partition(". ")[0].rstrip(".") or "no reason was recorded"


def briefly(reason: str) -> str:
    """A reason up to the end of its first part; the whole of it stands with the arm."""
    return re.split(r"[:.;] ", reason, maxsplit=1)[0].rstrip(".")


def honestly(row: Mapping[str, Any], arms: Mapping[str, Mapping[str, Any]]) -> str:
    """What a leaking arm's loss is without the tokens that it must not see, compared with its baseline's."""
    found = [arms.get(row[side], {}).get("metrics", {}).get(TOKEN_BY_TOKEN) for side in ("arm", "baseline")]
    if not all(one and one["value"] is not None for one in found):
        return ""
    arm, baseline = (rounded(one) for one in found if one)
    how = "worse than" if float(arm) > float(baseline) else "better than" if arm != baseline else "equal to"
    return f" Scored without them its loss is {arm}, {how} {row['baseline']} with {baseline}."


def rounded(estimate: Mapping[str, Any]) -> str:
    """With as many digits as its interval supports: two of its half width, three decimals without one."""
    low, high = estimate.get("low"), estimate.get("high")
    half = (high - low) / 2 if low is not None and high is not None else 0.0
    places = min(max(1 - math.floor(math.log10(half)), 0), 3) if half > 0 else 3
    return f"{estimate['value']:.{places}f}"
