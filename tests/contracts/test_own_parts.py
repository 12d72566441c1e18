"""assert_contract: sound parts of one's own keep it, and each broken promise is named."""

import pytest
import torch
from torch import nn

from attnlab.config.values import ConfigError
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.dot import Dot
from attnlab.model.attention.rule import Rule
from attnlab.model.cache import KeyValues
from attnlab.model.contracts import own_parts
from attnlab.model.contracts.own_parts import keep_contract
from attnlab.model.draws import fill_normal
from attnlab.model.feedforward import FeedForward, Relu
from attnlab.model.norms import LayerNorm
from attnlab.model.positions.absolute import Learned
from attnlab.model.positions.position import Position
from attnlab.model.projections import PROJECTIONS
from attnlab.model.terms import Term
from attnlab.testing import assert_contract


@pytest.fixture(autouse=True)
def _some_cases(monkeypatch):
    """Every seventh case finds these faults; docs/own-parts.md and the toy rule are tried in all."""
    every = own_parts.cases_of
    monkeypatch.setattr(own_parts, "cases_of", lambda *about: every(*about)[::7])


class Tempered(Rule):
    """Tempered: dot products times a number that each head learns."""

    def __init__(self, heads: int, masking="-inf", dropout=0.0):
        super().__init__(masking, dropout)
        self.heads, self.gain = heads, nn.Parameter(torch.empty(heads))
        self.initialise(None)

    def initialise(self, generator):
        fill_normal(self.gain, 1.0, generator)

    def scores(self, q, k):
        return self.gain[:, None, None] * (q @ k.mT)

    def parameter_terms(self):
        return [Term("gains", "H", self.heads)]


class OtherForward(Tempered):
    def forward(self, q, k, v, pairs):
        return 1.001 * super().forward(q, k, v, pairs)


class Forgets(Tempered):
    def recall(self, memory, q, k, v, pairs):
        assert isinstance(memory, KeyValues)
        k, v = memory.extend(k, v)
        return super().forward(q, k, v.roll(1, 2), pairs)


class LooksAhead(Tempered):
    def scores(self, q, k):
        return super().scores(q, k + k.mean(2, keepdim=True)) * (1 + k.square().mean())


class OverTheBatch(Tempered):
    def scores(self, q, k):
        return super().scores(q, k) * (1 + q.square().mean(0))[..., :1]


class Uncounted(Tempered):
    def parameter_terms(self):
        return []


class Unfilled(Tempered):
    def initialise(self, generator):
        if generator is None:
            super().initialise(None)


class OwnDraws(Tempered):
    def initialise(self, generator):
        nn.init.normal_(self.gain)


class Untaught(Tempered):
    def scores(self, q, k):
        return q @ k.mT + 0 * self.gain[:, None, None]


class NotSaved(Tempered):
    def __init__(self, heads: int, masking="-inf", dropout=0.0):
        super().__init__(heads, masking, dropout)
        self.noise = torch.rand(heads, 1, 1)

    def scores(self, q, k):
        return super().scores(q, k) * self.noise


class WrongShape(Tempered):
    def scores(self, q, k):
        return super().scores(q, k)[..., :1, :-1]


class Everywhere(Position):
    """A position scheme that counts padding."""

    def forward(self, x, tokens):
        return x + tokens.index[..., None] * torch.linspace(-0.1, 0.1, x.shape[-1])


class Joins(Relu):
    """A feed-forward that joins positions."""

    def forward(self, x):
        return super().forward(x) + x.mean(1, keepdim=True)


class HalfCounted(Relu):
    def parameter_terms(self):
        return FeedForward.parameter_terms(self)[:1]


class OverTokens(LayerNorm):
    """A norm over the tokens of a row."""

    def forward(self, x):
        return super().forward(x) / (1 + x.square().mean(1, keepdim=True))


BROKEN = {
    OtherForward: r"forward and weights differ by .* weights\(q, k, pairs\) @ v",
    Forgets: "With a cache, token by token, hidden states differ by",
    LooksAhead: r"output \d depends on token \d, which the mask hides",
    OverTheBatch: "beside another row",
    Uncounted: "parameter_terms count .* return a Term for each parameter",
    Unfilled: "initialise leaves .*rule.gain unfilled",
    OwnDraws: "draw from the generator that it gets",
    Untaught: "No gradient reaches .*rule.gain",
    NotSaved: "it holds what is in no parameter",
    WrongShape: r"RuntimeError: .* \(in the model tried_wrongshape · ",
    Everywhere: "Padding on the left changes an output",
    Joins: r"output \d depends on token \d, which the mask hides",
    HalfCounted: "parameter_terms count",
    OverTokens: r"output \d depends on token \d, which the mask hides|Padding on the",
}


@pytest.mark.parametrize("part", BROKEN, ids=lambda part: part.__name__)
def test_a_broken_promise_is_named(part):
    with pytest.raises(AssertionError, match=BROKEN[part]):
        assert_contract(part)
    assert not any("tried_" in name for name in ATTENTION)


@pytest.mark.parametrize("part", [Tempered, Dot, Learned, PROJECTIONS["shared_qk"], Relu, LayerNorm])
def test_a_sound_part_keeps_its_contract_and_leaves_nothing_behind(part):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    names, dtype = list(ATTENTION), torch.get_default_dtype()
    assert keep_contract(part) >= 2
    assert torch.equal(torch.rand(1), expected) and torch.get_default_dtype() == dtype
    assert list(ATTENTION) == names


def test_what_is_untaught_by_design_and_options_can_be_said():
    assert_contract(Untaught, untaught=["gain"])
    assert_contract(Dot, softcap=2.0)
    with pytest.raises(ConfigError, match='there is no "hardcap"'):
        assert_contract(Dot, hardcap=2.0)


@pytest.mark.parametrize("thing", [nn.Linear(2, 2), int, "dot"])
def test_what_is_no_part_is_refused(thing):
    with pytest.raises(ConfigError, match="extends Rule, Position, Projections or FeedForward"):
        assert_contract(thing)
