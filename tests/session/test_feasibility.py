"""What cannot fit or end is refused with the number, before anything is allocated."""

import tracemalloc

import pytest

from attnlab.config.values import ConfigError
from attnlab.session import refusals
from tests.training.small_run import config, set_up


@pytest.mark.parametrize(
    "changes, words",
    [
        (
            {"model": {"width": 2**17, "heads": 2}},
            "would take at least .* GiB .*this machine has",
        ),
        ({"model": {"width": 2**30, "heads": 2}}, "sizes that no tensor can have"),
        ({"model": {"length": 2**31 - 1, "positions": "learned"}}, "GiB of memory"),
        (
            {"training": {"accumulate": 100_000}},
            r"a step would read it .* times. Use at most \d+",
        ),
        ({"training": {"budget": {"steps": 10**14}}}, "1e.14 steps would take at least .* years"),
        ({"training": {"budget": {"epochs": 1e300}}}, "years here"),
        ({"training": {"budget": {"seconds": 1e9}}}, "31.7 years here"),
    ],
)
def test_what_cannot_be_is_refused_before_it_is_begun(tmp_path, changes, words):
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError, match=words):
            set_up(config(tmp_path, **changes))
        assert tracemalloc.get_traced_memory()[1] < 2**28
    finally:
        tracemalloc.stop()


def test_a_step_that_nobody_sees_the_end_of_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(refusals, "FASTEST", {"cpu": 1.0})
    with pytest.raises(ConfigError, match=r"A step would take at least [\d,]+ hours here"):
        set_up(config(tmp_path))


@pytest.mark.parametrize("budget", [{"steps": 10**14, "seconds": 1.0}, {"steps": 10**14, "flops": 1e9}])
def test_a_budget_that_ends_by_another_limit_is_taken(tmp_path, budget):
    set_up(config(tmp_path, training={"budget": budget}))


def test_patience_ends_a_run_too(tmp_path):
    set_up(config(tmp_path, training={"budget": {"steps": 10**14}, "patience": 3}))


def test_the_least_is_less_than_what_a_run_takes(tmp_path):
    """A bound that was above the truth would refuse what can be done."""
    made = set_up(config(tmp_path))
    cost = refusals.weight_bytes(made.config, made.model)
    weights = sum(p.numel() for p in made.model.parameters()) * 4
    assert weights * 3 <= cost <= weights * 4  # AdamW holds four numbers a weight
