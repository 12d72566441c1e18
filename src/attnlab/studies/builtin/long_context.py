"""Long context: how do time and memory grow with the length of a text?

Set-up: one attention layer of 4 heads, 24 numbers wide, causal, on a text of 256 tokens and of twice,
four times … as many, up to model.length (16,384; --quick 4,096). Forward and backward are timed in
rounds that go through all lengths, and the least of each is kept; memory is what the forward leaves for
the backward. The rules: dot, linear, group (8 groups at every length) and window (64 tokens). No language
is learned here: each arm trains for a few steps only, so that the checks of a run are made on it, and its
losses mean nothing.

Hypothesis: time grows by length² for dot and for group, which takes about an eighth of it, and by length
for linear and window. Memory grows by length for all: torch's fused attention never holds the square of
weights, which a plain softmax would.

How to read it: the slopes of the two log-log figures compared with theory (2: twice the length, four times
the cost; 1: twice). Each is a least-squares line through the longer half of the lengths, since at short
ones the cost of starting hides the rest. The verdict is by the slope of time; the constant is in the
figure: a rule may grow slowly and still be slower at every length that you use.

Time: four arms × 5 seeds take about ten minutes on two cores; --quick about two minutes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attnlab.metrics.measures import Measure
from attnlab.studies.extras import Extras, OwnMeasures, Summary
from attnlab.studies.outcome import FigureRecord, StudyOutcome
from attnlab.studies.shown import BANDS, figure, mean, over_seeds, runs_by_arm, table
from attnlab.studies.spec import Quick, Study

if TYPE_CHECKING:
    from attnlab.config.schema import ModelSettings
    from attnlab.session.trained import Trained

SHORTEST, ROUNDS = 256, 5
THEORY = {"dot": 2, "additive": 2, "argmax": 2, "group": 2, "linear": 1, "window": 1}
"""The power of the length that a rule's operations grow by; groups are fixed in number, not in size."""


def study() -> Study:
    return Study(
        question="How do an attention rule's time and memory grow with the length of the text?",
        hypothesis="Time by length² for dot and group, by length for linear and window; memory by length.",
        base="mini-gpt",
        arms={
            "dot": {"model.attention": "dot"},
            "linear": {"model.attention": "linear"},
            "group": {"model.attention": "group(groups=8)"},
            "window": {"model.attention": "window(size=64)"},
        },
        set={"model.length": 16_384, "model.layers": 1, "data.dev_share": 0.01},
        about=("speed",),
        budget={"tokens": 5_000},
        metric="time_slope",
        probes=(),
        quick=Quick(seeds=3, budget={"tokens": 2_000}, set={"model.length": 4_096}),
        extras="attnlab.studies.builtin.long_context:Growth",
    )


class Growth(Extras):
    """Time and memory of an arm's attention layer against the length."""

    metrics: ClassVar[dict[str, Measure]] = {
        "time_slope": Measure("power of the length by which processor time grows, over the longer lengths"),
        "memory_slope": Measure("power of the length by which memory for the backward grows"),
    }

    def measure(self, trained: Trained) -> OwnMeasures:
        lengths = lengths_up_to(trained.config.longest_text)
        seconds = layer_seconds(trained.config.model, lengths)
        memory = [float(kept_bytes(trained.config.model, length)) for length in lengths]
        slopes = {"time_slope": slope(lengths, seconds), "memory_slope": slope(lengths, memory)}
        operations = [float(operations_of(trained.config.model, length)) for length in lengths]
        growth = {"lengths": lengths, "seconds": seconds, "bytes": memory, "operations": operations}
        return OwnMeasures(slopes, extra={"growth": growth})

    def summarise(self, outcome: StudyOutcome, folder: Path) -> Summary:
        arms = runs_by_arm(outcome)
        rules = {arm: outcome.configs[arm]["model"]["attention"] for arm in arms}
        rows = []
        for arm, runs in arms.items():
            growth = runs[0].extra["growth"]
            counted = slope(growth["lengths"], growth["operations"])
            measured = (mean(runs, name) for name in ("time_slope", "memory_slope"))
            rows.append([arm, len(runs), THEORY.get(kind(rules[arm]), "–"), counted, *measured])
        columns = (
            "arm",
            "seeds",
            "time: theory",
            "operations: counted",
            "time: measured",
            "memory: measured",
        )
        return Summary(
            figures=[
                grown(arms, "seconds", "Time of one layer, forward and backward", "processor seconds"),
                grown(arms, "bytes", "Memory that the forward leaves for the backward", "bytes"),
            ],
            tables=[
                table(
                    "Slopes: the power of the length",
                    columns,
                    rows,
                    "Least squares through the longer half of the lengths; means over the seeds. Processor "
                    "time, which other work on the machine disturbs little. Seeds repeat the measurement; "
                    "the weights have no part in it.",
                )
            ],
        )


def kind(choice: Any) -> str:
    return str(choice["kind"]) if isinstance(choice, Mapping) else str(choice)


def grown(arms: Mapping[str, Any], what: str, title: str, unit: str) -> FigureRecord:
    series = [
        over_seeds(arm, runs[0].extra["growth"]["lengths"], [run.extra["growth"][what] for run in runs])
        for arm, runs in arms.items()
    ]
    return figure(title, x="tokens", y=unit, series=series, log_x=True, log_y=True, note=BANDS)


def lengths_up_to(longest: int) -> list[int]:
    """Doubled from the shortest on, three at the least: a slope needs them."""
    doublings = max(2, int(math.log2(max(longest, 1) / SHORTEST)) if longest > SHORTEST else 0)
    return [SHORTEST * 2**n for n in range(doublings + 1)]


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The power of x that y grows by, over the longer half of x."""
    import numpy as np

    kept = max(3, math.ceil(len(x) / 2))
    return float(np.polyfit(np.log(x[-kept:]), np.log(y[-kept:]), 1)[0])


class Layer:
    """An attention layer as it is built for texts of this length, with queries, keys and values at hand."""

    def __init__(self, settings: ModelSettings, length: int):
        from dataclasses import replace

        import torch

        from attnlab.config.values import ConfigError
        from attnlab.model.assemble import build_model
        from attnlab.model.attention.rule import Rule
        from attnlab.model.masks import MASKS

        if isinstance(settings.attention, tuple):
            raise ConfigError("This study measures one layer; give model.attention as one choice, no list.")
        model = build_model(replace(settings, length=length, layers=1, vocabulary=8))
        self.length, self.mask = length, MASKS.build(settings.mask)
        self.rule = next(module for module in model.modules() if isinstance(module, Rule))
        self.heads, self.head_width = settings.heads, settings.each_head_width
        draw = torch.Generator().manual_seed(0)
        size = (1, self.heads, length, self.head_width)
        self.inputs = [torch.randn(size, generator=draw).requires_grad_() for _ in range(3)]

    def forward(self) -> Any:
        from attnlab.model.pairs import Pairs
        from attnlab.model.tokens import Tokens

        tokens = Tokens.of(self.length)
        return self.rule(*self.inputs, Pairs(tokens, tokens, self.mask)).sum()

    def step(self) -> None:
        self.forward().backward()


def layer_seconds(settings: ModelSettings, lengths: Sequence[int]) -> list[float]:
    """Processor seconds of a forward and backward at each length, the least of several rounds."""
    from time import process_time

    layers = [Layer(settings, length) for length in lengths]
    least = [math.inf] * len(layers)
    for number in range(ROUNDS + 1):
        for place, layer in enumerate(layers):
            began = process_time()
            layer.step()
            if number:  # the first round warms up
                least[place] = min(least[place], process_time() - began)
    return least


def kept_bytes(settings: ModelSettings, length: int) -> int:
    """Bytes that a forward leaves for the backward, each piece of memory once, the inputs aside."""
    import torch

    layer = Layer(settings, length)
    given = {x.untyped_storage().data_ptr() for x in layer.inputs}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in given:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = layer.forward()
    del output  # until here every piece is alive, so that no two share a place
    return sum(kept.values())


def operations_of(settings: ModelSettings, length: int) -> int:
    """Operations of a forward of the layer, in closed form."""
    layer = Layer(settings, length)
    return layer.rule.flops(length, length, layer.heads, layer.head_width)
