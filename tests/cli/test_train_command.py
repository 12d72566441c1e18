"""`attnlab train` and its kin, as a person meets them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import attnlab as lab
from attnlab.cli import app
from attnlab.config.files import load, ready_configs, to_json
from attnlab.config.values import ConfigError
from attnlab.model.assemble import build_model
from attnlab.runs.metrics_file import read_events
from attnlab.session.session import Session, draft_settings
from tests.training.small_run import for_task, merged, settings

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=True)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return command


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(settings(tmp_path)))
    return path


def test_train_says_how_it_ended_and_where(run, file, tmp_path):
    result = run("train", file, "--set", "training.budget.steps=5", "--json")
    told = json.loads(result.stdout)
    assert result.exit_code == 0 and told["reason"] == "budget" and told["state"]["step"] == 5
    assert told["folder"].startswith("runs/small-")
    assert {"run.json", "metrics.jsonl", "tokenizer.json", "checkpoints"} <= {
        entry.name for entry in (tmp_path / told["folder"]).iterdir()
    }


def test_ctrl_c_during_the_checks_loses_nothing_and_says_so(run, file, monkeypatch):
    def interrupted(self, **facts):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("attnlab.session.soundness.RunChecks.before", interrupted)
        stopped = run("train", file, "--set", "training.budget.steps=2", "--out", "runs/with space")
    assert stopped.exit_code == 130
    assert "nothing was lost" in stopped.output
    assert "attnlab train --resume --out 'runs/with space'" in stopped.output
    again = run("train", "--resume", "--out", "runs/with space", "--json")
    assert again.exit_code == 0 and json.loads(again.stdout)["state"]["step"] == 2


def test_the_limit_that_ended_a_run_and_where_it_goes_on_are_said(run, file):
    told = run(
        "train", file, "--set", "training.budget.steps=5", "--set", "training.budget.epochs=1000"
    ).output
    assert "the budget of 5 steps is spent" in told and "Going on" not in told
    again = run("train", "--resume", "--out", next(Path("runs").iterdir()))
    assert "Resuming from step 5." in again.output


def test_a_run_is_repeated_from_its_folder_alone(run, file):
    run("train", file, "--out", "first")
    run("train", "--from", "first", "--out", "second")
    steps = []
    for folder in map(Path, ("first", "second")):
        lines = read_events(folder / "metrics.jsonl")
        steps.append([line["loss"] for line in lines if line["event"] == "stepped"])
    assert steps[0] == steps[1] and len(steps[0]) == 12
    with pytest.raises(ConfigError, match="not both"):
        run("train", file, "--from", "first")


def test_python_trains_as_the_command_does(run, file, tmp_path):
    run("train", file, "--out", "first")
    made = lab.train(file, set={"training.budget.steps": 12}, out="second")
    assert made.step == 12 and made.folder == Path("second")
    last = Path("checkpoints") / "step-12" / "model.safetensors"
    assert (tmp_path / "first" / last).read_bytes() == (tmp_path / "second" / last).read_bytes()


def test_without_a_config_the_ways_are_named(run):
    with pytest.raises(ConfigError, match="--from RUN"):
        run("train")
    with pytest.raises(ConfigError, match='Did you mean "mini-gpt"'):
        run("train", "mini-gtp")
    with pytest.raises(ConfigError, match="holds no run"):
        run("train", "--resume", "--out", "nothing")


@pytest.mark.parametrize("task", ["causal", "masked", "seq2seq"])
def test_show_batch_prints_what_is_read_and_what_is_to_be_predicted(run, tmp_path, task):
    file = tmp_path / "shown.json"
    file.write_text(json.dumps(merged(settings(tmp_path), for_task(task, tmp_path))))
    rows = json.loads(run("train", file, "--show-batch", "--json").stdout)
    for row in rows:
        assert len(row["input"]) == len(row["target"])
        if task == "causal":  # each target is the next input, save at the end of a text
            following = [*row["input"][1:], None]
            pairs = zip(row["input"], row["target"], following, strict=True)
            assert all(target == (None if read == "<STOP>" else then) for read, target, then in pairs)
        if task == "seq2seq":
            words = [token for token in row["source"] if not token.startswith("<")]
            assert [t for t in row["target"] if t] == [*reversed(words), "<STOP>"]
            assert row["input"][0] == "<START>"
    if task == "masked":
        assert any("<MASK>" in row["input"] for row in rows)
    assert "Bottom row: targets" in run("train", file, "--show-batch").stdout
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("image-classifier-mini", {"input": ["<START>", "[64 patches]", "<STOP>"]}),
        ("image-matching-mini", {"input": ["<START>", "[16 patches]", "<SEP>"]}),
        ("image-search-mini", {"input": ["<START>", "[16 patches]", "<STOP>"], "second": ["<START>", "a"]}),
        ("image-caption-mini", {"source": ["<START>", "[16 patches]", "<STOP>"], "input": ["<START>", "a"]}),
    ],
)
def test_show_batch_names_a_picture_once_and_shows_what_is_read_apart(run, name, sides):
    rows = json.loads(run("train", name, "--set", "data.corpus.examples=40", "--show-batch", "--json").stdout)
    for row in rows:
        assert {side: row[side][: len(begins)] for side, begins in sides.items()} == sides
        assert "target" not in row or len(row["target"]) == len(row["input"])


@pytest.mark.parametrize("name", ready_configs())
def test_every_ready_config_is_sound_and_shown(run, name):
    config = load(name)
    Session(config)
    assert name in run("list", "configs").stdout
    assert "[training]" in run("show", name).stdout
    assert json.loads(run("show", name, "--json").stdout) == json.loads(json.dumps(to_json(config)))


def test_mini_gpt_has_the_parameters_it_claims():
    model = build_model(draft_settings(load("mini-gpt")), device="meta")
    assert sum(p.numel() for p in model.parameters()) == 1_407_552


def test_a_config_survives_its_own_json():
    from attnlab.config.files import config_of, identity

    for name in ready_configs():
        config = load(name, set=["task.share=0.2"] if name == "bert-mini" else [])
        again = config_of(json.loads(json.dumps(to_json(config))))
        assert identity(again) == identity(config)
        assert identity(replace(config, seed=1)) != identity(config)
    assert load("bert-mini", set=["task.share=0.2"]).task.options["share"] == 0.2
    assert load(set=["task=masked", "task.share=0.3"]).task.kind == "masked"
    assert load(set=["training.budget.tokens=500"]).training.budget.limits == {"tokens": 500}
