"""Parameters, floating-point operations and memory of a model, in closed form.

Formulas use the letters of every file: D width, E feed-forward width, H heads, K head width,
L layers, N length, V vocabulary; T queries and S keys of a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnlab.model.model import Model
from attnlab.model.terms import Term


def parameter_terms(model: Model) -> list[Term]:
    """Every parameter, part by part, from the parts' sizes alone."""
    head = [term.inside("head") for term in model.head.parameter_terms()]
    return [*model.trunk.parameter_terms(), *head, *([] if model.adapter is None else model.adapter.terms())]


def flop_terms(model: Model, length: int, source_length: int) -> list[Term]:
    """Operations of one forward over one row: attention between tokens apart from the maps of each token."""
    head = Term("head", "2·(its weights)·(its positions)", model.head.flops(length))
    return [*model.trunk.flop_terms(length, source_length), head]


@dataclass(frozen=True)
class Counts:
    """What a model costs."""

    parameters: list[Term]
    total: int
    flops: list[Term]
    activations: list[Term]
    length: int
    batch: int
    bytes_each: int

    @property
    def closed_form(self) -> int:
        return sum(term.count for term in self.parameters)

    @property
    def forward(self) -> int:
        """Operations of one forward over one row."""
        return sum(term.count for term in self.flops)

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of a training step with AdamW; activations are an estimate."""
        weights = self.total * self.bytes_each
        kept = sum(term.count for term in self.activations) * self.batch * self.bytes_each
        parts = {"weights": weights, "gradients": weights, "optimizer": 2 * weights, "activations": kept}
        return parts | {"total": sum(parts.values())}

    def as_json(self) -> dict[str, object]:
        def listed(terms: list[Term]) -> list[dict[str, object]]:
            return [{"name": t.name, "formula": t.formula, "count": t.count} for t in terms]

        parameters = {"total": self.total, "closed_form": self.closed_form, "terms": listed(self.parameters)}
        flops = {
            "forward": self.forward,
            "backward": 2 * self.forward,
            "forward_per_token": self.forward / self.length,
            "backward_per_token": 2 * self.forward / self.length,
            "length": self.length,
            "terms": listed(self.flops),
        }
        return {"parameters": parameters, "flops": flops, "memory": self.memory | {"batch": self.batch}}


def count(model: Model, *, length: int, source_length: int, batch: int, bytes_each: int = 4) -> Counts:
    """Everything at once. The model may stand on the device "meta", where it costs nothing."""
    return Counts(
        parameters=parameter_terms(model),
        total=sum(p.numel() for p in model.parameters()),
        flops=flop_terms(model, length, source_length),
        activations=model.trunk.activation_terms(length, source_length),
        length=length,
        batch=batch,
        bytes_each=bytes_each,
    )
