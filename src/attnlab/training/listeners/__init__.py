"""Where a run's events go besides metrics.jsonl: one class a service, one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab.config.registry import Registry

if TYPE_CHECKING:
    from attnlab.training.listeners.tracker import Tracker

LISTENERS: Registry[Tracker] = Registry(
    "listeners",
    base="attnlab.training.listeners.tracker:Tracker",
    default="tensorboard",
    variants={
        "tensorboard": "attnlab.training.listeners.tracker:TensorBoard",
        "wandb": "attnlab.training.listeners.tracker:WeightsAndBiases",
        "mlflow": "attnlab.training.listeners.tracker:MLflow",
    },
)
