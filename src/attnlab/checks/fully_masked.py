"""Rows that may see nothing."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attnlab.checks.check import Case, Check
from attnlab.model.apart import sample_of
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens
from attnlab.runs.findings import Finding, When

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
        if not finite(scores) or broken:
            where = "the scores" if not finite(scores) else f"the gradient of {broken[0]}"
            return self.failed(
                case,
                f"a row of padding makes {where} NaN or infinite",
                meaning="One such row in a batch, and every weight is NaN after the next step.",
                fix="Let the softmax of a row without keys be zeros, before and after differentiation.",
            )
        if case.model.adapter is not None and case.model.adapter.stands_before:
            return self.passed(
                case, "scores and gradients are finite; the adapter's tokens are always seen", 0.0
            )
        largest = max((float(output[1].abs().max()) for _, output in outputs), default=0.0)
        if largest > 0:
            name = next(name for name, output in outputs if float(output[1].abs().max()) > 0)
            return self.failed(
                case,
                f"attention in {name} gives up to {largest:.2g} where nothing may be seen",
                largest,
                meaning="Positions that may see nothing see padding instead.",
                fix="Mask padding with −inf and give zeros where no key is left.",
            )
        return self.passed(case, f"{len(outputs)} attentions give zeros where nothing may be seen", 0.0)


def answered(model: Model, case: Case) -> Tensor:
    """The scores of a real row and one of padding."""
    length = min(LENGTH, case.config.longest_text)
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(case.dataset.tokenizer.size, (2, length), generator=generator)
    real = torch.tensor([[True], [False]]).expand(2, length)
    source = torch.zeros(2, length, dtype=torch.bool) if model.trunk.asks_for_source else None
    inputs: dict[str, Any] = {}
    if model.trunk.reads_source:
        inputs = {"source": ids, "source_tokens": Tokens.of(length, real=real)}
    with torch.enable_grad():
        found: Tensor = model(ids, Tokens.of(length, real=real, source=source), **inputs)
    return found


def gradients(model: Model, scores: Tensor) -> list[tuple[str, Tensor]]:
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    found = torch.autograd.grad(
        scores.square().mean(), [p for _, p in named], allow_unused=True, materialize_grads=True
    )
    return [(name, gradient) for (name, _), gradient in zip(named, found, strict=True)]


def noted(name: str, outputs: list[tuple[str, Tensor]]) -> Any:
    def hook(module: nn.Module, inputs: object, output: Tensor) -> None:
        outputs.append((name, output.detach()))

    return hook


def finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())
