"""How far a run has come, and when it is over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnlab.config.schema import Budget
from attnlab.training.trace import Trace


@dataclass(frozen=True)
class State:
    """A run's place: all that a checkpoint must hold beside the weights, and the place in the data."""

    step: int = 0
    tokens: int = 0
    epochs: float = 0.0
    seconds: float = 0.0
    flops: int = 0
    evaluated: int = 0
    best_step: int = 0
    best_score: float | None = None
    """The step that is kept as the best on dev, and its score (see training/best.py)."""
    top_step: int = 0
    top_score: float | None = None
    """The step with the very best score, which need not be the one that is kept."""
    top_error: float = 0.0
    """The standard error of that score."""
    since_best: int = 0
    trace: Trace = Trace()
    settled: Mapping[str, float] = field(default_factory=dict)
    """What predictions go by that was chosen on dev at the last evaluation (see Task.fit_decision)."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> State:
        """From a checkpoint."""
        renamed = {"best_score" if name == "best_loss" else name: value for name, value in record.items()}
        if "top_score" not in renamed:  # a checkpoint of before, when the very best was the one that is kept
            renamed |= {"top_step": renamed["best_step"], "top_score": renamed["best_score"]}
        return cls(**{**renamed, "trace": Trace.of(record.get("trace"))})


def progress(budget: Budget, state: State) -> float:
    """The share of the budget that is used up: of the limit that is nearest."""
    return max(shares(budget, state).values())


def nearest(budget: Budget, state: State) -> str:
    """The limit that is nearest, in words: of several, the one that ends the run."""
    name, _ = max(shares(budget, state).items(), key=lambda share: share[1])
    return amount(budget.limits[name], name)


def expected_end(budget: Budget, *, epoch_steps: float, epoch_tokens: int) -> str:
    """Which limit will end a run, and when; of seconds and FLOPs it is not known beforehand."""
    steps = {"steps": 1.0, "epochs": epoch_steps, "tokens": epoch_steps / max(epoch_tokens, 1)}
    known = {name: limit * steps[name] for name, limit in budget.limits.items() if name in steps}
    unknown = [amount(budget.limits[name], name) for name in budget.limits if name not in steps]
    if not known:
        return f"Ends after {' or '.join(unknown)}."
    first, *later = sorted(known, key=lambda name: known[name])
    sentence = (
        f"Ends after {amount(budget.limits[first], first)} ({_length(first, known[first], epoch_steps)})"
    )
    if later:
        others = (f"{amount(budget.limits[n], n)} ({_length(n, known[n], epoch_steps)})" for n in later)
        sentence += f", before {' and '.join(others)}"
    return sentence + (f"; or after {' or '.join(unknown)}, if that is sooner." if unknown else ".")


def _length(limit: str, steps: float, epoch_steps: float) -> str:
    """How long a limit lasts, in the units that it is not in itself."""
    epochs, count = f"{steps / epoch_steps:.2g} epochs", f"{math.ceil(steps):,} steps"
    about = {"steps": epochs, "epochs": count, "tokens": f"about {count}, {epochs}"}
    return about[limit]


def patience_phrase(patience: int, metric: str) -> str:
    """When a run loses patience."""
    not_kept = "without a better dev loss" if metric == "loss" else f"with a dev {metric} below the best"
    return f"after {patience} evaluations {not_kept}"


def amount(limit: float, name: str) -> str:
    return f"{limit:,.10g} {name.removesuffix('s') if limit == 1 else name}"


def shares(budget: Budget, state: State) -> dict[str, float]:
    """How much of each limit is used up."""
    used = {
        "steps": state.step,
        "tokens": state.tokens,
        "epochs": state.epochs,
        "seconds": state.seconds,
        "flops": state.flops,
    }
    return {name: used[name] / limit for name, limit in budget.limits.items()}
