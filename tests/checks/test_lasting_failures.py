"""A check that failed once: the run is not sound, whatever the check finds later."""

import json

import pytest
from typer.testing import CliRunner

from attnlab.checks.honesty import Honesty
from attnlab.checks.ranges import Ranges
from attnlab.cli import app
from attnlab.runs.events import Stepped
from attnlab.runs.findings import Finding, failures, merge_findings, read_findings
from attnlab.runs.summary import read_summary
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from tests.studies.here import here
from tests.studies.small_study import study
from tests.training.small_run import config, settings, train


def flaky(monkeypatch, check, steps):
    """The check fails at these steps, and is itself at all others."""
    healthy = check.run

    def run(self, case):
        if case.step in steps:
            return self.failed(case, f"a leak of {case.step}", 1.0, meaning="It leaks.", fix="Mend it.")
        return healthy(self, case)

    monkeypatch.setattr(check, "run", run)


@pytest.mark.parametrize(
    ("check", "name", "steps"),
    [(Honesty, "honesty", {4}), (Honesty, "honesty", {4, 8}), (Ranges, "ranges", {8})],
)
def test_a_failure_stays_with_its_first_step_and_the_latest_finding_is_there_too(
    check, name, steps, tmp_path, monkeypatch
):
    flaky(monkeypatch, check, steps)
    ended = train(config(tmp_path), tmp_path / "run")
    assert ended.unsound == (name,) and ended.failures == (f"{name} (step {min(steps)})",)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["sound"] is False and record["unsound"] == [name]
    assert record["failures"] == [f"{name} (step {min(steps)})"]
    held = json.loads((tmp_path / "run" / "checks.json").read_text())
    assert held["sound"] is False
    evaluated = [f for f in held["findings"] if f["check"] == name and f["when"] in ("evaluation", "during")]
    assert [(f["step"], f["outcome"]) for f in evaluated] == [(min(steps), "fail"), (12, "pass")]
    assert read_summary(tmp_path / "run").result.failures == [f"{name} (step {min(steps)})"]


class KilledError(Exception):
    pass


def test_a_failure_survives_a_kill_and_a_resume_that_does_not_see_it_again(tmp_path, monkeypatch):
    """Injected: the evaluation of step 4 fails once; the run dies at step 5 and goes on from step 3."""

    def kill(event):
        if isinstance(event, Stepped) and event.step == 5:
            raise KilledError

    with monkeypatch.context() as patch:
        flaky(patch, Honesty, {4})
        with pytest.raises(KilledError):
            train(config(tmp_path), tmp_path / "run", listeners=[kill])
    assert read_summary(tmp_path / "run").result.failures == ["honesty (step 4)"], (
        "killed before it could note it"
    )
    ended = train(config(tmp_path), tmp_path / "run", resume=True)
    assert ended.state.step == 12 and ended.failures == ("honesty (step 4)",)


def test_the_commands_say_it_and_exit_with_1(tmp_path, monkeypatch):
    flaky(monkeypatch, Honesty, {8})
    (tmp_path / "small.json").write_text(json.dumps(settings(tmp_path)))
    invoke = CliRunner().invoke
    trained = invoke(app, ["train", str(tmp_path / "small.json"), "--out", str(tmp_path / "run")])
    assert trained.exit_code == 1 and "failed honesty (step 8)" in " ".join(trained.output.split())
    assert "✗ invalid" in invoke(app, ["runs", str(tmp_path)]).output
    (listed,) = json.loads(invoke(app, ["runs", str(tmp_path), "--json"]).stdout)
    assert listed["sound"] is False and listed["failures"] == ["honesty (step 8)"]
    shown = invoke(app, ["check", str(tmp_path / "run")]).output
    assert shown.startswith("Invalid: ") and "✗   honesty" in shown, (
        "it passed later, and failed all the same"
    )
    assert "at evaluation, step 8" in shown and "step 12" not in shown.partition("✓")[0]
    checked = invoke(app, ["check", str(tmp_path / "run"), "--json"])
    found = [f for f in json.loads(checked.stdout) if f["check"] == "honesty"]
    assert checked.exit_code == 1 and [(f["step"], f["outcome"]) for f in found] == [
        (8, "fail"),
        (12, "pass"),
    ]


def test_a_study_calls_the_arm_invalid_and_its_report_names_the_step(tmp_path, monkeypatch):
    """Injected: of linear, only the evaluation of step 4 fails; that of step 8, the last, passes."""

    def checked(case, names=()):
        bad = case.step == 4 and case.config.model.attention.kind == "linear"
        return [finding("fail" if bad else "pass", case.step)] if case.when == "evaluation" else []

    monkeypatch.setattr("attnlab.session.soundness.run_checks", checked)
    asked = study(tmp_path, probes=(), sentence="")
    with here():
        ended = run_study(resolve(asked), tmp_path / "study", jobs=1)
    (row,) = ended.results["comparisons"]
    assert row["verdict"] == "invalid"
    assert (
        "linear is invalid: its numbers do not measure what they say (check honesty)."
        in (ended.results["verdict"])
    )
    reasons = [run["reason"] for run in ended.results["runs"] if run["arm"] == "linear"]
    assert reasons == ["failed the check honesty (step 4)"] * 2
    page = (ended.folder / "report.md").read_text()
    assert "A leak. The first of 2 such findings, step 4." in page and "linear is invalid" in page


def finding(outcome, step, *, when="evaluation"):
    return Finding.of_text("a leak", check="honesty", when=when, outcome=outcome, step=step)


def test_what_stays_and_what_is_replaced():
    passed, failed = finding("pass", 4), finding("fail", 4)
    assert merge_findings([passed], [finding("pass", 8)]) == [finding("pass", 8)]
    assert merge_findings([failed], [finding("pass", 8)]) == [failed, finding("pass", 8)]
    both = merge_findings([failed, finding("pass", 8)], [finding("fail", 12)])
    assert both == [failed, finding("fail", 12)]
    assert merge_findings([failed], [failed]) == [failed], "the same step, done again after a kill"
    early = finding("fail", 0, when="before")
    mended = finding("pass", 0, when="before")
    assert merge_findings([early], [mended]) == [mended], "no step was taken: it is begun anew"
    assert merge_findings([early], [finding("pass", 4)]) == [early, finding("pass", 4)]


def test_findings_of_before_steps_were_kept_still_open(tmp_path):
    old = {"check": "honesty", "when": "evaluation", "outcome": "fail", "found": "0.2 nats", "number": 0.2}
    (tmp_path / "checks.json").write_text(json.dumps({"sound": False, "allowed": [], "findings": [old]}))
    (held,) = read_findings(tmp_path)
    assert held.step is None and failures([held]) == ["honesty"]
    assert failures(merge_findings([held], [finding("pass", 8)])) == ["honesty"]
