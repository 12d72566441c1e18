"""The model in memory beside the one that is loaded."""

from __future__ import annotations

from typing import ClassVar

import torch

from attnlab.checks.check import Case, Check, Moment
from attnlab.checks.real import batch_of, held_out, piece, prepared_of
from attnlab.checks.tensors import saved
from attnlab.model.apart import copy_of
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, When
from attnlab.runs.run_error import RunError
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
        found = saved(case.folder, case.step)
        if found is None or isinstance(found, str) or case.initial is None:
            return self.not_applicable(case, "there is no complete checkpoint of this step")
        built = case.initial().cpu()
        try:
            load_weights(built, found.model)
        except RunError as error:
            return self.another(case, str(error))
        prepared = prepared_of(case, piece(batch_of(case, held_out(case)), ROWS, LENGTH))
        own, loaded = scores(copy_of(case.model), case, prepared), scores(built, case, prepared)
        return self.judge(case, own, loaded)

    def judge(self, at: Moment, own: torch.Tensor, loaded: torch.Tensor) -> Finding:
        """The scores of the model in memory against those of the loaded one."""
        if own.shape != loaded.shape:
            return self.another(at, f"scores have the shape {tuple(loaded.shape)}, not {tuple(own.shape)}")
        if not torch.equal(own, loaded):
            gap = float((own - loaded).abs().max().nan_to_num(torch.inf))
            return self.another(at, f"scores differ by up to {gap:.3g} after loading", gap)
        return self.passed(at, f"{own.numel():,} scores are the same after loading, bit for bit", 0.0)

    def another(self, at: Moment, told: str, gap: float | None = None) -> Finding:
        return self.failed(
            at,
            told,
            gap,
            meaning="What is saved is not what was trained and scored.",
            fix="Hold everything that is learned in parameters, and build the loaded model from its config.",
        )


@torch.no_grad()
def scores(model: Model, case: Case, prepared: Prepared) -> torch.Tensor:
    """The head's scores, without dropout."""
    model.eval()
    with torch.random.fork_rng():
        found: torch.Tensor = model(**prepared.inputs)
        return found
