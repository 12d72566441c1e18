"""Writing text: one sequence with a cache, against transformers; linear attention far into a text."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import torch

import attnlab as lab
from attnlab.generation.decoder import Decoder
from attnlab.generation.generate import generate
from attnlab.generation.packed_weights import by_columns, pack
from attnlab.model.model import Model
from benchmarks.measure import interleaved, row

SIZES = {
    "small (width 128, 4 layers, V 50257)": (
        {"width": 128, "layers": 4, "heads": 4},
        64,
        {"float32": 1.4},
    ),
    "GPT-2 124M": (
        {"width": 768, "layers": 12, "heads": 12},
        24,
        {"float32": 1.0, "int8": 2.0},
    ),
}
"""Sizes, tokens to write, and targets for each way of holding the weights; theirs are float32."""


def rows() -> list[dict[str, object]]:
    measured = (_against_transformers(name, *size) for name, size in SIZES.items())
    return [*itertools.chain.from_iterable(measured), _linear_far()]


def _against_transformers(
    name: str, sizes: dict[str, int], tokens: int, targets: dict[str, float]
) -> list[dict[str, object]]:
    import transformers

    config = transformers.GPT2Config(
        n_embd=sizes["width"], n_layer=sizes["layers"], n_head=sizes["heads"], n_positions=256
    )
    theirs = transformers.GPT2LMHeadModel(config).eval()
    ours = {weights: _held(lab.preset("gpt2", **sizes, length=256).eval(), weights) for weights in targets}
    prompt = list(range(100, 116))

    def their_text() -> None:
        theirs.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=tokens,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )

    works: dict[str, Callable[[], object]] = {
        weights: partial(generate, model, [prompt], length=tokens) for weights, model in ours.items()
    }
    seconds = interleaved({"theirs": their_text, **works}, rounds=7)
    found = []
    for weights, target in targets.items():
        ratio = seconds["theirs"] / seconds[weights]
        detail = f"{tokens / seconds[weights]:.0f} and {tokens / seconds['theirs']:.0f} tokens/s"
        held = "" if weights == "float32" else f", {weights} weights (approximate)"
        work = f"generate, {name}{held}, over transformers"
        found.append(row(work, ratio, f"at least {target}", ratio >= target, detail))
    return found


def _held(model: Model, weights: str) -> Model:
    """As `attnlab generate` holds the weights of a run that it opens."""
    by_columns(model) if weights == "float32" else pack(model, weights)
    return model


@torch.no_grad()
def _linear_far() -> dict[str, object]:
    """The cost of a token at position 100 and at 10,000."""
    model = lab.decoder(vocabulary=1000, width=128, layers=4, attention="linear", length=16_384).eval()
    decoders = {str(n): Decoder(model, [[i % 1000 for i in range(n)]]) for n in (100, 10_000)}
    token = torch.tensor([7])

    def steps(decoder: Decoder) -> None:
        for _ in range(20):
            decoder.step(token)

    seconds = interleaved({n: lambda d=d: steps(d) for n, d in decoders.items()}, rounds=9)
    ratio = seconds["10000"] / seconds["100"]
    detail = ", ".join(f"at {n}: {s / 20 * 1e3:.2f} ms" for n, s in seconds.items())
    return row("linear, a token at 10,000 over one at 100", ratio, "about 1", ratio < 1.2, detail)
