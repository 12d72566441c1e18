"""Attention rules: additive against dot-product, linear over length, group against dot-product."""

from __future__ import annotations

import torch

import attnlab as lab
from attnlab.model.attention import ATTENTION
from attnlab.model.masks import Causal
from attnlab.model.pairs import Pairs
from attnlab.model.tokens import Tokens
from benchmarks.measure import interleaved, row


def rows() -> list[dict[str, object]]:
    return [*additive(), linear(), *group()]


def additive() -> list[dict[str, object]]:
    """A whole training step in source document D's setting, at its mean and at its longest sentence."""
    return [_additive_step(length) for length in (24, 100)]


def _additive_step(length: int) -> dict[str, object]:
    works = {}
    for name in ("dot", "additive"):
        model = lab.decoder(vocabulary=10_000, width=96, layers=4, heads=4, length=100, attention=name)
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
        ids = torch.randint(0, 10_000, (32, length + 1))

        def step(model=model, optimizer=optimizer, ids=ids):
            optimizer.zero_grad()
            model.head.loss(model.trunk(ids[:, :-1]), ids[:, 1:]).mean.backward()
            optimizer.step()

        works[name] = step
    seconds = interleaved(works, rounds=7)
    ratio = seconds["additive"] / seconds["dot"]
    detail = f"{seconds['additive'] * 1e3:.0f} ms and {seconds['dot'] * 1e3:.0f} ms a step"
    work = f"additive over dot-product, whole training step, 32 × {length} tokens"
    return row(work, ratio, "at most 2 (stretch 1.5)", ratio <= 2, detail)


def _pass(choice: str, n: int, *, causal: bool = True, length: int | None = None, head_width: int = 32):
    """Forward and backward of one rule over n tokens."""
    rule = ATTENTION.build(choice, heads=4, head_width=head_width, length=length or n)
    q, k, v = (torch.randn(1, 4, n, head_width, requires_grad=True) for _ in range(3))
    tokens = Tokens.of(n)
    pairs = Pairs(tokens, tokens, Causal()) if causal else Pairs(tokens, tokens)

    def run():
        q.grad = k.grad = v.grad = None
        rule(q, k, v, pairs).sum().backward()

    return run


def linear() -> dict[str, object]:
    """Time a token, causal, forward and backward, from 1,000 to 32,000 tokens."""
    sizes = (1_000, 4_000, 16_000, 32_000)
    seconds = interleaved({str(n): _pass("linear", n) for n in sizes}, rounds=7)
    each = {n: seconds[str(n)] / n * 1e6 for n in sizes}
    growth = each[32_000] / each[1_000]
    detail = ", ".join(f"{n:,}: {each[n]:.1f} µs a token" for n in sizes)
    return row(
        "linear, time a token from n = 1,000 to 32,000",
        growth,
        "at most 1.7 (stretch 1)",
        growth <= 1.7,
        detail,
    )


def group() -> list[dict[str, object]]:
    """Eight groups against dot-product at n = 4096, forward and backward."""
    results = []
    for causal in (False, True):
        works = {name: _pass(name, 4096, causal=causal) for name in ("dot", "group(groups=8)")}
        seconds = interleaved(works, rounds=7)
        ratio = seconds["dot"] / seconds["group(groups=8)"]
        detail = f"{seconds['dot'] * 1e3:.0f} ms and {seconds['group(groups=8)'] * 1e3:.0f} ms"
        work = f"group (G = 8) over dot-product, n = 4096, {'causal' if causal else 'bidirectional'}"
        results.append(row(work, ratio, "at least 4 (stretch 6)", ratio >= 4, detail))
    return results
