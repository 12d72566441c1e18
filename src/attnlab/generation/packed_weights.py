"""How a model that only writes holds its weights: in another order, or in fewer bits.

A step of decoding reads every weight once and does little with it, so its time is that of reading.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from attnlab.config.values import ConfigError
from attnlab.model.heads.head import Head
from attnlab.model.heads.language import LanguageModel, language_head
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens

SMALLEST = 2**18
"""Numbers in a matrix below which a product is bound by its call, not by reading, and stays as it is."""
Product = Callable[[Tensor], Tensor]
"""x (…, D) -> W x (…, E)."""


def by_columns(model: Model) -> None:
    """Lay the head's table out column by column, in place: the same numbers, read faster by few rows.

    torch's product of one row with a table of short rows takes up to three times as long on a CPU
    as with one of long columns. Training wants rows, which embeddings are looked up by, so this is
    for models that are only asked.
    """
    if isinstance(model.head, PackedHead) or not model.head.scores_words:
        return
    table = language_head(model.head).table.weight
    if table.device.type == "cpu" and table.is_contiguous():
        table.data = table.data.t().contiguous().t()


def float16(weight: Tensor) -> Product:
    """Weights in 16 bits, products in 32: off by some 0.0002 of the result."""
    packed = torch.ops.quantized.linear_prepack_fp16(weight.float().contiguous(), None)
    return lambda x: torch.ops.quantized.linear_dynamic_fp16(x, packed)


def int8(weight: Tensor) -> Product:
    """Weights in 8 bits with a scale for each row, inputs in 7 bits with one for each token, so that a
    text does not depend on its batch: off by some 0.02 of the result."""
    scale = weight.abs().amax(1).clamp(min=1e-12) / 127
    with warnings.catch_warnings():  # torch means to replace its quantised tensors some day
        warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
        whole = torch.quantize_per_channel(
            weight.float(), scale.float(), torch.zeros_like(scale).long(), 0, torch.qint8
        )
        packed = torch.ops.quantized.linear_prepack(whole, None)

    def product(x: Tensor) -> Tensor:
        largest = x.abs().amax(-1, keepdim=True).clamp(min=1e-12)
        return _int8_product(x / largest, 1 / 63, 64, packed) * largest

    return product


_int8_product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
FEWER_BITS: dict[str, Callable[[Tensor], Product]] = {"float16": float16, "int8": int8}


class PackedLinear(nn.Module):
    """W x + b, with W in fewer bits."""

    def __init__(self, product: Product, bias: Tensor | None):
        super().__init__()
        self.product, self.bias = product, bias

    def forward(self, x: Tensor) -> Tensor:
        y = self.product(x)
        return y if self.bias is None else y + self.bias


class PackedHead(Head):
    """A language model's head, with its table in fewer bits."""

    scores_words: ClassVar[bool] = True

    def __init__(self, head: LanguageModel, product: Product):
        super().__init__()
        self.head, self.output = head, PackedLinear(product, head.bias)

    def forward(self, hidden: Tensor, tokens: Tokens | None = None) -> Tensor:
        return self.output(self.head.scaled(hidden))


def pack(model: Model, kind: str) -> None:
    """Hold every large matrix in fewer bits, in place: on a CPU, for writing alone."""
    if kind not in FEWER_BITS:
        raise ConfigError(f'Weights are float32, {" or ".join(FEWER_BITS)}, not "{kind}".')
    if not model.head.scores_words:
        raise ConfigError("Weights in fewer bits are for generating text, which this model does not do.")
    if any(isinstance(part, nn.Linear) and part._modules for part in model.trunk.modules()):
        raise ConfigError("Weights in fewer bits would lose the updates of lora; use float32.")
    try:
        head = language_head(model.head)
        model.head = PackedHead(head, FEWER_BITS[kind](head.table.weight.detach()))
        for parent in list(model.trunk.modules()):
            for name, part in parent.named_children():
                if isinstance(part, nn.Linear) and part.weight.numel() >= SMALLEST:
                    product = FEWER_BITS[kind](part.weight.detach())
                    setattr(parent, name, PackedLinear(product, part.bias))
    except RuntimeError as error:
        raise ConfigError(f"torch has no {kind} products on this machine; use float32. ({error})") from error


@dataclass(frozen=True)
class PackingDifference:
    """How far the scores of approximate weights are from the exact ones."""

    largest: float  # of all differences of two logits
    divergence: float  # nats from the exact distribution of the next token to the other, a mean


def difference(exact: Tensor, other: Tensor) -> PackingDifference:
    """Between the logits (…, V) of two models."""
    p, q = exact.double().log_softmax(-1), other.double().log_softmax(-1)
    divergence = (p.exp() * (p - q)).sum(-1).clamp(min=0).mean()
    return PackingDifference(float((exact - other).abs().max()), float(divergence))
