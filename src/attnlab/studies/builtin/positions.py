"""Positions: how should a model know where its tokens stand, and what beyond the length it was trained at?

Set-up: a small decoder (mini-gpt: words, about 1.4 million parameters), one epoch of the
embedded Python documentation, with sentences cut at 40 tokens, so that there are longer ones to go on with.
Every scheme is an arm: none, fixed sinusoids (the baseline), a learned table, a part of the embedding set
aside (concat), learned biases by distance (relative) and by buckets of it (bucketed), biases that fall with
distance (alibi), and rotated queries and keys (rotary). After training, dev sentences of more than 40
tokens are read up to 80, twice the trained length.

Hypothesis: schemes that tell distance (relative, bucketed, alibi, rotary) learn faster than those that
tell place, since what matters in text is how far apart two words stand. No positions at all is worst,
and not hopeless: a causal mask by itself lets a model count. Beyond the trained length alibi and bucketed
go on as before; sinusoids and rotary fall off; learned, concat and relative have no position there at all.

How to read it: each scheme against sinusoidal, corrected for seven comparisons. Then the loss by place in
the same long sentences: left of the trained length and right of it. Those are few texts and later words,
so compare schemes with each other there, not with the dev loss; a scheme that ends is said to.

Time: eight arms × 5 seeds take about an hour on two cores; --quick about five minutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from attnlab.metrics.measures import Measure
from attnlab.studies.extras import Extras, OwnMeasures, Summary
from attnlab.studies.outcome import StudyOutcome
from attnlab.studies.shown import BANDS, figure, mean, over_seeds, runs_by_arm, table
from attnlab.studies.spec import Quick, Study

if TYPE_CHECKING:
    from attnlab.model.model import Model
    from attnlab.session.trained import Trained

SCHEMES = ("sinusoidal", "none", "learned", "concat", "relative", "bucketed", "alibi", "rotary")
LENGTH, BIN = 40, 10


def study() -> Study:
    return Study(
        question="Which position scheme gives the lowest loss, and which works beyond the trained length?",
        hypothesis="Relative schemes beat absolute ones; no positions at all is worst.",
        base="mini-gpt",
        arms={scheme: {"model.positions": scheme} for scheme in SCHEMES},
        baseline="sinusoidal",
        set={"training.evaluate_every": 100, "data.length": LENGTH, "model.length": LENGTH},
        quick=Quick(seeds=3, budget={"tokens": 50_000}, set={"training.evaluate_every": 40}),
        extras="attnlab.studies.builtin.positions:Longer",
    )


class Longer(Extras):
    """The loss of long dev sentences within the trained length and beyond it."""

    metrics: ClassVar[dict[str, Measure]] = {
        "loss_within": Measure(
            "nats per token of the long dev sentences, up to the trained length", of_task=True
        ),
        "loss_beyond": Measure(
            "nats per token of the same sentences from there to twice that length; none where positions end",
            of_task=True,
        ),
    }

    def measure(self, trained: Trained) -> OwnMeasures:
        rows, length = long_rows(trained), trained.config.data.length
        try:
            losses = [nats(trained.model, row) for row in rows]
        except ValueError as refusal:  # a scheme that ends says so itself
            return OwnMeasures(extra={"refused": str(refusal)})
        within = [loss for row in losses for loss in row[: length - 1]]
        beyond = [loss for row in losses for loss in row[length - 1 :]]
        if not beyond:
            return OwnMeasures(extra={"refused": f"No dev text is longer than {length} tokens."})
        losses_by_part = {"loss_within": sum(within) / len(within), "loss_beyond": sum(beyond) / len(beyond)}
        counts = {"texts": len(rows), "tokens": len(beyond)}
        return OwnMeasures(losses_by_part, extra={"long": counts | {"by_place": by_place(losses)}})

    def summarise(self, outcome: StudyOutcome, folder: Path) -> Summary:
        arms, series, rows = runs_by_arm(outcome), [], []
        for arm, runs in arms.items():
            refused = next((run.extra["refused"] for run in runs if "refused" in run.extra), "")
            if refused:
                rows.append([arm, len(runs), None, None, None, None, None, refused])
                continue
            long = runs[0].extra["long"]
            series.append(over_seeds(arm, *lines([run.extra["long"]["by_place"] for run in runs])))
            inside, outside = mean(runs, "loss_within"), mean(runs, "loss_beyond")
            rise = outside - inside if inside is not None and outside is not None else None
            rows.append([arm, len(runs), long["texts"], long["tokens"], inside, outside, rise, ""])
        columns = (
            "arm",
            "seeds",
            "texts",
            "tokens beyond",
            "within (nats)",
            "beyond (nats)",
            "rise",
            "refused",
        )
        note = f"{BANDS} Means over stretches of {BIN} places, each drawn at its last."
        return Summary(
            figures=[figure("Loss by place", x="place", y="nats per token", series=series, note=note)],
            tables=[
                table(
                    "Twice the trained length",
                    columns,
                    rows,
                    "Means over the seeds, of the dev sentences longer than the trained length, read up to "
                    "twice of it. Later words of long sentences may be harder or easier by themselves: "
                    "compare the rise of schemes with each other.",
                )
            ],
        )


def long_rows(trained: Trained) -> list[list[int]]:
    """The dev texts that go beyond the trained length, up to twice of it."""
    from dataclasses import replace

    from attnlab.data.dataset import Dataset
    from attnlab.session.session import default_cache

    length = trained.config.data.length
    longer = Dataset(replace(trained.config.data, length=2 * length), cache=default_cache()).rows("dev")
    rows = (longer.ragged("ids", row).tolist() for row in range(len(longer)) if longer.lengths[row] > length)
    return list(rows)


def nats(model: Model, row: Sequence[int]) -> list[float]:
    """Nats of every token of a text but the first."""
    import torch

    from attnlab.evaluation.perplexity import token_losses

    losses: list[float] = token_losses(model, torch.tensor([list(row)]))[0].tolist()
    return losses


def by_place(losses: Sequence[Sequence[float]]) -> dict[str, float]:
    """The mean of each stretch of places, by the last of them."""
    bins: dict[int, list[float]] = {}
    for row in losses:
        for place, loss in enumerate(row, start=2):  # the first token is given
            bins.setdefault(-(-place // BIN) * BIN, []).append(loss)
    return {str(end): sum(losses) / len(losses) for end, losses in sorted(bins.items())}


def lines(seeds: Sequence[Mapping[str, float]]) -> tuple[list[float], list[list[float]]]:
    places = sorted(map(int, seeds[0]))
    return [float(place) for place in places], [[means[str(place)] for place in places] for means in seeds]
