"""Attention weights against masks that are written out a second time, and ids that mean the same."""

import pytest
import torch
from torch import nn

from attnlab.checks.module_subject import own_length
from attnlab.interop.module_checks import check_module
from attnlab.model import masks
from attnlab.model.blocks import SelfAttention
from attnlab.model.pairs import Pairs
from attnlab.testing import assert_causal
from tests.checks.cases import WORDS, case, config, found, of
from tests.checks.faults import small
from tests.training.small_run import set_up

SETTINGS = [
    ("causal", {"mask": "causal & window(size=4)"}),
    ("causal", {"mask": "causal", "attention": "window(size=5)"}),
    ("causal", {"attention": ["linear", "dot"]}),
    ("causal", {"attention": "group(groups=3)", "positions": "rotary"}),
    ("causal", {"attention": "additive", "projections": "grouped(shared=2)"}),
    ("masked", {"mask": "bidirectional", "attention": "linear(feature=relu)"}),
    ("prefix", {"mask": "prefix"}),
    ("causal", {"attention": "argmax"}),
    ("causal", {"masking": "zero"}),
]


@pytest.mark.parametrize("task", WORDS)
def test_every_task_joins_the_pairs_that_it_may(task):
    finding = found("allowed_pairs", case(task))
    assert finding.outcome == "pass" and finding.values["pairs"] > 3000, finding.found


@pytest.mark.parametrize(("task", "model"), SETTINGS)
def test_every_mask_and_rule_joins_the_pairs_that_it_may(task, model):
    finding = found("allowed_pairs", of(set_up(config(task, model=model))))
    assert finding.outcome == "pass", finding.found


# ---------------------------------------------------------------- faults
def hides_itself(plain):
    """No token attends to itself: the residual has it anyway."""

    def allowed(self):
        mask = plain(self)
        T, S = self.queries.length, self.keys.length
        here = torch.ones(1, 1, T, S, dtype=torch.bool) if mask is None else mask
        return here & ~torch.eye(T, S, dtype=torch.bool)

    return allowed


def sees_one_more(self, queries, keys):
    return keys.index[:, None, :] <= queries.index[:, :, None] + 1


def sees_one_less(self, queries, keys):
    return keys.index[:, None, :] < queries.index[:, :, None] + (queries.index[:, :, None] == 0)


def narrow(self, queries, keys):
    return (queries.index[:, :, None] - keys.index[:, None, :]).abs() < self.size - 1


def crosses(self, queries, keys):
    return torch.ones(1, queries.length, keys.length, dtype=torch.bool)


MASK_FAULTS = {
    "one more": (masks.Causal, sees_one_more, "causal", {"attention": "additive"}, "seen"),
    "one less": (masks.Causal, sees_one_less, "causal", {"attention": "additive"}, "unseen"),
    "a narrow window": (masks.Window, narrow, "causal", {"mask": "causal & window(size=4)"}, "unseen"),
    "texts that see each other": (masks.Documents, crosses, "causal", {}, "seen"),
    "padding that is seen": (masks.Padding, crosses, "masked", {}, "seen"),
    "a prefix without its source": (masks.Prefix, masks.Causal.__call__, "prefix", {}, "unseen"),
}


@pytest.mark.parametrize("name", MASK_FAULTS)
def test_a_mask_that_is_another_is_named(monkeypatch, name):
    owner, fault, task, model, kind = MASK_FAULTS[name]
    about = of(set_up(config(task, model=model)))
    monkeypatch.setattr(owner, "__call__", fault)
    finding = found("allowed_pairs", about)
    assert (finding.outcome, finding.kind) == ("fail", kind), finding.found


def test_a_mask_applied_twice_hides_behind_the_residual(monkeypatch):
    """What outputs depend on is as it should be; the weights are not."""
    about = of(set_up(config(model={"attention": "additive"})))
    monkeypatch.setattr(Pairs, "allowed", property(hides_itself(Pairs.allowed.func)))
    assert found("dependency", about).outcome == "pass"
    finding = found("allowed_pairs", about)
    assert finding.kind == "unseen" and finding.values["query"] == finding.values["key"] == 0


@pytest.mark.parametrize("layer", [0, 1])
def test_a_fault_of_one_layer_is_named_with_it(layer):
    class Forgetful(SelfAttention):
        def attend(self, q, k, v, pairs, memory=None):
            return super().attend(q, k, v, Pairs(pairs.queries, pairs.keys), memory)

    about = case()
    about.model.trunk.decoder.blocks[layer].residuals[0].inner.__class__ = Forgetful
    finding = found("allowed_pairs", about)
    assert finding.kind == "seen" and finding.values["name"] == f"decoder, layer {layer}"


# ---------------------------------------------------------------- ids
CHANGES = {
    "clamped": lambda ids: ids.clamp(max=15),
    "modulo": lambda ids: ids % 16,
    "one id is another": lambda ids: torch.where(ids == 7, 8, ids),
}


@pytest.mark.parametrize("task", ["causal", "masked", "seq2seq", "classification", "tagging"])
def test_ids_of_a_healthy_model_are_distinct(task):
    assert found("token_ids", case(task)).outcome == "pass"


@pytest.mark.parametrize("name", CHANGES)
def test_ids_that_are_read_as_others_are_named(name):
    about = case()
    table = about.model.trunk.decoder.embedding.tokens
    plain = table.forward
    table.forward = lambda ids: plain(CHANGES[name](ids))
    finding = found("token_ids", about)
    assert finding.outcome == "fail" and finding.values["first"] < finding.values["second"]


def test_equal_rows_of_a_table_are_named():
    about = case()
    table = about.model.trunk.decoder.embedding.tokens.weight
    with torch.no_grad():
        table[9] = table[4]
    finding = found("token_ids", about)
    assert (finding.kind, finding.values["first"], finding.values["second"]) == ("embeddings", 4, 9)


class Foreign(nn.Module):
    """A causal model of somebody's own; from `leak` on it sees the next token."""

    def __init__(self, change=lambda ids: ids, leak=None, length=64):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = nn.Embedding(40, 16), nn.Linear(16, 40)
        self.change, self.leak = change, leak
        self.config = type("Config", (), {"max_position_embeddings": length, "vocab_size": 40})()

    def forward(self, ids):
        x = self.embedding(self.change(ids))
        x = x.cumsum(1) / torch.arange(1, ids.shape[1] + 1)[:, None]
        if self.leak is not None and ids.shape[1] > self.leak:
            x = torch.cat([x[:, : self.leak], x[:, self.leak :] + x[:, -1:]], 1)
        return self.head(x)


def of_ids(module):
    return next(one for one in check_module(module, vocabulary=40, mask="causal") if one.check == "token_ids")


def test_the_same_is_asked_of_other_peoples_modules():
    assert of_ids(Foreign()).outcome == "pass"
    assert of_ids(Foreign(CHANGES["clamped"])).outcome == "fail"
    assert (
        of_ids(Foreign(CHANGES["one id is another"])).outcome == "warn"
    )  # a learned table may have equal rows


def test_assert_causal_reads_as_far_as_the_model_says():
    assert own_length(Foreign(length=300)) == 300 and own_length(small(positions="learned")) == 48
    assert_causal(Foreign(length=300), vocabulary=40)
    with pytest.raises(AssertionError, match="depends on"):
        assert_causal(Foreign(leak=200, length=300), vocabulary=40)
