"""A new attention rule is one class and one registration; everything else follows from the table."""

import json

import pytest
import torch
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.config.files import load
from attnlab.config.values import Choice, ConfigError
from attnlab.model.assemble import build_model
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.rule import Rule
from attnlab.model.contracts import own_parts, small_models
from attnlab.session.session import draft_settings
from attnlab.testing import assert_contract


class Distance(Rule):
    """Distance: keys near the query in space get the weight.

    Formula: softmax(−rate·‖q − k‖²) V.
    """

    def __init__(self, masking="-inf", dropout=0.0, *, rate: float = 0.5):
        super().__init__(masking, dropout)
        self.rate = rate

    def scores(self, q, k):
        return -self.rate * torch.cdist(q, k).square()


@pytest.fixture
def toy(double):
    ATTENTION.register("distance", Distance)
    yield
    ATTENTION.unregister("distance")


def test_it_is_listed_and_built_from_toml(toy, tmp_path):
    listed = json.loads(CliRunner().invoke(app, ["list", "attention", "--json"]).stdout)
    mine = next(entry for entry in listed if entry["name"] == "distance")
    assert mine["options"]["rate"] == {"default": 0.5, "takes": "a number"}
    file = tmp_path / "toy.toml"
    file.write_text('[model]\nattention = { kind = "distance", rate = 2 }\n')
    rules = build_model(draft_settings(load(file))).trunk.decoder.rules()
    assert [type(r) for r in rules] == [Distance] * 4 and rules[0].rate == 2.0


def test_it_is_under_every_contract(toy, monkeypatch):
    cases = [case for case in small_models.working() if case.attention == Choice("distance", {})]
    assert len(cases) > 700
    monkeypatch.setattr(own_parts, "cases_of", lambda *about: cases[::37])
    assert_contract(Distance)


def test_an_option_without_a_default_is_asked_for():
    class Needy(Distance):
        """Needy: a rule that cannot go without its rate."""

        def __init__(self, masking="-inf", dropout=0.0, *, rate: float):
            super().__init__(masking, dropout, rate=rate)

    ATTENTION.register("needy", Needy)
    try:
        with pytest.raises(ConfigError, match=r"needy needs the option rate \(a number\)"):
            load(set=["model.attention=needy"])
        assert (
            build_model(draft_settings(load(set=["model.attention=needy(rate=2)"])))
            .trunk.decoder.rules()[0]
            .rate
            == 2
        )
        shown = CliRunner().invoke(app, ["list", "attention", "--json"])
        assert json.loads(shown.stdout)[-1]["options"]["rate"]["default"] is None
    finally:
        ATTENTION.unregister("needy")
