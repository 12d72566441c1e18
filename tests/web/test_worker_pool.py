"""Worker processes: what they answer, their limits, and that nothing is left of them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import aclosing

import pytest

from attnlab.web import actions, model_worker
from attnlab.web.worker_pool import WorkerError, WorkerPool, resident_bytes

WRITE = {"prompt": "the cat", "length": 500, "beyond": "window", "seed": 1}


def lives(process):
    """Whether a process is there, and no zombie."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def gone(process, seconds=10):
    end = time.monotonic() + seconds
    while lives(process):
        assert time.monotonic() < end, f"process {process} still lives"
        await asyncio.sleep(0.05)


def with_pool(root, question, **limits):
    """What a coroutine of a pool gives; afterwards all its processes are gone."""

    async def run():
        pool = WorkerPool(root, **limits)
        started = set()
        try:
            result = await question(pool)
            started |= set(pool.processes)
            return result
        finally:
            started |= set(pool.processes)
            await pool.close()
            assert not any(map(lives, started))

    return asyncio.run(run())


def test_answers_are_those_of_the_actions_and_the_model_stays_open(served, ask):
    async def questions(pool):
        messages = [m async for m in pool.ask("write", served / "causal", {"prompt": "the cat", "length": 5})]
        (process,) = pool.processes
        facts = await pool.answer("facts", served / "causal")
        card = await pool.answer("card", None, {"table": "masks", "name": "causal"})
        assert pool.processes == [process]
        with pytest.raises(WorkerError, match="at most 500") as refused:
            await pool.answer("write", served / "causal", {"length": 501})
        assert not refused.value.fault and pool.processes == [process]
        return messages, facts, card

    messages, facts, card = with_pool(served, questions)
    parts, last = ask("write", "causal", prompt="the cat", length=5)
    assert [m["part"] for m in messages[:-1]] == parts and messages[-1] == {"done": last["done"]}
    assert facts == ask.done("facts", "causal") and card["name"] == "causal"


def test_a_worker_reads_text_by_processes_of_its_own(served):
    """They are forked while a thread of the worker waits for its next request."""
    small = ["model.width=32", "model.layers=1", "model.heads=2", "data.dev_share=0.07", "data.length=61"]

    async def questions(pool):
        return await pool.answer("pace", None, {"config": "mini-gpt", "set": small})

    assert with_pool(served, questions)["seconds"] > 0


def test_two_questions_are_answered_at_once_and_a_third_waits_or_is_told(served):
    async def questions(pool):
        runs = ["causal", "masked"]
        both = await asyncio.gather(*(pool.answer("facts", served / run) for run in runs))
        assert [facts["task"] for facts in both] == runs and len(set(pool.processes)) == 2
        again = await asyncio.gather(*(pool.answer("facts", served / run) for run in [*runs, "tagging"]))
        assert [facts["task"] for facts in again] == [*runs, "tagging"] and len(pool.processes) == 2
        slow = [pool.ask("write", served / "causal", WRITE) for _ in runs]
        for one in slow:
            await anext(one)
        pool.seconds = 0.3
        with pytest.raises(WorkerError, match="busy: 2 questions"):
            await pool.answer("facts", served / "causal")
        for one in slow:
            await one.aclose()

    with_pool(served, questions)


def test_a_question_that_takes_too_long_ends_its_process_and_the_next_is_answered(served):
    async def questions(pool):
        await pool.answer("facts", served / "causal")
        (process,) = pool.processes
        pool.seconds = 0.001
        with pytest.raises(WorkerError, match=r"longer than .* s, the limit"):
            await pool.answer("write", served / "causal", WRITE)
        await gone(process)
        pool.seconds = 60
        assert (await pool.answer("facts", served / "causal"))["task"] == "causal"
        assert process not in pool.processes

    with_pool(served, questions)


def test_a_process_that_grows_too_large_is_ended(served):
    async def questions(pool):
        with pytest.raises(WorkerError, match=r"more than 0\.0\d+ GB of memory, the limit"):
            await pool.answer("facts", served / "causal")
        assert not pool.processes

    with_pool(served, questions, memory=50 * 2**20)
    assert resident_bytes(os.getpid()) > 2**20 and resident_bytes(2**30) == 0


def test_whoever_stops_listening_ends_the_work(served):
    async def questions(pool):
        async with aclosing(pool.ask("write", served / "causal", WRITE)) as messages:
            await anext(messages)
            (process,) = pool.processes
        assert not pool.processes
        await gone(process)

        async def listen():
            async for _ in pool.ask("write", served / "causal", WRITE):
                started.set()

        started = asyncio.Event()
        listener = asyncio.create_task(listen())
        await started.wait()
        (process,) = pool.processes
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)
        await gone(process)

    with_pool(served, questions)


def test_idle_processes_end_and_dead_ones_are_replaced(served):
    async def questions(pool):
        await pool.answer("facts", served / "causal")
        (process,) = pool.processes
        os.kill(process, 9)
        await gone(process)
        await asyncio.sleep(0.2)
        pool.idle = 0.2
        assert (await pool.answer("facts", served / "causal"))["task"] == "causal"
        (process,) = pool.processes
        await gone(process)
        assert not pool.processes

    with_pool(served, questions)


def test_a_worker_ends_with_its_server_in_the_middle_of_a_question(served):
    command = [sys.executable, "-m", "attnlab.web.model_worker", str(served)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        request = {"id": 1, "action": "write", "folder": str(served / "causal"), "values": WRITE}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.stdin.close()
        assert process.wait(10) == 0


def test_the_server_opens_no_torch():
    code = "import sys, attnlab.web.worker_pool, attnlab.web.actions; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# ---------------------------------------------------------------- runs that are not to be trusted
@pytest.fixture
def copied(served, ask):
    """A run to be damaged."""
    place = served / "copied"
    shutil.copytree(served / "causal", place)
    yield place
    shutil.rmtree(place)


def test_damaged_runs_are_a_sentence(copied, ask):
    record = (copied / "run.json").read_text()
    for broken in ("{", "[]", '{"config": 3}', ""):
        (copied / "run.json").write_text(broken)
        ask.error("facts", "copied")
    (copied / "run.json").write_text(record)
    assert ask.done("facts", "copied")
    weights = next(copied.glob("checkpoints/*/*.safetensors"))
    for file in copied.glob("checkpoints/*/*.safetensors"):
        file.write_bytes(file.read_bytes()[:-1])
    os.utime(copied / "run.json", ns=(1, 1))
    assert weights and "damaged" in ask.error("facts", "copied")
    shutil.rmtree(copied / "checkpoints")
    assert "no checkpoint" in ask.error("facts", "copied")


def test_a_run_with_code_of_its_own_is_not_opened_and_nothing_of_it_runs(copied, ask):
    ran = copied / "ran"
    (copied / "mine.py").write_text(f"open({str(ran)!r}, 'w')")
    record = json.loads((copied / "run.json").read_text())
    code = {"module": "mine", "file": str(copied / "mine.py"), "hash": "0", "parts": [["attention", "mine"]]}
    (copied / "run.json").write_text(json.dumps(record | {"imports": [code]}))
    assert "mine.py" in ask.error("facts", "copied") and not ran.exists()


def test_links_out_of_the_served_folder_are_not_followed(copied, ask, tmp_path):
    shutil.move(copied / "tokenizer.json", tmp_path / "tokenizer.json")
    (copied / "tokenizer.json").symlink_to(tmp_path / "tokenizer.json")
    assert "link out of the folder" in ask.error("facts", "copied")
    shutil.copytree(copied, tmp_path / "outside")
    (ask.root / "linked").symlink_to(tmp_path / "outside")
    assert "not in the folder that is served" in ask.error("facts", "linked")
    assert "not in the folder that is served" in ask.error("facts", "../outside")


def test_markup_in_names_is_data(copied, ask):
    hostile = copied.with_name("<script>alert(1)<!--&\u202e")
    shutil.copytree(copied, hostile)
    assert ask.done("facts", hostile.name)["task"] == "causal"
    (hostile / "run.json").write_text("{")
    assert "<script>" in ask.error("facts", hostile.name)  # as it is: whoever shows it escapes it
    shutil.rmtree(hostile)


def test_a_run_that_trained_on_is_opened_anew(copied, ask):
    before = ask.done("facts", "copied")["step"]
    record = json.loads((copied / "run.json").read_text())
    earlier = min(int(p.name[5:]) for p in copied.glob("checkpoints/step-*"))
    record["best"]["step"] = earlier
    (copied / "run.json").write_text(json.dumps(record))
    assert earlier != before and ask.done("facts", "copied")["step"] == earlier


# ---------------------------------------------------------------- faults of our own
def test_a_fault_is_told_as_such_and_no_number_is_not_a_number(ask, monkeypatch, capsys):
    def failing(asked):
        raise KeyError("secret detail")

    def unending(asked):
        yield {"value": float("nan"), "list": [float("inf"), 1.5], "text": "é\u2028"}
        raise MemoryError

    monkeypatch.setattr(sys.modules[__name__], "failing", failing, raising=False)
    monkeypatch.setattr(sys.modules[__name__], "unending", unending, raising=False)
    monkeypatch.setitem(actions.ACTIONS, "failing", f"{__name__}:failing")
    monkeypatch.setitem(actions.ACTIONS, "unending", f"{__name__}:unending")
    _, last = ask("failing")
    assert last["fault"] and "KeyError" in last["error"] and "secret" not in last["error"]
    assert "secret detail" in capsys.readouterr().err
    parts, last = ask("unending")
    assert parts == [{"value": None, "list": [None, 1.5], "text": "é\u2028"}]
    assert last == {"id": 1, "error": model_worker.NO_MEMORY}
