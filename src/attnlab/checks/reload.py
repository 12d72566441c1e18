"""The model in memory beside the one that is loaded."""

from __future__ import annotations

from typing import ClassVar

import torch

from attnlab.checks.check import Case, Check
from attnlab.checks.real import batch_of, held_out, piece, prepared_of
from attnlab.checks.tensors import saved
from attnlab.model.isolation import copy_of
from attnlab.model.model import Model
from attnlab.runs.faults import RunError
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.tasks.task import Prepared
from attnlab.training.checkpoint import load_weights

ROWS, LENGTH = 2, 16


class Reload(Check):
    """Reload: does the saved model give the same outputs as the one in memory, bit for bit?

    Formula: the checkpoint of this step in a model that is built anew, and the model as it stands,
    both asked for the scores of the same real text without dropout.

    When it helps: what is not among the parameters (a buffer, a head that is made later, a setting)
    is lost by saving, and the loaded model predicts something else.

    Cannot see: another machine, precision or version of torch, and settings that only matter beyond two
    rows of sixteen tokens.
    """

    when: ClassVar[tuple[When, ...]] = ("after",)
    limit: ClassVar[float] = 0.5

    def run(self, case: Case) -> Finding:
        checkpoint = saved(case.folder, case.step)
        if checkpoint is None or isinstance(checkpoint, str) or case.initial is None:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_checkpoint")
        built = case.initial().cpu()
        try:
            load_weights(built, checkpoint.model)
        except RunError as error:
            return self.finding(case.when, Outcome.FAIL, "error", error=str(error))
        prepared = prepared_of(case, piece(batch_of(case, held_out(case)), ROWS, LENGTH))
        own, loaded = scores(copy_of(case.model), case, prepared), scores(built, case, prepared)
        return self.judge(case.when, own, loaded)

    def judge(self, when: When, own: torch.Tensor, loaded: torch.Tensor) -> Finding:
        """The scores of the model in memory against those of the loaded one."""
        if own.shape != loaded.shape:
            shapes = list(loaded.shape), list(own.shape)
            return self.finding(when, Outcome.FAIL, "shape", loaded=shapes[0], own=shapes[1])
        if not torch.equal(own, loaded):
            gap = float((own - loaded).abs().max().nan_to_num(torch.inf))
            return self.finding(when, Outcome.FAIL, "differ", gap)
        return self.finding(when, Outcome.PASS, "same", 0.0, scores=own.numel())


@torch.no_grad()
def scores(model: Model, case: Case, prepared: Prepared) -> torch.Tensor:
    """The head's scores, without dropout."""
    model.eval()
    with torch.random.fork_rng():
        outputs: torch.Tensor = model(**prepared.inputs)
        return outputs
