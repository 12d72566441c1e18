"""model.vocabulary is what it says: rows of the model's table, or as many as the tokenizer has tokens."""

import math

import pytest

import attnlab as lab
from attnlab.config.files import load
from attnlab.config.values import ConfigError
from attnlab.session.session import draft_settings
from attnlab.session.trained import Trained
from tests.training.small_run import config, set_up, train


def rows(model):
    return model.head.vocabulary


def test_without_a_number_the_tokenizer_decides(tmp_path):
    setup = set_up(config(tmp_path))
    assert rows(setup.model) == setup.dataset.tokenizer.size < 60


def test_a_number_is_used_and_comes_back_from_the_checkpoint(tmp_path):
    run = train(config(tmp_path, model={"vocabulary": 64}), tmp_path / "run")
    opened = Trained.at(run.folder)
    assert rows(run.session.model) == rows(opened.model) == 64 > opened.tokenizer.size
    told = opened.evaluate("dev")["measures"]["loss"]["value"]
    assert told < math.log(64) and opened.generate("the cat", length=3)
    assert run.unsound == ()


def test_a_number_that_leaves_tokens_without_a_row_is_refused(tmp_path):
    with pytest.raises(
        ConfigError, match=r"model\.vocabulary is 8, but the tokenizer has \d+ tokens; use at "
    ):
        set_up(config(tmp_path, model={"vocabulary": 8}))


def test_before_there_is_a_tokenizer_its_limit_stands_for_it(tmp_path):
    assert draft_settings(load("bert-mini")).tokens == 8000
    assert draft_settings(load("gpt2")).tokens == 50_257
    set_up(config(tmp_path)).dataset.tokenizer.save(tmp_path)
    held = draft_settings(load(set={"data.tokenizer": str(tmp_path / "tokenizer.json")})).tokens
    assert held == set_up(config(tmp_path)).dataset.tokenizer.size


def test_a_model_without_a_tokenizer_has_a_number():
    assert rows(lab.decoder(width=16, layers=1)) == 10_000
    with pytest.raises(ConfigError, match="there is no tokenizer here; give a number"):
        lab.decoder(width=16, layers=1, vocabulary="tokenizer")
