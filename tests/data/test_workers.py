"""Several processes do what one does: the same rows, cuts and counts, in the same order."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict

import numpy as np
import pytest

from attnlab.config.files import section_of
from attnlab.data import dataset as dataset_module
from attnlab.data.dataset import Dataset
from attnlab.data.encode import encoding as encoding_module
from attnlab.data.errors import DataError
from attnlab.data.inspection import counted
from attnlab.data.workers import in_order


def square(number):
    if number == 13:
        raise DataError("13 is refused")
    return number * number, os.getpid()


def test_results_come_in_order_from_several_processes():
    found = list(in_order(square, range(12), processes=3))
    assert [value for value, _ in found] == [n * n for n in range(12)]
    assert os.getpid() not in {process for _, process in found}
    assert [value for value, _ in in_order(square, range(5), processes=1)] == [0, 1, 4, 9, 16]


def squares_shared_again(number):
    return [value for value, _ in in_order(square, range(number), processes=2)]


def test_a_process_that_shares_its_own_work_does_the_next_piece_too():
    # as when a check, which has a process of its own, reads text that was not counted before
    found = in_order(squares_shared_again, range(1, 7), processes=2)
    assert list(found) == [[n * n for n in range(count)] for count in range(1, 7)]


def test_what_is_refused_there_is_refused_here():
    with pytest.raises(DataError, match="13 is refused"):
        list(in_order(square, range(20), processes=2))


def test_a_process_that_is_ended_from_outside_is_told_as_memory():
    with pytest.raises(MemoryError, match="ended from outside"):
        list(in_order(lambda number: os.kill(os.getpid(), signal.SIGKILL), range(3), processes=2))


def test_a_persons_interrupt_is_answered_here_alone():
    code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background job ignores it
        "from attnlab.data import workers\n"
        "begin = workers._begin\n"
        "def late(*given):\n    time.sleep(os.getpid() % 2); begin(*given)\n"  # one of two has hardly begun
        "workers._begin = late\n"
        "def wait(n):\n    os.write(1, b'x\\n'); time.sleep(0.5)\n"
        "try:\n    list(workers.in_order(wait, range(1), processes=2))\n"
        "except KeyboardInterrupt:\n    print('stopped')\n"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    started = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, **pipes)
    assert started.stdout.readline() == "x\n"
    os.killpg(started.pid, signal.SIGINT)  # as a terminal sends it: to the parent and its processes
    said, _ = started.communicate(timeout=60)
    assert said.replace("x\n", "") == "stopped\n"


def test_only_a_few_pieces_are_read_ahead():
    read = []

    def pieces():
        for number in range(12):
            read.append(number)
            yield number

    results = in_order(square, pieces(), processes=2)
    next(results)
    assert len(read) <= 6
    results.close()


@pytest.mark.parametrize("settings", [{}, {"encoding": "single", "tokenizer": "word"}, {"length": 8}])
def test_text_is_encoded_and_counted_as_by_one_process(tmp_path, monkeypatch, settings):
    file = tmp_path / "rows.jsonl"
    said = ("näive " * (n % 9) for n in range(700))
    lines = (f'{{"text": "line {n} says {word}{n * n}", "label": "{n % 3}"}}' for n, word in enumerate(said))
    file.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(encoding_module, "CHUNK_TEXTS", 64)
    found = {}
    for processes in (1, 2):
        monkeypatch.setattr(dataset_module, "processes_for", lambda corpus, n=processes: n)
        chosen = {"corpus": str(file), "tokenizer": "bpe(vocabulary=300)", **settings}
        made = Dataset(section_of("data", chosen), cache=tmp_path / f"cache-{processes}")
        rows = made.rows("train")
        parts = [[rows.ragged("ids", n).tolist(), rows.ragged("sizes", n).tolist()] for n in range(len(rows))]
        reports = {name: asdict(count.report) for name, count in counted(made).items()}
        found[processes] = parts, asdict(made.cuts["train"]), reports, rows.scalars("example").tolist()
    assert found[1] == found[2]


def test_a_killed_parent_leaves_no_process(tmp_path):
    code = (
        "import time\n"
        "from attnlab.data.workers import in_order\n"
        "def wait(n):\n    import os; os.write(1, b'%d\\n' % os.getpid()); time.sleep(60)\n"
        "list(in_order(wait, range(4), processes=2))\n"
    )
    started = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    children = [int(started.stdout.readline()) for _ in range(2)]
    started.send_signal(signal.SIGKILL)
    started.wait()
    started.stdout.close()
    for _ in range(100):
        if not [child for child in children if alive(child)]:
            return
        time.sleep(0.1)
    raise AssertionError("a process went on without its parent")


def alive(process):
    try:
        with open(f"/proc/{process}/stat") as stream:
            return stream.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_columns_joined_are_those_of_all_rows():
    from attnlab.data.columns import Row
    from attnlab.data.rows import columns_of, concatenated

    sizes = [[300 if n == 7 else 1] * (n % 5 + 1) for n in range(20)]
    rows = [Row(ids=range(len(size)), example=n, sizes=size) for n, size in enumerate(sizes)]
    whole, parts = (
        columns_of(rows, 100),
        concatenated([columns_of(rows[a : a + 6], 100) for a in range(0, 20, 6)]),
    )
    assert whole.keys() == parts.keys()
    for name, column in whole.items():
        np.testing.assert_array_equal(column, parts[name])
