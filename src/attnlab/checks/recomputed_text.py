"""The loss of a long text that is scored in windows, and dev's numbers against the run's history, each by a
second route."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnlab.checks.best_step import evaluations
from attnlab.checks.recomputed_loss import EQUAL, ROUNDED, Gap
from attnlab.metrics import METRICS
from attnlab.metrics.measures import is_share
from attnlab.metrics.metric import is_of_texts
from attnlab.model.isolation import copy_of
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, Outcome
from attnlab.runs.typed import Value

TOKENS = 24
"""Tokens of a text that are scored again, each from what stands before it."""
SAME = {"float32": 1e-3, "bfloat16": 0.1}
"""How far a number of dev may be from that of the history, relative, by the precision of training."""
FLIPPED = 2
"""Examples that rounding may decide otherwise."""


# ---------------------------------------------------------------- long texts
def confirm_text(
    model: Model,
    rows: Sequence[Sequence[int]],
    nats: Sequence[Sequence[float]],
    reported: Mapping[str, float],
    *,
    context: int,
) -> Finding:
    """Whether the nats of each row's tokens, which windows of `context` tokens gave, are −log p of a token
    after the part of its window before it alone, in float64; and the loss their mean."""
    count = sum(len(row) - 1 for row in rows if row)
    mean = math.fsum(value for row in nats for value in row) / max(1, count)
    gaps = [Gap("reported_loss", reported["loss"], mean)]
    if "perplexity" in reported:
        gaps.append(Gap("reported_loss", math.log(reported["perplexity"]), mean))
    # all but one: under argmax attention, rounding may choose another of two equal keys
    alone = sorted(tokens_alone(model, rows, nats, context=context), key=lambda gap: gap.size)
    gaps += alone[: max(1, len(alone) - 1)]
    worst = max(gaps, key=lambda gap: gap.size)
    exact = [gap for gap in gaps if gap.where == "reported_loss" and not gap.size <= EQUAL]
    worst = exact[0] if exact else worst
    about: dict[str, Any] = {"check": "recomputed_loss", "when": "evaluation", "number": worst.size}
    if worst.size <= ROUNDED["float32"] and not exact:
        return Finding(outcome=Outcome.PASS, kind="tokens_agree", values={"tokens": len(alone)}, **about)
    return Finding(outcome=Outcome.FAIL, kind="misreported", values=worst.values, **about)


@torch.no_grad()
def tokens_alone(
    model: Model, rows: Sequence[Sequence[int]], nats: Sequence[Sequence[float]], *, context: int
) -> Iterator[Gap]:
    """Some tokens, spread over all texts, the last of each window's first among them."""
    exact = copy_of(model).double().eval()
    places = [(text, place) for text, row in enumerate(rows) for place in range(1, len(row))]
    chosen = sorted({round(n) for n in np.linspace(0, len(places) - 1, min(TOKENS, len(places)))})
    for text, place in (places[n] for n in chosen):
        stride = max(context // 2, 1)
        begin = 0 if place < context else math.ceil((place - context + 1) / stride) * stride
        before = torch.tensor(rows[text][begin:place])[None]
        scores = exact(before)[0, -1].double()
        loss = float(scores.logsumexp(0) - scores[rows[text][place]])
        own = nats[text][place - 1] if place - 1 < len(nats[text]) else math.nan
        yield Gap("token_alone", own, loss, place)


# ---------------------------------------------------------------- the run's own history
def confirm_history(
    folder: Path, step: int, reported: Mapping[str, float], *, n: int, precision: str, texts: int = 0
) -> Finding | None:
    """Whether dev's numbers at a step are those that the run wrote down there, of n examples and of so many
    written texts; None where it wrote none."""
    written = evaluations(folder).get(step, {})
    shared = [name for name in written if name in reported and name != "targets"]
    if not shared:
        return None
    gaps = {name: abs(reported[name] - written[name]) for name in shared}
    rooms = {name: SAME[precision] * max(1.0, abs(written[name])) for name in shared}
    for name in shared:
        of_texts = name in METRICS and is_of_texts(METRICS[name])
        if of_texts or is_share(name):
            least, most = METRICS[name].limits if of_texts else (0.0, 1.0)
            rooms[name] = max(rooms[name], (most - least) * FLIPPED / max(1, texts if of_texts else n))
    values: dict[str, Value] = {"step": step, "metrics": len(shared)}
    about: dict[str, Any] = {"check": "recomputed_metrics", "when": "evaluation"}
    apart = [name for name in shared if not gaps[name] <= rooms[name]]
    if not apart:
        number = max(gaps.values())
        return Finding(outcome=Outcome.PASS, kind="as_in_history", values=values, number=number, **about)
    worst = max(apart, key=lambda name: gaps[name] / rooms[name])
    values |= {"metric": worst, "reported": reported[worst], "written": written[worst]}
    kind = "not_as_in_history"
    return Finding(outcome=Outcome.FAIL, kind=kind, values=values, number=gaps[worst], **about)
