"""Arms that fail or cannot be built: told first, with the cause, and the others run."""

import sys
from dataclasses import replace

import pytest

from attnlab.config.values import ConfigError
from attnlab.runs.reason import Reason, ReasonKind
from attnlab.runs.result import RunResult
from attnlab.studies.resolved import resolve
from attnlab.studies.results import arm_of
from attnlab.studies.runner import run_study
from tests.session.commands import answer, command
from tests.studies.here import here
from tests.studies.records import arm, verdict_of
from tests.studies.small_study import study

WILD = {"training.optimizer.learning_rate": 1e18, "training.clip": "off"}
IMPOSSIBLE = {"model.attention": "linear", "model.positions": "alibi"}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("failed")
    arms = {"dot": {}, "wild": WILD, "biased": IMPOSSIBLE}
    said = []
    with pytest.MonkeyPatch.context() as patch, here():
        patch.setattr("attnlab.session.soundness.run_checks", lambda case, names=(): [])
        asked = study(folder, arms=arms, seeds=1, budget={"steps": 3}, learning_rates=(1e17, 1e18))
        asked = replace(asked, set={"training.clip": "off"}, arms={**arms, "dot": {"training.clip": 1.0}})
        done = run_study(resolve(asked), folder / "study", tell=said.append)
    return done, said


def test_an_arm_that_cannot_be_built_is_refused_with_the_reason_and_the_others_run(ended):
    done, said = ended
    assert said[0].startswith("biased is refused, and the other arms run: ") and "linear" in said[0]
    assert {run["arm"] for run in done.results["runs"]} == {"dot", "wild"}
    assert done.results["verdict"].startswith("biased: refused, it cannot be built. ")
    (refused,) = done.results["refused"]
    assert refused["status"] == "refused" and "(linear) cannot add a bias" in refused["reason"], (
        "the whole error, with its arm"
    )
    assert any(str(fault).startswith("biased was refused: ") for fault in done.faults)
    for report in ("report.html", "report.md"):
        assert "was refused: cannot be built" in (done.folder / report).read_text()


def test_an_arm_whose_runs_all_failed_is_told_so_with_the_cause(ended):
    done, _ = ended
    assert "wild: all runs failed." in done.results["verdict"]
    (wild,) = [arm for arm in done.results["arms"] if arm["name"] == "wild"]
    assert wild["reason"].startswith("Step "), "the whole error, with its arm"
    assert "not compared" not in done.results["verdict"]
    sizes = {arm["name"]: arm["parameters"] for arm in done.results["arms"]}
    assert sizes["wild"] == sizes["dot"], "as built, not as drafted for the largest vocabulary"


def test_no_learning_rate_is_best_where_all_its_runs_failed(ended):
    done, _ = ended
    chosen = {row["arm"]: row["learning_rate"] for row in done.results["study"]["tuning"] if row["chosen"]}
    assert "wild" not in chosen
    notes = done.results["study"]["notes"]
    assert any(note.startswith("No learning rate was chosen for wild: all its tuning runs") for note in notes)
    assert not any("best learning rate of wild" in note for note in notes)


def test_failures_come_first_and_a_baseline_that_failed_is_told(tmp_path):
    given = study(tmp_path)
    arms = [
        arm("dot", "failed", Reason.error("No space. Make room.")),
        arm("linear", "missing", Reason(ReasonKind.NOT_BEGUN)),
    ]
    assert verdict_of(given, arms, []) == (
        "dot: all runs failed. No verdict yet: linear was not compared (not begun; continue with --resume)."
    )


def test_a_tracker_that_is_not_installed_is_found_before_any_worker_starts(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    asked = study(tmp_path, set={"training.listeners": ["wandb"]})
    with pytest.raises(ConfigError, match=r"asks for wandb, which is not installed: pip install wandb"):
        resolve(asked)


def test_a_run_that_took_no_step_is_neither_sound_nor_unsound(tmp_path, monkeypatch):
    assert RunResult(status="failed").sound is None and RunResult(status="missing").sound is None
    assert RunResult(status="failed", steps=3).sound is True
    assert RunResult(status="finished", unsound=("honesty",)).sound is False
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("".join(f"Line {i} is about {i * i} things.\n" for i in range(200)))
    few = ["--set", "data.corpus=notes.txt", "--set", "data.corpus.unit=line", "--set", "model.width=16"]
    failed = command("train", "mini-gpt", *few, "--set", "model.masking=zero", "--out", "runs/zero")
    assert failed.exit_code == 1
    (row,) = answer("runs")
    assert row["steps"] == 0 and row["sound"] is None
    shown = " ".join(command("runs").output.split())
    assert "stopped by" in shown and " yes " not in shown


def test_an_arm_that_was_never_built_has_no_parameters(tmp_path):
    """Before its tokenizer is learned nobody knows its vocabulary: a draft is another model."""
    resolved = resolve(study(tmp_path))
    stopped = RunResult(arm="dot", status="failed", reason=Reason.error("The check dependency failed."))
    assert arm_of(resolved, "dot", [stopped]).parameters is None
    assert arm_of(resolved, "dot", [replace(stopped, parameters=123_648)]).parameters == 123_648
    assert arm_of(resolved, "dot", [RunResult(arm="dot", status="finished")]).parameters > 0
