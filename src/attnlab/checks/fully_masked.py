"""Rows that may see nothing."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attnlab.checks.check import Case, Check
from attnlab.model.isolation import sample_of
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens
from attnlab.runs.findings import Finding, Outcome, When

LENGTH = 8


class FullyMasked(Check):
    """Fully masked: does a row of nothing but padding give zeros, forward and backward?

    Formula: a real row in a batch with one that is all padding. Every attention's output is 0 in the second,
    and all scores and gradients are finite.

    When it helps: a softmax over no keys is 0/0. One such row, anywhere in a batch, and the next
    step makes every weight NaN; where it is caught by a clamp, the row sees padding instead.

    Cannot see: rows that a mask of one's own empties in the middle of a text, and kernels of other
    devices.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 0.3
    samples_layers: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        model = sample_of(case.model).eval()
        outputs: list[tuple[str, Tensor]] = []
        for name, attention in model.trunk.attentions().items():
            attention.rule.register_forward_hook(noted(name, outputs))
        scores = answered(model, case)
        broken = [name for name, gradient in gradients(model, scores) if not finite(gradient)]
        if not finite(scores):
            return self.finding(case.when, Outcome.FAIL, "not_finite")
        if broken:
            return self.finding(case.when, Outcome.FAIL, "gradient_not_finite", name=broken[0])
        if case.model.stands_before:
            return self.finding(case.when, Outcome.PASS, "adapter_seen", 0.0)
        largest = max((float(output[1].abs().max()) for _, output in outputs), default=0.0)
        if largest > 0:
            name = next(name for name, output in outputs if float(output[1].abs().max()) > 0)
            return self.finding(case.when, Outcome.FAIL, "sees_padding", largest, name=name)
        return self.finding(case.when, Outcome.PASS, "zeros", 0.0, attentions=len(outputs))


def answered(model: Model, case: Case) -> Tensor:
    """The scores of a real row and one of padding."""
    length = min(LENGTH, case.config.longest_text)
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(case.dataset.tokenizer.common_size, (2, length), generator=generator)
    real = torch.tensor([[True], [False]]).expand(2, length)
    source = torch.zeros(2, length, dtype=torch.bool) if model.trunk.asks_for_source else None
    inputs: dict[str, Any] = {}
    if model.trunk.reads_source:
        inputs = {"source": ids, "source_tokens": Tokens.of(length, real=real)}
    with torch.enable_grad():
        scores: Tensor = model(ids, Tokens.of(length, real=real, source=source), **inputs)
    return scores


def gradients(model: Model, scores: Tensor) -> list[tuple[str, Tensor]]:
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    values = torch.autograd.grad(
        scores.square().mean(), [p for _, p in named], allow_unused=True, materialize_grads=True
    )
    return [(name, gradient) for (name, _), gradient in zip(named, values, strict=True)]


def noted(name: str, outputs: list[tuple[str, Tensor]]) -> Any:
    def hook(module: nn.Module, inputs: object, output: Tensor) -> None:
        outputs.append((name, output.detach()))

    return hook


def finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())
