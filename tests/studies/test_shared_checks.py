"""An arm is checked before training with its first seed; the other seeds take over what cannot differ."""

from dataclasses import replace

import pytest

from attnlab.checks import CHECKS
from attnlab.checks.dependency import Dependency
from attnlab.checks.first_loss import FirstLoss
from attnlab.runs.findings import Findings, read_findings, save_findings
from attnlab.runs.record import read_record
from attnlab.session.shared_findings import shared_findings
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from tests.studies.here import here
from tests.studies.small_study import study
from tests.studies.test_engines import elsewhere  # noqa: F401 - a fixture
from tests.unchecked import checked_by

CHECKED = ("dependency", "first_loss")


@pytest.fixture
def asked(monkeypatch):
    """Which seeds were asked by which check before training, in turn."""
    seeds = {"dependency": [], "first_loss": []}

    def counted(check, name):
        own = check.run

        def run(self, case):
            if case.when == "before":
                seeds[name].append(case.config.seed)
            return own(self, case)

        monkeypatch.setattr(check, "run", run)

    counted(Dependency, "dependency")
    counted(FirstLoss, "first_loss")
    with here(), checked_by(*CHECKED):
        yield seeds


def short(folder, **changes):
    return resolve(study(folder, **{"seeds": 3, "budget": {"steps": 2}, **changes}))


def before(folder):
    return {finding.check: finding for finding in read_findings(folder) if finding.when == "before"}


def test_what_no_seed_changes_is_asked_of_the_first_seed_alone(tmp_path, asked):
    ended = run_study(short(tmp_path, arms={"dot": {}}), tmp_path / "study")
    assert asked == {"dependency": [0], "first_loss": [0, 1, 2]} and not ended.failed
    first, other = (before(tmp_path / "study" / "runs" / "dot" / f"seed-{seed}") for seed in (0, 2))
    assert (first["dependency"].seed, other["dependency"].seed) == (None, 0)
    assert other["dependency"] == replace(first["dependency"], seconds=0.0, seed=0)
    assert other["first_loss"].seed is None and other["first_loss"].number != first["first_loss"].number
    after = read_findings(tmp_path / "study" / "runs" / "dot" / "seed-2")
    assert [f.seed for f in after if f.check == "dependency" and f.when == "after"] == [None]
    assert "before training, in the run of seed 0" in str(Findings(other.values()))


def test_a_leaking_arm_is_stopped_before_any_of_its_seeds_takes_a_step(tmp_path, asked):
    leaking = {"arms": {"zero": {"model.masking": "zero"}}, "seeds": 2}
    ended = run_study(short(tmp_path, **leaking), tmp_path / "study")
    assert asked["dependency"] == [0]
    assert all(run.status == "failed" and "dependency" in str(run.reason) for run in ended.runs)
    folders = [tmp_path / "study" / "runs" / "zero" / f"seed-{seed}" for seed in range(2)]
    assert not any('"stepped"' in (folder / "metrics.jsonl").read_text() for folder in folders)
    allowed = short(tmp_path, **leaking, allow={"zero": ("dependency",)})
    ended = run_study(allowed, tmp_path / "allowed")
    assert [run.unsound for run in ended.runs] == [("dependency",)] * 2


@pytest.mark.usefixtures("elsewhere")
def test_where_the_first_seeds_findings_cannot_be_read_each_seed_is_checked(tmp_path, asked):
    run_study(short(tmp_path, arms={"dot": {}}, seeds=2), tmp_path / "study", on="elsewhere")
    assert asked["dependency"] == [0, 1]


def test_a_grown_study_takes_over_what_its_first_seed_showed(tmp_path, asked):
    place = tmp_path / "study"
    run_study(short(tmp_path, arms={"dot": {}}, seeds=1), place)
    run_study(short(tmp_path, arms={"dot": {}}, seeds=2), place, resume=True)
    assert asked["dependency"] == [0]


@pytest.fixture
def two(tmp_path, asked):
    """The first seed's folder, and the record of the second."""
    run_study(short(tmp_path, arms={"dot": {}}, seeds=2), tmp_path / "study")
    first, other = (tmp_path / "study" / "runs" / "dot" / f"seed-{seed}" for seed in (0, 1))
    record = read_record(other)
    assert [finding.check for finding in shared_findings(first, record)] == ["dependency"]
    return first, record


def test_findings_hold_only_where_nothing_but_the_seed_differs_and_they_are_whole(two):
    first, record = two
    other_width = record | {
        "config": {**record["config"], "model": {**record["config"]["model"], "width": 8}}
    }
    changes = [
        other_width,
        record | {"text": "another"},
        record | {"data": {**record["data"], "train": "rows of this seed"}},
        record | {"tokenizer": "another"},
        record | {"start": "another"},
        record | {"imports": [{"module": "own", "file": "own.py", "hash": "1"}]},
        record | {"versions": record["versions"] | {"torch": "1.0"}},
    ]
    for changed in changes:
        assert shared_findings(first, changed) == []
    same = record | {"versions": record["versions"] | {"threads": 64, "started": "later"}}
    assert shared_findings(first, same)
    taken = [replace(finding, seed=7) for finding in read_findings(first)]
    save_findings(first, taken)
    assert shared_findings(first, record) == []
    (first / "checks.json").write_text('{"findings": [')
    assert shared_findings(first, record) == []
    assert shared_findings(first / "nothing", record) == []


def test_which_checks_look_at_what_a_seed_draws():
    drawn = {name for name in CHECKS if "before" in CHECKS[name].when and not CHECKS[name].same_for_seeds}
    assert drawn == {"first_loss", "targets", "visible_targets", "fully_masked", "attention", "processes"}
