"""The mean of a run's last checkpoints, as a run of its own that is evaluated and asked like any other."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.config.wording import count_of, in_words
from attnlab.data.tokenizers.tokenizer import TARGET_FILE
from attnlab.data.tokenizers.training_text import record_of
from attnlab.model.witness import answer
from attnlab.runs.atomic import replace_json
from attnlab.runs.checkpoints import Checkpoints, DamagedError
from attnlab.runs.faults import RunError
from attnlab.runs.findings import CHECKS_FILE
from attnlab.runs.folder import make_folder
from attnlab.runs.record import RECORD, read_record
from attnlab.session.convert import refuse_taken
from attnlab.session.stored import Stored, stored_at
from attnlab.training.checkpoint import Checkpoint, load_weights, read_checkpoint, save_checkpoint

TOKENIZERS = ("tokenizer.json", TARGET_FILE)
COPIED = (*TOKENIZERS, *(record_of(Path(file)).name for file in TOKENIZERS), CHECKS_FILE)
"""What holds for the mean as for the run itself: what it reads with, and what was found of its training."""


def average(run: str | Path, out: str | Path, *, last: int = 5) -> list[int]:
    """Write a run whose weights are the mean of the last checkpoints of another; gives their steps.

    Which of the checkpoints was best on dev has no part in it. The record says which steps are in the mean.
    """
    stored, target = stored_at(run), Path(out)
    refuse_taken(target)
    steps = last_steps(stored, last)
    checkpoints = Checkpoints.of(stored.folder)
    try:
        kept = [read_checkpoint(checkpoints, step) for step in steps]
    except DamagedError as damage:
        raise RunError(f"A checkpoint of {stored.folder} is damaged: {damage}") from damage
    weights = mean_of([checkpoint.model for checkpoint in kept])
    model = stored.model()
    load_weights(model, weights)
    make_folder(target)
    for name in COPIED:
        if (stored.folder / name).is_file():
            shutil.copyfile(stored.folder / name, target / name)
    mean = Checkpoint(weights, {}, {"step": steps[-1]}, answer(model), frozen=kept[-1].frozen)
    save_checkpoint(Checkpoints.of(target), steps[-1], mean)
    record = {name: value for name, value in read_record(stored.folder).items() if name != "best"}
    replace_json(target / RECORD, record | {"averaged": {"run": str(stored.folder), "steps": steps}})
    return steps


def last_steps(stored: Stored, last: int) -> list[int]:
    """The steps of the last checkpoints; one that was kept only because it was best is not among them."""
    if last < 2:
        raise ConfigError(f"--last {last} is no mean of several checkpoints; use at least 2.")
    if stored.record.get("averaged"):
        raise ConfigError(f"{stored.folder} is the mean of checkpoints already; average the run itself.")
    keep = stored.config.training.keep
    steps = Checkpoints.of(stored.folder).steps()[-keep:]
    if last > len(steps):
        raise ConfigError(
            f"{stored.folder} has {count_of(len(steps), 'last checkpoint')} (training.keep is {keep}), not "
            f"{last}: steps {in_words(steps)}. Give --last {max(len(steps), 2)}, or train with "
            f"--set training.keep={last}."
        )
    return steps[-last:]


def mean_of(weights: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of tensors by name: added up in float64, in order, and rounded once."""
    means: dict[str, Tensor] = {}
    for name, first in weights[0].items():
        total = torch.zeros_like(first, dtype=torch.float64)
        for each in weights:
            total += each[name]
        means[name] = (total / len(weights)).to(first.dtype)
    return means
