"""A study on Ray gives what it gives on this machine, and leaves nothing running."""

from __future__ import annotations

import psutil

from attnlab.runs.record import read_record
from attnlab.runs.result import read_result
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from tests.studies.here import here
from tests.studies.ray_nodes import ApartKeeper
from tests.studies.small_study import numbers, study


def test_a_study_on_a_local_cluster_gives_the_same_results(tmp_path, monkeypatch):
    """One run in the study's folder, one on a node that does not see it; nothing stays behind."""
    monkeypatch.setattr("attnlab.studies.engines.ray.Keeper", ApartKeeper)
    asked = resolve(study(tmp_path, seeds=1, budget={"steps": 4}, about=("speed",)))
    before = {*psutil.Process().children(recursive=True)}  # of other tests, such as the server of commands
    ended = run_study(asked, tmp_path / "there", on="ray")
    assert not ended.failed and {*psutil.Process().children(recursive=True)} <= before
    with here():
        expected = run_study(asked, tmp_path / "here")
    assert numbers(ended.results) == numbers(expected.results)
    for arm in ("dot", "linear"):
        folders = [tmp_path / place / "runs" / arm / "seed-0" for place in ("there", "here")]
        records = [read_record(folder) for folder in folders]
        assert records[0]["config"] == records[1]["config"], "paths are those of home"
        identities = [record["identity"] for record in records] + [read_result(f).identity for f in folders]
        assert len({*identities}) == 1
