"""How a trained model is adapted to a target where nobody says otherwise, by adapter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

MOST_EVALUATIONS = 10
MEASURED_WIDTH = 384
"""The width of the model that the rates were chosen with (docs/lab-notes.md)."""


@dataclass(frozen=True)
class Recipe:
    """How a method is trained where nobody says otherwise: so many epochs, or more of few rows, which would
    end before anything is learned. `patience` counts evaluations that are not kept; `warmup` is a share of
    the steps."""

    learning_rate: float
    epochs: int
    least_steps: int = 100
    patience: int = 3
    weight_decay: float = 0.01
    warmup: float = 0.1
    by_width: bool = False
    """Whether matrices of the start are changed: the wider they are, the smaller the rate must be."""

    def rate(self, width: int) -> float:
        """The learning rate for a model of this width."""
        narrower = min(1.0, MEASURED_WIDTH / width) if self.by_width else 1.0
        return float(f"{self.learning_rate * narrower:.2g}")

    def training(self, *, epoch_steps: int, width: int) -> dict[str, Any]:
        """Its settings of [training] for a model of this width, where an epoch has so many steps."""
        epochs = max(self.epochs, math.ceil(self.least_steps / epoch_steps))
        between = math.ceil(epochs / MOST_EVALUATIONS) * epoch_steps
        rates = {"learning_rate": self.rate(width), "weight_decay": self.weight_decay}
        return {
            "optimizer": {"kind": "adamw", **rates, "betas": [0.9, 0.999]},
            "schedule": {"kind": "linear", "warmup": self.warmup},
            "budget": {"epochs": float(epochs)},
            "evaluate_every": "epoch" if epochs <= MOST_EVALUATIONS else between,
            "patience": self.patience,
        }


RECIPES = {
    "full": Recipe(learning_rate=1e-4, epochs=4, by_width=True),
    "top": Recipe(learning_rate=1e-4, epochs=4, by_width=True),
    "head": Recipe(learning_rate=2e-3, epochs=20, least_steps=1000),
    "lora": Recipe(learning_rate=2e-3, epochs=5, by_width=True),
    "bitfit": Recipe(learning_rate=1e-2, epochs=5),
    "prompt": Recipe(learning_rate=1e-2, epochs=10),
    "prefix": Recipe(learning_rate=5e-3, epochs=10),
}
"""By adapter: the fewer weights are trained, the larger the rate and the more epochs. An adapter of a
person's own is trained as lora is."""
OF_SPANS = RECIPES | {"full": Recipe(learning_rate=2e-4, epochs=3, by_width=True)}
"""The same for spans of a passage, by short trials with MiniLM, whose loss fell faster at a higher rate than
for classes (docs/lab-notes.md)."""
