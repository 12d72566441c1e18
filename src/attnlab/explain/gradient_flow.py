"""How much gradient reaches queries and keys: argmax against softmax, and with and without the 1/√d scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.documents.nodes import Axis, Figure, Line, Lines, Node, Table
from attnlab.documents.numbers import short
from attnlab.documents.palette import ink
from attnlab.explain.explanation import Explanation
from attnlab.explain.head_kinds import entropy
from attnlab.model.attention.argmax import Argmax
from attnlab.model.attention.dot import Dot
from attnlab.model.attention.rule import Rule
from attnlab.model.model import Model, hidden_states
from attnlab.model.pairs import Pairs
from attnlab.model.tokens import Tokens

TEMPERATURES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
WIDTHS = (4, 16, 64, 256, 1024)
LENGTH, WIDTH, DRAWS = 32, 64, 8
SETTING = f"{LENGTH} tokens, queries, keys and values of unit variance, means over {DRAWS} draws"


@dataclass(frozen=True)
class Flow:
    """Of one rule on random tokens: nats of entropy, and norms of the gradient of a random projection.

    `scores` is the gradient at the scores of the median query: where a softmax is saturated it vanishes for
    most queries, while a few with two nearly equal scores still get one.
    """

    entropy: float
    scores: float
    queries: float
    keys: float
    values: float


@dataclass(frozen=True)
class GradientFlow(Explanation):
    """Softmax by temperature, argmax plain and straight-through; softmax by width with and without scale."""

    temperatures: Sequence[tuple[float, Flow]]
    argmax: Flow
    straight_through: Flow
    widths: Sequence[tuple[int, Flow, Flow]]
    """(width, with 1/√d, without)"""

    kind = "gradients"

    @property
    def headline(self) -> str:
        usual = next(flow for temperature, flow in self.temperatures if temperature == 1)
        return (
            f"Argmax gives queries a gradient of {short(self.argmax.queries)} and keys "
            f"{short(self.argmax.keys)}, softmax {short(usual.queries)} and {short(usual.keys)}."
        )

    @property
    def remark(self) -> str:
        width, scaled, plain = self.widths[-1]
        return (
            f"At width {width} the softmax without 1/√d has {short(plain.entropy)} nats of entropy instead "
            f"of {short(scaled.entropy)}, and its median query gets {short(plain.scores / scaled.scores)} "
            "times the gradient at its scores."
        )

    def parts(self) -> list[Node]:
        named = [(f"softmax, temperature {t:g}", flow) for t, flow in self.temperatures]
        named += [("argmax", self.argmax), ("argmax, straight-through", self.straight_through)]
        at, wide = [t for t, _ in self.temperatures], [float(width) for width, _, _ in self.widths]

        def over_temperature(part: str) -> Line:
            values = [getattr(flow, part) for _, flow in self.temperatures]
            dashed = replace(ink(5), dash="dash") if part == "keys" else None  # nearly those of queries
            return Line(f"at {part}", at, values, ink=dashed)

        def over_width(part: str) -> list[Line]:
            return [
                Line("with 1/√d", wide, [getattr(scaled, part) for _, scaled, _ in self.widths]),
                Line("without", wide, [getattr(plain, part) for _, _, plain in self.widths]),
            ]

        return [
            Figure.of(
                "Gradient over temperature",
                Lines(
                    [over_temperature(part) for part in ("queries", "keys", "scores")],
                    Axis("temperature", log=True),
                    Axis("norm", log=True),
                ),
                note="A low temperature multiplies the gradient of the few queries whose best keys are "
                "nearly tied, and takes it from the others: the norm over all queries grows while that of "
                "the median query vanishes.",
            ),
            Figure.of(
                "Entropy over width",
                Lines(over_width("entropy"), Axis("width d of a head", log=True), Axis("nats")),
            ),
            Figure.of(
                "Gradient at the scores of the median query, over width",
                Lines(over_width("scores"), Axis("width d of a head", log=True), Axis("norm", log=True)),
                note=f"{SETTING}. Without 1/√d the scores have variance d.",
            ),
            Table(
                ("rule", "entropy", "scores, median", "queries", "keys", "values"),
                [[name, f.entropy, f.scores, f.queries, f.keys, f.values] for name, f in named],
                title="Gradient by rule",
                note=f"Norms of the gradient of a random projection of the output; {SETTING}, width {WIDTH}. "
                "Temperature divides the scores q·k/√d. At scores: of the median query.",
            ),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "temperatures": [{"temperature": t, **vars(f)} for t, f in self.temperatures],
            "argmax": vars(self.argmax),
            "straight_through": vars(self.straight_through),
            "widths": [{"width": w, "scaled": vars(a), "unscaled": vars(b)} for w, a, b in self.widths],
        }


def gradient_flow() -> GradientFlow:
    """Measured on random tokens, in float64."""
    root = WIDTH**-0.5
    return GradientFlow(
        temperatures=[(t, flow_of(Dot(WIDTH, scale=root / t), WIDTH)) for t in TEMPERATURES],
        argmax=flow_of(Argmax(), WIDTH),
        straight_through=flow_of(Argmax(straight_through=True), WIDTH),
        widths=[(d, flow_of(Dot(d), d), flow_of(Dot(d, scale=1.0), d)) for d in WIDTHS],
    )


def flow_of(rule: Rule, width: int) -> Flow:
    """Means over draws of queries, keys and values with unit variance."""
    flows = [_flow(rule, width, seed) for seed in range(DRAWS)]
    return Flow(*(fmean(getattr(flow, field.name) for flow in flows) for field in fields(Flow)))


def _flow(rule: Rule, width: int, seed: int) -> Flow:
    generator = torch.Generator().manual_seed(seed)

    def drawn() -> Tensor:
        return torch.randn(1, 1, LENGTH, width, generator=generator, dtype=torch.float64)

    q, k, v = (drawn().requires_grad_() for _ in range(3))
    tokens = Tokens.of(LENGTH)
    pairs = Pairs(tokens, tokens)
    projection = drawn() / width**0.5
    out = (rule(q, k, v, pairs) * projection).sum()
    sizes = [_norm(slope) for slope in torch.autograd.grad(out, (q, k, v), allow_unused=True)]
    scores = rule.scores(q, k).detach().requires_grad_()
    weights = rule.normalise(scores, None)
    at_scores = 0.0
    if weights.requires_grad:
        (slope,) = torch.autograd.grad(((weights @ v.detach()) * projection).sum(), scores)
        at_scores = float(slope[0, 0].norm(dim=-1).median())
    return Flow(float(entropy(weights.detach()[0])), at_scores, *sizes)


def _norm(slope: Tensor | None) -> float:
    return 0.0 if slope is None else float(slope.norm())


# ---------------------------------------------------------------- through a whole model
def gradient_at_token(model: Model, place: int, *, ids: Tensor, source: Tensor | None = None) -> Tensor:
    """How much gradient of each row's last output reaches the vector of one token: norms (B).

    Of the token at `place` of the source, where there is one, or of the row itself; means over random unit
    projections of the output, which do not depend on how sure the model is of its words.
    """
    entrance, vectors = model.trunk.entrances()[0 if source is None else 1], list[Tensor]()

    def cut(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        vectors.append(output.detach().requires_grad_())
        return vectors[-1]

    handle, trained = entrance.register_forward_hook(cut), model.training
    given = {} if source is None else {"source": source}
    try:
        with torch.enable_grad():
            last = model.eval()(ids, objective=hidden_states, **given)[:, -1]
    finally:
        handle.remove()
        model.train(trained)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(DRAWS, last.shape[-1], generator=generator).to(last)
    norms = []
    for projection in drawn / drawn.norm(dim=-1, keepdim=True):
        (slope,) = torch.autograd.grad((last @ projection).sum(), vectors[0], retain_graph=True)
        norms.append(slope[:, place].norm(dim=-1))
    return torch.stack(norms).mean(0)
