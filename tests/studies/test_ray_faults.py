"""A study on Ray whose nodes, keepers, workers and files are lost on the way ends as one of this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import ray

from attnlab.config.imports import import_code
from attnlab.runs.faults import RunError
from attnlab.runs.record import read_record
from attnlab.studies.engines import engine_choice, resuming
from attnlab.studies.engines.keeper import Keeper
from attnlab.studies.plan import plan
from attnlab.studies.resolved import resolve, to_record
from attnlab.studies.runner import run_study
from attnlab.studies.study_files import GIVEN
from tests.own_code import RULE, new_session
from tests.studies.here import here
from tests.studies.ray_nodes import ApartKeeper, Watcher, add_node, cluster, newest, stepped
from tests.studies.small_study import numbers, study
from tests.studies.test_starts import adapting

pytestmark = pytest.mark.slow


@pytest.fixture
def losses(monkeypatch):
    """Counts the nodes that runs have lost. Files come home each second however long that takes: on a busy
    machine a run would be over before its steps are seen."""
    monkeypatch.setattr("attnlab.studies.engines.ray.SHARE", 1.0)
    counted = []
    too_many = resuming.LostNodes.too_many
    monkeypatch.setattr(resuming.LostNodes, "too_many", lambda *a: counted.append(1) or too_many(*a))
    return counted


def long(folder, **changes):
    """Some seconds of steps, with a checkpoint now and then; how many they are is not compared."""
    asked = study(folder, **{"seeds": 1, "budget": {"steps": 400}, "about": ("speed",)} | changes)
    asked.base["training"] |= {"checkpoint_every": 20, "evaluate_every": 100}
    return resolve(asked)


def expected(asked, folder):
    with here():
        return numbers(run_study(asked, folder).results)


def at(made):
    return engine_choice("ray", made.address)


@pytest.mark.parametrize("keeper", [Keeper, ApartKeeper])
def test_a_run_whose_node_is_removed_ends_the_same_elsewhere(tmp_path, monkeypatch, losses, keeper):
    monkeypatch.setattr("attnlab.studies.engines.ray.Keeper", keeper)
    asked = long(tmp_path)
    with cluster(1, 1) as made:
        (_, second) = made.list_all_nodes()
        view = Watcher((stepped(40), lambda: made.remove_node(second, allow_graceful=False)))
        ended = run_study(asked, tmp_path / "there", on=at(made), view=view)
    assert not ended.failed and losses == [1] and not view.actions
    assert numbers(ended.results) == expected(asked, tmp_path / "here")


def test_a_run_that_loses_two_nodes_ends_the_same(tmp_path, monkeypatch, losses):
    monkeypatch.setattr("attnlab.studies.engines.ray.Keeper", ApartKeeper)
    asked = long(tmp_path, arms={"dot": {}})
    with cluster(0, 1) as made:
        nodes = [made.list_all_nodes()[1]]

        def lose():
            made.remove_node(nodes.pop(), allow_graceful=False)
            nodes.append(add_node(made))

        view = Watcher((stepped(40), lose), (stepped(200), lose))
        ended = run_study(asked, tmp_path / "there", on=at(made), view=view)
    assert not ended.failed and losses == [1, 1] and not view.actions
    assert numbers(ended.results) == expected(asked, tmp_path / "here")


def worker_of(folder):
    """The number of the process that works in a run's folder."""
    return int((folder / "lock").read_text())


def test_a_killed_worker_fails_its_run_alone_and_is_resumed(tmp_path, losses):
    asked = long(tmp_path)
    run = tmp_path / "there" / "runs" / "dot" / "seed-0"
    view = Watcher((stepped(40), lambda: os.kill(worker_of(run), signal.SIGKILL)))
    ended = run_study(asked, tmp_path / "there", on="ray", view=view)
    (failed,) = ended.failed
    assert failed.startswith("dot, seed 0: ") and "SIGKILL" in failed and not losses
    again = run_study(asked, tmp_path / "there", on="ray", resume=True)
    assert not again.failed and numbers(again.results) == expected(asked, tmp_path / "here")


def test_a_killed_keeper_takes_its_worker_along_and_the_run_is_resumed(tmp_path, losses):
    asked = long(tmp_path, arms={"dot": {}})
    run = tmp_path / "there" / "runs" / "dot" / "seed-0"
    first = []

    def kill():
        first.append(worker_of(run))
        os.kill(psutil.Process(first[0]).ppid(), signal.SIGKILL)

    ended = run_study(asked, tmp_path / "there", on="ray", view=Watcher((stepped(40), kill)))
    assert not ended.failed and losses == [1] and not psutil.pid_exists(*first)
    assert numbers(ended.results) == expected(asked, tmp_path / "here")


class DamagingKeeper(ApartKeeper):
    """The first piece of each file is damaged on its way, out and home."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def damaged(self, name, piece):
        first = name not in self.seen
        self.seen.add(name)
        return piece[:-1] + bytes([piece[-1] ^ 1]) if first and piece else piece

    def receive(self, file, offset, piece):
        super().receive(file, offset, self.damaged(file, piece))

    def read(self, name, offset, size):
        return self.damaged(name, super().read(name, offset, size))


class BrokenKeeper(ApartKeeper):
    """A result that never comes home as it was."""

    def read(self, name, offset, size):
        piece = super().read(name, offset, size)
        return piece[:-1] if name == "result.json" else piece


def test_a_file_that_is_damaged_on_its_way_is_sent_again(tmp_path, monkeypatch):
    monkeypatch.setattr("attnlab.studies.engines.ray.Keeper", DamagingKeeper)
    asked = resolve(study(tmp_path, seeds=1, arms={"dot": {}}))
    ended = run_study(asked, tmp_path / "there", on="ray")
    assert not ended.failed and numbers(ended.results) == expected(asked, tmp_path / "here")


def test_a_file_that_stays_damaged_is_told_and_is_no_result(tmp_path, monkeypatch):
    monkeypatch.setattr("attnlab.studies.engines.ray.Keeper", BrokenKeeper)
    asked = resolve(study(tmp_path, seeds=1, arms={"dot": {}}))
    with pytest.raises(RunError, match=r"result\.json of .* came damaged from .*, 5 times"):
        run_study(asked, tmp_path / "there", on="ray")
    assert not list((tmp_path / "there").rglob("result.json"))


# ---------------------------------------------------------------- a node that really sees none of it
@pytest.fixture
def hidden(tmp_path):
    """A cluster whose only node with CPUs has another, empty folder in the place of `tmp_path`."""
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("mounting another folder in a node's place needs root and unshare")
    with cluster(0) as made:
        start = f"ray start --address={made.address} --num-cpus=2 --object-store-memory={80 << 20} --block"
        environment = os.environ | {"XDG_CACHE_HOME": f"{tmp_path}/cache-of-node", "PATH": scripts()}
        node = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs none {tmp_path} && exec {start}"],
            cwd="/",
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        made.connect()
        try:
            while not ray.cluster_resources().get("CPU"):
                time.sleep(0.2)
            ray.shutdown()
            yield made
        finally:
            node.terminate()
            node.wait()


def scripts():
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def test_own_code_starts_and_files_travel_to_a_node_without_them(tmp_path, monkeypatch, hidden):
    """A start that is trained there, files by relative and absolute paths, own code with a neighbour."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rates.py").write_text("RATE = 0.5\n")
    (tmp_path / "mine.py").write_text("from rates import RATE\n" + RULE.replace("= 0.5", "= RATE"))
    with new_session():
        import_code("mine.py")
        own = resolve(study(Path(), arms={"dot": {}, "mine": {"model.attention": "own_distance"}}))
        there = run_study(own, Path("own"), on=at(hidden))
        assert not there.failed and numbers(there.results) == expected(own, Path("own-here"))
        for folder in (Path("own"), Path("own-here")):
            record = read_record(folder / "runs" / "mine" / "seed-1")
            assert record["imports"][0]["file"] == str(tmp_path / "mine.py")
            assert record["config"]["data"]["corpus"]["path"] == "corpus.txt"
    start = resolve(adapting(tmp_path, about=("settings", "speed")))
    ended = run_study(start, tmp_path / "starts", on=at(hidden))
    assert not ended.failed
    compare_records(tmp_path / "starts", start, tmp_path / "of-here", ended)


def compare_records(folder, asked, other, ended):
    """Beside the results, what a run records of itself: identity and paths are those of home."""
    with here():
        local = run_study(asked, other)
    named = {str(folder): "", str(other): ""}

    def of_place(value):
        if isinstance(value, dict):
            return {key: of_place(inner) for key, inner in value.items()}
        for path, name in named.items():
            value = value.replace(path, name) if isinstance(value, str) else value
        return value

    assert of_place(numbers(ended.results)) == of_place(numbers(local.results))
    for place in sorted(folder.glob("runs/*/*")):
        records = [read_record(at / place.relative_to(folder)) for at in (folder, other)]
        configs = [of_place(record["config"]) for record in records]
        assert configs[0] == configs[1] and "cache-of-node" not in str(records[0])


# ---------------------------------------------------------------- the rest of what a study does
def longer(folder, **changes):
    """Of a schedule that does not depend on the budget."""
    asked = study(folder, **changes)
    asked.base["training"] |= {"schedule": "constant"}
    return resolve(asked)


def test_growing_and_planning_go_through_the_cluster(tmp_path, monkeypatch):
    monkeypatch.setattr("attnlab.studies.engines.ray.Keeper", ApartKeeper)
    with cluster(1, 1) as made:
        few = longer(tmp_path, seeds=1, arms={"dot": {}}, budget={"steps": 4})
        run_study(few, tmp_path / "there", on=at(made))
        grown = longer(tmp_path, seeds=2, budget={"steps": 8})
        said = []
        planned = plan(grown, on=at(made), resumed=tmp_path / "there")
        ended = run_study(grown, tmp_path / "there", on=at(made), resume=True, tell=said.append)
        address = made.address
    assert [node.cpus for node in planned.capacity.cluster.nodes] == [1, 1] and planned.seconds > 0
    assert planned.capacity.room == 2 and planned.left == {"dot": 2, "linear": 2}
    assert "1 run of 4 continue to the new budget from a checkpoint." in said
    assert said[0].startswith(f"4 runs, 2 at once on the Ray cluster at {address} (2 nodes, 2 CPUs")
    assert numbers(ended.results) == expected(grown, tmp_path / "here")


def test_ctrl_c_saves_every_run_and_leaves_nothing_running(tmp_path):
    asked = study(tmp_path, budget={"steps": 400}, about=("speed",))
    asked.base["training"] |= {"checkpoint_every": 20, "evaluate_every": 100}
    file, folder = tmp_path / "small.json", tmp_path / "there"
    settings = to_record(resolve(asked))["study"]
    file.write_text(json.dumps({k: v for k, v in settings.items() if k not in ("name", *GIVEN)}))
    words = [sys.executable, "-m", "attnlab", "run", str(file), "--on", "ray", "--out", str(folder)]
    command = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    run = folder / "runs" / "dot" / "seed-0"
    while newest(run) < 40:
        assert command.poll() is None
        time.sleep(0.05)
    below = psutil.Process(command.pid).children(recursive=True)
    assert {"raylet", "gcs_server"} <= {process.name() for process in below}
    command.send_signal(signal.SIGINT)
    output, errors = command.communicate(timeout=100)
    assert command.returncode == 130, errors
    assert "Stopped as requested; every run is saved." in " ".join(output.split())
    assert "--on ray" in " ".join(output.split())
    _, left = psutil.wait_procs(below, timeout=10)
    assert not left
    assert read_record(run)["status"] == "interrupted" and 40 <= newest(run) < 400
    subprocess.run([*words, "--resume"], cwd=tmp_path, check=True, capture_output=True)
    resumed = numbers(json.loads((folder / "results.json").read_text()))
    assert resumed == expected(resolve(asked), tmp_path / "here")
