"""Recurrent: what did attention add to recurrent networks, and the transformer to both?

Set-up: sequences of 2 to 20 letters are to be written backwards, made on the spot. Four encoder-decoders of
one layer with the same number of parameters (their widths differ), budget, data and optimizer: a transformer
with rotary positions, with which it learned this task sooner than with sinusoidal or learned ones; a GRU with
additive attention (Bahdanau); a GRU and an LSTM without, whose decoder knows no more of the source than one
vector.

Hypothesis: without attention the share of right letters falls with the length, since one vector has to hold
them all; with attention it stays. The gradient that the last letter sends back to the first fades with their
distance where it goes through a state, and does not where attention joins them. The time of a step grows
with the length for all; recurrent networks take their steps one after another, so that their longest chain of
operations grows with the length and further processors do not help, and the transformer's does neither.

How to read it: the verdict is by the share of letters that are right in the text that a model writes by
itself, greedily, over all lengths. Figures: that share by length; the norm of the gradient of the output
that names the first letter, at that letter's vector, by length, whose slope gives the factor by which it
changes with every further letter (1: it does not fade); the operations of a forward of which each needs the
one before; the processor time of a forward and backward of 16 texts on one thread, which is its cost; and,
measured after all runs have ended, its time by the clock on one thread over that on all processors. Of few
processors the last says little: a speed-up is at most their number. An arm that has not learned short texts
says nothing of long ones.

Time: four arms × 5 seeds take about an hour on two cores; --quick about five minutes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attnlab.metrics.measures import Measure
from attnlab.studies.extras import Extras, OwnMeasures, Summary
from attnlab.studies.outcome import FigureRecord, SeriesRecord, StudyOutcome
from attnlab.studies.shown import BANDS, figure, interval, over_seeds, runs_by_arm, side, table
from attnlab.studies.spec import Quick, Study
from attnlab.studies.step_timing import (
    Backward,
    Step,
    StepTimes,
    longest_chain,
    speedup_figure,
    speedup_table,
    step_times,
    unfused,
)

if TYPE_CHECKING:
    import torch

    from attnlab.model.model import Model
    from attnlab.runs.result import RunResult
    from attnlab.session.trained import Trained

LONGEST, TEXTS = 20, 400
DISTANCES = (2, 4, 8, 12, 16, 20)
TIMED = (8, 16, 32, 64, 128)
ROWS, ROUNDS, CLOCKED = 16, 4, 6


def study() -> Study:
    return Study(
        question="What does attention add to a recurrent encoder-decoder, and a transformer to both?",
        hypothesis="One vector holds short texts only; through it the gradient fades with distance.",
        base={
            "task": "seq2seq",
            "data": {
                "corpus": {"kind": "reverse", "longest": LONGEST, "examples": 40_000},
                "tokenizer": {"kind": "word", "vocabulary": 64},
                "encoding": "translation",
                "batching": {"kind": "bucketed", "tokens": 2048},
                "length": LONGEST + 2,
                "dev_share": 0.02,
                "test_share": 0.0,
            },
            "model": {
                "family": "encoder_decoder",
                "vocabulary": 32,
                "length": max(TIMED) + 2,
                "width": 64,
                "layers": 1,
            },
            "training": {
                "optimizer": {"kind": "adamw", "learning_rate": 5e-3},
                "schedule": {"kind": "cosine", "warmup": 0.05},
            },
        },
        arms={
            "transformer": {
                "model.trunk": "transformer",
                "model.positions": "rotary",
                "model.feedforward": "gelu(expand=4.9375)",  # a size that even widths of the others come to
            },
            "gru-attention": {"model.trunk": "gru(attention=additive)"},
            "gru": {"model.trunk": "gru"},
            "lstm": {"model.trunk": "lstm"},
        },
        set={"training.evaluate_every": 500},
        budget={"tokens": 8_000_000},
        match="parameters",
        about=("speed", "settings"),
        metric="letters_right",
        probes=(),
        sentence="a b c d e f g h",
        quick=Quick(seeds=3, budget={"tokens": 800_000}, set={"training.evaluate_every": 200}),
        extras="attnlab.studies.builtin.recurrent:ByLength",
    )


class ByLength(Extras):
    """Quality, gradient and time, each by the length of the text."""

    metrics: ClassVar[dict[str, Measure]] = {
        "letters_right": Measure("share of letters that are right in what the model writes", "higher"),
        "right_at_longest": Measure(f"the same in texts of {LONGEST - 4} letters and more", "higher"),
        "gradient_factor": Measure("factor of the gradient at the first letter for one more of distance"),
        "time_growth": Measure("power of the length by which a step's time grows, over the longer lengths"),
        "chain_growth": Measure("operations that must follow one another, more for each further letter"),
    }

    def measure(self, trained: Trained) -> OwnMeasures:
        rows = dev_rows(trained)
        counts = counted(written(trained.model, rows), [target for _, target in rows])
        long = {length: pair for length, pair in counts.items() if length > LONGEST - 5}
        gradients = gradients_by_distance(trained.model, rows)
        seconds = step_seconds(trained.model, rows)
        chains = chains_by_length(trained.model, rows)
        metrics = {
            "letters_right": share(counts.values()),
            "gradient_factor": math.exp(slope(DISTANCES, [math.log(size) for size in gradients])),
            "time_growth": slope([math.log(n) for n in TIMED[-3:]], [math.log(s) for s in seconds[-3:]]),
            "chain_growth": slope(TIMED, chains),
        }
        metrics |= {"right_at_longest": share(long.values())} if long else {}
        by_length = {str(length): list(pair) for length, pair in counts.items()}
        drawn = {"letters_by_length": by_length, "gradients": gradients}
        return OwnMeasures(metrics, extra={**drawn, "step_seconds": seconds, "chains": chains})

    def summarise(self, outcome: StudyOutcome, folder: Path) -> Summary:
        arms = runs_by_arm(outcome)
        if not arms:
            return Summary()
        times, about = times_of(arms, folder), f"{ROWS} texts a step"
        return Summary(
            figures=[
                quality(arms),
                drawn(arms, "gradients", DISTANCES, log_x=False),
                drawn(arms, "step_seconds", TIMED, log_x=True),
                drawn(arms, "chains", TIMED, log_x=True),
                *([speedup_figure(times, about)] if times else []),
            ],
            tables=[
                table("The measures by length", COLUMNS, compared(arms, outcome.study.baseline), MEANT),
                *([speedup_table(times, outcome.study.baseline, about)] if times else []),
            ],
            extra={"step_times": times.as_json()} if times else {},
        )


COLUMNS = ("measure", "arm", "mean", "from", "to", "difference", "from", "to", "verdict")
MEASURES = {
    "letters_right": "letters right",
    "right_at_longest": f"of {LONGEST - 4} letters and more",
    "gradient_factor": "gradient factor a letter",
    "time_growth": "time grows by length^",
    "chain_growth": "operations in a row, a letter",
}
MEANT = (
    "Means over the seeds with their 95% intervals, and differences from the baseline paired by seed; a "
    "difference is higher or lower where its interval leaves 0 out, each for one comparison alone. Gradient "
    "factor: by which the gradient at the first letter changes with every further letter; 1 does not fade. "
    f"Time: over {TIMED[-3]} to {TIMED[-1]} letters, on one thread. Operations in a row: how many more must "
    "follow one another for one more letter; 0 where all positions are computed at once."
)


def compared(arms: Mapping[str, Sequence[RunResult]], baseline: str) -> list[list[Any]]:
    """A row for each measure and arm: its mean, and its difference from the baseline, with intervals."""
    rows = []
    for name, title in MEASURES.items():
        values = {
            arm: {run.seed: run.metrics[name] for run in runs if name in run.metrics}
            for arm, runs in arms.items()
        }
        for arm, own in values.items():
            other = values.get(baseline, {}) if arm != baseline else {}
            differences = [own[seed] - other[seed] for seed in own if seed in other]
            rows.append(
                [title, arm, *interval(list(own.values())), *interval(differences), side(differences)]
            )
    return rows


TITLES = {
    "gradients": ("Gradient of the last output at the first letter", "letters in the text", "norm"),
    "step_seconds": ("Cost of a step against the length", "letters in a text", "processor seconds"),
    "chains": ("Operations that must follow one another", "letters in a text", "operations"),
}
NOTES = {
    "gradients": "Of random unit projections of the output before the head, in the trained model.",
    "step_seconds": f"Forward and backward of {ROWS} texts, the least of {ROUNDS} rounds, by one processor.",
    "chains": "The longest way through the graph of a forward, in which each operation needs the result of "
    "the one before, counted with recurrent layers step by step: no number of processors shortens it.",
}


def quality(arms: Mapping[str, Sequence[RunResult]]) -> FigureRecord:
    """Right letters by length, over the lengths that every run has."""
    counts = {arm: [run.extra["letters_by_length"] for run in runs] for arm, runs in arms.items()}
    lengths = sorted(set.intersection(*(set(map(int, run)) for runs in counts.values() for run in runs)))
    series: list[SeriesRecord] = [
        over_seeds(arm, lengths, [[share([run[str(n)]]) for n in lengths] for run in runs])
        for arm, runs in counts.items()
    ]
    return figure(
        "Right letters against the length of the text",
        x="letters in the text",
        y="share of letters that are right",
        series=series,
        note=f"{BANDS} Written greedily; the same dev texts for every arm.",
    )


def drawn(
    arms: Mapping[str, Sequence[RunResult]], what: str, at: Sequence[int], *, log_x: bool
) -> FigureRecord:
    title, x, y = TITLES[what]
    series = [over_seeds(arm, at, [run.extra[what] for run in runs]) for arm, runs in arms.items()]
    return figure(title, x=x, y=y, series=series, log_x=log_x, log_y=True, note=f"{BANDS} {NOTES[what]}")


# ---------------------------------------------------------------- time by the clock
def times_of(arms: Mapping[str, Sequence[RunResult]], folder: Path) -> StepTimes | None:
    """Of the first run of each arm, one arm after another in every round; None on one processor, or where no
    model can be opened any more."""
    from attnlab.config.values import ConfigError
    from attnlab.runs.faults import RunError
    from attnlab.session.trained import Trained
    from attnlab.training.machine import cores

    steps, backward = dict[str, Step](), dict[str, Backward]()
    for arm, runs in arms.items():
        with suppress(ConfigError, RunError, OSError):
            trained = Trained.at(folder / runs[0].folder, which="last")
            steps[arm], backward[arm] = loss_of(trained.model, dev_rows(trained)), backward_of(trained.model)
    if cores() < 2 or not steps:
        return None
    return step_times(steps, backward, TIMED, threads=(1, cores()), rounds=CLOCKED)


# ---------------------------------------------------------------- quality
Row = tuple[list[int], list[int]]
"""The ids of a source and of its target, each from the start token to the stop token."""


def dev_rows(trained: Trained) -> list[Row]:
    stored = trained.dataset.rows("dev")
    return [
        (stored.ragged("ids", row).tolist(), stored.ragged("target", row).tolist())
        for row in range(min(TEXTS, len(stored)))
    ]


def written(model: Model, rows: Sequence[Row]) -> list[list[int]]:
    """What the model writes for each source by itself."""
    from attnlab.generation.generate import generate

    first, last = rows[0][1][0], rows[0][1][-1]
    texts = generate(
        model,
        [[first] for _ in rows],
        sources=[source for source, _ in rows],
        length=max(len(target) for _, target in rows),
        stop={last},
    )
    return [text.new for text in texts]


def counted(texts: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> dict[int, tuple[int, int]]:
    """By the letters of the answer: how many stand at their place, and how many there are, or were written
    where those are more."""
    counts: dict[int, tuple[int, int]] = {}
    for text, target in zip(texts, targets, strict=True):
        letters = list(target[1:-1])
        own = [token for token in text if token != target[-1]]
        right, asked = counts.get(len(letters), (0, 0))
        right += sum(one == other for one, other in zip(own, letters, strict=False))
        counts[len(letters)] = right, asked + max(len(letters), len(own))
    return dict(sorted(counts.items()))


def share(pairs: Any) -> float:
    """Of the right among the asked."""
    right, asked = zip(*pairs, strict=True)
    return sum(right) / sum(asked)


# ---------------------------------------------------------------- gradient and time
def made_rows(rows: Sequence[Row], length: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(source, text so far) of so many texts of random letters, up to the output that names the first."""
    import torch

    letters = torch.tensor(sorted({token for source, _ in rows for token in source[1:-1]}))
    generator = torch.Generator().manual_seed(length)
    drawn = letters[torch.randint(len(letters), (count, length), generator=generator)]
    (first, *_, last), start = rows[0][0], rows[0][1][0]
    begin, end = (torch.full((count, 1), token) for token in (first, last))
    text = torch.cat([torch.full((count, 1), start), drawn.flip(1)[:, :-1]], 1)
    return torch.cat([begin, drawn, end], 1), text


def gradients_by_distance(model: Model, rows: Sequence[Row]) -> list[float]:
    """At the first letter, of the output that is to name it, which in a text of n letters is the n-th."""
    from attnlab.explain.gradient_flow import gradient_at_token

    sizes = []
    for length in DISTANCES:
        source, text = made_rows(rows, length, ROWS)
        sizes.append(max(float(gradient_at_token(model, 1, ids=text, source=source).mean()), 1e-30))
    return sizes


def loss_of(model: Model, rows: Sequence[Row]) -> Step:
    """Of made texts of a length, which are made once."""
    texts = {length: made_rows(rows, length, ROWS) for length in TIMED}

    def loss(length: int) -> torch.Tensor:
        source, text = texts[length]
        total: torch.Tensor = model(text, source=source).logsumexp(-1).sum()
        return total

    return loss


def backward_of(model: Model) -> Backward:
    import torch

    parameters = [p for p in model.parameters() if p.requires_grad]
    return lambda loss: torch.autograd.grad(loss, parameters, allow_unused=True)


def chains_by_length(model: Model, rows: Sequence[Row]) -> list[int]:
    step = loss_of(model, rows)
    with unfused():
        return [longest_chain(step(length)) for length in TIMED]


def step_seconds(model: Model, rows: Sequence[Row]) -> list[float]:
    """Processor seconds of a forward and backward at each length, the least of several rounds."""
    from time import process_time

    step, backward = loss_of(model, rows), backward_of(model)
    least = [math.inf] * len(TIMED)
    for number in range(ROUNDS + 1):
        for place, length in enumerate(TIMED):
            began = process_time()
            backward(step(length))
            if number:  # the first round warms up
                least[place] = min(least[place], process_time() - began)
    return least


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the least-squares line."""
    import numpy as np

    return float(np.polyfit(x, y, 1)[0])
