"""Cached decoding: every way to mix up rows, positions or texts is found and named; sound models pass."""

import pytest
import torch

from attnlab.checks.decoding import IN_OWN_PRECISION, Trial
from attnlab.checks.subject import OwnSubject
from attnlab.generation.beam import Search
from attnlab.generation.decoder import Decoder
from attnlab.generation.generate import UnfinishedTexts
from attnlab.model.attention.linear import RunningState
from attnlab.model.cache import Cache, KeyValues
from attnlab.model.stack import Stack
from attnlab.model.tokens import Tokens
from tests.checks.cases import case, config, found, of
from tests.checks.faults import VOCABULARY
from tests.contracts.grid import pairwise
from tests.training.small_run import set_up

WRITERS = ["causal", "prefix", "seq2seq", "denoising"]
CASES = [one for one in pairwise(seed=5) if one.masking == "-inf" and one.family != "encoder"][:20]


@pytest.mark.parametrize("task", WRITERS)
def test_sound_models_pass(task):
    finding = found("decoding", case(task))
    assert finding.outcome == "pass" and finding.number < 1e-12, finding.found


@pytest.mark.parametrize("one", CASES, ids=str)
def test_every_sound_combination_passes(one):
    gaps = dict(Trial(OwnSubject(one.model(length=24), vocabulary=VOCABULARY, room=24)).gaps())
    assert len(gaps) == 9, gaps
    assert all(gap <= IN_OWN_PRECISION.get(name, 1e-9) for name, gap in gaps.items()), gaps


@pytest.mark.parametrize("task", ["masked", "span", "unilm"])
def test_models_that_do_not_write_are_not_asked(task):
    assert found("decoding", case(task)).outcome == "not applicable"


@pytest.mark.parametrize("length", [2, 4, 5, 7])
def test_short_models_are_asked_as_far_as_they_go(length):
    about = of(set_up(config(model={"length": length}, data={"length": length})))
    assert found("decoding", about).outcome == ("pass" if length >= 4 else "not applicable")


def forgotten_offset(monkeypatch):
    """New tokens count their position with the padding before them."""
    plain = Tokens.following

    def following(self, count):
        found = plain(self, count)
        return Tokens(found.index, found.index, span=found.span, bound=found.bound)

    monkeypatch.setattr(Tokens, "following", following)


def seen_padding(monkeypatch):
    """Padding of the prompt is forgotten once the prompt is read."""
    plain = Tokens.join

    def join(self, after):
        return plain(Tokens(self.index, self.position, source=self.source, bound=self.bound), after)

    monkeypatch.setattr(Tokens, "join", join)


def values_that_stay(monkeypatch):
    def select(self, rows):
        if self.keys is not None:
            self.keys, self.values = self.keys[rows], self.values[: len(rows)].expand(len(rows), -1, -1, -1)

    monkeypatch.setattr(KeyValues, "select", select)


def coordinates_that_stay(monkeypatch):
    plain = Cache.select

    def select(self, rows):
        held = self.tokens
        plain(self, rows)
        self.tokens = held.select(torch.arange(len(rows)) % held.rows)

    monkeypatch.setattr(Cache, "select", select)


def one_layer_that_stays(monkeypatch):
    plain = Cache.select

    def select(self, rows):
        layers, self.layers = self.layers, self.layers[:-1]
        plain(self, rows)
        self.layers = layers
        layers[-1].select(torch.arange(len(rows)) % 3)

    monkeypatch.setattr(Cache, "select", select)


def a_buffer_that_loses_its_start(monkeypatch):
    plain = KeyValues._room

    def room(self, buffer, new):
        found = plain(self, buffer, new)
        if buffer is not None and found is not buffer:
            found[:, :, 0] = 0
        return found

    monkeypatch.setattr(KeyValues, "_room", room)


def the_last_texts_cache(monkeypatch):
    plain, kept = Stack.cache, []

    def cache(self):
        kept.append(kept[0] if kept else plain(self))
        return kept[-1]

    monkeypatch.setattr(Stack, "cache", cache)


def a_cache_that_keeps_too_few(monkeypatch):
    plain = Stack.cache

    def cache(self):
        made = plain(self)
        made.keep = 18
        for layer in made.layers:
            layer.keep = 18
        return made

    monkeypatch.setattr(Stack, "cache", cache)


def rows_that_leave_in_the_wrong_order(monkeypatch):
    plain = UnfinishedTexts.go_on
    monkeypatch.setattr(
        UnfinishedTexts, "go_on", lambda self, chosen, kept: plain(self, chosen.roll(1), kept)
    )


def beams_of_other_rows(monkeypatch):
    plain = Search.grow
    monkeypatch.setattr(Search, "grow", lambda self, logs: plain(self, logs)[::-1])


def a_step_that_raises(monkeypatch):
    plain = Cache.select
    monkeypatch.setattr(Cache, "select", lambda self, rows: plain(self, rows[:1]))


FAULTS = [
    (forgotten_offset, "prompts of unequal length"),
    (seen_padding, "prompts of unequal length"),
    (values_that_stay, "reordered rows"),
    (coordinates_that_stay, "reordered rows"),
    (one_layer_that_stays, "reordered rows"),
    (a_buffer_that_loses_its_start, "reordered rows"),
    (the_last_texts_cache, "a second text"),
    (a_cache_that_keeps_too_few, "a long prompt"),
    (rows_that_leave_in_the_wrong_order, "greedy search"),
    (beams_of_other_rows, "beam search"),
    (a_step_that_raises, "reordered rows"),
]


@pytest.mark.parametrize(("fault", "use"), FAULTS, ids=lambda one: getattr(one, "__name__", ""))
def test_every_fault_is_named_by_the_use_in_which_it_shows(fault, use, monkeypatch):
    about = case()
    fault(monkeypatch)
    finding = found("decoding", about)
    assert finding.outcome == "fail" and use in finding.found, finding.found
    assert finding.number > 1e-6 and finding.fix


@pytest.mark.parametrize("task", ["prefix", "seq2seq"])
@pytest.mark.parametrize("fault", [forgotten_offset, values_that_stay, the_last_texts_cache])
def test_faults_show_with_a_prefix_and_with_a_source_too(task, fault, monkeypatch):
    about = case(task)
    fault(monkeypatch)
    assert found("decoding", about).outcome == "fail"


def sources_that_stay(self, rows):
    for layer in self.layers:
        layer.select(rows)
    self.tokens = self.tokens.select(rows)
    self.sources = [(k[torch.arange(len(rows)) % 3], v[torch.arange(len(rows)) % 3]) for k, v in self.sources]
    self.source_tokens = self.source_tokens.select(rows)


def test_a_source_that_is_not_reordered_is_named(monkeypatch):
    about = case("seq2seq")
    monkeypatch.setattr(Cache, "select", sources_that_stay)
    finding = found("decoding", about)
    assert finding.outcome == "fail" and "reordered rows" in finding.found and "encoder's" in finding.fix


def test_padding_of_a_source_is_not_read(monkeypatch):
    about = case("seq2seq")
    plain = Decoder._sources

    def unmarked(self, sources, pictures):
        made = plain(self, sources, pictures)
        return made | {"source_tokens": Tokens.of(made["source"].shape[1])}

    monkeypatch.setattr(Decoder, "_sources", unmarked)
    assert "unequal length" in found("decoding", about).found


def test_a_running_state_that_is_not_reordered_is_named(monkeypatch):
    about = of(set_up(config(model={"attention": "linear"})))
    assert found("decoding", about).outcome == "pass"
    plain = RunningState.select
    monkeypatch.setattr(RunningState, "select", lambda self, rows: plain(self, torch.arange(len(rows)) % 3))
    assert "reordered rows" in found("decoding", about).found


def test_a_leak_is_left_to_the_check_that_names_it():
    finding = found("decoding", of(set_up(config(model={"masking": "zero"}))))
    assert finding.outcome == "not applicable" and "comes later" in finding.found
