"""A run whose layers have different attention: checked, opened again, resumed, explained, not exported."""

import pytest
import torch

import attnlab as lab
from attnlab.config.files import config_of
from attnlab.config.values import ConfigError
from attnlab.runs.findings import read_findings
from attnlab.session.trained import Trained
from tests.training.small_run import merged, settings, train

RULES = ["window(size=4)", "dot(scale=1.0)"]
CHANGES = {
    "model": {"attention": RULES, "positions": "learned"},
    "training": {
        "budget": {"steps": 30},
        "optimizer": {"kind": "adamw", "learning_rate": 1e-2},
        "schedule": "constant",
    },
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixed")
    train(config_of(merged(settings(folder), CHANGES)), folder / "run")
    return folder / "run"


def test_it_is_checked_opened_and_writes_as_without_a_cache(run):
    outcomes = {finding.check: finding.outcome for finding in read_findings(run)}
    assert outcomes["dependency"] == outcomes["decoding"] == outcomes["invariance"] == "pass"
    assert "fail" not in outcomes.values()
    trained = Trained.at(run)
    assert [type(rule).__name__ for rule in trained.model.trunk.main.rules()] == ["Window", "Dot"]
    assert trained.evaluate(rows=4)["honesty"]["sound"]


def test_it_resumes_as_if_it_had_been_longer(run, tmp_path, unchecked):
    longer = merged(settings(run.parent), merged(CHANGES, {"training": {"budget": {"steps": 33}}}))
    train(config_of(longer), tmp_path / "whole")
    shorter = merged(longer, {"training": {"budget": {"steps": 31}}})
    train(config_of(shorter), tmp_path / "parted")
    train(config_of(longer), tmp_path / "parted", resume=True)
    whole, parted = (Trained.at(tmp_path / name, which="last").model for name in ("whole", "parted"))
    for p, q in zip(whole.parameters(), parted.parameters(), strict=True):
        assert torch.equal(p, q)


def test_each_layer_is_explained_with_its_own_scale(run):
    """The keys of a head are read with the factor of its layer: 1/√K in the first, 1 in the second."""
    subject = Trained.at(run).reading
    width = subject.keys("the cat", 0, 0).keys.shape[1]
    assert [subject.keys("the cat", layer, 0).scale for layer in (0, 1)] == [width**-0.5, 1.0]


def test_no_published_layout_holds_it(run, tmp_path):
    with pytest.raises(ConfigError, match=r"model\.attention\.kind is \[window, dot\], there dot"):
        lab.convert(run, tmp_path / "published")
