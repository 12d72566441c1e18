"""A run that goes on to a larger budget is the run that had it from the start, or the reason is given."""

import re

import pytest

from attnlab.config.values import ConfigError
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.metrics_file import read_events
from attnlab.runs.record import read_record
from attnlab.training.checkpoint import read_checkpoint
from tests.session.commands import command
from tests.training.small_run import config, train

pytestmark = pytest.mark.usefixtures("unchecked")


def asked(folder, steps, schedule="constant", **training):
    given = {"budget": {"steps": steps}, "schedule": schedule, "evaluate_every": 4, **training}
    return config(folder, model={"layers": 1}, training=given)


def weights(run, step):
    return read_checkpoint(Checkpoints.of(run), step).model


def stepped(run):
    kept = ("step", "loss", "learning_rate", "gradient", "tokens", "epoch")
    events = read_events(run / "metrics.jsonl")
    return [{name: e[name] for name in kept} for e in events if e["event"] == "stepped"]


@pytest.mark.parametrize(
    ("schedule", "later"),
    [("constant", "constant"), ("constant(warmup=0.5)", "constant(warmup=0.25)")],
)
def test_bit_for_bit_the_run_that_had_the_budget_from_the_start(tmp_path, schedule, later):
    train(asked(tmp_path, 8, schedule), tmp_path / "grown")
    ended = train(asked(tmp_path, 16, later), tmp_path / "grown", resume=True)
    train(asked(tmp_path, 16, later), tmp_path / "whole")
    assert ended.state.step == 16 and stepped(tmp_path / "grown") == stepped(tmp_path / "whole")
    one, other = (weights(tmp_path / name, 16) for name in ("grown", "whole"))
    assert all((one[name] == other[name]).all() for name in other)
    records = [read_record(tmp_path / name) for name in ("grown", "whole")]
    assert records[0]["identity"] == records[1]["identity"]
    warned = [
        e["message"] for e in read_events(tmp_path / "grown" / "metrics.jsonl") if e["event"] == "warned"
    ]
    assert any("training.budget.steps was 8, now 16" in message for message in warned)


def test_wsd_goes_on_from_before_its_decay(tmp_path):
    train(asked(tmp_path, 10, "wsd(warmup=0.0, decay=0.2)", checkpoint_every=4, keep=3), tmp_path / "grown")
    longer = asked(tmp_path, 20, "wsd(warmup=0.0, decay=0.2)", checkpoint_every=4, keep=3)
    train(longer, tmp_path / "grown", resume=True)
    train(longer, tmp_path / "whole")
    assert (tmp_path / "grown" / "checkpoints" / "left-step-10").is_dir(), "the decayed model is kept"
    assert stepped(tmp_path / "grown") == stepped(tmp_path / "whole")


@pytest.mark.parametrize(
    ("schedule", "later", "steps", "sentence"),
    [
        ("cosine", "cosine", 16, "cosine had already lowered the learning rate for the shorter budget: step"),
        ("cosine(warmup=0.1)", "cosine(warmup=0.1)", 12, "cosine had already lowered the learning rate"),
        ("cosine(warmup=0.1)", "cosine(warmup=0.1)", 4, "taken 8 steps, which is more than 4 steps already"),
        ("constant(warmup=0.5)", "constant(warmup=0.5)", 16, r"--set training\.schedule\.warmup=0\.25"),
        ("constant", "linear(warmup=0.0)", 16, r"training\.schedule was constant.*now linear"),
        ("constant", "constant", 4, "taken 8 steps, which is more than 4 steps already"),
    ],
)
def test_where_it_cannot_the_reason_is_given_and_nothing_is_lost(tmp_path, schedule, later, steps, sentence):
    train(asked(tmp_path, 8, schedule, checkpoint_every=8), tmp_path / "run")
    before = read_record(tmp_path / "run"), stepped(tmp_path / "run")
    with pytest.raises(ConfigError, match=sentence):
        train(asked(tmp_path, steps, later, checkpoint_every=8), tmp_path / "run", resume=True)
    assert (read_record(tmp_path / "run"), stepped(tmp_path / "run")) == before
    assert Checkpoints.of(tmp_path / "run").steps()[-1] == 8


@pytest.mark.parametrize("schedule", ["constant(warmup=0.3)", "wsd(warmup=0.3, decay=0.2)"])
def test_the_warm_up_that_is_advised_lets_the_run_go_on(tmp_path, schedule):
    often = {"checkpoint_every": 4, "keep": 3}
    train(asked(tmp_path, 9, schedule, **often), tmp_path / "run")
    with pytest.raises(ConfigError) as refused:
        train(asked(tmp_path, 14, schedule, **often), tmp_path / "run", resume=True)
    advised = re.search(r"--set training\.schedule\.warmup=([\d.]+)\.$", str(refused.value))
    assert advised, refused.value
    later = schedule.replace("0.3", advised[1])
    assert train(asked(tmp_path, 14, later, **often), tmp_path / "run", resume=True).state.step == 14


def test_from_the_command_line(tmp_path):
    train(asked(tmp_path, 4), tmp_path / "run")
    longer = command("train", "--resume", "--out", tmp_path / "run", "--set", "training.budget.steps=6")
    assert longer.exit_code == 0 and "Done after 6 steps: the budget of 6 steps" in longer.output
    assert "Ends after 6 steps" in longer.output and "continues from step 4" in longer.output


def test_a_run_that_took_no_step_is_begun_anew_with_another_config(tmp_path):
    with pytest.raises(ConfigError):
        train(asked(tmp_path, 4, listeners=("tensorboard", "wandb")), tmp_path / "run")
    assert train(asked(tmp_path, 4), tmp_path / "run", resume=True).state.step == 4


def test_a_setting_that_may_change_is_not_blamed_for_one_that_may_not(tmp_path):
    train(asked(tmp_path, 4), tmp_path / "run")
    other = asked(tmp_path, 8, strategy={"kind": "fsdp", "replicas": 2}, accumulate=2)
    with pytest.raises(ConfigError, match=r"changed \(training\.accumulate was 1, now 2\)\."):
        train(other, tmp_path / "run", resume=True)
    train(asked(tmp_path, 8, strategy={"kind": "fsdp", "replicas": 2}), tmp_path / "run", resume=True)
    warned = [e["message"] for e in read_events(tmp_path / "run" / "metrics.jsonl") if e["event"] == "warned"]
    assert any("strategy was not set, now fsdp(replicas=2)" in message for message in warned)
