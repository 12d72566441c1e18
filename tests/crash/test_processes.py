"""Processes that train one model and are killed, stopped or cut off from each other."""

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.crash.launched import Launched, outcome, wait_for_steps
from tests.training.forked import in_processes
from tests.training.small_run import config, merged, settings
from tests.training.test_processes import apart, assert_ended, exact, to_steps, unchecked_processes

pytestmark = pytest.mark.slow
STEPS = 300
RUN = {
    "training": {
        "accumulate": 4,
        "budget": {"steps": STEPS},
        "evaluate_every": 100,
        "checkpoint_every": 10,
        "process_timeout": 5,
    }
}
KILLS = 30
LONG = ("--set", "training.budget.steps=9000")
exact, unchecked_processes = exact, unchecked_processes  # the fixtures


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(merged(settings(tmp_path), RUN)))
    return path


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_processes_that_are_killed_again_and_again_end_as_if_they_never_were(tmp_path, file, strategy):
    """A random process at random instants, of start, steps, evaluations and saves; each time all of them are
    started again."""
    chosen = ("--set", f"training.strategy={strategy}")
    code, _, err = Launched("train", file, "--out", tmp_path / "whole", "--processes", 2, *chosen).ended(300)
    assert code == 0, err
    expected, chance, killed = outcome(tmp_path / "whole", STEPS), random.Random(strategy), 0
    for number in itertools.count():
        out = tmp_path / f"run{number}"
        run = Launched("train", file, "--out", out, "--processes", 2, "--restarts", KILLS, *chosen)
        while run.process.poll() is None and killed < KILLS:
            time.sleep(chance.uniform(0.5, 8))
            killed += run.signal(chance.randrange(2), signal.SIGKILL)
        code, _, err = run.ended(300)
        assert code == 0, err
        assert outcome(out, STEPS) == expected
        if killed >= KILLS:
            return


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_is_stopped_ends_all_with_the_reason_once(tmp_path, file, rank):
    run = Launched(
        "train", file, "--out", tmp_path / "run", "--processes", 2, "--set", "training.budget.steps=9000"
    )
    wait_for_steps(tmp_path / "run", 20)
    number = run.workers()[rank]
    os.kill(number, signal.SIGSTOP)
    code, out, err = run.ended(60)
    assert code == 1 and not out
    assert err.count("Error:") == 1 and "Traceback" not in err
    assert f"Process {rank} (number {number} on " in err and "training.process_timeout is 5 seconds" in err
    assert not os.path.exists(f"/proc/{number}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_once_and_says_how_to_continue(tmp_path, file, number):
    run = Launched("train", file, "--out", tmp_path / "run", "--processes", 2)
    wait_for_steps(tmp_path / "run", 5)
    run.process.send_signal(number)
    code, out, err = run.ended(60)
    assert code == 128 + number and "Traceback" not in err
    assert out.count("everything is saved") == 1 and "--resume" in out and "--processes 2" in out
    code, _, err = Launched("train", "--resume", "--out", tmp_path / "run", "--processes", 2).ended(120)
    assert code == 0, err
    code, _, err = Launched("train", file, "--out", tmp_path / "whole", "--processes", 2).ended(120)
    assert outcome(tmp_path / "run", STEPS) == outcome(tmp_path / "whole", STEPS)


def test_one_process_that_is_killed_is_started_again_too(tmp_path, file):
    run = Launched("train", file, "--out", tmp_path / "run", "--restarts", 1)
    wait_for_steps(tmp_path / "run", 20)
    assert run.signal(0, signal.SIGKILL)
    code, _, err = run.ended(120)
    assert code == 0 and err.count("Process 0 was ended by SIGKILL") == 1, err
    code, _, err = Launched("train", file, "--out", tmp_path / "whole").ended(120)
    assert outcome(tmp_path / "run", STEPS) == outcome(tmp_path / "whole", STEPS)


def test_processes_end_when_their_launcher_is_killed(tmp_path, file):
    run = Launched(
        "train", file, "--out", tmp_path / "run", "--processes", 2, "--set", "training.budget.steps=9000"
    )
    wait_for_steps(tmp_path / "run", 20)
    numbers = run.workers().values()
    run.process.kill()
    run.ended(60)
    until = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{number}") for number in numbers) and time.monotonic() < until:
        time.sleep(0.2)
    assert not any(os.path.exists(f"/proc/{number}") for number in numbers)


WAYS = [(1, "ddp"), (2, "ddp"), (3, "ddp"), (2, "fsdp"), (3, "fsdp")]


def test_a_run_is_resumed_from_every_way_by_every_other(tmp_path, exact):
    changes = {"accumulate": 4, "schedule": "constant", "checkpoint_every": 3, "evaluate_every": 6}
    chosen = config(tmp_path, training=changes | {"budget": {"steps": 6}})
    assert_ended(in_processes(1, to_steps, chosen, tmp_path / "one", 6))
    for first, second in itertools.permutations(WAYS, 2):
        out = tmp_path / f"{first}-{second}"
        for (world, strategy), steps in ((first, 3), (second, 6)):
            assert_ended(in_processes(world, to_steps, chosen, out, steps, strategy))
        assert apart(out, tmp_path / "one") < 1e-9, (first, second)


# ---------------------------------------------------------------- two hosts
HOSTS = {"attnlab-a": "10.201.7.1", "attnlab-b": "10.201.7.2"}


def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def can_make_hosts():
    if os.geteuid() or shutil.which("ip") is None:
        return False
    try:
        ip("netns", "add", "attnlab-try")
        ip("netns", "delete", "attnlab-try")
    except subprocess.CalledProcessError:
        return False
    return True


@pytest.fixture
def hosts(tmp_path):
    """Two network namespaces with a wire between them. Each finds its own name at a loopback address, as
    Debian writes it to /etc/hosts."""
    if not can_make_hosts():
        pytest.skip("network namespaces need root and iproute2 (the command ip)")
    try:
        for name in HOSTS:
            ip("netns", "add", name)
        first, second = HOSTS
        ip("link", "add", "veth", "netns", first, "type", "veth", "peer", "name", "veth", "netns", second)
        for name, address in HOSTS.items():
            others = [f"{there} {other}\n" for other, there in HOSTS.items() if other != name]
            (tmp_path / name).write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n{''.join(others)}")
            ip("-n", name, "address", "add", f"{address}/24", "dev", "veth")
            for device in ("veth", "lo"):
                ip("-n", name, "link", "set", device, "up")
        yield list(HOSTS)
    finally:
        for name in HOSTS:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def meeting(kind, first, rank):
    """How the torchruns of two machines find each other, as docs/scale.md has it."""
    if kind == "c10d":
        return ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first}:29400"]
    return ["--node-rank", str(rank), "--master-addr", first, "--master-port", "29400"]


def torchrun_on(hosts, folder, *words, kind="static", **named):
    """The torchrun of docs/scale.md on each host, which meet at the first."""
    started = []
    for rank, host in enumerate(hosts):
        begin = f'hostname {host} && mount --bind {folder / host} /etc/hosts && exec "$@"'
        apart = ["unshare", "--uts", "--mount", "sh", "-c", begin, "sh"]
        launch = ["--nnodes", "2", "--nproc-per-node", "1", *meeting(kind, hosts[0], rank), "-m", "attnlab"]
        inside = ["ip", "netns", "exec", host, *apart, sys.executable, "-m", "torch.distributed.run", *launch]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([*inside, *map(str, words)], env=os.environ | named, **pipes))
    return started


def both_ended(both):
    """What each wrote."""
    try:
        return [process.communicate(timeout=60) for process in both]
    finally:
        for process in both:
            process.kill()


def test_a_wire_that_is_cut_ends_both_hosts_and_the_run_continues_when_it_is_restored(tmp_path, file, hosts):
    code, _, err = Launched("train", file, "--out", tmp_path / "whole", "--processes", 2).ended(120)
    assert code == 0, err
    out = tmp_path / "run"
    both = torchrun_on(hosts, tmp_path, "train", file, "--out", out, GLOO_SOCKET_IFNAME="veth")
    wait_for_steps(out, 20)
    ip("-n", hosts[0], "link", "set", "veth", "down")
    ended = both_ended(both)
    assert all(process.returncode for process in both)
    assert sum(line.startswith("Error:") for line in ended[0][1].splitlines()) == 1, ended[0][1]
    assert "training.process_timeout is 5 seconds" in ended[0][1]
    ip("-n", hosts[0], "link", "set", "veth", "up")
    both = torchrun_on(hosts, tmp_path, "train", "--resume", "--out", out, GLOO_SOCKET_IFNAME="veth")
    ended = both_ended(both)
    assert not any(process.returncode for process in both), ended
    ours, theirs = outcome(out, STEPS), outcome(tmp_path / "whole", STEPS)
    assert ours["tensors"] == theirs["tensors"] and ours["events"] == theirs["events"]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp(replicas=2)"])
def test_two_hosts_train_as_two_processes_of_one(tmp_path, file, hosts, strategy):
    short = ("--set", "training.budget.steps=20", "--set", "training.evaluate_every=10")
    chosen = (*short, "--set", f"training.strategy={strategy}")
    code, _, err = Launched("train", file, "--out", tmp_path / "whole", "--processes", 2, *chosen).ended()
    assert code == 0, err
    run = ("train", file, "--out", tmp_path / "run", *chosen)
    both = torchrun_on(hosts, tmp_path, *run, kind="c10d", GLOO_SOCKET_IFNAME="veth")
    ended = both_ended(both)
    assert not any(process.returncode for process in both), ended
    assert json.loads((tmp_path / "run" / "run.json").read_text())["processes"]["hosts"] == hosts
    assert outcome(tmp_path / "run", 20) == outcome(tmp_path / "whole", 20)


def test_hosts_that_cannot_reach_each_other_say_how_they_can(tmp_path, file, hosts):
    both = torchrun_on(hosts, tmp_path, "train", file, "--out", tmp_path / "run")
    ended = both_ended(both)
    assert all(process.returncode for process in both)
    said = [line for _, err in ended for line in err.splitlines() if line.startswith("Error:")]
    assert len(said) == 1 and "127.0.1.1" in said[0] and "Set GLOO_SOCKET_IFNAME" in said[0], ended
