"""One explanation of each kind, of small untrained models: what tests and `make look` open in a browser."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

import attnlab as lab
from attnlab.explain.ablation import HeadName
from attnlab.explain.attention_cost import KINDS, AttentionCost, Grown
from attnlab.explain.attention_maps import RowOfText, attention_maps
from attnlab.explain.explanation import Explanation
from attnlab.explain.gradient_flow import gradient_flow
from attnlab.explain.head_losses import HeadLoss, HeadLosses
from attnlab.explain.mask_picture import MaskPicture
from attnlab.explain.masked_tokens_position import masked_positions
from attnlab.explain.model_counts import ModelCounts
from attnlab.explain.query_answers import EXAMPLE, query_answers, targets_of
from attnlab.explain.reach_by_depth import reach_by_depth
from attnlab.explain.score_decomposition import score_decomposition
from attnlab.explain.superposition import superposition
from attnlab.metrics.metric import Estimate
from attnlab.model.contracts.small_models import loosen
from attnlab.model.counts import count

WORDS = ["the", "cat", "saw", "the", "dog", ",", "and", "the", "dog", "saw", "the", "cat", "."]
KNOWN = {word: number + 3 for number, word in enumerate(dict.fromkeys(WORDS))}
IDS = [KNOWN[word] for word in WORDS]


def model_of(family: str = "decoder", **settings: object):
    sizes = {"vocabulary": 64, "length": 64, "width": 32, "heads": 4, "layers": 3}
    model = getattr(lab, family)(**sizes | settings).eval()
    loosen(model)
    return model


def attention() -> Explanation:
    row = RowOfText({"ids": torch.tensor([IDS])}, WORDS, [word in ",." for word in WORDS])
    return attention_maps(model_of(positions="rotary"), row)


def scores() -> Explanation:
    return score_decomposition(model_of(positions="concat(part=8)"), torch.tensor(IDS[:8]), WORDS[:8])


def reach() -> Explanation:
    return reach_by_depth(model_of(mask="causal & window(size=6)"), 32)


def constant_reach() -> Explanation:
    return reach_by_depth(model_of(), 48)


def masked() -> Explanation:
    ids = torch.tensor([0 if word == "the" else KNOWN[word] for word in WORDS])
    places = [place for place, word in enumerate(WORDS) if word == "the"]
    words = ["[MASK]" if word == "the" else word for word in WORDS]
    return masked_positions(model_of("encoder"), ids, places, words)


def cost() -> Explanation:
    """With times that theory gives: no clock is read."""
    sizes = (128, 256, 512, 1024)
    grown = []
    for name, (_, exponents) in KINDS.items():
        for size, power in exponents.items():
            flops = [4.0 * 64 * 256 * (n / 128) ** power * 128 for n in sizes]
            rounds = [[flop / 1e9 * (1 + 0.01 * r) for flop in flops] for r in range(4)]
            grown.append(Grown(name, size, sizes, flops, rounds, power))
    return AttentionCost(grown, 1024, 64)


def heads() -> Explanation:
    random = np.random.default_rng(3)
    losses = []
    for layer in range(3):
        for number in range(4):
            value, half = float(random.normal(0.01, 0.02)), float(random.uniform(0.004, 0.012))
            change = Estimate(value, value - half, value + half, 200)
            losses.append(HeadLoss(HeadName(f"layers.{layer}.heads", number), change))
    whole = Estimate(5.02, 4.98, 5.06, 200)
    return HeadLosses(losses, whole, 200, 5312, "the dev split of runs/mini-gpt")


def query() -> Explanation:
    return query_answers(EXAMPLE, targets_of("0.5,0.5,0,0", len(EXAMPLE)))


def queries() -> Explanation:
    return query_answers(EXAMPLE, targets_of("each", len(EXAMPLE)))


def counts() -> Explanation:
    return ModelCounts(count(model_of(), length=64, source_length=64, batch=32))


def mask() -> Explanation:
    """A source of three words, then a causal target."""
    may = [[key < 3 or key <= query for key in range(8)] for query in range(8)]
    return MaskPicture(WORDS[:8], 3, {"prefix": may}, "dot")


def extraction() -> Explanation:
    return superposition(np.eye(6)[:, :2], np.eye(6)[:, 2:4])


PAGES: dict[str, Callable[[], Explanation]] = {
    "attention": attention,
    "heads": heads,
    "scores": scores,
    "reach": reach,
    "constant-reach": constant_reach,
    "gradients": gradient_flow,
    "masked-positions": masked,
    "cost": cost,
    "query": query,
    "queries": queries,
    "superposition": extraction,
    "counts": counts,
    "mask": mask,
}
