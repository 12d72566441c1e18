"""Starts that a study trains first: once, in its folder, the same for all seeds, whole again after a kill."""

import os
import signal

import pytest

from attnlab.config.values import ConfigError
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.faults import RunError
from attnlab.runs.metrics_file import read_events
from attnlab.runs.record import read_record
from attnlab.runs.summary import runs_in
from attnlab.session.start import PACKAGED
from attnlab.studies.builtin import builtin
from attnlab.studies.plan import plan
from attnlab.studies.resolved import from_record, resolve
from attnlab.studies.runner import read_study_record, run_study
from attnlab.studies.study_files import adjusted
from attnlab.targets.recipes import RECIPES
from tests.studies.here import here
from tests.studies.small_study import study
from tests.training.small_run import for_task, merged, settings
from tests.unchecked import checked_by

MODEL = {"family": "encoder", "width": 16, "layers": 1, "heads": 2, "length": 24, "dropout": 0.1}
SCRATCH = {f"model.{name}": value for name, value in MODEL.items()} | {"data.tokenizer": "study:first"}
ARMS = {"scratch": SCRATCH, "pretrained": {"start": "study:first"}}


def adapting(folder, **changes):
    """Labelled sentences for the arms; masked words of others for the start."""
    first = merged(settings(folder), {"task": "masked", "model": MODEL})
    first["training"] |= {"budget": {"steps": 12}, "checkpoint_every": 4}
    base = merged(settings(folder), for_task("classification", folder))
    base["model"] = {}
    base["data"].pop("tokenizer")
    base["training"] |= {"evaluate_every": "epoch", "checkpoint_every": 100}
    given = {"base": base, "starts": {"first": {"base": first}}, "arms": ARMS, "metric": "accuracy"}
    rest = {"about": ("settings",), "collapse": "result", "budget": {"epochs": 2.0}, "probes": ()}
    return study(folder, **given | rest | {"sentence": ""} | changes)


def weights(run):
    (step,) = Checkpoints.of(run).steps()
    return (run / "checkpoints" / f"step-{step}" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("starts")
    with here(), checked_by():
        return run_study(resolve(adapting(folder)), folder / "study", jobs=1)


def test_arms_begin_from_it_and_share_its_tokenizer_and_batches(ended):
    assert not ended.failed and ended.results["comparisons"][0]["verdict"] != "invalid", ended.results
    runs = {(run["arm"], run["seed"]): run for run in ended.results["runs"]}
    records = {key: read_record(ended.folder / run["folder"]) for key, run in runs.items()}
    assert records["pretrained", 0]["start"] == records["pretrained", 1]["start"] != "scratch"
    for seed in (0, 1):
        one, other = (runs[arm, seed] for arm in ARMS)
        assert (
            one["parameters"] == other["parameters"] and one["trace"]["batches"] == other["trace"]["batches"]
        )
        assert one["fingerprints"]["tokenizer"] == other["fingerprints"]["tokenizer"]


def test_its_run_is_listed_and_told(ended):
    listed = {run.name: run.result.status for run in runs_in(ended.folder)}
    assert listed["small: start first"] == "finished" and len(listed) == 5
    (told,) = ended.results["starts"]
    assert told["folder"] == "starts/first" and told["steps"] == 12 and told["metrics"]["loss"] > 0
    report = (ended.folder / "report.md").read_text()
    assert "What arms begin from" in report and "| first | masked |" in report


def test_it_is_made_once_and_found_again(ended):
    start = ended.folder / "starts" / "first"
    before = (start / "result.json").stat().st_mtime_ns, (start / "metrics.jsonl").read_bytes()
    again = from_record(read_study_record(ended.folder))
    with here():
        resumed = run_study(resolve(again), ended.folder, jobs=1, resume=True)
    assert before == ((start / "result.json").stat().st_mtime_ns, (start / "metrics.jsonl").read_bytes())
    assert resumed.results["verdict"] == ended.results["verdict"]


def test_killed_while_it_is_trained_it_goes_on_to_the_same_bytes(ended, tmp_path):
    killed = []

    def kill(work):
        for job in work:
            steps = [e for e in read_events(job.folder / "metrics.jsonl") if e["event"] == "stepped"]
            if len(steps) >= 6 and not killed:
                os.kill(int((job.folder / "lock").read_text()), signal.SIGKILL)  # the process that holds it
                killed.append(job.arm)

    asked = resolve(adapting(ended.folder.parent).only(["scratch"]))  # its tokenizer needs the start
    with pytest.raises(
        RunError, match="first of small could not be trained: The worker was ended by SIGKILL"
    ):
        run_study(asked, tmp_path / "study", jobs=1, view=kill)
    assert killed == ["first"]
    with here(), checked_by():
        run_study(asked, tmp_path / "study", jobs=1, resume=True)
    assert weights(tmp_path / "study/starts/first") == weights(ended.folder / "starts/first")


def test_a_start_that_exists_takes_its_place(ended):
    there = str(ended.folder / "starts" / "first")
    resolved = resolve(adjusted(adapting(ended.folder.parent), set={"starts.first": there}))
    assert not resolved.starts and resolved.configs["pretrained"].start == there
    trained = adjusted(adapting(ended.folder.parent), set={"starts.first.training.budget.steps": 3})
    assert resolve(trained).starts["first"].training.budget.steps == 3
    assert resolve(trained).identity != resolve(adapting(ended.folder.parent)).identity


def test_the_plan_times_it_and_trains_nothing(tmp_path, unchecked, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with here():
        made = plan(resolve(adapting(tmp_path, seeds=1)), jobs=1)
    assert made.reasons == {} and made.starts["first"] > 0 and all(s > 0 for s in made.runs.values())
    assert made.seconds >= made.starts["first"] + sum(made.runs.values()) - 1e-6
    assert not list(tmp_path.rglob("run.json"))


@pytest.mark.parametrize(
    ("changes", "set", "sentence"),
    [
        ({"arms": {"a": {"start": "study:frist"}}}, {}, 'there is no "frist".*Did you mean "first"'),
        (
            {"arms": {"a": {"start": "study:first", "model.width": 32}}},
            {},
            "model.width is 32, and in the start",
        ),
        ({"starts": {"first": {"set": {}}}}, {}, "give the path of a model, or a table with the `base`"),
        ({}, {"starts.second": "x"}, 'there is no "second"'),
        ({}, {"starts.first": "nowhere"}, "holds neither a run"),
        ({}, {"starts.first.model.heads": 3}, "starts.first of small: .*not divisible by model.heads 3"),
        ({}, {"arms.pretraned.adapter": "head"}, 'there is no "pretraned"'),
    ],
)
def test_what_cannot_be_is_answered_before_any_work(tmp_path, changes, set, sentence):
    with pytest.raises(ConfigError, match=sentence):
        resolve(adjusted(adapting(tmp_path, **changes), set=set))


def test_a_model_of_a_package_that_is_not_there_is_answered(tmp_path, monkeypatch):
    monkeypatch.setitem(PACKAGED, "minilm", ("no_such_package", "no-such-package"))
    with pytest.raises(ConfigError, match="pip install no-such-package"):
        resolve(adjusted(adapting(tmp_path), set={"starts.first": "minilm"}))


def test_set_reaches_some_of_the_arms(tmp_path):
    asked = adjusted(adapting(tmp_path), set={"arms.pre*.adapter": "head", "arms.scratch.training.clip": 0.5})
    configs = resolve(asked).configs
    assert [config.adapter.kind for config in configs.values()] == ["full", "head"]
    assert [config.training.clip for config in configs.values()] == [0.5, 1.0]


def test_rates_follow_a_start_that_a_person_gives():
    """The study's rates are those of its own small encoder; another model has what `adapt` has for it."""
    rate, small = "training.optimizer.learning_rate", builtin("transfer")
    assert small.config("pretrained-100").training.optimizer.options["learning_rate"] == 1e-3
    given = small.changed({"starts.pretrained": "minilm"})
    rates = {arm: given.config(arm).training.optimizer.options["learning_rate"] for arm in given.arms}
    assert {rates[arm] for arm in rates if arm.startswith("pretrained")} == {RECIPES["full"].learning_rate}
    assert {rates[arm] for arm in rates if arm.startswith("scratch")} == {1e-3}
    assert "learning_rate" in given.about and "learning_rate" not in small.about
    own = small.changed({"starts.pretrained": "minilm", f"arms.pretrained-all.{rate}": 3e-4})
    assert own.arms["pretrained-all"][rate] == 3e-4, "what a person sets remains"
    assert small.changed({"starts.pretrained": "minilm", rate: 3e-4}).arms == small.arms
    assert small.changed({"starts.pretrained.training.budget.epochs": 1.0}).arms == small.arms
    methods = builtin("adaptation").changed({"starts.pretrained": "minilm"})
    assert all(own[rate] == RECIPES[arm].learning_rate for arm, own in methods.arms.items())
