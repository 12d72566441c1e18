"""Lists and comparisons as a person reads them, made without a server."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from attnlab.studies.outcome import StudyOutcome
from attnlab.web.laboratory import Laboratory
from attnlab.web.views import compare, study
from attnlab.web.views.home import studies_table
from attnlab.web.views.run import regions_of

HOUSE = Path(__file__).parents[1] / "session" / "before_house" / "runs.tar.xz"


@pytest.fixture
def laboratory(tmp_path):
    """A finished study of two arms, one of which is invalid."""
    with tarfile.open(HOUSE) as house:
        house.extractall(tmp_path / "runs", filter="data")
    return Laboratory.at(tmp_path / "runs")


def test_a_study_is_listed_with_its_answer(laboratory):
    laboratory.index.refresh()
    (address,) = laboratory.index.studies
    results = json.loads((laboratory.root / address / "results.json").read_text())
    answer = StudyOutcome.of_json(results).headline
    assert answer and answer in studies_table(laboratory).striptags()
    assert laboratory.index.studies[address].answer.unfinished == {"zero", "broken"}
    (laboratory.root / address / "results.json").write_text('{"arms": 1')
    laboratory.index.refresh()
    table = studies_table(laboratory)
    assert answer not in table.striptags() and address in table, "what is damaged is on its own page"


def test_the_list_of_studies_says_when_the_first_has_come(laboratory, tmp_path):
    shutil.move(laboratory.root, tmp_path / "elsewhere")
    laboratory.root.mkdir()
    laboratory.index.refresh()
    empty = study.list_regions(laboratory)
    assert empty["headline"] == "No studies yet" and "attnlab run masking" in empty["none"]
    shutil.copytree(tmp_path / "elsewhere", laboratory.root, dirs_exist_ok=True)
    laboratory.index.refresh()
    shown = study.list_regions(laboratory)
    assert shown["headline"] == "1 study" and shown["none"] == ""


def test_a_comparison_says_how_far_apart_the_sound_runs_are_and_names_no_winner(laboratory):
    laboratory.index.refresh()
    runs = list(laboratory.index.runs.values())
    dot, (zero, *_) = ([run for run in runs if run.arm == arm] for arm in ("dot", "zero"))
    losses = sorted(run.summary.result.metrics["loss"] for run in dot)
    assert len(losses) == 2 and zero.summary.result.metrics["loss"] < losses[0], "the leak looks best"
    spread = f"dev loss {losses[0]:.4f} to {losses[1]:.4f}"
    assert (
        compare.document(laboratory, compare.ComparedRuns.of([*dot, zero])).headline
        == f"2 of 3 runs sound, {spread}"
    )
    assert compare.document(laboratory, compare.ComparedRuns.of(dot)).headline == f"2 runs, {spread}"


def test_checks_of_a_run_lead_to_their_cards_and_those_of_its_own_do_not(laboratory):
    laboratory.index.refresh()
    run = next(run for run in laboratory.index.runs.values() if run.arm == "zero")
    checks = json.loads((run.folder / "checks.json").read_text())
    checks["findings"][0]["check"] = 'mine"><b>'
    (run.folder / "checks.json").write_text(json.dumps(checks))
    again = Laboratory.at(laboratory.root)  # what has ended is not read anew at once
    shown = regions_of(again, again.run(run.address))["checks"]
    assert '<a href="/parts/checks/dependency">dependency</a>' in shown
    assert "mine&#34;&gt;&lt;b&gt;" in shown and "/parts/checks/mine" not in shown


def test_a_run_that_is_not_comparable_leaves_the_others_alone(served, tmp_path):
    for name, kind in (("one", "causal"), ("other", "causal"), ("masked", "masked")):
        shutil.copytree(served / kind, tmp_path / "runs" / name)
    laboratory = Laboratory.at(tmp_path / "runs")
    runs = [laboratory.run(name) for name in ("one", "masked", "other")]
    compared = compare.ComparedRuns.of(runs)
    assert [run.address for run in compared.together] == ["one", "other"]
    (why,) = compared.apart
    assert "masked compared with" in why and "not comparable" in why
    curves = next(part for part in compare.document(laboratory, compared).nodes if part.title == "Curves")
    figure = curves.nodes[0]
    shown = {
        title: [line.name for line in figure.views[f"{place},0"][0].lines]
        for place, title in enumerate(figure.controls[0].options)
    }
    assert shown["dev loss"] == shown["train loss"] == ["one", "other"]
    assert shown["learning rate"] == ["one", "masked", "other"]


def test_a_study_that_was_stopped_while_it_grew_is_resumed(laboratory):
    laboratory.index.refresh()
    (address,) = laboratory.index.studies
    own = laboratory.index.studies[address]
    assert not own.interrupted and "Add seeds" in study.actions(own, "")
    file = laboratory.root / address / "results.json"
    results = json.loads(file.read_text())
    results["arms"][0]["reasons"] = [{"kind": "not_begun", "values": {}}]
    file.write_text(json.dumps(results))
    laboratory.index.refresh()
    own = laboratory.index.studies[address]
    assert own.interrupted and own.ended
    assert ">Resume</button>" in study.actions(own, "") and "Save as HTML" in study.actions(own, "")
    assert "interrupted" in studies_table(laboratory)
