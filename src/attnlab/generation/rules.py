"""How the next token is chosen from the scores of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from attnlab.config.ranges import NotNegative, Positive, Share, Whole
from attnlab.config.streams import stream_seed


class DecodingRule:
    """Chooses one token a row. `draws` are numbers in [0, 1), one a row, for rules that need chance."""

    def __init__(self, *, repetition: Positive = 1.0):
        if repetition <= 0:
            raise ValueError(f"repetition is {repetition}; it must be above 0 (1: no penalty).")
        self.repetition = repetition

    def adjusted(self, logits: Tensor, earlier: Tensor) -> Tensor:
        """Tokens that were said (B, V bool) made less likely: positive scores divided, others multiplied."""
        if self.repetition == 1:
            return logits
        weaker = torch.where(logits > 0, logits / self.repetition, logits * self.repetition)
        return torch.where(earlier, weaker, logits)

    def choose(self, logits: Tensor, draws: Tensor) -> Tensor:
        """logits (B, V), draws (B) -> token ids (B)."""
        raise NotImplementedError


class Greedy(DecodingRule):
    """Greedy: always the most likely token.

    Formula: argmax_v p(v | text).

    When it helps: to compare models without chance, and for short exact answers. Long texts fall
    into loops.
    """

    def choose(self, logits: Tensor, draws: Tensor) -> Tensor:
        return logits.argmax(-1)


class Sample(DecodingRule):
    """Sampled: a token drawn by its probability, from those that the limits leave.

    Formula: p ∝ exp(logit / temperature), over the `top_k` most likely (0: all), over the fewest
    that hold `top_p` of the probability, and over those with at least `min_p` times the highest.

    When it helps: text that is alive. The same seed gives the same text for a prompt, whatever
    else is in the batch.

    Paper: Holtzman et al. 2019, "The Curious Case of Neural Text Degeneration" (top-p); Nguyen et
    al. 2024, "Turning Up the Heat" (min-p).
    """

    def __init__(
        self,
        *,
        temperature: NotNegative = 1.0,
        top_k: Whole = 0,
        top_p: Share = 1.0,
        min_p: Share = 0.0,
        repetition: Positive = 1.0,
    ):
        super().__init__(repetition=repetition)
        if temperature <= 0:
            raise ValueError(
                f"temperature is {temperature}; it must be above 0. For no chance at all use greedy."
            )
        if top_k < 0:
            raise ValueError(f"top_k is {top_k}; it must be at least 0, which keeps all.")
        if not 0 < top_p <= 1:
            raise ValueError(f"top_p is {top_p}; it must be above 0 and at most 1.")
        if not 0 <= min_p < 1:
            raise ValueError(f"min_p is {min_p}; it must be at least 0 and below 1.")
        self.temperature, self.top_k, self.top_p, self.min_p = temperature, top_k, top_p, min_p

    def choose(self, logits: Tensor, draws: Tensor) -> Tensor:
        probabilities = self.probabilities(logits)
        total = probabilities.double().cumsum(-1)
        wanted = draws.to(total)[:, None] * total[:, -1:]
        place = torch.searchsorted(total, wanted, right=True)[:, 0]
        return place.clamp(max=logits.shape[-1] - 1)

    def probabilities(self, logits: Tensor) -> Tensor:
        """What is drawn from, (B, V)."""
        p = (logits.float() / self.temperature).softmax(-1)
        if self.top_k:
            least = p.topk(min(self.top_k, p.shape[-1])).values[:, -1:]
            p = torch.where(p >= least, p, 0.0)
        if self.top_p < 1:
            p = _nucleus(p, self.top_p)
        if self.min_p:
            p = torch.where(p >= self.min_p * p.amax(-1, keepdim=True), p, 0.0)
        return p / p.sum(-1, keepdim=True)


FIRST = 512
"""How many of the most likely tokens are looked at before all are sorted: a trained model needs no more."""


def _nucleus(p: Tensor, share: float) -> Tensor:
    """The fewest most likely tokens that hold this share of the probability; equals stay together."""
    wanted = share * p.sum(-1, keepdim=True)
    ordered = p.topk(min(FIRST, p.shape[-1])).values
    if bool((ordered.sum(-1, keepdim=True) < wanted).any()):
        ordered = p.sort(dim=-1, descending=True).values
    before = ordered.cumsum(-1) - ordered
    least = torch.where(before < wanted, ordered, torch.inf).amin(-1, keepdim=True)
    return torch.where(p >= least, p, 0.0)


class Chance:
    """Draws for each text: a function of (seed, its prompt and source, which copy of them, step) alone."""

    def __init__(
        self,
        prompts: Sequence[Sequence[int]],
        seed: int,
        sources: Sequence[Sequence[int]] | None = None,
    ):
        copies = Counter[tuple[int, ...]]()
        self.keys = []
        for row, prompt in enumerate(prompts):
            read = tuple(prompt) if sources is None else (*sources[row], -1, *prompt)
            self.keys.append(stream_seed(seed, "sampling", copies[read], *read))
            copies[read] += 1

    def draws(self, step: int, rows: Sequence[int] | None = None) -> Tensor:
        """Numbers in [0, 1), one for each of these rows, or of all."""
        keys = self.keys if rows is None else [self.keys[row] for row in rows]
        return torch.tensor([stream_seed(key, step) / 2**63 for key in keys], dtype=torch.float64)
