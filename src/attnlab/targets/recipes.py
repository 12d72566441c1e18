"""How a trained model is adapted to a target where nobody says otherwise, by adapter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """How a method is trained where nobody says otherwise. `patience` counts epochs that are not
    kept; `warmup` is a share of the steps."""

    learning_rate: float
    epochs: float
    patience: int = 3
    weight_decay: float = 0.01
    warmup: float = 0.1

    def training(self) -> dict[str, Any]:
        """Its settings of [training]."""
        rates = {"learning_rate": self.learning_rate, "weight_decay": self.weight_decay}
        return {
            "optimizer": {"kind": "adamw", **rates, "betas": [0.9, 0.999]},
            "schedule": {"kind": "linear", "warmup": self.warmup},
            "budget": {"epochs": self.epochs},
            "evaluate_every": "epoch",
            "patience": self.patience,
        }


RECIPES = {
    "full": Recipe(learning_rate=5e-5, epochs=4.0),
    "top": Recipe(learning_rate=1e-4, epochs=4.0),
    "head": Recipe(learning_rate=2e-3, epochs=20.0),
    "lora": Recipe(learning_rate=5e-4, epochs=5.0),
    "bitfit": Recipe(learning_rate=1e-3, epochs=5.0),
    "prompt": Recipe(learning_rate=1e-2, epochs=10.0),
    "prefix": Recipe(learning_rate=5e-3, epochs=10.0),
}
"""By adapter: the fewer weights are trained, the larger the rate and the more epochs. An adapter of a
person's own is trained as lora is."""
OF_SPANS = RECIPES | {"full": Recipe(learning_rate=2e-4, epochs=3.0)}
"""The same for spans of a passage, by short trials with MiniLM, whose loss fell faster at four times the rate
for classes (docs/lab-notes.md)."""
