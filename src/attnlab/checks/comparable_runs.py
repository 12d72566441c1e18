"""May these runs stand side by side?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from attnlab.evaluation.comparability import Aspect, Basis, Difference, comparability
from attnlab.runs.findings import Finding, Outcome
from attnlab.runs.typed import Value

Record = Mapping[str, Any]


def comparable(runs: Sequence[Record]) -> list[Finding]:
    """Whether runs, by their run.json, had the same data in the same order, evaluation, tokenizer and metric.

    A record may say its name as `arm`; what each cost is told of those that say it (`parameters`, `flops`,
    `seconds`). Runs are compared seed by seed, since another seed means another order.
    """
    if len(runs) < 2:
        raise ValueError(f"A comparison needs at least two runs, and there are {len(runs)}.")
    bases = {f"{name_of(run, number)}": basis_of(run) for number, run in enumerate(runs)}
    if len(bases) < len(runs):  # runs of one name, such as the seeds of an arm
        bases = {f"{name_of(run, n)} ({n + 1})": basis_of(run) for n, run in enumerate(runs)}
    return [*(agreed(aspect, bases) for aspect in get_args(Aspect)), costs(runs)]


def basis_of(run: Record) -> Basis:
    """What a run's numbers rest on, by its run.json: its own evaluations may be of a part of dev."""
    config: Record = run.get("config", {})
    prints = {"task": config.get("task"), **{n: run.get(n) for n in ("text", "data", "tokenizer", "order")}}
    return Basis.of_fingerprints(
        prints,
        part=config.get("training", {}).get("evaluate_batches"),
        seed=run.get("seed"),
        batches=(run.get("trace") or {}).get("batches") or {},
    )


def agreed(aspect: Aspect, bases: Mapping[str, Basis]) -> Finding:
    """Whether runs are the same in one respect."""
    if not all(basis.says(aspect) for basis in bases.values()):
        return about(Outcome.WARN, "not_recorded", aspect=aspect)
    sides: list[list[str]] = []
    differences: list[Difference] = []
    for name, basis in bases.items():
        against = [
            [difference for other in side for difference in differing(aspect, basis, bases[other])]
            for side in sides
        ]
        differences += [difference for side in against for difference in side]
        equal = next((side for side, apart in zip(sides, against, strict=True) if not apart), None)
        if equal is None:
            sides.append([name])
        else:
            equal.append(name)
    if differences:
        return about(
            Outcome.FAIL, "differs", aspect=aspect, sides=sides, reason=differences[0].reason.as_json()
        )
    return about(Outcome.PASS, "same", float(len(bases)), aspect=aspect)


def about(outcome: Outcome, kind: str, number: float | None = None, **values: Value) -> Finding:
    return Finding(
        check="comparability", when="evaluation", outcome=outcome, kind=kind, number=number, values=values
    )


def differing(aspect: Aspect, basis: Basis, other: Basis) -> list[Difference]:
    compared = comparability(basis, other)
    return [difference for difference in (*compared.judged, *compared.trained) if difference.aspect == aspect]


def costs(runs: Sequence[Record]) -> Finding:
    """What each run took: equal steps are not equal work."""
    each = [
        {"name": name_of(run, number)} | {name: run.get(name) for name in ("parameters", "flops", "seconds")}
        for number, run in enumerate(runs)
    ]
    if any(value is None for run in each for value in run.values()):
        return about(Outcome.WARN, "costs_unknown", runs=each)
    return about(Outcome.PASS, "costs", runs=each)


def name_of(run: Record, number: int) -> str:
    return str(run.get("arm") or f"run {number + 1}")
