"""Sampled tokens are counted against what their rule declares; text is written as long as a person would."""

import math

import pytest
import torch

from attnlab.checks.sampling import Limits, declared, excess, excess_of
from attnlab.generation import rules
from attnlab.generation.rules import Chance, Sample
from tests.checks.cases import case, found

SCORES = torch.linspace(3, -3, 60, dtype=torch.float64) ** 3 / 9
RULES = [
    Limits(1.0),
    Limits(0.7),
    Limits(1.3, top_k=7),
    Limits(1.0, top_p=0.9),
    Limits(0.8, min_p=0.1),
    Limits(1.2, top_k=20, top_p=0.8, min_p=0.05),
]


def sample(limits):
    return Sample(temperature=limits.temperature, top_k=limits.top_k, top_p=limits.top_p, min_p=limits.min_p)


@pytest.mark.parametrize("limits", RULES, ids=str)
def test_what_a_rule_declares_is_what_is_drawn_from(limits):
    probabilities = declared(SCORES.tolist(), limits)
    own = sample(limits).probabilities(SCORES[None])[0]
    assert {n for n, p in enumerate(own.tolist()) if p > 0} == set(probabilities)
    for token, p in probabilities.items():
        assert float(own[token]) == pytest.approx(p, rel=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_counts_of_a_sound_rule_are_within_chance_and_of_others_are_not(seed):
    draws = Chance([(1, 2)] * 4000, seed).draws(0)
    for limits in RULES:
        drawn = sample(limits).choose(SCORES.expand(4000, -1), draws).tolist()
        assert excess(drawn, declared(SCORES.tolist(), limits)) < 0.8
        for factor in (0.5, 2.0):
            other = declared(SCORES.tolist(), Limits(limits.temperature * factor, limits.top_k))
            assert excess(drawn, other) > 1, (limits, factor)
    assert excess([0, 0, 59], declared(SCORES.tolist(), Limits(1.0, top_k=3))) == math.inf


@pytest.mark.parametrize("apart", [0.0, 1e-6, 5e-4, 2e-3])
@pytest.mark.parametrize("limits", [Limits(1, top_k=5), Limits(1, top_p=0.6), Limits(1, min_p=0.5)], ids=str)
def test_tokens_at_the_border_of_a_rule_may_be_left_or_not(limits, apart):
    """A sixth score that is nearly the fifth; 500 draws, as the check has them."""
    scores = torch.tensor([2.0, 1.9, 1.7, 1.5, 1.31, 1.31 - apart, 1.0, 0.2], dtype=torch.float64)
    draws = Chance([(1, 2)] * 500, 5).draws(0)
    own, wider = (sample(rule).choose(scores.expand(500, -1), draws) for rule in (limits, Limits(1, top_k=7)))
    assert excess_of(own.tolist(), scores.tolist(), limits) < 1
    assert excess_of(wider.tolist(), scores.tolist(), limits) > 1


def plain(self, logits):
    return (logits.float() / self.temperature).softmax(-1)


def one_more(self, logits):
    kept = Sample(temperature=self.temperature, top_k=self.top_k + 1 if self.top_k else 0)
    return PROBABILITIES(kept, logits)


def without_the_last(p, share):
    ordered = p.sort(dim=-1, descending=True).values
    least = torch.where(ordered.cumsum(-1) < share, ordered, torch.inf).amin(-1, keepdim=True)
    return torch.where(p >= least.clamp(max=float(ordered[:, 0].min())), p, 0.0)


PROBABILITIES = Sample.probabilities
FAULTS = {
    "temperature ignored": (Sample, "probabilities", lambda self, logits: PROBABILITIES(Sample(), logits)),
    "temperature applied twice": (
        Sample,
        "probabilities",
        lambda self, logits: PROBABILITIES(self, logits / self.temperature),
    ),
    "limits ignored": (Sample, "probabilities", plain),
    "one token too many": (Sample, "probabilities", one_more),
    "nucleus without its last token": (rules, "_nucleus", without_the_last),
    "the same draw for all": (Chance, "draws", lambda self, step, rows=None: torch.full((500,), 0.4)),
    "uneven draws": (Chance, "draws", lambda self, step, rows=None: torch.linspace(0, 0.999, 500) ** 2),
    "greedy in place of sampling": (Sample, "choose", lambda self, logits, draws: logits.argmax(-1)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_sampling_that_is_not_what_it_says_is_named(monkeypatch, name):
    about = case()
    with torch.no_grad():  # scores that differ, as a trained model's do
        about.model.trunk.decoder.embedding.tokens.weight.mul_(3)
    assert found("decoding", about).outcome == "pass"
    owner, attribute, fault = FAULTS[name]
    monkeypatch.setattr(owner, attribute, fault)
    finding = found("decoding", about)
    assert finding.outcome == "fail" and finding.values["use"] == "sampling"


@pytest.mark.parametrize("task", ["causal", "prefix", "seq2seq"])
def test_healthy_models_are_quiet(task):
    assert found("decoding", case(task)).outcome == "pass"


@pytest.mark.parametrize("when", ["in float32", "late"])
def test_a_fast_path_that_is_wrong_only_as_it_is_used_is_named(monkeypatch, when):
    """Right in float64 and in the first tokens, where checks look; wrong for a person."""
    from attnlab.generation.decoder import Decoder

    healthy = Decoder.step

    def step(self, chosen):
        result = healthy(self, chosen)
        self.taken = getattr(self, "taken", 0) + 1
        if (when == "late" and self.taken > 15) or (when != "late" and self.next.dtype == torch.float32):
            self.next = -self.next
        return result

    monkeypatch.setattr(Decoder, "step", step)
    finding = found("decoding", case())
    assert finding.outcome == "fail" and finding.values["use"] == "a whole text in its own precision"
