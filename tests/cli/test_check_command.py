"""`attnlab check`, and what a failed check does to a training."""

import importlib.machinery
import json
import sys
import types

import pytest
import torch
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.cli.check import named_folder
from attnlab.config.values import ConfigError
from attnlab.model.cache import KeyValues
from attnlab.runs.faults import UnsoundError
from attnlab.runs.summary import read_summary
from attnlab.session import stored
from tests.training.small_run import config, settings, train

ZERO = {"model": {"masking": "zero"}}


def invoke(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checked")


@pytest.fixture(scope="module")
def written(folder):
    """The small run's config as a file."""
    file = folder / "small.json"
    file.write_text(json.dumps(settings(folder)))
    return file


@pytest.fixture(scope="module")
def allowed(folder):
    """A run that was trained although its mask leaks."""
    train(config(folder, **ZERO), folder / "zero", allow=["dependency"])
    return folder / "zero"


def test_ctrl_c_says_that_nothing_was_lost(monkeypatch):
    def stopped(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("attnlab.cli.check.check_target", stopped)
    asked = CliRunner().invoke(app, ["check", "mini-gpt"])
    assert asked.exit_code == 130 and "Stopped; nothing was lost." in asked.output


def test_a_leaking_config_is_named_with_its_size_and_fix(written):
    sound = invoke("check", written)
    assert sound.exit_code == 0 and "Sound" in sound.output
    found = invoke("check", written, "--set", "model.masking=zero", "--json")
    assert found.exit_code == 1
    leak = next(one for one in json.loads(found.stdout) if one["check"] == "dependency")
    assert leak["outcome"] == "fail" and leak["number"] > 1e-3
    assert 'model.masking = "-inf"' in leak["fix"] and "rule (Dot)" in leak["found"]


def test_a_failed_check_stops_a_training_before_its_first_step(folder):
    with pytest.raises(UnsoundError, match=r"--allow dependency"):
        train(config(folder, **ZERO), folder / "stopped")
    record = json.loads((folder / "stopped" / "run.json").read_text())
    assert record["status"] == "failed" and "dependency" in record["error"]
    held = json.loads((folder / "stopped" / "checks.json").read_text())
    assert held["sound"] is False and held["unsound"] == ["dependency"]
    assert not (folder / "stopped" / "checkpoints").exists()
    listed = read_summary(folder / "stopped").result
    assert listed.status == "failed" and not listed.sound and listed.unsound == ("dependency",)
    go_on = train(config(folder, **ZERO), folder / "stopped", resume=True, allow=["dependency"])
    assert go_on.state.step == 12 and go_on.unsound == ("dependency", "honesty")


def test_every_number_of_an_allowed_run_is_marked(allowed):
    record = json.loads((allowed / "run.json").read_text())
    assert record["sound"] is False and record["unsound"] == ["dependency", "honesty"]
    scores = invoke("evaluate", allowed)
    assert "Invalid" in scores.output
    assert json.loads(invoke("evaluate", allowed, "--json").stdout)["sound"] is False
    assert "Invalid" in invoke("generate", allowed, "the").stderr
    written = json.loads(invoke("generate", allowed, "the", "--json").stdout)
    assert written["sound"] is False and written["unsound"] == ["dependency", "honesty"]


def keys_alone(self, rows):
    """Rows of the cache are reordered, but not their values."""
    self.keys, self.values = self.keys[rows], self.values[torch.arange(len(rows)) % len(self.values)]


def test_checks_are_repeated_on_trained_weights(allowed, folder, monkeypatch):
    moments = {one["when"] for one in json.loads((allowed / "checks.json").read_text())["findings"]}
    assert {"before", "after"} <= moments
    found = invoke("check", allowed, "--json")
    assert found.exit_code == 1
    after = [one for one in json.loads(found.stdout) if one["when"] == "after"]
    assert [one["outcome"] for one in after if one["check"] == "dependency"] == ["fail"]
    train(config(folder), folder / "sound")
    assert invoke("check", folder / "sound").exit_code == 0
    assert invoke("check", folder / "sound" / "checkpoints" / "step-12").exit_code == 0
    monkeypatch.setattr(KeyValues, "select", keys_alone)
    found = invoke("check", folder / "sound", "--json")
    assert found.exit_code == 1
    failed = [one["check"] for one in json.loads(found.stdout) if one["outcome"] == "fail"]
    assert "decoding" in failed


def test_wrong_names_are_answered(folder, allowed):
    with pytest.raises(ConfigError, match='Did you mean "dependency"'):
        train(config(folder), folder / "named", allow=["dependancy"])
    with pytest.raises(ConfigError, match="cannot be used with a finished run"):
        CliRunner().invoke(app, ["check", str(allowed), "--set", "seed=1"], catch_exceptions=False)


def test_a_classifier_that_says_the_majority_has_learned_nothing(tmp_path):
    """Yes/no questions of which 61% are answered yes, and a model that says yes to all."""
    labels = ["yes"] * 610 + ["no"] * 390
    file = tmp_path / "predictions.csv"
    file.write_text("label,prediction\n" + "".join(f"{label},yes\n" for label in labels))
    found = invoke("check", file, "--out", tmp_path / "verdict")
    assert found.exit_code == 1
    said = " ".join(found.output.replace("│", " ").split())
    assert (
        "61.0% (57.9% to 64.0%)" in said
        and "is not better than always predicting the most frequent label" in said
    )
    held = json.loads((tmp_path / "verdict" / "checks.json").read_text())
    assert held["unsound"] == ["collapse", "majority"]
    able = [label if n % 5 else "no" for n, label in enumerate(labels)]
    file.write_text("label,prediction\n" + "".join(f"{a},{b}\n" for a, b in zip(labels, able, strict=True)))
    assert invoke("check", file).exit_code == 0
    file.write_text("label,guess\nyes,no\n")
    with pytest.raises(ValueError, match="no column prediction"):
        CliRunner().invoke(app, ["check", str(file)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("name", "advice"), [("train.py", r"lab\.check\(model, vocabulary=…\)"), ("model.pt", "check FOLDER")]
)
def test_code_and_bare_weights_are_told_how_they_can_be_checked(tmp_path, name, advice):
    (tmp_path / name).write_text("import torch\n")
    with pytest.raises(ConfigError, match=advice):
        CliRunner().invoke(app, ["check", str(tmp_path / name)], catch_exceptions=False)


def test_a_model_is_checked_by_its_name(tmp_path, monkeypatch):
    """As `adapt` takes it: minilm is the folder of a package."""
    package = types.ModuleType("some_model")
    package.get_model_path = lambda: str(tmp_path)
    package.__spec__ = importlib.machinery.ModuleSpec("some_model", None)
    monkeypatch.setitem(sys.modules, "some_model", package)
    monkeypatch.setitem(stored.PACKAGED, "somemini", ("some_model", "some-model"))
    assert named_folder("somemini") == tmp_path and str(named_folder("mini-gpt")) == "mini-gpt"
    seen = []
    monkeypatch.setattr("attnlab.session.checking.of_folder", lambda path, **_: seen.append(path) or [])
    assert invoke("check", "somemini").exit_code == 0 and seen == [tmp_path]


def test_predicted_numbers_are_judged_as_numbers_and_columns_can_be_named(tmp_path):
    rows = [{"truth": n / 7, "guess": n / 7 + (0.1 if n % 2 else -0.1)} for n in range(60)]
    file = tmp_path / "numbers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = ["--label", "truth", "--prediction", "guess"]
    good = invoke("check", file, *named)
    assert good.exit_code == 0 and "R² 0.9" in good.output and "classes" not in good.output
    file.write_text("".join(json.dumps(row | {"guess": -row["guess"]}) + "\n" for row in rows))
    assert invoke("check", file, *named).exit_code == 1
    unnamed = invoke("check", file)
    assert "--label COLUMN and --prediction COLUMN" in str(unnamed.exception)


def test_failures_come_first_and_once_for_all_their_moments_and_passes_take_a_line(allowed):
    """171 lines for an invalid arm hid the two that mattered."""
    short, whole = (invoke("check", allowed, *option).output for option in ((), ("--all",)))
    lines = short.splitlines()
    assert lines[0].startswith("Invalid: 2 checks fail, ") and len(lines) < 40 < len(whole.splitlines())
    rows = [line.split()[1] for line in lines if line.startswith("✗")]
    assert rows == ["dependency", "honesty"], "found before training and after it, told once"
    assert "before training; after training, step 12" in " ".join(short.split())
    passes = next(place for place, line in enumerate(lines) if line.startswith("✓"))
    assert passes > max(place for place, line in enumerate(lines) if line.startswith("✗"))
    named = " ".join(" ".join(lines[passes:]).split()).partition(": ")[2].partition(". ")[0].split(", ")
    found = json.loads(invoke("check", allowed, "--json").stdout)
    bad = {one["check"] for one in found if one["outcome"] in ("warn", "fail")}
    assert {*named} == {one["check"] for one in found if one["outcome"] == "pass"} - bad
    assert all(one["check"] in whole for one in found)
