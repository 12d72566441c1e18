"""Capture: a forward after a block, and with places captured, against a model never touched."""

from __future__ import annotations

import torch

import attnlab as lab
from benchmarks.measure import interleaved, row


def rows() -> list[dict[str, object]]:
    model = lab.decoder(vocabulary=1_000, width=256, layers=6, heads=8, length=128).eval()
    touched = lab.decoder(vocabulary=1_000, width=256, layers=6, heads=8, length=128).eval()
    ids = torch.randint(0, 1_000, (8, 128))

    @torch.no_grad()
    def plain() -> None:
        model(ids)

    @torch.no_grad()
    def afterwards() -> None:
        touched(ids)

    @torch.no_grad()
    def one_place() -> None:
        with lab.capture(touched, "layers.3.output"):
            touched(ids)

    @torch.no_grad()
    def all_weights() -> None:
        with lab.capture(touched, "layers.*.attention.weights"):
            touched(ids)

    all_weights()
    works = {"plain": plain, "afterwards": afterwards, "one place": one_place, "weights": all_weights}
    seconds = interleaved(works, rounds=15)
    return [
        _row("after a block, over a model never captured", seconds, "afterwards", 1.03),
        _row("one place captured, over none", seconds, "one place", 1.05),
        _row("all attention weights captured, over none", seconds, "weights", 2.0),
    ]


def _row(work: str, seconds: dict[str, float], name: str, most: float) -> dict[str, object]:
    ratio = seconds[name] / seconds["plain"]
    detail = f"{seconds[name] * 1e3:.1f} ms and {seconds['plain'] * 1e3:.1f} ms a forward, 8 × 128 tokens"
    return row(f"capture: {work}", ratio, f"at most {most:g}", ratio <= most, detail)
