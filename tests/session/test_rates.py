"""Learning rates tried by `attnlab adapt --rates`, and a collapse that is said first."""

import json
import re
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

import attnlab as lab
from attnlab.cli import app
from attnlab.config.values import ConfigError
from attnlab.runs.events import Saved, Warned
from attnlab.runs.findings import read_findings
from attnlab.runs.record import read_record
from attnlab.session.rates import best_rate, rates_of, try_rates
from tests.session.adapted import RATE, KilledError, adapt, asked, train_and_spoil, weights
from tests.training.small_run import train
from tests.unchecked import checked_by


def tried_file(out):
    return out.with_name(f"{out.name}-rates") / "rates.json"


def test_the_rate_that_is_best_on_dev_is_kept_as_the_run(home, tmp_path, unchecked):
    """1e-7 learns nothing and says so, 1e30 diverges, 0.02 learns; the run is bit for bit that of train."""
    out = tmp_path / "run"
    rates = ["--rates", "0.02,1e-7,1e30", "--set", "training.clip=off", "--set", "training.budget.epochs=3"]
    ended = adapt(home, *rates, "--out", str(out))
    assert ended.exit_code == 0, ended.output
    said = " ".join(ended.output.split())
    assert re.search(r"1e-07 0\.\d+ 0\.\d+ to 0\.\d+ 3 epochs collapsed", said)
    assert re.search(r"0\.02 (0\.\d+|1\.0000) .+? to .+? 3 epochs best", said)
    assert "1e+30 failed: Step" in said and f"The run of rate 0.02 is in {out}" in said
    record = read_record(out)
    assert record["config"]["training"]["optimizer"]["learning_rate"] == 0.02
    held = json.loads((out / "rates.json").read_text())
    value = {one["rate"]: one["value"] for one in held["tried"]}
    assert held["best"] == 0.02 and value[0.02] > value[1e-7]
    assert value[0.02] == pytest.approx(record["best"]["value"])
    alone = train(
        asked(home, set=[RATE, "training.clip=off", "training.budget.epochs=3"]), tmp_path / "alone"
    )
    assert all(torch.equal(weights(alone)[n], w) for n, w in weights(replace(alone, folder=out)).items())

    assert "already exists; resume it with --resume" in str(adapt(home, *rates, "--out", str(out)).exception)
    again = adapt(home, *rates, "--out", str(out), "--resume", "--json")
    assert json.loads(again.stdout)["rates"] == held, "nothing is trained again"
    other = adapt(home, "--rates", "0.02,0.3", "--out", str(out), "--resume")
    assert "tried for another config" in str(other.exception)


def test_rates_from_python_say_once_what_they_will_do(home, tmp_path, unchecked, capsys):
    columns = {"text": "body", "label": "who", "set": {"training.budget.epochs": 2.0}}
    wanted = {"data": home / "reviews.csv", "adapter": "head", "out": tmp_path / "run", "rates": (1e-6, 2e-2)}
    trained = lab.adapt(str(home / "bert"), **wanted, **columns)
    said = capsys.readouterr().out
    assert said.count("Method: head; it tunes") == 1 and f"The run goes to {tmp_path / 'run'}" in said
    assert trained.config.training.optimizer.options["learning_rate"] == 2e-2
    assert re.search(r"1e-06 .*\n\s+0\.02 .*best", said)


def test_rates_that_were_killed_go_on_where_they_stood(home, tmp_path, unchecked):
    config = asked(home, set=["training.budget.epochs=1"])
    trained = []

    def train_one(one, folder, again):
        trained.append(folder.name)
        if len(trained) == 2:
            raise KilledError
        return train(one, folder, resume=again)

    with pytest.raises(KilledError):
        try_rates(config, (1e-3, 1e-2, 3e-2), tmp_path / "run", train_one)
    assert [one["rate"] for one in json.loads(tried_file(tmp_path / "run").read_text())["tried"]] == [1e-3]
    found = try_rates(config, (1e-3, 1e-2, 3e-2), tmp_path / "run", train_one, resume=True)
    assert trained == ["rate-0.001", "rate-0.01", "rate-0.01", "rate-0.03"]
    assert (tmp_path / "run" / "run.json").is_file() and len(found.tried) == 3
    assert "edge" in str(found) or found.best.rate == 1e-2


def test_rates_as_a_person_gives_them(home):
    config = asked(home)
    assert rates_of("usual", config) == (1e-5, 3e-5, 1e-4, 3e-4)
    assert rates_of("2e-4, 1e-5,2e-4", config) == rates_of([1e-5, 2e-4], config) == (1e-5, 2e-4)
    for wrong in ("often", "1e-5", [0.0, 1.0], "1e-5,-1", []):
        with pytest.raises(
            ConfigError, match="give two or more numbers above 0, such as 1e-5,5e-5,2e-4, or usual"
        ):
            rates_of(wrong, config)
    with pytest.raises(ConfigError, match="chosen on the dev split, and there is none"):
        try_rates(asked(home, set=["data.dev_share=0"]), (1e-5, 1e-4), home / "none", None)
    tie = {1e-3: 0.5, 1e-4: 0.5, 1e-2: None}
    assert best_rate(tie, "accuracy") == 1e-4 and best_rate(tie | {1e-2: 0.4}, "loss") == 1e-2


def test_the_checks_after_training_judge_the_best_checkpoint(home, tmp_path):
    """The last epoch is made to answer one class: the best one, which is what is opened, does not."""
    ended = train_and_spoil(asked(home, set=[RATE, "training.budget.epochs=4"]), tmp_path / "run")
    last = ended.state.best_step
    assert not ended.collapsed and "majority" not in ended.unsound
    told = {one.check: one for one in read_findings(tmp_path / "run") if one.when == "after"}
    opened = lab.open(tmp_path / "run")
    assert opened.step == last and told["collapse"].number == 2
    share = opened.evaluate()["measures"]["accuracy"]["value"]
    assert f"accuracy {share:.1%}" in told["majority"].found
    spoilt = ended.model.head.scores.bias
    assert spoilt[0] > 8.5, "the weights of the last step are back"


def test_a_best_checkpoint_that_is_damaged_by_then_does_not_end_the_run_in_an_error(home, tmp_path):
    said = []

    def listen(event):
        said.append(event)
        if isinstance(event, Saved):
            (tmp_path / "run" / "checkpoints" / event.place / "model.safetensors").write_bytes(b"cut")

    config = asked(home, set=[RATE, "training.budget.epochs=4"])
    ended = train_and_spoil(config, tmp_path / "run", listen)
    assert ended.collapsed, "the last step is judged"
    told = [one.message for one in said if isinstance(one, Warned)]
    assert any(f"best checkpoint, of step {ended.state.best_step}, is damaged" in one for one in told)
    assert read_record(tmp_path / "run")["status"] == "finished"


def test_a_collapse_is_said_first_with_what_to_try(home, tmp_path, capsys):
    """A head at a rate that learns nothing says the most frequent class of every text."""
    still = ["--adapter", "head", "--set", "training.optimizer.learning_rate=1e-12"]
    ended = adapt(home, *still, "--set", "training.budget.epochs=1", "--out", str(tmp_path / "run"))
    said = " ".join(ended.output.split())
    assert ended.exit_code == 1, "a failed check"
    at = said.index("Usual causes are too high a learning rate (`attnlab adapt … --rates usual`")
    assert said.index("always predicting “") < at < said.index("Done after")
    scored = CliRunner().invoke(app, ["evaluate", str(tmp_path / "run")])
    assert re.match(r"The model (has collapsed|is not better|cannot be distinguished)", scored.output), (
        "before any number"
    )
    told = lab.open(tmp_path / "run").evaluate()["collapsed"]
    assert " ".join(scored.output.split()).startswith(told)
    words = lab.open(home / "bert").evaluate()
    assert words.collapse == "", "of words there is no majority"
    assert words.shortfall.startswith("Not trained long enough: ")


def test_the_best_of_several_rates_is_compared_with_a_bag_of_words(home, tmp_path):
    """At rates that learn nothing words alone do better, which a run at one rate says, too."""
    short = ["--adapter", "head", "--set", "training.budget.epochs=1", "--json"]
    with checked_by("bag_of_words"):
        several = adapt(home, *short, "--rates", "1e-12,1e-11", "--out", str(tmp_path / "rates"))
        still = ["--set", "training.optimizer.learning_rate=1e-12"]
        alone = adapt(home, *short, *still, "--out", str(tmp_path / "alone"))
    told = json.loads(several.stdout)["shortfall"]
    assert told == json.loads(alone.stdout)["shortfall"] and "bag of words" in told
