"""An arm has one colour: on the list, in its grid, in its report, side by side."""

from dataclasses import replace
from pathlib import Path

from attnlab.documents.palette import arm_inks, ink
from attnlab.runs.result import RunResult, RunState
from attnlab.runs.summary import RunSummary
from attnlab.web.arm_inks import inks_of_runs, inks_of_study
from attnlab.web.index import Index
from attnlab.web.indexed import IndexedRun, IndexedStudy

GREY = ink(0, sound=False)


def run_of(address, *, status=RunState.FINISHED, sound=True):
    result = RunResult(status=status, unsound=() if sound else ("dependency",))
    result = replace(result, folder=address)
    summary = RunSummary(name=address, date="", whole=True, config={}, result=result)
    return IndexedRun(address, Path("/", address), summary, ())


def study_of(*arms, baseline="", seeds=1):
    record = {"study": {"arms": {arm: {} for arm in arms}, "baseline": baseline, "seeds": seeds}}
    return IndexedStudy("s", Path("/nowhere/s"), record, ())


def index_of(study, runs):
    index = Index(Path("/nowhere"))
    index.runs, index.studies = {run.address: run for run in runs}, {study.address: study}
    index._runs_of = {"s": [run for run in runs if run.study == "s"]}
    return index


def test_grey_arms_use_up_no_colour_and_the_baseline_need_not_come_first():
    inks = arm_inks(["a", "base", "b", "c"], baseline="base", grey={"b"})
    assert inks == {"a": ink(1), "base": ink(0), "b": GREY, "c": ink(2)}
    assert arm_inks(["base", "a"], baseline="base", grey={"base"}) == {"base": GREY, "a": ink(1)}


def test_while_it_runs_an_arm_is_grey_once_a_run_is_invalid_or_all_have_failed():
    study = study_of("base", "a", "b", "c", seeds=2)
    runs = [
        run_of("s/runs/a/seed-0", sound=False),
        run_of("s/runs/b/seed-0", status=RunState.FAILED),
        run_of("s/runs/c/seed-0"),
    ]
    inks = inks_of_study(study, runs)
    assert inks == {"base": ink(0), "a": GREY, "b": ink(1), "c": ink(2)}, "b may still come to something"
    both = [*runs, run_of("s/runs/b/seed-1", status=RunState.FAILED)]
    assert inks_of_study(study, both)["b"] == GREY


def test_runs_side_by_side_keep_their_arms_colours_whatever_their_order():
    study = study_of("base", "a", "b")
    runs = [run_of(f"s/runs/{arm}/seed-0") for arm in ("b", "a", "base")]
    index = index_of(study, runs)
    assert inks_of_runs(index, runs) == [ink(2), ink(1), ink(0)]
    assert inks_of_runs(index, runs[:2]) == [ink(2), ink(1)]
    assert inks_of_runs(index, runs[1:]) == [ink(1), ink(0)]


def test_seeds_of_an_arm_share_its_colour_and_differ_in_their_strokes():
    runs = [run_of("s/runs/a/seed-0"), run_of("s/runs/a/seed-1"), run_of("alone"), run_of("other")]
    inks = inks_of_runs(index_of(study_of("base", "a"), runs), runs)
    assert [own.colour for own in inks[:2]] == [ink(1).colour] * 2
    assert inks[0].dash != inks[1].dash
    assert inks[2:] == [ink(0), ink(2)], "lone runs take what no arm has"
    assert len(set(inks)) == 4
