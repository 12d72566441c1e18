"""A study that grows: more arms, seeds or budget train only what is new, and end as if begun so."""

import json
from dataclasses import replace

import pytest

from attnlab.config.values import ConfigError
from attnlab.studies import worker
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import default_folder, run_study
from tests.studies.here import here
from tests.studies.small_study import ARMS, numbers, study

CONSTANT = {"training.schedule": "constant"}
WIDE = {"model.feedforward": "relu"}


@pytest.fixture
def trained(monkeypatch, unchecked):
    """The runs that were trained, as "arm/seed-N"."""
    found = []

    def work(request, work=worker.work):
        found.append("/".join(request.folder.split("/")[-2:]))
        return work(request)

    monkeypatch.setattr("attnlab.studies.run_measures.HONEST_TEXTS", 2)
    monkeypatch.setattr(worker, "work", work)
    with here():
        yield found


def test_an_arm_and_a_seed_more_train_only_what_is_new(tmp_path, trained):
    said = []
    run_study(resolve(study(tmp_path, arms={"dot": {}}, seeds=1, budget={"steps": 4})), tmp_path / "study")
    assert trained == ["dot/seed-0"]
    trained.clear()
    grown = resolve(study(tmp_path, arms={"dot": {}, "relu": WIDE}, seeds=2, budget={"steps": 4}))
    ended = run_study(grown, tmp_path / "study", resume=True, tell=said.append)
    assert sorted(trained) == ["dot/seed-1", "relu/seed-0", "relu/seed-1"]
    assert said[-1] == "1 of 4 runs are done already; 3 are left to train."
    whole = run_study(grown, tmp_path / "whole")
    assert numbers(ended.results) == numbers(whole.results)


def test_a_larger_budget_goes_on_where_the_schedule_allows_it(tmp_path, trained):
    asked = {"arms": ARMS, "seeds": 1, "set": CONSTANT}
    run_study(resolve(study(tmp_path, budget={"steps": 4}, **asked)), tmp_path / "study")
    longer = resolve(study(tmp_path, budget={"steps": 8}, **asked))
    said = []
    ended = run_study(longer, tmp_path / "study", resume=True, tell=said.append)
    assert said[-1] == "2 runs of 2 continue to the new budget from a checkpoint."
    assert [run["steps"] for run in ended.results["runs"]] == [8, 8]
    for file in (tmp_path / "study").glob("runs/*/*/metrics.jsonl"):
        steps = [json.loads(line) for line in file.read_text().splitlines()]
        assert [e["step"] for e in steps if e["event"] == "started"] == [0, 4], "not from the beginning"
    whole = run_study(longer, tmp_path / "whole")
    assert numbers(ended.results) == numbers(whole.results)


def test_a_warm_up_of_the_same_length_goes_with_a_larger_budget(tmp_path, trained):
    asked = {"arms": {"dot": {}}, "seeds": 1}
    first = study(tmp_path, budget={"steps": 4}, set={"training.schedule": "constant(warmup=0.5)"}, **asked)
    run_study(resolve(first), tmp_path / "study")
    with pytest.raises(ConfigError, match=r"--set training\.schedule\.warmup=0\.25\."):
        run_study(resolve(replace(first, budget={"steps": 8})), tmp_path / "study", resume=True)
    fitting = study(
        tmp_path, budget={"steps": 8}, set={"training.schedule": "constant(warmup=0.25)"}, **asked
    )
    ended = run_study(resolve(fitting), tmp_path / "study", resume=True)
    assert [run["steps"] for run in ended.results["runs"]] == [8]


def test_where_it_does_not_the_reason_is_given_before_any_worker_starts(tmp_path, trained):
    run_study(resolve(study(tmp_path, seeds=1, budget={"steps": 4})), tmp_path / "study")
    trained.clear()
    before = {file: file.read_bytes() for file in (tmp_path / "study").rglob("result.json")}
    with pytest.raises(
        ConfigError, match=r"dot, seed 0: .* cosine had already lowered .* same holds for 1 more"
    ):
        run_study(resolve(study(tmp_path, seeds=1, budget={"steps": 8})), tmp_path / "study", resume=True)
    assert not trained and {file: file.read_bytes() for file in before} == before


def test_an_arm_with_other_settings_is_refused_and_one_that_failed_is_trained_anew(tmp_path, trained):
    wild = {"training.optimizer.learning_rate": 1e18, "training.clip": "off"}
    first = study(tmp_path, arms={"dot": {}, "wild": wild}, seeds=1, budget={"steps": 4})
    assert run_study(resolve(first), tmp_path / "study").failed
    trained.clear()
    mended = study(tmp_path, arms={"dot": {}, "wild": {"model.heads": 1}}, seeds=1, budget={"steps": 4})
    ended = run_study(resolve(mended), tmp_path / "study", resume=True)
    assert trained == ["wild/seed-0"] and not ended.failed
    assert (tmp_path / "study" / "runs" / "wild" / "seed-0-failed-1" / "run.json").is_file()
    other = study(tmp_path, arms={"dot": {"model.heads": 1}}, seeds=1, budget={"steps": 4})
    with pytest.raises(ConfigError, match=r"model\.heads was 2, now 1.* An arm with other settings needs"):
        run_study(resolve(other), tmp_path / "study", resume=True)


def test_a_grown_study_has_the_same_folder_and_another_is_told_apart(tmp_path, trained, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = resolve(study(tmp_path, arms={"dot": {}}, seeds=1, budget={"steps": 2}))
    place = default_folder(first)
    run_study(first, place)
    grown = resolve(study(tmp_path, seeds=2, budget={"steps": 3}))
    assert default_folder(grown) == place
    place.rename(place.with_name("small-0123abcd"))  # as an earlier version would have called it
    record = json.loads((tmp_path / "runs" / "small-0123abcd" / "study.json").read_text())
    (tmp_path / "runs" / "small-0123abcd" / "study.json").write_text(json.dumps(record | {"identity": "old"}))
    assert default_folder(grown).name == "small-0123abcd"
    other = resolve(study(tmp_path, set={"model.width": 32}))
    with pytest.raises(ConfigError, match=r"holds another study: base\.model\.width was 16, now 32\."):
        run_study(other, default_folder(grown), resume=True)


def test_arms_that_are_gone_are_said(tmp_path, trained):
    run_study(resolve(study(tmp_path, seeds=1, budget={"steps": 2})), tmp_path / "study")
    fewer = study(tmp_path, arms={"dot": {}}, seeds=1, budget={"steps": 2})
    ended = run_study(resolve(fewer), tmp_path / "study", resume=True)
    assert any("not in this study any more: linear" in note for note in ended.results["study"]["notes"])
