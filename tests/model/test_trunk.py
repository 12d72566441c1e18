"""A second trunk, no transformer: trained, checked, opened again and asked, by the protocol alone."""

import math

import pytest
import torch
from torch import nn

import attnlab as lab
from attnlab.config.files import load, section_of
from attnlab.config.values import ConfigError
from attnlab.model.assemble import build_model
from attnlab.model.cache import Cache, LayerMemory, coordinates
from attnlab.model.masks import Causal
from attnlab.model.pairs import Pairs
from attnlab.model.reach import square
from attnlab.model.terms import Term
from attnlab.model.trunks import TRUNKS
from attnlab.model.trunks.trunk import Trunk, Way
from attnlab.runs.faults import RunError
from attnlab.runs.findings import read_findings
from attnlab.session.trained import Trained
from attnlab.training.machine import recompute_blocks
from tests.checks.cases import case, found
from tests.training.small_run import config, train


class State(LayerMemory):
    vector = None

    def select(self, rows):
        self.vector = self.vector[rows]


class Recurrent(nn.Module):
    """h_t = tanh(U·h_{t−1} + gain·E[x_t]), from 0 on in each document; padding leaves h as it is."""

    longest, sees, reads_source, asks_for_source, writes = math.inf, "before", False, False, True
    leak = 0.0

    def __init__(self, vocabulary, width, *, gain: float = 1.0):
        super().__init__()
        self.width, self.table, self.gain = width, nn.Embedding(vocabulary, width), gain
        self.again, self.norm = nn.Linear(width, width, bias=False), nn.LayerNorm(width)

    def forward(self, ids, tokens=None, *, types=None, cache=None):
        tokens = coordinates(ids, cache) if tokens is None else tokens
        state = self.table(ids).new_zeros(len(ids), self.width)
        if cache is not None:
            cache.extend(tokens)
            state = state if cache.layers[0].vector is None else cache.layers[0].vector
        states = []
        for t, x in enumerate((self.gain * self.norm(self.table(ids))).unbind(1)):
            if tokens.document is not None and t:
                state = state * (tokens.document[:, t, None] == tokens.document[:, t - 1, None])
            new = torch.tanh(self.again(state) + x)
            state = new if tokens.real is None else torch.where(tokens.real[:, t, None], new, state)
            states.append(state)
        if cache is not None:
            cache.layers[0].vector = state
        hidden = torch.stack(states, 1)
        return hidden + self.leak * hidden.roll(-1, 1)

    def encode(self, source, tokens, types=None):
        raise ValueError("There is no encoder.")

    def cache(self):
        return Cache([State()])

    def entrances(self):
        return [self.table]

    def tables(self):
        return [self.table]

    def ways(self, tokens, source_tokens=None):
        seen = square(Pairs(tokens, tokens, Causal()))
        return [Way(seen, seen)]

    def contexts(self, ids, tokens, types=None, source=None, source_tokens=None):
        return [tuple(ids[: place + 1].tolist()) for place in range(len(ids))]

    def attentions(self):
        return {}

    def parameter_terms(self):
        return [
            Term("tokens", "V·D", self.table.weight.numel()),
            Term("again", "D·D", self.width**2),
            Term("norm", "2·D", 2 * self.width),
        ]

    def flop_terms(self, length, source_length):
        return [Term("recurrence", "2·N·D²", 2 * length * self.width**2)]

    def activation_terms(self, length, source_length):
        return [Term("states", "3·N·D", 3 * length * self.width)]


@pytest.fixture
def second():
    """The one line with which it becomes a choice of every config."""
    TRUNKS.register("recurrent", Recurrent)
    yield
    TRUNKS.unregister("recurrent")


def of_second(folder, **changes):
    """A small run's config without what a recurrent trunk has no use for."""
    own = {"trunk": "recurrent", "layers": 4, "heads": 4}
    return config(folder, **changes | {"model": own | changes.get("model", {})})


def recurrent(tokens):
    return build_model(section_of("model", {"trunk": "recurrent", "width": 16, "vocabulary": tokens}))


def test_the_second_trunk_is_one():
    named = {name for name in vars(Trunk) if not name.startswith("_")} | {"forward"}
    trunk = Recurrent(8, 4)
    assert not [name for name in named if not hasattr(trunk, name)]


def test_a_class_that_is_no_trunk_is_refused_by_what_it_lacks():
    with pytest.raises(ConfigError, match="LayerNorm is not a Trunk: it has no encode, cache, entrances"):
        TRUNKS.register("norm", nn.LayerNorm)


def test_it_is_a_choice_with_options_of_its_own(second):
    model = build_model(load(set=["model.trunk=recurrent(gain=2.0)", "model.vocabulary=9"]).model)
    assert isinstance(model.trunk, Recurrent) and model.trunk.gain == 2.0 and model.trunk.width == 128
    with pytest.raises(ConfigError, match='options of recurrent: there is no "gains"'):
        load(set=["model.trunk=recurrent(gains=2.0)"])


@pytest.mark.parametrize(
    "setting", ["attention=linear", "layers=2", "positions=rotary", "family=encoder", "mask=prefix"]
)
def test_a_setting_that_it_does_not_use_is_refused(second, setting):
    name, _, value = setting.partition("=")
    with pytest.raises(
        ConfigError, match=rf"model\.{name} is {value}.*does not use it; leave model\.{name} out"
    ):
        build_model(load(set=["model.trunk=recurrent", "model.vocabulary=9", f"model.{setting}"]).model)


def test_a_width_that_no_heads_divide_is_its_own_matter(second):
    build_model(load(set=["model.trunk=recurrent", "model.vocabulary=9", "model.width=30"]).model)


def test_it_trains_is_checked_opened_scored_and_writes(second, tmp_path):
    steps = {"budget": {"steps": 40}, "optimizer": {"kind": "adamw", "learning_rate": 1e-2}}
    run = train(of_second(tmp_path, training=steps), tmp_path / "run")
    findings = {one.check: one.outcome for one in read_findings(tmp_path / "run")}
    assert findings["dependency"] == findings["decoding"] == findings["overfit"] == "pass"
    assert findings["attention"] == "not applicable" and "fail" not in findings.values()
    trained = Trained.at(tmp_path / "run")
    theirs = dict(run.model.named_parameters())
    assert all(torch.equal(p, theirs[name]) for name, p in trained.model.named_parameters())
    scored = trained.evaluate(rows=4)
    assert scored["measures"]["loss"]["value"] < 3.0 < math.log(60), "it has learned from what it read"
    assert scored["honesty"]["sound"]
    assert trained.generate("the cat", length=4, rule="greedy")


def test_its_leak_is_found_where_training_begins(second, tmp_path, monkeypatch):
    monkeypatch.setattr(Recurrent, "leak", 1e-6)
    with pytest.raises(RunError, match="dependency"):
        train(of_second(tmp_path), tmp_path / "run")


def test_what_it_cannot_do_is_refused(second, tmp_path, unchecked):
    model = recurrent(60)
    with pytest.raises(ConfigError, match="this model's trunk has none"):
        recompute_blocks(model)
    for adapter in ("prompt", "prefix"):
        with pytest.raises(ConfigError, match="the model's trunk is a Recurrent"):
            lab.attach(model, adapter)
    train(of_second(tmp_path, training={"budget": {"steps": 1}}), tmp_path / "run")
    with pytest.raises(ConfigError, match="the model's trunk is a Recurrent"):
        lab.convert(tmp_path / "run", tmp_path / "published")


def test_its_leak_is_told_with_output_and_input(second, monkeypatch):
    about = case("causal")
    model = recurrent(about.dataset.tokenizer.size)
    sound = found("dependency", about.__class__(**vars(about) | {"model": model}))
    assert sound.outcome == "pass", sound
    monkeypatch.setattr(Recurrent, "leak", 1e-6)
    leaking = found("dependency", about.__class__(**vars(about) | {"model": model}))
    assert leaking.outcome == "fail" and "depends on future token" in leaking.found
