"""Fusion: in which layers should image and text attend to each other?

Set-up: pictures of two coloured shapes with a caption, drawn on the spot ("a red circle left of a blue
square"). Does the caption belong to its picture? Half of them do, and the others differ in one word; neither
the picture nor the caption alone says anything. Encoders of four layers with the same number of parameters
read both in one row: 16 patches, then the words. The answer is read from the class token, which is of the
text. Early: all attend to all in every layer. Late: the first one, two or three layers attend within image
and within text. Bottleneck: both exchange what they know through four learned tokens alone, from the first
layer on or after two layers of their own. Never: no layer joins them.

Hypothesis: never is at chance, since the class token knows nothing of the picture; that checks the set-up.
Late does as well as early while a few layers are left to compare in, and costs less. One layer is too few:
relations between two shapes have to be looked up by what was found before.

How to read it: accuracy on captions of shapes that no training picture shows in that colour, against the
number of layers of their own, with chance as a dashed line. An arm at chance has learned nothing, and says
nothing of its fusion beyond this budget; never must be there by construction, where the checks majority and
overfit name it: it is invalid. Cost: operations of a step for one example, and processor time, which of so
few tokens is mostly not attention's.

Time: seven arms × 5 seeds are 35 runs of about 3,800 steps (--plan tells what they take on yours). --quick is
2 seeds of 300 steps with four patches a picture and Muon: it shows the figures alone. At so few steps arms
that could learn are still near the majority share too, so that nothing follows from it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from attnlab.metrics.measures import Measure
from attnlab.runs.typed import Value
from attnlab.studies.extras import Extras, OwnMeasures, Summary
from attnlab.studies.outcome import FigureRecord, Note, NoteKind, SeriesRecord, StudyOutcome
from attnlab.studies.shown import BANDS, figure, interval, mean, over_seeds, rounded, runs_by_arm, table
from attnlab.studies.spec import Quick, Study

if TYPE_CHECKING:
    from attnlab.runs.result import RunResult
    from attnlab.session.trained import Trained

LAYERS, ROWS, ROUNDS = 4, 64, 5
CHANCE = 0.5
RATE = 3e-4
"""At 1e-3, the ready config's, early learns, and an arm with two layers of its own stays at chance."""
FUSIONS: dict[str, tuple[str, int]] = {
    "early": ("early", 0),
    "late-1": ("late(layers=1)", 1),
    "late-2": ("late(layers=2)", 2),
    "late-3": ("late(layers=3)", 3),
    "bottleneck": ("bottleneck(tokens=4)", 0),
    "bottleneck-2": ("bottleneck(tokens=4, layers=2)", 2),
    "never": ("never", LAYERS),
}
"""Each arm's fusion, and in how many layers image and text are by themselves."""
AT_CHANCE = ("inputs_matter", "overfit", "collapse", "majority", "modalities")
"""Checks that a model fails whose answer cannot depend on the picture."""


def study() -> Study:
    return Study(
        question="In which layers should image and text attend to each other?",
        hypothesis="Never is at chance; late is as good as early while layers are left to compare in.",
        base="image-matching-mini",
        set={"model.layers": LAYERS, "training.optimizer.learning_rate": RATE},
        arms={name: {"model.fusion": fusion} for name, (fusion, _) in FUSIONS.items()},
        match="parameters",
        about=("speed",),
        metric="accuracy",
        collapse="result",
        allow={"never": AT_CHANCE},
        probes=(),
        sentence="",
        quick=Quick(
            seeds=2,
            budget={"tokens": 400_000},
            set={
                "data.corpus.examples": 6400,
                "model.inputs": ["image(size=32, patch=16)", "text"],
                "training.optimizer": "muon(learning_rate=3e-3)",
                "training.evaluate_every": 100,
            },
        ),
        extras="attnlab.studies.builtin.fusion:Cost",
    )


class Cost(Extras):
    """What a step costs for one example, beside how well it answers."""

    metrics: ClassVar[dict[str, Measure]] = {
        "example_megaflops": Measure("10⁶ operations of a training step, for one example", "lower"),
        "example_milliseconds": Measure(
            f"processor time of a forward and backward of {ROWS} examples on one thread, for one of them",
            "lower",
        ),
    }

    def measure(self, trained: Trained) -> OwnMeasures:
        import numpy as np

        from attnlab.data.batch import collate

        rows = trained.dataset.rows("dev")
        count = min(ROWS, len(rows))
        batch = collate(rows, list(np.arange(count)[:, None]), pad=trained.tokenizer.pad)
        prepared = trained.task.prepare(batch, 0)
        operations = trained.task.flops(trained.model, prepared) / count
        seconds = step_seconds(trained, prepared) / count
        return OwnMeasures({"example_megaflops": operations / 1e6, "example_milliseconds": seconds * 1e3})

    def summarise(self, outcome: StudyOutcome, folder: Path) -> Summary:
        arms = runs_by_arm(outcome)
        if not arms:
            return Summary()
        parameters = {arm.name: arm.parameters for arm in outcome.arms}
        return Summary(
            figures=[by_layers(arms)],
            tables=[
                table(
                    "Accuracy and cost",
                    COLUMNS,
                    [cost_row(arm, runs, parameters.get(arm)) for arm, runs in arms.items()],
                    "Means over the seeds, of accuracy with its 95% interval. Operations and processor time "
                    "are of a training step for one example; times by a busy machine are larger.",
                )
            ],
            notes=unlearned(arms),
        )


COLUMNS = (
    *("arm", "layers of their own", "parameters", "accuracy", "from", "to"),
    *("10⁶ operations", "processor ms"),
)


def cost_row(arm: str, runs: Sequence[RunResult], parameters: int | None) -> list[Any]:
    """An arm's row of the table."""
    own = FUSIONS[arm][1] if arm in FUSIONS else None
    costs = (mean(runs, name) for name in Cost.metrics)
    return [arm, own, parameters, *interval(accuracies(runs)), *rounded(3, *costs)]


def accuracies(runs: Sequence[RunResult]) -> list[float]:
    return [run.metrics["accuracy"] for run in runs if "accuracy" in run.metrics]


def by_layers(arms: Mapping[str, Sequence[RunResult]]) -> FigureRecord:
    """Accuracy by the number of layers of their own: late from early to never, and the bottleneck."""
    lines: dict[str, tuple[str, ...]] = {
        "late": ("early", "late-1", "late-2", "late-3", "never"),
        "bottleneck": ("bottleneck", "bottleneck-2"),
    }
    series = [line_of(name, [arm for arm in along if arm in arms], arms) for name, along in lines.items()]
    chance: SeriesRecord = {"name": "chance", "x": [0, LAYERS], "y": [CHANCE, CHANCE]}
    return figure(
        "Accuracy against layers of their own",
        x="layers in which image and text are by themselves",
        y="accuracy",
        series=[*(line for line in series if line["x"]), chance],
        note=f"{BANDS} late has early at 0 and never at {LAYERS}. The same dev examples for every arm.",
    )


def line_of(name: str, along: Sequence[str], arms: Mapping[str, Sequence[RunResult]]) -> SeriesRecord:
    """A line through arms, over the seeds that all of them have."""
    known = [{run.seed: run.metrics["accuracy"] for run in arms[arm]} for arm in along]
    seeds = sorted(set.intersection(*map(set, known))) if known else []
    x = [FUSIONS[arm][1] for arm in along] if seeds else []
    return over_seeds(name, x, [[values[seed] for values in known] for seed in seeds])


def unlearned(arms: Mapping[str, Sequence[RunResult]]) -> list[Note]:
    """Arms that no interval tells from chance, though they could know better."""
    notes = []
    for arm, runs in arms.items():
        accuracy, low, _ = interval(accuracies(runs))
        if arm != "never" and accuracy is not None and (low if low is not None else accuracy) <= CHANCE:
            values: dict[str, Value] = {"arm": arm, "accuracy": fmean(accuracies(runs)), "guess": CHANCE}
            notes.append(Note(NoteKind.NOT_LEARNED, values))
    return notes


def step_seconds(trained: Trained, prepared: Any) -> float:
    """Processor time of a forward and backward, the least of several."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rounds = []
        for _ in range(ROUNDS):
            begun = time.process_time()
            loss = trained.model(**prepared.inputs, objective=trained.task.loss_of(prepared))
            loss.total.backward()
            rounds.append(time.process_time() - begun)
            trained.model.zero_grad(set_to_none=True)
        return min(rounds)
    finally:
        torch.set_num_threads(threads)
