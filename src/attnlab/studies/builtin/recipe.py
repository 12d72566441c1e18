"""Recipe: how much sooner does today's recipe reach the loss that GPT-2's ends at?

Set-up: documents of the embedded Python documentation in a byte-pair vocabulary of 4,000, packed, 1,024
tokens per step; decoders of 4 layers, 128 wide. GPT-2's recipe: learned positions, layer norm, GELU, biases,
dropout 0.1, AdamW at 1e-3 with a cosine. Today's: rotary positions, RMS norm, SwiGLU, no biases, no
dropout, Muon at 4e-3, a long plateau and a short decay. The sizes differ by less than 2%. The two
learning rates are customary ones, not tuned against each other: `learning_rates` in a study's file tries
some for both alike.

Hypothesis: today's recipe reaches the dev loss that GPT-2's ends at in less than half of its time, although
each of its steps takes longer.

How to read it: the table of times to that loss, seed by seed, and the ratio; then the figure of the time
to every loss that all runs reached. Between two evaluations the time is read off the straight line between
them. A whole recipe is compared: which of its parts does it, this study does not tell.

Time: two arms × 5 seeds take about half an hour on two cores; --quick about three minutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.runs.result import Curve, RunResult
from attnlab.studies.extras import Extras, Summary
from attnlab.studies.outcome import FigureRecord, Note, NoteKind, StudyOutcome
from attnlab.studies.shown import BANDS, figure, over_seeds, runs_by_arm, table
from attnlab.studies.spec import Quick, Study

LEVELS = 12
Runs = Mapping[str, Sequence[RunResult]]


def study() -> Study:
    return Study(
        question="How much sooner does a modern recipe reach the dev loss that GPT-2's recipe ends at?",
        hypothesis="In less than half of the time, although each step takes longer.",
        base="modern-mini",
        arms={
            "gpt2": {
                "model.positions": "learned",
                "model.norm": "layer",
                "model.feedforward": "gelu(approximate=tanh)",
                "model.bias": True,
                "model.dropout": 0.1,
                "training.optimizer": "adamw(learning_rate=1e-3)",
                "training.schedule": "cosine(warmup=0.05)",
            },
            "modern": {"training.optimizer": "muon(learning_rate=4e-3)"},
        },
        set={
            "data.tokenizer": "bpe(vocabulary=4000)",
            "data.batching": "packed(batch_size=8)",
            "data.dev_share": 0.02,
            "training.evaluate_every": 50,
        },
        about=("settings", "learning_rate", "speed"),  # of whole recipes, by the time that they take
        budget={"tokens": 1_000_000},
        quick=Quick(seeds=3, budget={"tokens": 80_000}, set={"training.evaluate_every": 10}),
        extras="attnlab.studies.builtin.recipe:TimeToLoss",
    )


class TimeToLoss(Extras):
    """The time, tokens and steps that each run took to the loss at which the baseline's ended."""

    def summarise(self, outcome: StudyOutcome, folder: Path) -> Summary:
        arms, baseline = runs_by_arm(outcome), outcome.study.baseline
        if baseline not in arms:
            return Summary()
        rows, notes = times_to_loss(arms, baseline)
        columns = ("seed", "dev loss", "arm", "steps", "tokens", "seconds", f"{baseline}'s time / its time")
        return Summary(
            figures=[times(arms)],
            tables=[
                table(
                    f"Time to the loss at which {baseline} ended",
                    columns,
                    rows,
                    "Nats per token. Seconds of training on this machine, evaluations aside; – where a run "
                    "never reached it.",
                )
            ],
            notes=notes,
        )


def times_to_loss(arms: Runs, baseline: str) -> tuple[list[list[Any]], list[Note]]:
    """A row a seed and arm, and a note an arm with its ratios of times."""
    ends = {run.seed: run.dev_curve for run in arms[baseline] if run.dev_curve.get("loss")}
    rows: list[list[Any]] = []
    ratios: dict[str, list[float]] = {arm: [] for arm in arms if arm != baseline}
    for seed, end in ends.items():
        target = end["loss"][-1]
        own = reached(end, target, "seconds")
        for arm, runs in arms.items():
            for run in (run for run in runs if run.seed == seed):
                took = [reached(run.dev_curve, target, axis) for axis in ("step", "tokens", "seconds")]
                ratio = own / took[-1] if own and took[-1] else None
                rows.append([seed, target, arm, *took, ratio])
                if arm != baseline and ratio is not None:
                    ratios[arm].append(ratio)
    notes = [
        Note(NoteKind.TIME_TO_LOSS, {"arm": arm, "ratios": times, "baseline": baseline, "seeds": len(ends)})
        for arm, times in ratios.items()
    ]
    return rows, notes


def reached(curve: Curve, target: float, axis: str) -> float | None:
    """Where a curve first comes down to the target, on the straight line between two evaluations."""
    before: tuple[float, float] | None = None
    for place, loss in zip(curve.get(axis, ()), curve.get("loss", ()), strict=True):
        if loss <= target:
            if before is None or before[1] == loss:
                return place
            share = (before[1] - target) / (before[1] - loss)
            return before[0] + share * (place - before[0])
        before = place, loss
    return None


def times(arms: Runs) -> FigureRecord:
    """Seconds to every loss between the highest first evaluation's and the lowest that all runs reached."""
    losses = [run.dev_curve["loss"] for runs in arms.values() for run in runs if run.dev_curve.get("loss")]
    top, bottom = min((c[0] for c in losses), default=0.0), max((min(c) for c in losses), default=0.0)
    levels = [top - (top - bottom) * n / (LEVELS - 1) for n in range(LEVELS)] if bottom < top else []
    series = []
    for arm, runs in arms.items():
        seconds = [[reached(run.dev_curve, level, "seconds") or 0.0 for level in levels] for run in runs]
        series.append(over_seeds(arm, levels, seconds))
    return figure("Time to a dev loss", x="dev loss (nats per token)", y="seconds", series=series, note=BANDS)
