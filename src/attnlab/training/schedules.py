"""How the learning rate changes over a run, as a share of its budget."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from attnlab.config.ranges import Share
from attnlab.config.registry import Registry
from attnlab.config.values import ConfigError


class Schedule(ABC):
    """A factor on the learning rate. `progress` in (0, 1) is the share of the budget that is used up,
    so the same schedule serves budgets in steps, tokens, epochs, seconds and FLOPs."""

    def __init__(self, warmup: float):
        self.warmup = share("warmup", warmup)

    def factor(self, progress: float) -> float:
        """The factor at this share of the budget: warm-up, then the schedule's own course."""
        if progress < self.warmup:
            return progress / self.warmup
        return self.after_warmup((progress - self.warmup) / (1 - self.warmup))

    @abstractmethod
    def after_warmup(self, progress: float) -> float:
        """The factor at this share, in (0, 1), of what follows the warm-up."""


class Constant(Schedule):
    """Constant: one rate after the warm-up.

    Formula: 1; before it progress / warmup, where `warmup` is a share of the budget.

    When it helps: short runs, and runs whose length is not known.
    """

    def __init__(self, *, warmup: Share = 0.0):
        super().__init__(warmup)

    def after_warmup(self, progress: float) -> float:
        return 1.0


class Cosine(Schedule):
    """Cosine: half a wave from the full rate down to `final` of it.

    Formula: final + (1 − final)·½(1 + cos π·progress), after a linear warm-up.

    When it helps: the usual choice for a budget that is known.

    Paper: Loshchilov and Hutter 2017, "SGDR: Stochastic Gradient Descent with Warm Restarts".
    """

    def __init__(self, *, warmup: Share = 0.02, final: Share = 0.1):
        super().__init__(warmup)
        self.final = share("final", final, most=1.0)

    def after_warmup(self, progress: float) -> float:
        return self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * progress))


class Linear(Schedule):
    """Linear: straight from the full rate down to `final` of it.

    Formula: 1 − (1 − final)·progress, after a linear warm-up.

    When it helps: BERT's choice, and hard to beat when it ends at 0.

    Paper: Devlin et al. 2018, "BERT".
    """

    def __init__(self, *, warmup: Share = 0.02, final: Share = 0.0):
        super().__init__(warmup)
        self.final = share("final", final, most=1.0)

    def after_warmup(self, progress: float) -> float:
        return 1 - (1 - self.final) * progress


class WarmupStableDecay(Schedule):
    """WSD: warm-up, a long stable stretch, then a fast decay to `final`.

    Formula: 1 until the last `decay` of the budget, then straight down to final.

    When it helps: runs that may be continued: any checkpoint of the stable stretch can be decayed.

    Paper: Hu et al. 2024, "MiniCPM".
    """

    def __init__(self, *, warmup: Share = 0.02, decay: Share = 0.2, final: Share = 0.0):
        super().__init__(warmup)
        self.decay, self.final = share("decay", decay, most=1.0), share("final", final, most=1.0)
        if warmup + decay > 1:
            raise ConfigError(f"training.schedule: warmup {warmup} and decay {decay} exceed the budget.")

    def factor(self, progress: float) -> float:
        if progress > 1 - self.decay:  # a share of the whole budget, as its name says
            return self.final + (1 - self.final) * (1 - progress) / self.decay
        return super().factor(progress)

    def after_warmup(self, progress: float) -> float:
        return 1.0


def share(name: str, value: float, most: float = 0.999) -> float:
    if not 0 <= value <= most:
        raise ConfigError(f"training.schedule.{name} is {value}; it is a share, from 0 to {most:g}.")
    return value


SCHEDULES: Registry[Schedule] = Registry(
    "schedules",
    base="attnlab.training.schedules:Schedule",
    default="cosine",
    variants={
        "constant": "attnlab.training.schedules:Constant",
        "cosine": "attnlab.training.schedules:Cosine",
        "linear": "attnlab.training.schedules:Linear",
        "wsd": "attnlab.training.schedules:WarmupStableDecay",
    },
)
