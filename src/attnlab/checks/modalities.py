"""The trained model with the images of other examples, with their texts, and with both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.checks.check import EARLY, Case, Check
from attnlab.checks.real import device_of, held_out, prepared_of
from attnlab.metrics.metric import t_reach
from attnlab.model.isolation import undisturbed
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value
from attnlab.tasks.task import Prepared, Task

EXAMPLES = 512
"""Examples of dev that are scored in each way."""
MISSING = 0.05
"""The share of intervals that miss what they are of."""

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Exchanged:
    """The mean score with inputs of other examples, and what is lost by that: with its 95% interval."""

    score: float
    lost: float
    low: float
    high: float

    @property
    def matters(self) -> bool:
        """Whether something is lost beyond chance."""
        return self.low > 0


class Modalities(Check):
    """Modalities: does the model use its images, and its texts?

    Formula: the score of up to 512 dev examples, as they are; with the images of other examples; with their
    texts; with both. What is lost is paired by example, with its 95% interval; where that holds 0, nothing
    shows that the model uses them. The score is the accuracy of classes, else minus the loss. Not before
    step 200.

    When it helps: a model of images and texts often answers from one of them alone, and its score does not
    show it.

    Cannot see: which part of an image matters; images that are alike wherever they are exchanged; models
    below step 200.
    """

    when: ClassVar[tuple[When, ...]] = ("after",)
    limit: ClassVar[float] = 3.0

    def run(self, case: Case) -> Finding:
        if case.config.model.picture is None:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_images")
        if case.step < EARLY:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "too_early", first=EARLY)
        with undisturbed(case.model) as model:
            scores = scores_of(case, model)
        right_or_wrong = all(np.isin(each, (0, 1)).all() for each in scores.values())
        return self.judge(case.when, scores, "accuracy" if right_or_wrong else "minus loss")

    def judge(self, when: When, scores: Mapping[str, Scores], measure: str) -> Finding:
        """The scores of examples as they are ("own"), and with each kind of input exchanged."""
        own = scores["own"]
        if len(own) < 2:
            return self.finding(when, Outcome.NOT_APPLICABLE, "few_examples")
        exchanged = {name: paired(own, other) for name, other in scores.items() if name != "own"}
        values: dict[str, Value] = {"measure": measure, "own": float(own.mean()), "n": len(own)}
        values["exchanged"] = {
            name: [one.score, one.lost, one.low, one.high] for name, one in exchanged.items()
        }
        unused = [name for name, one in exchanged.items() if not one.matters]
        if unused:
            least = min(exchanged[name].lost for name in unused)
            return self.finding(when, Outcome.WARN, "unused", least, **values, unused=unused)
        least = min(one.lost for one in exchanged.values())
        return self.finding(when, Outcome.PASS, "used", least, **values)


def paired(own: Scores, other: Scores) -> Exchanged:
    """What examples lose on average, by the t distribution."""
    lost = own - other
    mean, n = float(lost.mean()), len(lost)
    reach = float(t_reach(n - 1, MISSING)) * float(lost.std(ddof=1)) / math.sqrt(n)
    return Exchanged(float(other.mean()), mean, mean - reach, mean + reach)


@torch.no_grad()
def scores_of(case: Case, model: Model) -> dict[str, Scores]:
    """The scores of dev examples in each way, by its name."""
    device, scores, count = device_of(model), dict[str, list[Tensor]](), 0
    loader = case.dataset.scored(held_out(case))
    plan = loader.plan(0)
    for number in range(len(plan)):
        batch = loader.load(plan, number)
        if len(batch.ids) < 2:
            continue
        prepared = prepared_of(case, batch)
        for name, one in exchanges(prepared).items():
            scores.setdefault(name, []).append(example_scores(case.task, model, one.to(device)))
        count += len(batch.ids)
        if count >= EXAMPLES:
            break
    each = {name: torch.cat(parts).double().cpu().numpy() for name, parts in scores.items()}
    return each or {"own": np.zeros(0)}


def exchanges(prepared: Prepared) -> dict[str, Prepared]:
    """The same targets with the images of other rows, and, where the text is not what is predicted, with
    their texts: the ids beside the patches, which stand in the same places in all rows."""
    vectors = prepared.vectors
    assert vectors is not None
    order = torch.arange(len(vectors)).roll(1)
    others = {"own": prepared, "images": replace(prepared, vectors=vectors[order])}
    tokens = prepared.tokens
    alike = tokens.patch is not None and tokens.patch.shape[0] == 1
    words = tokens.patch is not None and int((tokens.patch == 0).sum(1).max()) > 2
    if not prepared.of_examples or not alike or not words:
        return others
    types = None if prepared.types is None else prepared.types[order]
    read = replace(prepared, ids=prepared.ids[order], types=types, tokens=tokens.select(order))
    both = replace(read, vectors=vectors[order.roll(1)])
    return others | {"texts": read, "both": both}


def example_scores(task: Task, model: Model, prepared: Prepared) -> Tensor:
    """(B) the score of each example: 1 where its class is right, and minus its loss where it has none; (1)
    minus the mean loss of a batch whose words are predicted."""
    classes = task.truth(prepared).get("label") if prepared.of_examples else None
    if classes is not None:
        said = task.predict(model, prepared)["probabilities"].argmax(-1)
        return (said == classes).double()
    loss = task.loss(model, prepared)
    if prepared.of_examples and loss.each is not None:
        return -loss.each.double()
    return -loss.mean.double().reshape(1)
