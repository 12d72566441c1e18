"""results.json: every run, every arm with its intervals, every comparison that is allowed, a verdict."""

from __future__ import annotations

import math
import os
import platform
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnlab.checks.plain_differences import unconfirmed_mean
from attnlab.checks.plain_metrics import PLAIN, Said
from attnlab.config.files import to_json
from attnlab.config.schema import Config
from attnlab.evaluation.paired_results import comes_to
from attnlab.metrics.measures import limits_of, measures
from attnlab.runs.faults import RunError, reading
from attnlab.runs.findings import read_findings
from attnlab.runs.metrics_file import METRICS_FILE, read_events
from attnlab.runs.reason import LEFT_OUT, Reason, ReasonKind
from attnlab.runs.record import RECORD, read_record
from attnlab.runs.result import RESULT, AlignmentMap, AttentionMap, RunResult, RunState, read_result
from attnlab.runs.summary import Histogram, StudyRecord
from attnlab.runs.typed import Value
from attnlab.session.session import draft_settings
from attnlab.studies.earlier_runs import left_over
from attnlab.studies.equality import mean
from attnlab.studies.extras import extras_of, with_summary
from attnlab.studies.first_runs import start_records
from attnlab.studies.judgement import DOCUMENTS, comparisons, doubtful_arms, estimate, unsound_of
from attnlab.studies.matching import parameters
from attnlab.studies.outcome import (
    OF_MAJORITY,
    ArmOutcome,
    ArmsAttention,
    ArmState,
    MachineRecord,
    NamedMeasure,
    Note,
    NoteKind,
    StudyFacts,
    StudyOutcome,
    TunedRate,
    learned_nothing,
)
from attnlab.studies.resolved import Resolved
from attnlab.studies.run_measures import label_names, read_documents
from attnlab.studies.spec import Study
from attnlab.studies.wording import RESTORE


def gather(
    resolved: Resolved, folder: Path, *, record: StudyRecord, tuning: Sequence[TunedRate]
) -> StudyOutcome:
    """Everything that is known of a study by now."""
    study = resolved.study
    each = [run_result(study, folder, arm, seed) for seed in study.all_seeds for arm in resolved.configs]
    runs = without_texts(each, folder)
    codes = codes_of(folder, runs)
    idle, idle_notes = doubtful_arms(study, runs, folder, codes)
    tried = Counter(rate.arm for rate in tuning if rate.value is not None)
    arms = [
        arm_of(
            resolved,
            arm,
            [r for r in runs if r.arm == arm],
            folder=folder,
            idle=idle.get(arm, []),
            tried=tried[arm],
        )
        for arm in resolved.configs
    ]
    maps = {run.arm: run.attention for run in runs if run.attention and "weights" in run.attention}
    known = measures(extras_of(study.extras).metrics)
    compared, notes = comparisons(study, runs, folder, known, idle=idle, tried=tried)
    first = next((run for run in runs if run.trained), RunResult())
    outcome = StudyOutcome(
        study=facts_of(resolved, tuning, runs),
        arms=tuple(arms),
        refused=tuple(refused_arm(arm, why) for arm, why in resolved.refused.items()),
        runs=tuple(runs),
        comparisons=tuple(compared),
        notes=(
            *resolved.notes,
            *left_over(folder, study.arms),
            *left_out_notes(runs),
            *idle_notes,
            *notes,
        ),
        attention=attention_maps(study.sentence, maps),
        alignment=alignments(runs),
        lengths=record.get("lengths", Histogram()),
        starts=start_records(resolved, folder),
        configs={"base": to_json(resolved.base)}
        | {arm: to_json(config) for arm, config in resolved.configs.items()},
        versions=record["versions"],
        fingerprints=first.fingerprints,
        machine=machine(record["threads"]),
        date=time.strftime("%Y-%m-%d %H:%M"),
        again=record["again"],
    )
    return with_summary(extras_of(study.extras), outcome, folder)


def refused_arm(arm: str, why: str) -> ArmOutcome:
    reason = Reason(ReasonKind.REFUSED, {"error": why})
    return ArmOutcome(name=arm, state=ArmState.REFUSED, reasons=(reason,))


def facts_of(resolved: Resolved, tuning: Sequence[TunedRate], runs: Sequence[RunResult]) -> StudyFacts:
    """The study itself, for its readers."""
    study = resolved.study
    own = extras_of(study.extras).metrics
    known = measures(own)
    names = dict.fromkeys([study.metric, *own, *(name for run in runs for name in run.metrics)])
    return StudyFacts(
        name=study.name,
        question=study.question,
        hypothesis=study.hypothesis,
        card=study.card,
        baseline=study.baseline,
        against=dict(study.against),
        metric=study.metric,
        metrics=tuple(
            NamedMeasure(name, known[name].definition, known[name].lower_is_better, signatures_of(runs, name))
            for name in names
            if name in known
        ),
        seeds=tuple(study.all_seeds),
        quick=study.is_quick,
        budget=resolved.base.training.budget.limits,
        match=study.match,
        overrides=dict(study.overrides),
        tuning=tuple(tuning),
    )


def signatures_of(runs: Sequence[RunResult], metric: str) -> str:
    """How the scores of the runs were computed, by the package's own signature: one, unless runs differ."""
    signatures = (run.extra.get("signatures", {}).get(metric) for run in runs)
    return " and ".join(dict.fromkeys(filter(None, signatures)))


def run_result(study: Study, folder: Path, arm: str, seed: int) -> RunResult:
    """One run: what its worker left, or that it has not come to its end, or that its files are damaged."""
    place = Path("runs") / arm / f"seed-{seed}"
    try:
        return _run_result(study, folder, place, arm, seed)
    except RunError as error:  # its neighbours are still there to be compared
        reason = Reason(ReasonKind.DAMAGED, {"error": str(error)})
        return RunResult(reason=reason, arm=arm, seed=seed, folder=str(place))


def _run_result(study: Study, folder: Path, place: Path, arm: str, seed: int) -> RunResult:
    begun = (folder / place / RECORD).is_file()
    missing = Reason(ReasonKind.STOPPED if begun else ReasonKind.NOT_BEGUN)
    result = read_result(folder / place) or RunResult(reason=missing)
    run = replace(
        result if result.trained else with_progress(result, folder / place),
        arm=arm,
        seed=seed,
        folder=str(place),
        checks=tuple(read_findings(folder / place)),
    )
    refuse_disagreement(run, folder / place / DOCUMENTS)
    if study.collapse == "result" and learned_nothing(run):
        run = replace(run, unsound=tuple(check for check in run.unsound if check not in OF_MAJORITY))
    if run.status is RunState.FINISHED and not run.sound:
        reason = Reason(ReasonKind.CHECKS, {"failures": run.failures})
        return replace(run, status=RunState.INVALID, reason=reason)
    return run


def refuse_disagreement(run: RunResult, file: Path) -> None:
    """A result that its own texts do not come to, each metric by its plain definition: one of the two files
    is not what the run wrote, or a metric is not what its name says."""
    documents = read_documents(file)
    if documents is None:
        return
    with reading(file):
        columns, targets = documents.examples.columns, int(documents.targets.sum())
        said = Said(columns, label_names(file.parent))
        plain = {n: PLAIN[n] for n in run.metrics if n in PLAIN and {*PLAIN[n].needs} <= {*columns}}
        values = {name: one.of(said) for name, one in plain.items() if math.isfinite(run.metrics[name])}
    of = run.metrics.get("targets", targets)
    for metric, whole in values.items():
        reported = run.metrics[metric]
        if not comes_to(whole, reported) or targets != of:
            raise RunError(
                f"{file} and {RESULT} disagree: its texts come to a {metric} of {whole:g} over {targets:,} "
                f"targets, the result says {reported:g} over {of:,.0f}. {RESTORE}"
            )


def without_texts(runs: Sequence[RunResult], folder: Path) -> list[RunResult]:
    """The runs, those left out that lack the losses of texts which others have."""
    lacking = [run.trained and not (folder / run.folder / DOCUMENTS).is_file() for run in runs]
    if all(lack for lack, run in zip(lacking, runs, strict=True) if run.trained):
        return list(runs)  # of a study without a dev split
    return [
        replace(run, status=RunState.MISSING, reason=without_documents(folder / run.folder)) if lack else run
        for lack, run in zip(lacking, runs, strict=True)
    ]


def without_documents(folder: Path) -> Reason:
    return Reason(ReasonKind.NO_TEXTS, {"file": str(folder / DOCUMENTS)})


def left_out_notes(runs: Sequence[RunResult]) -> list[Note]:
    """Which runs are left out of all numbers, and why."""
    return [
        Note(NoteKind.LEFT_OUT, {"arm": run.arm, "seed": run.seed, "why": run.reason.as_json()})
        for run in runs
        if run.status is RunState.MISSING and run.reason is not None and run.reason.kind in LEFT_OUT
    ]


def with_progress(result: RunResult, run: Path) -> RunResult:
    """A result of a run that did not end, with how far it came by its events."""
    events = list(read_events(run / METRICS_FILE))
    sizes = [event["parameters"] for event in events if event["event"] == "started"]
    steps = sum(event["event"] == "stepped" for event in events)
    return replace(result, parameters=max(sizes, default=0), steps=steps)


def arm_of(
    resolved: Resolved,
    arm: str,
    runs: list[RunResult],
    *,
    folder: Path = Path(),
    idle: Sequence[Reason] = (),
    tried: int = 0,
) -> ArmOutcome:
    """An arm over its seeds; `idle` says why those are not independent, which no number of it survives."""
    config, done = resolved.configs[arm], [run for run in runs if run.trained]
    names = dict.fromkeys(name for run in done for name in run.metrics)
    values = {name: [run.metrics[name] for run in done if name in run.metrics] for name in names}
    scores = {name: estimate(column, of=name) for name, column in values.items()}
    doubts = [
        unconfirmed_mean(values[name], score, measure=name, arm=arm, limits=limits_of(name))
        for name, score in scores.items()
    ]
    against = [*idle, *filter(None, doubts)]
    state, reasons = state_of(runs)
    if against and state is ArmState.FINISHED:
        state, reasons = ArmState.INVALID, tuple(against)
    places = [folder / run.folder for run in done if (folder / run.folder / RECORD).is_file()]
    # before its first run was built, nobody knows how many tokens its tokenizer has
    drafted = parameters(draft_settings(config)) if done else None
    return ArmOutcome(
        name=arm,
        changes=dict(resolved.study.arms[arm]),
        budget=config.training.budget.limits,
        learning_rate=config.training.optimizer.options.get("learning_rate"),
        steps=mean(done, "steps"),
        tokens=mean(done, "tokens"),
        flops=mean(done, "flops"),
        parameters=next((run.parameters for run in runs if run.parameters), drafted),
        tuned_parameters=done[0].tuned if done and done[0].tuned else None,
        flops_per_token=flops_per_token(config, read_record(places[0])) if places else None,
        state=state,
        reasons=reasons,
        unsound=tuple(unsound_of(done)),
        scores=scores,
        tried=tried,
    )


def state_of(runs: list[RunResult]) -> tuple[ArmState, tuple[Reason, ...]]:
    """What an arm's runs came to together. One that is not sound makes the arm invalid."""
    for state in (RunState.INVALID, RunState.FAILED, RunState.MISSING):
        which = [run for run in runs if run.status is state]
        if which and (state is RunState.INVALID or len(which) == len(runs)):
            return ArmState(state.value), tuple(filter(None, [which[0].reason]))
    short = [
        {"seed": run.seed, "why": run.reason.as_json()}
        for run in runs
        if run.status in (RunState.FAILED, RunState.MISSING) and run.reason is not None
    ]
    values: dict[str, Value] = {"runs": len(runs), "missing": short}
    return ArmState.FINISHED, (Reason(ReasonKind.WITHOUT_RESULT, values),) if short else ()


def flops_per_token(config: Config, record: Mapping[str, Any]) -> float | None:
    """Operations of training a token at the data's length: forward, and twice that backward. Of as many
    tokens and labels as a run's record has; earlier versions did not record them."""
    from attnlab.model.assemble import build_model
    from attnlab.model.counts import count

    if "tokenizer_identity" not in record:
        return None
    identity = record["tokenizer_identity"]
    source = identity.get("source", {}).get("vocabulary")
    settings = config.model.with_tokenizer(identity["vocabulary"], source)
    labels = len((record.get("labels") or {}).get("names", ())) or 1
    model, length = build_model(settings, device="meta", labels=labels), config.data.length
    return 3 * count(model, length=length, source_length=length, batch=1).forward / length


def codes_of(folder: Path, runs: Sequence[RunResult]) -> dict[str, dict[str, str]]:
    """The hash of each file of the person's own that a run used, by the run's folder."""
    codes = {}
    for run in (run for run in runs if (folder / run.folder / RECORD).is_file()):
        with suppress(RunError):  # told where the run is
            used = read_record(folder / run.folder).get("imports", ())
            codes[run.folder] = {Path(code["file"]).name: code["hash"] for code in used}
    return codes


def attention_maps(sentence: str, maps: Mapping[str, AttentionMap]) -> ArmsAttention:
    """The maps of each arm's first seed, where they are of the same tokens."""
    tokens: list[str] = next((drawn.get("tokens", []) for drawn in maps.values()), [])
    same = {arm: drawn for arm, drawn in maps.items() if drawn.get("tokens") == tokens}
    weights = {arm: drawn["weights"] for arm, drawn in same.items()}
    allowed = {arm: drawn["allowed"] for arm, drawn in same.items() if "allowed" in drawn}
    return {"sentence": sentence, "tokens": tokens, "arms": weights, "allowed": allowed}


def alignments(runs: Sequence[RunResult]) -> dict[str, AlignmentMap]:
    """Of each arm's first seed that has one."""
    return {run.arm: run.alignment for run in reversed(runs) if run.alignment is not None}


def machine(threads: int) -> MachineRecord:
    return {
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads_per_run": threads,
    }
