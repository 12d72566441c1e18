"""Adapting in one command: the config that it writes, what it says beforehand, and the run that it trains."""

import json
import re

import pytest
import torch

import attnlab as lab
from attnlab.checks.dependency import Dependency
from attnlab.config.values import ConfigError
from attnlab.data.errors import DataError
from attnlab.evaluation import features as features_module
from attnlab.model.adapters import ADAPTERS
from attnlab.model.model import Model
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.events import Stepped
from attnlab.runs.findings import read_findings
from attnlab.runs.metrics_file import METRICS_FILE, read_events
from attnlab.runs.record import read_record
from attnlab.session import training as run_module
from attnlab.session.adapting import adapting_config
from attnlab.targets.recipes import RECIPES
from attnlab.training.checkpoint import read_checkpoint
from tests.session.adapted import RATE, KilledError, adapt, asked, weights
from tests.session.commands import answer, command
from tests.training.small_run import sentences, train
from tests.unchecked import checked_by

SHORT = ["--set", RATE, "--set", "training.budget.epochs=3"]


# ---------------------------------------------------------------- the config
def test_every_adapter_has_a_recipe():
    assert RECIPES.keys() == set(ADAPTERS)


def test_the_config_says_what_was_asked_and_the_rest_by_the_method(home):
    found = asked(home, adapter=lab.Lora(rank=2))
    assert found.task.kind == "classification" and found.start == str(home / "bert")
    assert found.adapter.kind == "lora" and found.adapter.options["rank"] == 2
    assert found.data.corpus.options["label"] == "who" and found.data.encoding.kind == "single"
    assert found.data.batching.kind == "bucketed", "rows of like length go together"
    assert found.data.length == 24, "as much as the start reads"
    rate = found.training.optimizer.options["learning_rate"]
    assert rate == RECIPES["lora"].learning_rate != RECIPES["full"].learning_rate
    assert found.training.patience == RECIPES["lora"].patience and found.training.evaluate_every == "epoch"
    assert asked(home, adapter="prompt(tokens=4)").data.length == 20


@pytest.mark.parametrize(
    ("rows", "epochs", "every"),
    [(40, 50.0, 10), (200, 10.0, "epoch"), (3000, 4.0, "epoch")],
)
def test_few_rows_are_read_more_often(rows, epochs, every, home, tmp_path):
    """At least 100 steps of 16 rows, a tenth of the rows being dev and a tenth test, and ten evaluations."""
    lines = [f"{text},{number % 2}" for number, text in enumerate(sentences(rows))]
    (tmp_path / "own.csv").write_text("\n".join(["body,who", *lines]))
    reading = {"text": "body", "label": "who"}
    found = adapting_config(home / "bert", data=tmp_path / "own.csv", reading=reading).training
    assert found.budget.limits == {"epochs": epochs} and found.evaluate_every == every


def test_whole_matrices_of_a_wide_start_are_trained_at_a_lower_rate():
    full, head = RECIPES["full"], RECIPES["head"]
    assert [full.rate(width) for width in (64, 384, 768, 4096)] == [1e-4, 1e-4, 5e-5, 9.4e-6]
    assert head.rate(64) == head.rate(4096) == head.learning_rate


def test_everything_can_be_set_otherwise(home):
    wanted = ["data.batching.batch_size=8", "training.patience=unlimited", "data.length=12", RATE]
    found = asked(home, set=[*wanted, "training.schedule=cosine", "data.dev_share=0.2"])
    assert found.data.batching.options["batch_size"] == 8 and found.training.patience == "unlimited"
    assert found.training.optimizer.options["learning_rate"] == 0.02 and found.data.length == 12
    assert found.training.schedule.kind == "cosine" and found.data.dev_share == 0.2
    with pytest.raises(ConfigError, match="adapter decides other settings here"):
        asked(home, set=["adapter=lora"])


def test_a_decoder_is_read_at_its_last_token_and_a_head_that_serves_is_kept(home, tmp_path, unchecked):
    found = asked(home, start="gpt")
    assert found.model.output.options["pooling"] == "last"
    train(found, tmp_path / "tuned")
    again = train(asked(home, start=tmp_path / "tuned"), tmp_path / "again")
    assert again.session.origin.fresh == ()


def test_held_out_rows_are_taken_unless_they_are_given(home):
    columns = {"text": "body", "label": "who"}
    alone = asked(home, reading=columns)
    assert (alone.data.dev_share, alone.data.test_share) == (0.1, 0.1)
    given = asked(home, reading=columns | {"dev": str(home / "reviews.csv")})
    assert given.data.test_share == 0


def test_pairs_with_a_label_are_graded(home, tmp_path):
    rows = [{"a": f"text {n}", "b": f"other {n}", "score": n % 5} for n in range(20)]
    (file := tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for label, objective in (({}, "negatives"), ({"label": "score"}, "cosine")):
        reading = {"text": "a", "pair": "b"} | label
        found = adapting_config(home / "bert", data=file, task="similarity", reading=reading)
        assert found.task.options["objective"] == objective


def test_the_task_follows_from_the_labels_where_they_are_plain(home, tmp_path):
    assert asked(home, "words").task.kind == "classification", "few whole numbers"
    with pytest.raises(ConfigError, match=r"different numbers, such as .* --task regression"):
        asked(home, "size")
    assert asked(home, "size", task="regression").task.kind == "regression"
    file = tmp_path / "lists.jsonl"
    file.write_text("".join(json.dumps({"text": s, "label": s.split()[:2]}) + "\n" for s in sentences(20)))
    assert adapting_config(home / "bert", data=file).task.kind == "multilabel"
    with pytest.raises(DataError, match=r'no column "bodi"\. Did you mean "body"'):
        asked(home, reading={"text": "bodi", "label": "who"})
    with pytest.raises(ConfigError, match=r"learns words, not labels.* --task classification or multilabel"):
        asked(home, task="causal")
    with pytest.raises(ConfigError, match=r'there is no "clasification"\. Did you mean "classification"'):
        asked(home, task="clasification")
    with pytest.raises(DataError, match="has no label"):
        adapting_config(home / "bert", data=home / "reviews.csv", reading={"text": "body"})


# ---------------------------------------------------------------- the run
def test_it_says_what_it_will_do_and_the_run_is_that_of_train(home, tmp_path, unchecked):
    """Looking at the time of a step changes nothing: the same config trained alone ends at the same bits."""
    out = tmp_path / "run"
    ended = adapt(home, "--adapter", "lora(rank=2)", *SHORT, "--out", str(out))
    assert ended.exit_code == 0, ended.output
    said = " ".join(ended.output.split())
    labels = read_record(out)["labels"]
    classes = ", ".join(f"{name} {n}" for name, n in zip(labels["names"], labels["counts"], strict=True))
    assert f"{labels['examples']} train" in said and f"2 classes: {classes}." in said
    lora = 2 * 2 * 2 * (16 + 16)  # layers, maps of each, rank, in + out
    head = 2 * 16 + 2
    assert f"lora(rank=2); it tunes {lora + head:,} of " in said
    assert re.search(r"Expected time of training: [\d.]+ (s|min) at most", said) and str(out) in said

    wanted = asked(home, adapter="lora(rank=2)", set=[RATE, "training.budget.epochs=3"])
    alone = train(wanted, tmp_path / "alone")
    assert f"At most 3 epochs, {alone.state.step} steps" in said
    two = [read_checkpoint(Checkpoints.of(place), alone.state.step).model for place in (out, alone.folder)]
    assert all(torch.equal(two[0][name], two[1][name]) for name in two[1])
    scored = [line["step"] for line in read_events(out / METRICS_FILE) if "scores" in line]
    each = alone.state.step // 3
    assert scored == [each, 2 * each, 3 * each], "at the end of each epoch"

    again = adapt(home, "--adapter", "lora(rank=2)", *SHORT, "--out", str(out), "--resume")
    assert again.exit_code == 0, again.output


def test_from_python_it_opens_the_best_checkpoint(home, tmp_path, unchecked, capsys):
    columns = {"text": "body", "label": "who", "set": {"training.optimizer.learning_rate": 0.02}}
    trained = lab.adapt(str(home / "bert"), data=home / "reviews.csv", out=tmp_path / "run", **columns)
    said = capsys.readouterr().out
    assert re.search(r"Method: full; it tunes ([\d,]+) of \1 parameters \(100%\)\.\n  = ", said)
    assert "(encoder.feedforward: L·(2·D) + L·(D·E + E) + L·(E·D + D))\n" in said, "in closed form"
    assert repr(trained).startswith(f"Trained('{tmp_path / 'run'}', step ") and len(repr(trained)) < 250
    assert trained.step == read_record(tmp_path / "run")["best"]["step"]
    assert {
        one.answer for one in trained.predict(["the cat sees my sister .", "a dog likes the bird ."])
    } <= {
        "cat",
        "dog",
    }
    adapter = lab.attach(trained.model.adapter.leave(), lab.Lora(rank=2))
    assert adapter.tuned == 2 * 2 * 2 * (16 + 16), "a model in memory takes the adapter itself"


# ---------------------------------------------------------------- features that are computed once
@pytest.fixture
def reads(monkeypatch):
    """Counts the texts that a trunk reads."""
    counted, whole = [], Model.forward

    def forward(self, ids, *given, objective=None, features=None, **named):
        if objective is not None and features is None:  # a checkpoint asks for plain scores
            counted.append(len(ids))
        return whole(self, ids, *given, objective=objective, features=features, **named)

    monkeypatch.setattr(Model, "forward", forward)
    return counted


@pytest.mark.parametrize(("label", "task"), [("who", ""), ("size", "regression")])
@pytest.mark.parametrize("epochs", [1, 4])
def test_a_head_on_kept_features_is_that_of_a_trunk_that_reads_again(
    home, tmp_path, unchecked, monkeypatch, label, task, epochs
):
    """In the first epoch bit for bit. Later a text stands in other batches, whose padding changes the last
    bits of what the trunk makes of it: equal within the rounding of float32."""
    changes = [RATE, "data.batching.batch_size=16", f"training.budget.epochs={epochs}"]
    wanted = asked(home, label, adapter="head", task=task, set=changes)
    kept = train(wanted, tmp_path / "kept")
    monkeypatch.setattr(run_module, "keeps_features", lambda model, task: False)
    again = train(wanted, tmp_path / "again")
    assert kept.state.step == again.state.step and kept.state.trace == again.state.trace
    found = weights(kept)
    for name, value in weights(again).items():
        if epochs == 1 or not name.startswith("head."):
            assert torch.equal(found[name], value), name
        torch.testing.assert_close(found[name], value, atol=2e-6, rtol=1e-5)


def test_features_that_are_many_are_kept_in_a_file_and_give_the_same_bits(
    home, tmp_path, unchecked, monkeypatch
):
    wanted = asked(home, adapter="head", set=[RATE, "training.budget.epochs=3"])
    held = train(wanted, tmp_path / "memory")
    mapped, plain = [], torch.from_file
    monkeypatch.setattr(features_module, "IN_MEMORY", 100)
    monkeypatch.setattr(torch, "from_file", lambda *a, **k: mapped.append(a) or plain(*a, **k))
    filed = train(wanted, tmp_path / "file")
    assert len(mapped) == 2, "one of train and one of dev"
    assert all(str(tmp_path / "file") in name for (name,) in mapped), "on the run's disk"
    assert not list((tmp_path / "file").glob(".features*")), "nothing is left of it"
    assert all(torch.equal(weights(held)[name], value) for name, value in weights(filed).items())


def test_each_text_is_read_once_however_many_epochs(home, tmp_path, unchecked, reads):
    run = train(asked(home, adapter="head", set=[RATE]), tmp_path / "run")
    rows = [len(run.session.dataset.rows(split)) for split in ("train", "dev")]
    assert run.state.epochs > 2 and sum(reads) == sum(rows)
    del reads[:]
    train(asked(home, adapter="bitfit", set=[RATE]), tmp_path / "other")
    assert sum(reads) > 2 * sum(rows), "a trunk that is trained reads them in every epoch"


def test_a_trunk_that_stays_as_it_is_is_not_asked_again_after_training(home, tmp_path, monkeypatch):
    asked_at, own = [], Dependency.answer

    def answered(check, subject):
        asked_at.append(subject.when)
        return own(check, subject)

    monkeypatch.setattr(Dependency, "answer", answered)
    short = [RATE, "training.budget.epochs=1"]
    with checked_by("dependency"):
        head = train(asked(home, adapter="head", set=short), tmp_path / "head")
        assert asked_at == ["before"]
        train(asked(home, set=short), tmp_path / "full")
        assert asked_at == ["before", "before", "after"]
    before, after = (finding for finding in read_findings(tmp_path / "head") if finding.check == "dependency")
    assert (after.when, after.step, after.outcome) == ("after", head.state.step, before.outcome)


def test_a_head_that_was_killed_goes_on_to_the_same_bits(home, tmp_path, unchecked):
    def kill(event):
        if isinstance(event, Stepped) and event.step == 30:
            raise KilledError

    changes = [
        RATE,
        "training.budget.epochs=5",
        "training.checkpoint_every=20",
        "training.patience=unlimited",
    ]
    wanted = asked(home, adapter="head", set=changes)
    whole = train(wanted, tmp_path / "whole")
    with pytest.raises(KilledError):
        train(wanted, tmp_path / "killed", listeners=[kill])
    resumed = train(wanted, tmp_path / "killed", resume=True)
    assert whole.state.step == resumed.state.step > 30
    assert all(torch.equal(weights(whole)[name], value) for name, value in weights(resumed).items())


def test_doubtful_rows_are_named_by_inspect_and_before_training(home, tmp_path, unchecked):
    lines = (home / "reviews.csv").read_text().splitlines()
    (file := tmp_path / "reviews.csv").write_text("\n".join([*lines, lines[1]]) + "\n")
    places = [f"{file} line 2", f"{file} line {len(lines) + 1}"]
    columns = ("--text", "body", "--label", "who")
    assert answer("data", "inspect", file, *columns)["quality"]["repeats"] == [places]
    told = f"1 row repeats the text and label of an earlier row: {' and '.join(places)}."
    assert told.replace(" ", "") in "".join(command("data", "inspect", file, *columns).output.split())
    short = ("--set", "training.budget.steps=1", "--out", tmp_path / "run")
    said = command("adapt", home / "bert", "--data", file, *columns, *short).output
    assert f"Warning: {told}" in said and said.index(told) < said.index("Method:")


def test_the_first_batch_is_shown_and_nothing_is_trained(home, tmp_path):
    """The rows that training would read first, each with its own label."""
    columns = ("--data", home / "reviews.csv", "--text", "body", "--label", "who", "--out", tmp_path / "run")
    rows = answer("adapt", home / "bert", *columns, "--show-batch")
    assert all((row["label"] == "cat") == ("cat" in "".join(row["input"])) for row in rows)
    shown = command("adapt", home / "bert", *columns, "--show-batch").output
    assert "label     cat" in shown and "predicts" not in shown and not (tmp_path / "run").exists()


def test_the_expected_time_counts_the_checks(home, tmp_path):
    """What is left after the first checks is the training and as long again for those that come after it."""
    ended = adapt(
        home, "--adapter", "head", "--set", "training.budget.epochs=1", "--out", str(tmp_path / "run")
    )
    said = " ".join(ended.output.split())
    first = re.search(r"Checks \(([\d.]+) s\).*?Expected time from here: ([\d.]+) s \(([\d.]+) s of", said)
    checks, left, training = map(float, first.groups())
    assert left == pytest.approx(training + checks, abs=0.2) and checks > 0
    assert said.count("Expected time from here") == 1
