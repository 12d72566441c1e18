"""A session validates its config once, resolves its start once, and builds its model once."""

from collections import Counter

import pytest

from attnlab.config.values import ConfigError
from attnlab.runs.faults import RunError
from attnlab.session import session as session_module
from attnlab.session import start as start_module
from attnlab.session.session import Session
from attnlab.session.training import train
from tests.session.adapted import asked
from tests.training.small_run import config


@pytest.fixture
def made(monkeypatch):
    """How often what is made: {"validated": n, "resolved": n, "meta": n, "built": n}."""
    counts = Counter()

    def counted(module, name, key):
        original = getattr(module, name)

        def call(*arguments, **options):
            counts[key(options) if callable(key) else key] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    counted(session_module, "refuse_misfits", "validated")
    counted(session_module, "start_at", "resolved")
    counted(session_module, "build_model", lambda options: "meta" if options.get("device") else "built")
    counted(start_module, "build_model", lambda options: "meta" if options.get("device") else "built")
    return counts


def test_a_run_from_scratch_is_validated_drafted_and_built_once(tmp_path, made, unchecked):
    train(Session(config(tmp_path)), tmp_path / "run")
    assert made == {"validated": 1, "meta": 2, "built": 1}, "a second draft has the tokenizer's real size"


def test_a_run_with_a_start_resolves_it_once(home, tmp_path, made, unchecked):
    train(Session(asked(home, adapter="lora(rank=2)")), tmp_path / "run")
    assert made["validated"] == made["resolved"] == made["built"] == 1


def test_nothing_is_read_before_it_is_asked_for(tmp_path):
    settings = config(tmp_path)
    (tmp_path / "corpus.txt").unlink()
    session = Session(settings)
    with pytest.raises(ValueError, match=r"corpus\.txt"):
        _ = session.model


def test_a_session_is_trained_once(tmp_path, unchecked):
    """Its model is what it learned by then: a second run would not begin at its beginning."""
    session = Session(config(tmp_path))
    train(session, tmp_path / "one")
    with pytest.raises(RunError, match="trained already"):
        train(session, tmp_path / "two")
    assert not (tmp_path / "two").exists()


def test_a_session_whose_folder_was_refused_can_be_trained_elsewhere(tmp_path, unchecked):
    train(Session(config(tmp_path)), tmp_path / "one")
    session = Session(config(tmp_path))
    with pytest.raises(ConfigError, match="already holds a run"):
        train(session, tmp_path / "one")
    assert train(session, tmp_path / "two").reason == "budget"
