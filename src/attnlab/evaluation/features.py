"""What a frozen trunk makes of each text, computed once."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab.data.batch import Batch
from attnlab.data.loader import Loader
from attnlab.model.frozen import is_fixed
from attnlab.model.heads.head import Head
from attnlab.model.heads.labels import Classification, pooled
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens
from attnlab.tasks.labelled import Labelled
from attnlab.tasks.task import Prepared, Task

FeaturesOf = Callable[[Batch, Prepared], Prepared]
"""Adds what is known of a batch's texts to what the model reads of them."""


def no_features(batch: Batch, prepared: Prepared) -> Prepared:
    """Nothing is known beforehand: the trunk reads each text every time."""
    return prepared


IN_MEMORY = 1 << 30
"""Bytes of features from which on they are kept in a file, of which the system holds what is in use."""


class Features:
    """One vector for each row of a loader (N,D), in memory or, where they are many, in a mapped file of
    `folder` that has no name; computed when it is first asked for.

    A row's vector is that of the batch that holds it in the first epoch, whatever batch asks for it later:
    padding and company change its last bits, and a run that was killed must go on with the same ones.
    """

    def __init__(
        self,
        model: Model,
        task: Task,
        loader: Loader,
        autocast: Callable[[], AbstractContextManager[Any]],
        folder: Path,
    ):
        self.model, self.task, self.loader = model, task, loader
        self.autocast, self.folder = autocast, folder
        self.plan = loader.plan(0)
        self.home = np.zeros(len(loader.rows), np.int64)  # the first epoch's batch of each row
        for number in range(len(self.plan)):
            self.home[np.concatenate(self.plan.batch(number))] = number
        self.known = np.zeros(len(loader.rows), bool)
        self.held: Tensor | None = None

    def __call__(self, batch: Batch, prepared: Prepared) -> Prepared:
        rows = batch.rows.numpy()
        for number in np.unique(self.home[rows[~self.known[rows]]]):
            self._compute(self.loader.load(self.plan, int(number)), prepared.ids.device)
        assert self.held is not None
        return replace(prepared, features=self.held[batch.rows].to(prepared.ids.device))

    def fill(self, device: torch.device) -> None:
        """Compute those of all rows: of a model that will be in parts they cannot be asked for later."""
        for number in np.unique(self.home[~self.known]):
            self._compute(self.loader.load(self.plan, int(number)), device)

    @torch.no_grad()
    def _compute(self, batch: Batch, device: torch.device) -> None:
        prepared = self.task.unlabelled(batch).to(device)
        with self.autocast():
            states = self.model(**prepared.inputs, objective=pooled_states)
        if self.held is None:
            self.held = self._room(states)
        self.held[batch.rows] = states.to(self.held.device)
        self.known[batch.rows.numpy()] = True

    def _room(self, like: Tensor) -> Tensor:
        shape = len(self.known), like.shape[-1]
        if math.prod(shape) * like.element_size() <= IN_MEMORY:
            return like.new_empty(shape)
        with NamedTemporaryFile(dir=self.folder, prefix=".features-") as file:  # mapped, it outlives its name
            return torch.from_file(file.name, shared=True, size=math.prod(shape), dtype=like.dtype).view(
                shape
            )


def pooled_states(head: Head, hidden: Tensor, tokens: Tokens, *, training: bool) -> Tensor:
    """The objective that gives what the head of a labelled text makes one vector of, (B,D)."""
    assert isinstance(head, Classification)
    return pooled(hidden, tokens, head.pooling)


def keeps_features(model: Model, task: Task) -> bool:
    """Whether one vector says all that training will ever ask of a text."""
    return isinstance(task, Labelled) and is_fixed(model.trunk)
