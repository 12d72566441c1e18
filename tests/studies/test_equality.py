"""Arms that differ in more than what is studied: the verdict says in what, and by how much."""

from dataclasses import replace
from statistics import fmean

import pytest

from attnlab.config.values import ConfigError
from attnlab.metrics.measures import measures
from attnlab.runs.result import RunResult
from attnlab.studies.equality import changed_settings, inequalities
from attnlab.studies.judgement import comparisons, load_notes
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from attnlab.studies.study_files import study_of
from attnlab.studies.wording import inequalities_sentence
from tests.studies.here import here
from tests.studies.records import verdict_of
from tests.studies.small_study import study
from tests.studies.test_judgement import run

COST = {"steps": 60, "tokens": 12_000, "flops": 5e9, "seconds": 30.0, "parameters": 4_000}


def told(folder, changes, *, tried=None, costs=None, arms=None, **facts):
    """What is said of an arm with these changes whose two runs cost so much."""
    given = study(folder, arms=arms or {"base": {}, "arm": changes}, **facts)
    base = [RunResult(seed=seed, **COST) for seed in (0, 1)]
    arm = [replace(one, **(costs or {})) for one in base]
    other = given.baseline_of("arm")
    return inequalities_sentence(inequalities(given, "arm", arm, base, tried or {}), "arm", other)


ONE = {"model.attention": "linear"}


@pytest.mark.parametrize(
    ("changes", "costs", "words"),
    [
        (
            ONE | {"training.budget.steps": 120},
            {"steps": 120, "tokens": 24_000, "flops": 1e10},
            "arm changes 2 settings: model.attention, training.budget. "
            "It had 2 × the steps, tokens and FLOPs (120 steps, base 60).",
        ),
        (
            {"training.budget.steps": 120},
            {"steps": 120, "tokens": 24_000, "flops": 1e10},
            "arm had 2 × the steps, tokens and FLOPs (120 steps, base 60).",
        ),
        (
            {"data.batching": "packed(batch_size=8)"},
            {"tokens": 24_000, "flops": 1e10},
            "arm had 2 × the tokens and FLOPs (24,000 tokens, base 12,000).",
        ),
        (
            {"model.width": 32},
            {"parameters": 8_000, "flops": 1.1e10},
            "arm had 2 × the parameters (8,000 parameters, base 4,000); 2.2 × the FLOPs.",
        ),
        (
            {"training.optimizer.learning_rate": 2e-3},
            {},
            "arm had 4 × the learning rate (0.002, base 0.0005).",
        ),
        (ONE, {"parameters": 4_100}, "arm had 2.5% more parameters (4,100 parameters, base 4,000)."),
        (ONE, {"flops": 4.5e9}, "arm had 10% fewer FLOPs."),
        (ONE, {"seconds": 75.0}, "arm had 2.5 × the training time (75 s, base 30 s)."),
        (
            ONE | {"model.heads": 1, "model.norm": "rms"},
            {},
            "arm changes 3 settings: model.heads, model.attention, model.norm.",
        ),
        (ONE, {}, ""),
        (ONE, {"parameters": 4_010, "flops": 5.1e9, "seconds": 40.0}, ""),
    ],
    ids=str,
)
def test_each_difference_beyond_the_change_is_named(tmp_path, changes, costs, words):
    assert told(tmp_path, changes, costs=costs) == words


def test_times_of_less_than_a_second_are_start_up_and_one_slow_seed_is_load(tmp_path):
    given = study(tmp_path, arms={"base": {}, "arm": ONE})

    def said(arm, base):
        runs = [
            [RunResult(**COST | {"seed": s, "seconds": t}) for s, t in enumerate(side)]
            for side in (arm, base)
        ]
        return inequalities_sentence(inequalities(given, "arm", *runs, {}), "arm", "base")

    assert said([0.9, 0.8], [0.2, 0.2]) == ""
    assert said([60, 31], [30, 30]) == ""
    assert "0.5 × the training time" in said([15, 15], [30, 30])


@pytest.mark.parametrize(
    ("about", "changes", "costs"),
    [
        ("size", {"model.width": 32}, {"parameters": 8_000, "flops": 1e10, "seconds": 90.0}),
        ("budget", {"training.budget.steps": 120}, {"steps": 120, "tokens": 24_000, "flops": 1e10}),
        ("learning_rate", {"training.optimizer.learning_rate": 2e-3}, {}),
        ("speed", ONE, {"flops": 1e10, "seconds": 90.0}),
        ("settings", ONE | {"model.heads": 1}, {}),
    ],
)
def test_a_study_that_says_what_it_is_about_is_not_told_so_again(tmp_path, about, changes, costs):
    assert told(tmp_path, changes, costs=costs) != ""
    assert told(tmp_path, changes, costs=costs, about=(about,)) == ""
    other = "tuning" if about != "tuning" else "size"
    assert told(tmp_path, changes, costs=costs, about=(other,)) != ""


def test_rates_that_the_study_itself_tuned_are_its_own_and_unequal_effort_is_named(tmp_path):
    rated = {"training.optimizer.learning_rate": 2e-3}
    assert told(tmp_path, rated, learning_rates=(1e-3, 2e-3)) == ""
    said = told(tmp_path, ONE, learning_rates=(1e-3, 2e-3), tried={"arm": 2, "base": 1})
    assert said == "arm had 2 tried settings (base: 1)."


def test_settings_count_once_and_only_where_they_differ(tmp_path):
    arms = {
        "base": {"model.attention": "dot", "training.budget": {"steps": 8}},
        "arm": {"model.attention": "linear", "training.budget": {"steps": 8}},
        "options": {"training.optimizer.learning_rate": 1e-3, "training.optimizer.weight_decay": 0.0},
        "family": {"model.family": "encoder", "task": "masked"},
    }
    given = study(tmp_path, arms=arms)
    assert changed_settings(given, "arm") == ["model.attention"]
    assert changed_settings(given, "options") == ["training.optimizer"]
    assert changed_settings(given, "family") == ["model.family", "task"], "its mask follows from it"


def test_the_sentence_is_in_the_row_and_in_the_verdict(tmp_path):
    given = study(tmp_path, arms={"dot": {}, "linear": ONE | {"model.heads": 1}}, metric="seconds")
    runs = [replace(run(arm, seed, 2.0), **COST) for arm in ("dot", "linear") for seed in (0, 1)]
    (row,), _ = comparisons(given, runs, tmp_path, measures())
    end = "linear changes 2 settings: model.heads, model.attention."
    assert row.as_json()["words"].endswith(end) and verdict_of(given, [], [row]).endswith(end)
    assert verdict_of(given, [], [row]).startswith("linear compared with dot (baseline): identical: ")


def timed(arm, seed, seconds, waited):
    return replace(
        run(arm, seed, 2.0 + seed / 100), seconds=seconds, waited=waited, metrics={"seconds": seconds}
    )


@pytest.mark.parametrize(
    ("waited", "verdict"), [((0.02, 0.04), "better"), ((0.41, 0.04), "invalid"), ((0.4, 0.45), "better")]
)
def test_times_are_compared_only_where_the_machine_was_as_busy(tmp_path, waited, verdict):
    given = study(tmp_path, arms={"base": {}, "arm": ONE}, metric="seconds")
    runs = [timed("base", seed, 30.0 + seed, waited[0]) for seed in range(4)]
    runs += [timed("arm", seed, 10.0 + seed**2 / 9, waited[1]) for seed in range(4)]
    ((row,), notes) = comparisons(given, runs, tmp_path, measures())
    assert row.verdict == verdict
    notes = [str(note) for note in load_notes(given, runs)]
    if verdict == "invalid":
        assert "the machine was not as busy for both: they waited 4% and 41% of their time" in row.words
        assert notes == [
            "Seconds and tokens/s are not compared: of its time each arm waited for a processor base 41% and "
            "arm 4%."
        ]
        assert not row.unequal, "and three times the time is not held against the baseline"
    else:
        assert notes == []


def test_topics_are_checked_and_do_not_make_it_another_study(tmp_path):
    with pytest.raises(ConfigError, match='Did you mean "size"'):
        study(tmp_path, about=("sizes",))
    held = {"question": "?", "arms": {"a": {}}, "about": ["size", "budget"]}
    assert study_of(held, name="x").about == ("size", "budget")
    assert resolve(study(tmp_path, about=("size",))).identity == resolve(study(tmp_path)).identity


def test_the_report_shows_what_each_arm_really_took(tmp_path, monkeypatch):
    """Injected: one arm runs twice as long, and says so nowhere but in its settings."""
    monkeypatch.setattr("attnlab.session.soundness.run_checks", lambda case, names=(): [])
    arms = {"dot": {}, "long": {"training.budget.steps": 16, "training.optimizer.learning_rate": 1e-3}}
    with here():
        ended = run_study(resolve(study(tmp_path, arms=arms, seeds=2)), tmp_path / "study", jobs=1)
    said = (
        "long changes 2 settings: training.optimizer, training.budget. It had 2 × the steps, tokens and FLOPs"
    )
    assert said in ended.results["verdict"]
    assert ended.results["verdict"].endswith(" and FLOPs, 2 × the learning rate.")
    (row,) = ended.results["comparisons"]
    assert row["words"].endswith("; 2 × the learning rate (0.001, dot 0.0005).")
    page = (ended.folder / "report.md").read_text()
    assert "*Budget of each run*: 8 steps (dot), 16 steps (long)" in page
    rows = [
        line
        for line in page.splitlines()
        if line.startswith(("| dot (baseline) | nothing", "| long | `train"))
    ]
    tokens = fmean(run["tokens"] for run in ended.results["runs"] if run["arm"] == "dot")
    assert "| arm | changes | steps | tokens | FLOPs | learning rate |" in page
    assert f"| 8 | {tokens:,.0f} | " in rows[0] and rows[0].endswith(" | 0.0005 |")
    assert "| 16 | " in rows[1] and rows[1].endswith(" | 0.001 |")
    html = (ended.folder / "report.html").read_text()
    assert "8 steps (dot), 16 steps (long) per run" in html and said in html


def on_machines(result, *processors):
    machines = [{"node": f"node-{p}", "processor": p, "accelerator": ""} for p in processors]
    return replace(result, machines=tuple(machines))


@pytest.mark.parametrize(
    ("arm", "verdict"),
    [(("old",), "better"), (("new",), "invalid"), (("old", "new"), "invalid"), ((), "better")],
)
def test_times_of_unlike_machines_are_not_compared(tmp_path, arm, verdict):
    given = study(tmp_path, arms={"base": {}, "arm": ONE}, metric="seconds")
    runs = [on_machines(timed("base", seed, 30.0 + seed, 0.02), "old") for seed in range(4)]
    runs += [on_machines(timed("arm", seed, 10.0 + seed**2 / 9, 0.02), *arm) for seed in range(4)]
    ((row,), _) = comparisons(given, runs, tmp_path, measures())
    notes = [str(note) for note in load_notes(given, runs)]
    assert row.verdict == verdict and bool(notes) == (verdict == "invalid")
    if notes:
        assert "they were not trained on the same kind of machine throughout (on " in row.words
        assert "of arm are not compared with the baseline's" in notes[0] and "old and new" in notes[0]
    by_loss = study(tmp_path, arms={"base": {}, "arm": ONE})
    times = [
        unequal for unequal in inequalities(by_loss, "arm", runs[4:], runs[:4], {}) if unequal.kind == "time"
    ]
    assert bool(times) == (verdict == "better"), "nor are they said to be unequal"
