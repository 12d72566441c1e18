"""May these runs stand side by side?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attnlab.runs.findings import Finding

Record = Mapping[str, Any]


def comparable(runs: Sequence[Record]) -> list[Finding]:
    """Whether runs, by their run.json, had the same data in the same order, evaluation, tokenizer and metric.

    A record may say its name as `arm`; what each cost is told of those that say it (`parameters`, `flops`,
    `seconds`). Runs are compared seed by seed, since another seed means another order.
    """
    if len(runs) < 2:
        raise ValueError(f"Comparing takes two runs at least, and there are {len(runs)}.")
    count = common_count(runs)
    found = [
        agreed(
            "data order",
            runs,
            lambda run: order_of(run, count),
            by_seed=True,
            meaning="A difference may be one of luck with data.",
        ),
        agreed("evaluation set", runs, evaluated_on, meaning="They were judged on different examples."),
        agreed("tokenizer", runs, lambda r: r.get("tokenizer"), meaning="Their losses count other units."),
        agreed("metric", runs, metric_of, meaning="Their losses are of different questions."),
    ]
    return [*found, costs(runs)]


def agreed(
    what: str, runs: Sequence[Record], fact: Callable[[Record], Any], *, meaning: str, by_seed: bool = False
) -> Finding:
    """Whether a fact is the same in all runs, or in all of a seed."""
    groups: dict[Any, dict[str, list[str]]] = {}
    for number, run in enumerate(runs):
        values = groups.setdefault(run.get("seed") if by_seed else None, {})
        values.setdefault(json.dumps(fact(run), sort_keys=True, default=str), []).append(name_of(run, number))
    apart = [values for values in groups.values() if len(values) > 1]
    unknown = any(fact(run) is None for run in runs)
    common: dict[str, Any] = {"check": "comparability", "when": "evaluation"}
    if apart:
        sides = " | ".join(", ".join(names) for names in apart[0].values())
        return Finding(
            outcome="fail",
            found=f"another {what}: {sides}",
            meaning=f"{meaning} The runs may not stand side by side as equals.",
            fix="Train and judge them from one config that differs in the part that is studied alone; "
            "across tokenizers, compare bits a byte.",
            **common,
        )
    if unknown:
        return Finding(
            outcome="warn",
            found=f"a run does not say its {what}",
            meaning="Whether it is the same is not known.",
            fix="Train it with this version, which records it.",
            **common,
        )
    return Finding(outcome="pass", found=f"the same {what}", number=float(len(runs)), **common)


def common_count(runs: Sequence[Record]) -> str:
    """The most batches after which all runs have recorded what they were fed; empty where one has not."""
    counts = [{*((run.get("trace") or {}).get("batches") or {})} for run in runs]
    return max(set.intersection(*counts), key=int, default="")


def order_of(run: Record, count: str = "") -> Any:
    """What decides the order of the batches, and those that it was really fed, up to this many."""
    fed = run["trace"]["batches"][count] if count else None
    settings = run.get("order")
    data, train = run.get("config", {}).get("data", {}), run.get("data", {}).get("train")
    if settings is None and train is not None:
        settings = [train, {n: data.get(n) for n in ("batching", "length", "padding")}, run.get("seed")]
    return None if settings is None else [settings, fed]


def evaluated_on(run: Record) -> Any:
    """The split that scores are of, and how much of it."""
    dev = run.get("data", {}).get("dev")
    batches = run.get("config", {}).get("training", {}).get("evaluate_batches")
    return None if dev is None else [dev, batches]


def metric_of(run: Record) -> Any:
    """What the loss is a loss of."""
    return run.get("config", {}).get("task")


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
    common: dict[str, Any] = {"check": "comparability", "when": "evaluation", "found": "; ".join(told)}
    if missing:
        return Finding(
            outcome="warn",
            meaning="Parameters, FLOPs or time of a run are not known: a gain may be one of size.",
            fix="Let each run finish: it then records what it took.",
            **common,
        )
    return Finding(outcome="pass", **common)


def name_of(run: Record, number: int) -> str:
    return str(run.get("arm") or f"run {number + 1}")
