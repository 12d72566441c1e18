"""attnlab run, its plan, tuned rates, and a study's own measures."""

import json
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import attnlab as lab
from attnlab.cli import app
from attnlab.config.schema import Budget, TrainingSettings
from attnlab.config.values import ConfigError
from attnlab.runs.findings import Finding
from attnlab.studies import plan as planning
from attnlab.studies.extras import Notes
from attnlab.studies.plan import earlier_spread, plan
from attnlab.studies.resolved import resolve, to_record
from attnlab.studies.runner import run_study
from attnlab.studies.study_files import GIVEN
from attnlab.studies.timing import STEPS, WARM, Pace, over_the_budget
from tests.studies.here import here
from tests.studies.small_study import study


@pytest.fixture(autouse=True)
def _here():
    with here():
        yield


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_plan_times_real_steps_and_trains_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = study(tmp_path, arms={"dot": {}, "leaks": {"model.masking": "zero"}}, budget={"steps": 1000})
    made = plan(resolve(given), jobs=2)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["corpus.txt"]
    assert made.runs["dot"] > 0 and made.seeds == 2 and made.jobs == 2
    assert made.runs["dot"] / 2 < made.seconds < made.runs["dot"]  # the other seed is not checked again
    assert "dependency" in made.reasons["leaks"]  # refused by a check, and so never to be trained
    assert made.smallest > 2 and not made.told_by  # in units of the spread


def test_a_runs_time_is_start_steps_and_evaluations():
    pace = Pace(step=0.5, steps=100, evaluation=2.0, start=3.0)
    assert pace.total(50) == 3 + 50 + (2 + 4) * 2
    assert pace.total("never") == 3 + 50 + 4 * 2


def test_the_time_of_a_run_that_was_interrupted_is_that_of_what_is_left():
    pace = Pace(step=0.5, steps=100, evaluation=2.0, start=3.0, shared=1.5)
    assert pace.total("never", checked=True) == 1.5 + 50 + 4 * 2
    assert pace.total(50, taken=75) == 1.5 + (50 + 2 * 2) / 4 + 4 * 2
    assert pace.total(50, taken=200) == 1.5 + 4 * 2


def test_a_resumed_study_is_planned_by_what_is_left_and_the_spread_that_it_showed(
    tmp_path, monkeypatch, unchecked
):
    """Two more seeds of each arm, and one that was deleted; the spread is the study's own."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "elsewhere"
    run_study(resolve(study(tmp_path)), place)
    paced = {arm: Pace(step=1.0, steps=10.0, evaluation=0.0, start=0.0) for arm in ("dot", "linear")}
    monkeypatch.setattr(planning, "paces_of", lambda *about: (paced, {}))
    grown = resolve(study(tmp_path, seeds=4))
    whole, left = plan(grown, jobs=1), plan(grown, jobs=1, resumed=place)
    assert whole.left == {"dot": 4, "linear": 4} and left.left == {"dot": 2, "linear": 2}
    assert (whole.seconds, left.seconds) == (80.0, 40.0)
    assert not whole.told_by and left.told_by == str(place) and left.smallest != whole.smallest
    half_done = place / "runs" / "dot" / "seed-1"
    (half_done / "result.json").rename(half_done / "kept")
    interrupted = plan(grown, jobs=1, resumed=place)
    assert interrupted.left == {"dot": 3, "linear": 2}
    assert interrupted.seconds == pytest.approx(40 + 10 * (1 - 8 / 10)), "8 of its 10 steps are taken"
    (half_done / "kept").rename(half_done / "result.json")
    shutil.rmtree(place / "runs" / "linear" / "seed-1")
    assert plan(grown, jobs=1, resumed=place).left == {"dot": 2, "linear": 3}
    longer = resolve(study(tmp_path, seeds=4, budget={"steps": 20}))
    assert plan(longer, jobs=1, resumed=place).left == {"dot": 4, "linear": 4}
    monkeypatch.setattr("attnlab.cli.run.study_of", lambda *about, **more: study(tmp_path, seeds=4))
    shown = invoke("run", "small", "--plan", "--resume", "--out", place, "--jobs", 1).output
    assert "What is left of the study, 5 of 8 runs: about 50 s." in " ".join(shown.split())


def test_steps_that_begin_with_the_longest_texts_are_not_taken_for_all():
    """Against a walk through the batches of the budget, one by one."""
    tokens, places = np.array([90, 60, 50, 40, 30, 20, 10, 5]), np.array([96, 64, 52, 44, 32, 24, 12, 8])
    pace = Pace(step=52.0, steps=99.0, evaluation=0.0, start=0.0)  # a second for each place, about
    for budget, each in (
        *(({"epochs": epochs}, each) for epochs in (1.0, 2.5) for each in (1, 2)),
        *(({"tokens": limit}, 1) for limit in (100, 305, 700)),
        *(({"steps": steps}, 1) for steps in (3, 8, 11)),
        ({"tokens": 200, "steps": 99}, 1),
    ):
        training = replace(TrainingSettings(), budget=Budget(**budget), accumulate=each)
        found = over_the_budget(pace, training, tokens, places)
        steps, seen, work = 0, 0, 0
        while not (
            steps >= budget.get("steps", 1e9)
            or seen >= budget.get("tokens", 1e9)
            or steps * each / 8 >= budget.get("epochs", 1e9)
        ):
            batches = [(steps * each + n) % 8 for n in range(each)]
            steps, seen = steps + 1, seen + sum(tokens[batches])
            work += sum(places[batches])
        sizes = np.add.reduceat(places, np.arange(0, 8, each))
        a_place = 52.0 / np.resize(sizes, STEPS)[WARM:].mean()
        assert found.steps * found.step == pytest.approx(work * a_place, rel=0.02), (budget, each)
    timed = replace(TrainingSettings(), budget=Budget(seconds=60.0))
    assert over_the_budget(pace, timed, tokens, places) is pace


def test_an_earlier_study_tells_the_spread(tmp_path):
    runs = [
        {"arm": arm, "seed": seed, "status": "finished", "folder": "-", "metrics": {"seconds": value}}
        for arm, values in (("dot", (1.0, 2.0, 3.0)), ("linear", (1.0, 3.0, 5.0)))
        for seed, value in enumerate(values)
    ]
    folder = tmp_path / "runs" / "small-1"
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps({"runs": runs, "study": {"baseline": "dot"}}))
    given = resolve(study(tmp_path, metric="seconds"))
    spread, told_by = earlier_spread(given, tmp_path / "runs")
    assert spread.seeds == pytest.approx(1.0) and told_by == str(folder)  # differences 0, 1, 2


def test_rates_are_tuned_alike_for_every_arm_and_reported(tmp_path, unchecked):
    """One rate does not learn, the other does; the study's own seed has no part in the choice."""
    asked = study(tmp_path, learning_rates=(1e-7, 1e-2), seeds=1, arms={"dot": {}})
    ended = run_study(resolve(asked), tmp_path / "study")
    tuning = ended.results["study"]["tuning"]
    assert [(t["arm"], t["learning_rate"], t["chosen"]) for t in tuning] == [
        ("dot", 1e-7, False),
        ("dot", 1e-2, True),
    ]
    assert tuning[0]["metric"] == "loss" and tuning[0]["value"] > tuning[1]["value"]
    assert ended.results["configs"]["dot"]["training"]["optimizer"]["learning_rate"] == 1e-2
    record = json.loads((tmp_path / "study/runs/dot/seed-0/run.json").read_text())
    assert record["config"]["training"]["optimizer"]["learning_rate"] == 1e-2
    tried = json.loads((tmp_path / "study/tuning/dot/rate-0.01/run.json").read_text())
    assert tried["seed"] not in asked.all_seeds
    assert any("edge of the grid" in note for note in ended.results["study"]["notes"])


def test_scale_keeps_how_sharp_attention_is(tmp_path, unchecked):
    """A study's own measures: noted at each evaluation, in metrics, curves and report."""
    extras = "attnlab.studies.builtin.scale:Saturation"
    arms = {"dot": {"model.attention": "dot(scale=50.0)"}}
    ended = run_study(resolve(study(tmp_path, arms=arms, seeds=1, extras=extras)), tmp_path / "study")
    run = ended.results["runs"][0]
    sharp = run["extra_curves"]["largest weight"]
    assert sharp["step"] == [4, 8] and sharp["value"][-1] == run["metrics"]["largest_weight"]
    assert sharp["tokens"] == [run["dev_curve"]["tokens"][i] for i in (0, 1)]
    assert run["metrics"]["largest_weight"] > 0.5  # scores fifty times as large saturate
    assert {"largest_weight", "entropy"} < {m["name"] for m in ended.results["study"]["metrics"]}


def test_notes_of_a_step_that_came_twice_count_once(tmp_path):
    notes = Notes(tmp_path)
    for step, value in ((1, 0.5), (2, 0.4), (2, 0.3)):
        notes.add(step, y=value)
    with notes.file.open("a") as stream:
        stream.write('{"step": 3, "y"')
    assert notes.curves() == {"y": {"step": [1, 2], "value": [0.5, 0.3]}}


@pytest.fixture
def file(tmp_path):
    held = to_record(resolve(study(tmp_path)))["study"]
    place = tmp_path / "small.json"
    place.write_text(json.dumps({k: v for k, v in held.items() if k not in ("name", *GIVEN)}))
    return place


def test_run_says_its_verdict_and_goes_on_only_when_asked(file, tmp_path):
    words = ("run", file, "--quick", "--only", "linear", "--out", tmp_path / "study")
    first = invoke(*words)
    assert first.exit_code == 0, first.output
    assert "Verdict: linear compared with dot: not trained long enough: loss " in " ".join(
        first.output.split()
    )
    assert "quick" in first.output and "report.html" in first.output.replace("\n", "")
    results = json.loads((tmp_path / "study/results.json").read_text())
    assert results["study"]["quick"] and results["again"].endswith("small.json --quick --only linear")
    assert (tmp_path / "study/report.html").stat().st_size > 10_000
    again = invoke(*words)
    assert isinstance(again.exception, ConfigError) and "already holds a study" in str(again.exception)
    other = invoke("run", file, "--resume", "--out", tmp_path / "study")
    assert isinstance(other.exception, ConfigError) and "holds another study" in str(other.exception)
    before = (tmp_path / "study/runs/dot/seed-0/run.json").stat().st_mtime_ns
    resumed = invoke("run", "--resume", "--out", tmp_path / "study", "--json")
    assert json.loads(resumed.stdout)["comparisons"] == results["comparisons"]
    assert (tmp_path / "study/runs/dot/seed-0/run.json").stat().st_mtime_ns == before  # nothing ran again
    listed = invoke("runs", tmp_path / "study", "--json")
    assert [run["name"] for run in json.loads(listed.stdout)] == [
        "small: dot, seed 0",
        "small: linear, seed 0",
    ]


def leaking(when):
    """Checks of which one fails for linear attention alone, at this moment."""

    def run_checks(case, names=()):
        leaks = case.when == when and case.config.model.attention.kind == "linear"
        outcome = "fail" if leaks else "pass"
        return [Finding.of_text("a leak", "It leaks.", check="honesty", when=case.when, outcome=outcome)]

    return run_checks


@pytest.mark.parametrize(
    ("when", "allow", "code", "sentence"),
    [
        ("after", {}, 1, "linear is invalid, which the study does not expect: failed the check honesty"),
        ("after", {"dot": ["honesty"]}, 1, "linear is invalid, which the study does not expect"),
        (
            "after",
            {"linear": ["dependency"]},
            0,
            "linear is invalid: its numbers do not measure what they say",
        ),
        ("before", {}, 1, "1 of 2 runs failed: linear (seed 0)."),
        ("never", {}, 0, "Verdict"),
    ],
)
def test_the_exit_code_tells_results_that_are_not_what_was_asked_for(
    when, allow, code, sentence, file, tmp_path, monkeypatch
):
    monkeypatch.setattr("attnlab.session.soundness.run_checks", leaking(when))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"allow": allow}))
    found = invoke("run", file, "--quick", "--out", tmp_path / "study")
    assert found.exit_code == code, found.output
    assert sentence in " ".join(found.output.split()), found.output
    assert ("Error:" in found.stderr) == bool(code)


@pytest.mark.parametrize(
    ("engine", "without", "sentence"),
    [
        (["ray"], "ray", '--on ray needs ray, which is not installed: pip install "attnlab[ray]"'),
        (["slurm"], "submitit", 'needs submitit, which is not installed: pip install "attnlab[slurm]"'),
        (
            ["slurm"],
            "",
            "--on slurm submits jobs with sbatch, which is not on this machine's PATH; run it on a",
        ),
        (["ray", "--address", "127.0.0.1:9"], "", "No Ray cluster can be reached at --address 127.0.0.1:9: "),
        (["ray", "--address", "here"], "", '--address is "here"; give HOST:PORT, or auto on a node of the'),
    ],
)
@pytest.mark.parametrize("plan", [[], ["--plan"]])
def test_an_engine_that_cannot_be_reached_is_told_before_any_work(
    engine, without, sentence, plan, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    if without:
        monkeypatch.setitem(sys.modules, without, None)
    result = invoke("run", "masking", "--quick", "--on", *engine, *plan)
    assert isinstance(result.exception, ConfigError) and sentence in str(result.exception)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["masking", "--on", "rya"], '--on takes local or ray or slurm, not "rya"'),
        (["masking", "--address", "here:1"], "--address here:1 is of a Ray cluster; use it with --on ray"),
        ([], "Give a study: a name"),
        (["--resume", "--out", "nowhere"], "nowhere holds no study"),
        (["--resume", "--out", "nowhere", "--quick"], "cannot be given with --resume"),
        (["masking", "--only", "zeor"], 'Did you mean "zero"'),
        (["masking", "--set", "model.masking=zero"], "every arm of masking sets it itself"),
    ],
)
def test_wrong_use_is_answered_before_any_work(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("run", *words)
    assert isinstance(result.exception, ValueError) and sentence in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_studies_are_listed_and_shown():
    listed = json.loads(invoke("list", "studies", "--json").stdout)
    assert {"masking", "projections", "attention", "heads", "scale", "positions"} <= {
        s["name"] for s in listed
    }
    assert "the zero arm ends invalid" in " ".join(invoke("show", "masking").output.replace("│", " ").split())


def test_from_python(tmp_path, monkeypatch):
    found = lab.study("masking", seeds=3, quick=True, only=["zero"])
    assert found.all_seeds == (0, 1, 2) and list(found.arms) == ["minus-inf", "zero"] and found.is_quick
