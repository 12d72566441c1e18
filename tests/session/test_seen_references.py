"""References that were trained on are told by `evaluate` and `check RUN` too."""

import json

import pytest

from attnlab.config.files import config_of
from attnlab.session.checking import of_run
from attnlab.session.trained import Trained
from tests.evaluation.copying_run import copying
from tests.training.small_run import merged, train

WORDS = ("the", "cat", "dog", "saw", "old", "red", "house", "in", "a", "big")


def sentence(number):
    """A sentence of five words, another for every number."""
    return " ".join(WORDS[int(digit)] for digit in f"{number:05}")


def write(file, pairs):
    file.write_text("".join(json.dumps({"text": a, "target": b}) + "\n" for a, b in pairs))
    return str(file)


@pytest.fixture
def folder(tmp_path, unchecked):
    """Trained on rows that have the targets of test under other sources, and none of dev."""
    train_rows = [(sentence(n), sentence(n)) for n in range(0, 40_000, 97)]
    dev = [(sentence(n), sentence(n)) for n in range(50_000, 60_000, 301)]
    test = [(sentence(90_000 + n), target) for n, (_, target) in enumerate(train_rows[:30])]
    corpus = {"kind": "files", "path": write(tmp_path / "rows.jsonl", train_rows)}
    corpus |= {"dev": write(tmp_path / "held.jsonl", dev), "test": write(tmp_path / "last.jsonl", test)}
    own = {"budget": {"steps": 2}, "evaluate_every": 2, "generate_every": 2}
    changes = {"data": {"corpus": corpus}, "training": own}
    return train(config_of(merged(copying(tmp_path), changes)), tmp_path / "run").folder


def judged(findings):
    return [(one.outcome, one.number) for one in findings if one.check == "seen_references"]


def test_evaluate_and_check_compare_references_with_training(folder, tmp_path):
    trained = Trained.at(folder)
    assert judged(trained.evaluate("dev").confirmations) == [("pass", 0.0)]
    assert judged(trained.evaluate("test").confirmations) == [("warn", 1.0)]
    assert judged(trained.evaluate("train").confirmations) == [], "these rows were trained on"
    assert judged(of_run(folder)) == [("pass", 0.0)]
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    (tmp_path / "held.jsonl").write_text("\n".join([*lines[:30], *lines[-3:]]) + "\n")
    assert judged(Trained.at(folder).evaluate("dev").confirmations) == [], "dev is another text than then"
