"""What a model answers to a fixed input: numbers beside its weights that show silent mistakes at load."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from attnlab.model.model import Model
from attnlab.model.tokens import Tokens

LENGTH, SHOWN = 8, 32
TOLERANCE = 1e-3
"""Of the largest number: other machines and versions sum in another order, a mistake is far larger."""


@torch.no_grad()
def answer(model: Model) -> tuple[float, ...]:
    """Some of the head's scores for a fixed short input, in float32 and without dropout."""
    trained = model.training
    try:
        with _eager(), torch.autocast(_device(model).type, enabled=False):
            scores = model.eval()(**_input(model)).flatten().float()
    finally:
        model.train(trained)
    places = torch.linspace(0, len(scores) - 1, min(SHOWN, len(scores))).long()
    return tuple(scores[places.to(scores.device)].tolist())


def differs(model: Model, expected: Sequence[float]) -> str:
    """How the model answers otherwise than it did when it was saved; nothing when it answers the same."""
    scores, wanted = torch.tensor(answer(model)), torch.tensor(list(expected))
    if scores.shape != wanted.shape:
        return f"it gives {len(scores)} numbers for the fixed input, not {len(wanted)}"
    largest = max(float(wanted.nan_to_num(0, 0, 0).abs().max()), 1e-6)
    if torch.allclose(scores, wanted, rtol=TOLERANCE, atol=TOLERANCE * largest, equal_nan=True):
        return ""
    worst = int((scores - wanted).abs().nan_to_num(torch.inf).argmax())
    return f"to the fixed input it answers {scores[worst]:.5g} where it answered {wanted[worst]:.5g}"


def _eager() -> AbstractContextManager[Any]:
    """Without compiled code: torch's compiler, slow to import, is loaded where anything was compiled."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def _device(model: Model) -> torch.device:
    return next(model.parameters()).device


def _input(model: Model) -> dict[str, Any]:
    """Ids spread over the vocabulary; all but the last stand in the source where a mask asks for one."""
    length, device = int(min(LENGTH, model.trunk.longest)), _device(model)
    ids = (torch.arange(1, length + 1, device=device) * 7919 % model.vocabulary)[None]
    given: dict[str, Any] = {"ids": ids}
    if model.trunk.asks_for_source:
        given["tokens"] = Tokens.of(length, source=torch.arange(length, device=device)[None] < length - 1)
    if model.trunk.reads_source:
        given["source"] = ids.flip(1) % model.trunk.tables()[-1].num_embeddings
    return given
