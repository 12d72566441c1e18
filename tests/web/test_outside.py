"""What leads out of the served folder is not read, however it came there."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from attnlab.runs.folder import holder
from attnlab.web import folders
from attnlab.web.addresses import NotServedError
from attnlab.web.laboratory import Laboratory
from attnlab.web.started_processes import LOG, StartedProcess
from attnlab.web.views.run import document
from tests.web.asking import Questions
from tests.web.serving import server

HOUSE = Path(__file__).parents[1] / "session" / "before_house" / "runs.tar.xz"
SECRET = "the secret of another folder"
HOLD = "import fcntl, os, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); "
HOLD += "f.write(str(os.getpid())); f.flush(); print('held', flush=True); time.sleep(60)"


@pytest.fixture
def folder(served, tmp_path):
    """A served folder with one run, beside another folder with a run of its own."""
    for place in ("runs/sub/run", "outside/run"):
        shutil.copytree(served / "causal", tmp_path / place)
    (tmp_path / "outside" / "run" / "samples.txt").write_text(f"step 1\n1. {SECRET}\n")
    return tmp_path / "runs"


def exchange(folder):
    """The run of the served folder becomes a link to the other one."""
    place = folder / "sub" / "run"
    before = place.parent.stat()
    place.rename(folder.parent / "moved")
    place.symlink_to(folder.parent / "outside" / "run")
    os.utime(place.parent, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a copy that keeps times does


def test_a_known_run_whose_folder_becomes_a_link_is_neither_read_nor_listed(folder, monkeypatch):
    monkeypatch.setattr(folders, "SETTLED", -(10**20))  # as long after it was listed as one likes
    laboratory = Laboratory.at(folder)
    run = laboratory.run("sub/run")
    assert SECRET not in str(document(laboratory, run))
    exchange(folder)
    with pytest.raises(NotServedError, match="behind a link"):
        document(laboratory, run)
    laboratory.index.refresh()
    assert "sub/run" not in laboratory.index.runs


def test_who_holds_a_lock_elsewhere_is_not_stopped(folder):
    other = folder.parent / "outside" / "held"
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(other)], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"held\n"
        (folder / "sub" / "run" / "lock").unlink(missing_ok=True)
        (folder / "sub" / "run" / "lock").symlink_to(other)
        assert holder(folder / "sub" / "run") == 0
        with server(folder) as page:
            assert page.ask("/api/stop/sub/run", "POST").status in (400, 404)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_lock_of_its_own_is_seen(folder):
    with (folder / "sub" / "run" / "lock").open("w") as lock:
        lock.write(str(os.getpid()))
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert holder(folder / "sub" / "run") == os.getpid()


def test_the_name_of_a_study_outside_is_not_shown(tmp_path):
    with tarfile.open(HOUSE) as house:
        house.extractall(tmp_path, filter="data")
    file = tmp_path / "study" / "study.json"
    record = json.loads(file.read_text())
    record["study"]["name"] = SECRET
    file.write_text(json.dumps(record))
    below = Laboratory.at(file.parent / "runs")
    assert SECRET not in below.run("dot/seed-0").summary.name
    above = Laboratory.at(tmp_path)
    assert SECRET in above.run("study/runs/dot/seed-0").summary.name


def test_a_damaged_study_damages_none_of_its_runs(served, tmp_path):
    shutil.copytree(served / "causal", tmp_path / "s" / "runs" / "arm" / "seed-0")
    (tmp_path / "s" / "study.json").write_text('{"study"')
    laboratory = Laboratory.at(tmp_path)
    assert laboratory.run("s/runs/arm/seed-0").state == "finished"
    assert laboratory.study("s").fault


def test_a_base_outside_is_not_read(folder, monkeypatch):
    elsewhere = folder.parent / "outside"
    (elsewhere / "base.toml").write_text(f'[model]\nwidth = "{SECRET}"\n')
    (folder / "own.toml").write_text('question = "?"\nbase = "base.toml"\n[arms.a]\n')
    monkeypatch.chdir(elsewhere)
    ask = Questions(folder)
    told = ask.error("study_to_run", study=str(folder / "own.toml"))
    assert "base.toml is not in the folder" in told and SECRET not in told
    (folder / "own.toml").write_text('question = "?"\nbase = "mini-gpt"\n[arms.a]\n')
    assert ask.done("study_to_run", study=str(folder / "own.toml")) == {}


def test_pictures_that_a_table_names_elsewhere_are_not_read(folder):
    from tests.web.picture_runs import drawing

    for place in (folder, folder.parent / "outside"):
        (place / "one.png").write_bytes(drawing())
    wanted = {"config": "image-classifier-mini", "set": [f"data.corpus={folder}/table.csv"]}
    rows = "image,label\none.png,a\none.png,b\n"
    (folder / "table.csv").write_text(rows)
    ask = Questions(folder)
    assert ask.done("run_to_begin", **wanted) == {}
    (folder / "table.csv").write_text(f"{rows}../outside/one.png,a\n")
    assert "outside/one.png is not in the folder" in ask.error("run_to_begin", **wanted)
    assert "outside/one.png is not in the folder" in ask.error("pace", **wanted)


def test_what_the_hub_has_is_in_no_folder(folder):
    ask = Questions(folder)
    answer = ask.done("config", config="mini-gpt", set=["data.corpus=hub:stanfordnlp/imdb"])
    assert "hub:stanfordnlp/imdb is not in the folder" in answer["outside"]
    assert "not in the folder" in ask.error(
        "run_to_begin", config="mini-gpt", set=["data.corpus=hub:stanfordnlp/imdb"]
    )


def test_the_words_of_what_was_started_are_those_of_its_own_file(folder):
    (folder.parent / "outside" / "text").write_text(SECRET)
    run = folder / "sub" / "run"
    (run / LOG).symlink_to(folder.parent / "outside" / "text")
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])
    process.wait()
    started = StartedProcess(run, ["train"], process)
    assert SECRET not in started.log and "cannot be read" in started.log
    (run / LOG).unlink()
    (run / LOG).write_text("")
    assert "said nothing that could be written" in started.log


def test_a_budget_that_is_used_up_is_refused_before_anything_begins(folder):
    record = json.loads((folder / "sub" / "run" / "run.json").read_text())
    text = record["config"]["data"]["corpus"]["path"]
    shutil.copy(text[0] if isinstance(text, list) else text, folder / "text.txt")
    record["config"]["data"]["corpus"]["path"] = [str(folder / "text.txt")]
    record["config"]["training"]["schedule"] = {"kind": "constant"}
    (folder / "sub" / "run" / "run.json").write_text(json.dumps(record))
    ask, steps = Questions(folder), Laboratory.at(folder).run("sub/run").step
    told = ask.error("run_to_resume", "sub/run", set=[f"training.budget.steps={steps - 1}"])
    assert f"has taken {steps} steps, which is more than {steps - 1} steps" in told
    assert ask.done("run_to_resume", "sub/run", set=[f"training.budget.steps={steps + 1}"]) == {}
