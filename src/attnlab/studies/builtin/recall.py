"""Recall: where does linear attention lose?

Set-up: associative recall, made on the spot. A text shows pairs of a key and a value, from 1 to 16 of them,
and then every key again in the order of the keys, each before its value: `k3 v8 k1 v5 : k1 v5 k3 v8`.
Keys and values are drawn anew for every text, so that nothing can be learned by heart. Decoders of 2 layers,
64 wide, rotary, with Muon, which learns such tables soonest; only the answer counts. The arms: dot-product
attention with 4 heads; linear with 4, whose states hold 16 × 16 numbers each; and linear with a single
head, whose one state holds 64 × 64.

Hypothesis: dot recalls any number of pairs alike, once it has learned to look at all. Linear keeps all pairs
in a state of fixed size, where they blur: it falls off as pairs are added, later with the larger state.

How to read it: accuracy against the number of pairs, at the values of the answer alone, each with the right
answer before it; finding the next key is another task, and not counted. The dashed level is what guessing
among the values just shown would give; a model at that level has not learned to recall, and tells nothing
of its rule, which the report then says.

Time: three arms × 5 seeds take about an hour on two cores; --quick about three minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar

from attnlab.metrics.measures import Measure
from attnlab.studies.extras import Extras, OwnMeasures, Summary
from attnlab.studies.outcome import Note, NoteKind, SeriesRecord, StudyOutcome
from attnlab.studies.shown import BANDS, figure, over_seeds, runs_by_arm, table
from attnlab.studies.spec import Quick, Study

if TYPE_CHECKING:
    from attnlab.model.model import Model
    from attnlab.session.trained import Trained

MOST, ROWS = 16, 512
GUESS = "a guess among the values shown"

Row = tuple[list[int], int]
"""A row of ids, and how many of them are the question."""


def study() -> Study:
    return Study(
        question="How many pairs can attention recall, and where does linear attention lose?",
        hypothesis="Dot recalls any number alike; linear falls off, later with a larger state.",
        base={
            "task": "prefix",
            "data": {
                "corpus": {
                    "kind": "pairs",
                    "pairs": MOST,
                    "fewest": 1,
                    "keys": 32,
                    "values": 16,
                    "examples": 50_000,
                },
                "tokenizer": {"kind": "word", "vocabulary": 64},
                "encoding": "prefix",
                "batching": {"kind": "bucketed", "tokens": 2048},
                "length": 4 * MOST + 4,
                "dev_share": 0.02,
                "test_share": 0.0,
            },
            "model": {
                "family": "decoder",
                "vocabulary": 64,
                "length": 4 * MOST + 4,
                "width": 64,
                "layers": 2,
                "heads": 4,
                "positions": "rotary",
            },
            "training": {
                "optimizer": {"kind": "muon", "learning_rate": 1e-2},
                "schedule": {"kind": "wsd", "warmup": 0.02, "decay": 0.3},
            },
        },
        arms={
            "dot": {"model.attention": "dot"},
            "linear": {"model.attention": "linear"},
            "linear-1-head": {"model.attention": "linear", "model.heads": 1},
        },
        set={"training.evaluate_every": 200},
        budget={"tokens": 6_000_000},
        metric="recall_accuracy",
        probes=(),
        sentence="k1 v2 k3 v4 k5 v6 :",
        quick=Quick(seeds=3, budget={"tokens": 600_000}, set={"training.evaluate_every": 100}),
        extras="attnlab.studies.builtin.recall:ByPairs",
    )


class ByPairs(Extras):
    """How often the value after a key is right, by the number of pairs in the text."""

    metrics: ClassVar[dict[str, Measure]] = {
        "recall_accuracy": Measure("share of right values in the answers of dev texts, keys aside", "higher"),
    }

    def measure(self, trained: Trained) -> OwnMeasures:
        stored = trained.dataset.rows("dev")
        sources = stored.scalars("source")
        rows = [
            (stored.ragged("ids", row).tolist(), int(sources[row])) for row in range(min(ROWS, len(stored)))
        ]
        by_pairs = counted(predicted(trained.model, rows), rows)
        right, asked = (sum(pair[place] for pair in by_pairs.values()) for place in (0, 1))
        metrics = {"recall_accuracy": right / asked} if asked else {}
        each = {str(pairs): stored for pairs, stored in by_pairs.items()}
        return OwnMeasures(metrics, extra={"by_pairs": each})

    def summarise(self, outcome: StudyOutcome, folder: Path) -> Summary:
        arms = runs_by_arm(outcome)
        if not arms:
            return Summary()
        first = next(iter(arms.values()))[0].extra["by_pairs"]
        numbers = sorted(map(int, first))
        series = [
            over_seeds(
                arm, numbers, [[share(run.extra["by_pairs"][str(n)]) for n in numbers] for run in runs]
            )
            for arm, runs in arms.items()
        ]
        guess: SeriesRecord = {"name": GUESS, "x": numbers, "y": [1 / n for n in numbers]}
        rows = [
            [
                n,
                first[str(n)][1],
                *(fmean(share(run.extra["by_pairs"][str(n)]) for run in runs) for runs in arms.values()),
            ]
            for n in numbers
        ]
        return Summary(
            figures=[
                figure(
                    "Accuracy against the number of pairs",
                    x="pairs in the text",
                    y="share of values that are right",
                    series=[*series, guess],
                    note=f"{BANDS} The same dev texts for every arm.",
                )
            ],
            tables=[
                table(
                    "Values recalled, by the number of pairs",
                    ("pairs", "values asked", *arms),
                    rows,
                    "Shares; means over the seeds. Values asked are those of one run's dev texts.",
                )
            ],
            notes=unlearned(series, guess["y"]),
        )


def unlearned(series: Sequence[SeriesRecord], guess: Sequence[float]) -> list[Note]:
    """Arms that do no better than guessing: nothing follows from where they fall off."""
    level = fmean(guess)
    return [
        Note(NoteKind.NOT_LEARNED, {"arm": line["name"], "accuracy": fmean(line["y"]), "guess": level})
        for line in series
        if fmean(line["y"]) < 1.5 * level
    ]


def share(counts: Sequence[int]) -> float:
    right, asked = counts
    return right / asked


def predicted(model: Model, rows: Sequence[Row]) -> list[list[int]]:
    """For each row, the likeliest next token after every one of its tokens."""
    import torch

    from attnlab.model.tokens import Tokens

    model.eval()
    predictions = []
    with torch.no_grad():
        for ids, source in rows:
            marks = torch.arange(len(ids))[None] < source
            logits = model(torch.tensor([ids]), Tokens.of(len(ids), source=marks))
            predictions.append(logits[0].argmax(-1).tolist())
    return predictions


def counted(guesses: Sequence[Sequence[int]], rows: Sequence[Row]) -> dict[int, tuple[int, int]]:
    """By the number of pairs, how many values were right and how many there were.

    An answer is key, value, key, value … and the token that ends it: its values are every second token.
    """
    counts: dict[int, tuple[int, int]] = {}
    for guess, (ids, source) in zip(guesses, rows, strict=True):
        places = range(source + 1, len(ids) - 1, 2)
        right, asked = counts.get(len(places), (0, 0))
        right += sum(guess[place - 1] == ids[place] for place in places)
        counts[len(places)] = right, asked + len(places)
    return dict(sorted(counts.items()))
