"""The trained model on its input, on another, and on none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from attnlab.checks.check import EARLY, Case, Check
from attnlab.checks.real import batch_of, device_of, held_out, piece, prepared_of
from attnlab.model.isolation import undisturbed
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value
from attnlab.tasks.task import Prepared

ROWS = 16
MARGIN = 0.05


class InputsMatter(Check):
    """Inputs matter: does the trained model do better on real inputs than on shuffled and blank ones?

    Formula: the loss of the same targets, with the tokens that are read (1) as they are, (2) dealt
    out anew over the batch, (3) all the same; and for an encoder-decoder with a source of others.
    Each must cost at least 0.05 nats more than the first. Not before step 200.

    When it helps: a model whose input does not arrive still learns how often each word occurs, and
    its loss falls. A translator that never looks at its source writes fluent sentences.

    Cannot see: an input that helps for the wrong reason (a label among the words), and models below step
    200.
    """

    when: ClassVar[tuple[When, ...]] = ("after",)
    limit: ClassVar[float] = 1.0

    def run(self, case: Case) -> Finding:
        if case.step < EARLY:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "too_early", first=EARLY)
        prepared = prepared_of(case, piece(batch_of(case, held_out(case)), ROWS))
        if not prepared.count:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_batch_targets")
        variants = others(prepared, case.dataset.tokenizer.pad)
        with undisturbed(case.model) as model:
            device = device_of(model)
            own = float(case.task.loss(model, prepared.to(device)).mean)
            losses = {
                name: float(case.task.loss(model, one.to(device)).mean) for name, one in variants.items()
            }
        learnt = "words" if case.task.predicts_words else "labels"
        return self.judge(case.when, own, losses, prepared.count, learnt)

    def judge(
        self, when: When, own: float, losses: Mapping[str, float], targets: int, learnt: str
    ) -> Finding:
        """The loss on real inputs against those on others, by their names."""
        name, least = min(losses.items(), key=lambda item: item[1])
        values: dict[str, Value] = {"own": own, "losses": dict(losses), "targets": targets}
        if own - max(losses.values()) >= MARGIN:
            return self.finding(when, Outcome.WARN, "misleading", least - own, **values)
        if not least - own >= MARGIN:
            values |= {"nearest": name, "learned": learnt}
            return self.finding(when, Outcome.WARN, "ignored", least - own, **values)
        return self.finding(when, Outcome.PASS, "used", least - own, **values)


def others(prepared: Prepared, blank: int) -> dict[str, Prepared]:
    """The same targets with other inputs: ids and vectors alike."""
    ids, source, vectors = prepared.ids, prepared.source, prepared.vectors
    dealt = replace(prepared, ids=mixed(ids), vectors=None if vectors is None else mixed(vectors))
    none = None if vectors is None else torch.zeros_like(vectors)
    empty = replace(prepared, ids=torch.full_like(ids, blank), vectors=none)
    if source is None:
        return {"with shuffled inputs": dealt, "with blank inputs": empty}
    return {
        "with shuffled ones": replace(dealt, source=mixed(source)),
        "with blank ones": replace(empty, source=torch.full_like(source, blank)),
        "with another source": replace(prepared, source=mixed(source)),
    }


def mixed(column: Tensor) -> Tensor:
    """What tokens (B,T) or their vectors (B,T,W) are, dealt out anew over all places of the batch."""
    places = column.shape[0] * column.shape[1]
    order = torch.randperm(places, generator=torch.Generator().manual_seed(4))
    return column.flatten(0, 1)[order].view(column.shape)
