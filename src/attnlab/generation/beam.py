"""Beam search: the most likely whole text, not the most likely next token."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.generation.decoder import Decoder
from attnlab.model.model import Model


@dataclass(frozen=True)
class Hypothesis:
    """A text and its log-probability, the stop token's included."""

    new: list[int]
    total: float
    stopped: bool

    def score(self, penalty: float) -> float:
        """total / length^penalty: 0 compares sums, 1 means, more favours longer texts."""
        return self.total / max(len(self.new) + self.stopped, 1) ** penalty


@torch.no_grad()
def beam_search(
    model: Model,
    prompt: Sequence[int],
    *,
    width: int = 4,
    length: int = 100,
    penalty: float = 1.0,
    stop: Collection[int] = (),
    source: Sequence[int] | None = None,
) -> list[Hypothesis]:
    """The best texts after a prompt, best first. All beams are rows of one batch."""
    if width < 1:
        raise ValueError(f"A beam of width {width} holds nothing; use at least 1.")
    model.eval()
    decoder = Decoder(model, [list(prompt)], sources=None if source is None else [source])
    alive, finished = [Hypothesis([], 0.0, False)], list[Hypothesis]()
    for step in range(length):
        logs = decoder.next.double().log_softmax(-1)
        alive, rows, ended = _grown(alive, logs, width, stop)
        finished = sorted(finished + ended, key=lambda h: -h.score(penalty))[:width]
        if not alive or _settled(alive, finished, width, penalty, length):
            break
        if step < length - 1:
            decoder.select(torch.tensor(rows, device=logs.device))
            decoder.step(torch.tensor([h.new[-1] for h in alive], device=logs.device))
    return sorted(finished + alive, key=lambda h: -h.score(penalty))[:width]


def _grown(
    alive: list[Hypothesis], logs: Tensor, width: int, stop: Collection[int]
) -> tuple[list[Hypothesis], list[int], list[Hypothesis]]:
    """The `width` best continuations that go on, the rows they come from, and those that end here."""
    totals = torch.tensor([h.total for h in alive], dtype=logs.dtype, device=logs.device)
    best, places = (totals[:, None] + logs).flatten().topk(min(width * (1 + len(stop)), logs.numel()))
    grown, rows, ended = list[Hypothesis](), list[int](), list[Hypothesis]()
    for total, place in zip(best.tolist(), places.tolist(), strict=True):
        row, token = divmod(place, logs.shape[1])
        if token in stop:
            ended.append(Hypothesis(alive[row].new, total, True))
        elif len(grown) < width:
            grown.append(Hypothesis([*alive[row].new, token], total, False))
            rows.append(row)
    return grown, rows, ended


def _settled(
    alive: list[Hypothesis], finished: list[Hypothesis], width: int, penalty: float, length: int
) -> bool:
    """Whether no living text can still become one of the best: log-probabilities only fall."""
    if len(finished) < width:
        return False
    longest = length if penalty > 0 else 1
    ceiling = max(h.total for h in alive) / longest**penalty
    return ceiling <= finished[-1].score(penalty)
