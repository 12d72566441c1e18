"""May these runs stand side by side?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from attnlab.evaluation.comparability import Aspect, Basis, Difference, comparability
from attnlab.runs.findings import Finding

Record = Mapping[str, Any]
ABOUT: dict[str, Any] = {"check": "comparability", "when": "evaluation"}


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
        return Finding(
            outcome="warn",
            found=f"a run did not record its {aspect}",
            meaning="Whether it is the same is not known.",
            fix="Train it with this version, which records it.",
            **ABOUT,
        )
    sides: list[list[str]] = []
    apart: list[Difference] = []
    for name, basis in bases.items():
        against = [
            [found for held in side for found in differing(aspect, basis, bases[held])] for side in sides
        ]
        apart += [found for side in against for found in side]
        joined = next((side for side, found in zip(sides, against, strict=True) if not found), None)
        if joined is None:
            sides.append([name])
        else:
            joined.append(name)
    if apart:
        return Finding(
            outcome="fail",
            found=f"another {aspect}: {' | '.join(', '.join(side) for side in sides)}",
            meaning=f"They are not directly comparable: {apart[0].words}.",
            fix="Train and evaluate them from one config that differs only in the part being studied; "
            "across tokenizers, compare bits per byte.",
            **ABOUT,
        )
    return Finding(outcome="pass", found=f"the same {aspect}", number=float(len(bases)), **ABOUT)


def differing(aspect: Aspect, one: Basis, other: Basis) -> list[Difference]:
    found = comparability(one, other)
    return [difference for difference in (*found.judged, *found.trained) if difference.aspect == aspect]


def costs(runs: Sequence[Record]) -> Finding:
    """What each run took: equal steps are not equal work."""
    told, missing = [], False
    for number, run in enumerate(runs):
        facts = [
            f"{run[name]:,.0f} {unit}"
            for name, unit in (("parameters", "parameters"), ("flops", "FLOPs"), ("seconds", "s"))
            if run.get(name) is not None
        ]
        missing |= len(facts) < 3
        told.append(f"{name_of(run, number)}: {', '.join(facts) or 'not known'}")
    found = "; ".join(told)
    if missing:
        return Finding(
            outcome="warn",
            found=found,
            meaning="Parameters, FLOPs or time of a run are not known: a gain may be one of size.",
            fix="Let each run finish: it then records what it took.",
            **ABOUT,
        )
    return Finding(outcome="pass", found=found, **ABOUT)


def name_of(run: Record, number: int) -> str:
    return str(run.get("arm") or f"run {number + 1}")
