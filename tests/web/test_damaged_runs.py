"""Records that no run writes: one of them hides nothing else, and each is said where it is looked at."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from attnlab.runs import faults, metrics_file
from attnlab.runs.follower import Follower
from attnlab.runs.metrics_file import curve_of, read_events
from attnlab.web import serving as module
from attnlab.web.course import GrowingCourse
from attnlab.web.indexed import IndexedStudy
from attnlab.web.laboratory import Laboratory
from attnlab.web.views import home, study_grid
from attnlab.web.views.run import regions_of
from tests.web.serving import server


def changed(run, name="run.json", **facts):
    file = run / name
    file.write_text(json.dumps(json.loads(file.read_text()) | facts))


def with_events(run, **values):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    events = [json.dumps({**json.loads(line), **values}) for line in lines]
    (run / "metrics.jsonl").write_text("\n".join(events) + "\n")


def damage_budget(run):
    config = json.loads((run / "run.json").read_text())["config"]
    changed(run, config=config | {"training": config["training"] | {"budget": 0}})


def damage_setting(run):
    config = json.loads((run / "run.json").read_text())["config"]
    changed(run, config=config | {"training": config["training"] | {"listeners": -1}})


DAMAGE = {
    "no-progress": lambda run: with_events(run, progress=None),
    "no-budget": damage_budget,
    "another-kind": damage_setting,
    "odd-checkpoint": lambda run: (run / "checkpoints" / "step-²").mkdir(parents=True),
    "endless": lambda run: with_events(run, scores={"targets": float("inf"), "accuracy": 0.5}),
}


@pytest.fixture(scope="module")
def folder(served, tmp_path_factory):
    root = tmp_path_factory.mktemp("damaged") / "runs"
    for name, damage in {"good": lambda run: None, **DAMAGE}.items():
        shutil.copytree(served / "causal", root / name)
        damage(root / name)
    return root


@pytest.fixture(scope="module")
def page(folder):
    with server(folder) as own:
        yield own


@pytest.mark.parametrize("name", DAMAGE)
def test_what_no_run_writes_is_said_where_it_is_looked_at(page, name):
    for path in (f"/runs/{name}", f"/saved/runs/{name}", f"/compare?run=good&run={name}", f"/try/{name}"):
        answer = page.ask(path)
        assert answer.status in (200, 400), (path, answer.status)
        assert answer.status == 200 or "cannot be" in answer.text
        if name in ("odd-checkpoint", "no-progress") and "/runs/" in path:  # it is left out
            assert answer.status == 200 and "cannot be shown" not in answer.text


def test_the_list_shows_all_of_them(page):
    answer = page.ask("/")
    assert answer.status == 200
    for name in ("good", *DAMAGE):
        assert f'data-live="row:{name}"' in answer.text
    row = answer.text.partition('data-live="row:no-progress"')[2].partition("</tr>")[0]
    assert "damaged" not in row, "a step without its progress is left out"


def test_a_run_that_cannot_be_shown_is_damaged_and_recovers(served, tmp_path):
    shutil.copytree(served / "causal", tmp_path / "one")
    whole = (tmp_path / "one" / "run.json").read_text()
    damage_budget(tmp_path / "one")
    laboratory = Laboratory.at(tmp_path)
    shown = regions_of(laboratory, laboratory.run("one"))
    assert shown["headline"].startswith("Damaged") and "one cannot be shown" in shown["notices"]
    assert "summary" not in shown
    (tmp_path / "one" / "run.json").write_text(whole)
    laboratory.index.refresh()
    assert "summary" in regions_of(laboratory, laboratory.run("one"))


# ---------------------------------------------------------------- what is too large
def test_a_record_that_is_too_large_is_not_read(served, tmp_path, monkeypatch):
    shutil.copytree(served / "causal", tmp_path / "one")
    monkeypatch.setattr(faults, "LARGEST", (tmp_path / "one" / "run.json").stat().st_size - 1)
    run = Laboratory.at(tmp_path).run("one")
    assert run.state == "damaged" and "too large" in str(run.summary.result.reason)


def test_a_line_without_an_end_is_left_out_and_the_others_are_read(served, tmp_path, monkeypatch):
    shutil.copytree(served / "causal", tmp_path / "one")
    file = tmp_path / "one" / "metrics.jsonl"
    before, events = GrowingCourse(file.parent).look(), list(read_events(file))
    whole = curve_of(file, "loss")
    first, *rest = file.read_text().splitlines(keepends=True)
    stepped = next(line for line in rest if '"stepped"' in line)
    long = json.dumps(json.loads(stepped) | {"padding": "x" * metrics_file.LONGEST}) + "\n"
    file.write_text("".join([first, long, *rest]))
    after, follower = GrowingCourse(file.parent).look(), Follower(file.parent)
    follower.look()
    assert after.place == before.place and list(read_events(file)) == events
    assert curve_of(file, "loss") == whole
    assert follower.spent == pytest.approx(before.place[3]) and follower._position == file.stat().st_size


def test_a_page_does_not_wait_for_a_look_that_takes_long(served, tmp_path):
    shutil.copytree(served / "causal", tmp_path / "one")
    index = Laboratory.at(tmp_path).index
    index.refresh()
    with index._lock:  # as while a run of gigabytes is read
        began = time.monotonic()
        index.look(0.0)
        assert 0.2 < time.monotonic() - began < 2
    assert list(index.runs) == ["one"]


def test_a_grid_has_no_more_cells_than_can_be_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(study_grid, "MOST_CELLS", 12)
    record = {"study": {"arms": {f"arm-{number}": {} for number in range(5)}, "seeds": 1000}}
    shown = study_grid.grid(IndexedStudy("s", tmp_path, record, ()), [])
    assert shown.count("<td") == 10 and "5 arms and 2 seeds, of all that there are" in shown
    few = study_grid.grid(
        IndexedStudy("s", tmp_path, record | {"study": record["study"] | {"seeds": 2}}, ()), []
    )
    assert few.count("<td") == 10 and "of all that there are" not in few


# ---------------------------------------------------------------- requests that nobody would write
@pytest.mark.parametrize(
    ("path", "values", "headers", "status"),
    [
        ("/api/paired", {"run": ["\ud800", "good"]}, {}, 404),
        ("/api/studies", {"study": "🙂" * 190 + ".toml"}, {}, 400),
        ("/api/studies", {"study": "masking"}, {"Origin": "http://[x"}, 403),
        (f"/static/{'a' * 300}.js", None, {}, 404),
        ("/static/../app.py", None, {}, 404),
    ],
)
def test_a_request_that_nobody_would_write_is_answered_in_a_sentence(page, path, values, headers, status):
    answer = page.ask(path, "GET" if values is None else "POST", values, headers)
    assert answer.status == status and len(answer.text.split()) > 3


def test_a_name_that_a_dangling_link_has_is_taken(page, folder):
    (folder / "taken").symlink_to(folder / "nowhere")
    answer = page.ask("/api/train", "POST", {"config": "mini-gpt", "name": "taken"})
    assert answer.status == 400 and 'a folder "taken" already' in answer.json()["error"]


def test_a_connection_that_asks_for_nothing_is_ended(monkeypatch, page):
    with socket.create_connection(("127.0.0.1", page.port), timeout=module.SILENT + 10) as silent:
        silent.sendall(b"GET / HT")
        began = time.monotonic()
        assert silent.recv(100) == b""
        assert module.SILENT - 2 < time.monotonic() - began < module.SILENT + 5


def test_a_stream_that_is_silent_is_not_ended(page):
    page.ask("/runs/good")
    with socket.create_connection(("127.0.0.1", page.port), timeout=0.5) as stream:
        stream.sendall(f"GET /events/runs/good HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n\r\n".encode())
        began = time.monotonic()
        while time.monotonic() - began < module.SILENT + 2:
            with suppress(TimeoutError):
                assert stream.recv(1 << 16) != b""


def test_cookies_of_others_lock_nobody_out(folder):
    with server(folder, "--host", "0.0.0.0") as own:
        first = own.ask(f"/?token={own.token}", headers={"Host": f"localhost:{own.port}"})
        assert first.status == 303 and first.headers["set-cookie"].startswith(f"attnlab-{own.port}=")
        ours = first.headers["set-cookie"].partition(";")[0]
        for other in ('prefs={"a": 1}', "foo", "x y=1", "a[b]=1", "attnlab-1=other"):
            assert own.ask("/api/runs", headers={"Cookie": f"{other}; {ours}"}).status == 200, other
        assert own.ask("/api/runs", headers={"Cookie": f"{ours}x"}).status == 401


def test_names_that_do_not_exist_are_not_kept():
    from attnlab.web import shell

    for number in range(50):
        assert shell.static_file(f"{number}.js") is None
    assert shell._file.cache_info().currsize <= len((*shell.MADE, *shell.own_files()))
    assert shell.static_file("live.js")[1].startswith("text/javascript")


def test_a_row_that_cannot_be_drawn_hides_no_other(served, tmp_path, monkeypatch):
    for name in ("one", "two"):
        shutil.copytree(served / "causal", tmp_path / name)
    drawn = home.row_of

    def drawn_or_not(run, *rest):
        if run.address == "one" and run.summary.config:
            raise TypeError("nobody thought of this")
        return drawn(run, *rest)

    monkeypatch.setattr(home, "row_of", drawn_or_not)
    laboratory = Laboratory.at(tmp_path)
    laboratory.index.refresh()
    shown = home._Rows(laboratory).regions()
    assert "damaged" in shown["row:one"] and "nobody thought of this" in shown["row:one"]
    assert "finished" in shown["row:two"]


def test_more_connections_than_the_system_allows_are_said_once_and_others_are_answered_again(folder):
    with server(folder) as own:
        open_files = len(list(Path(f"/proc/{own.process.pid}/fd").iterdir()))
        resource.prlimit(own.process.pid, resource.RLIMIT_NOFILE, (open_files + 8, open_files + 8))
        silent = [socket.create_connection(("127.0.0.1", own.port), timeout=5) for _ in range(12)]
        for one in silent:
            one.sendall(b"GET / HT")
        began = time.monotonic()
        assert own.ask("/static/live.js", timeout=6 * module.SILENT).status == 200
        assert time.monotonic() - began < 5 * module.SILENT
        for one in silent:
            one.close()
        os.set_blocking(own.process.stderr.fileno(), False)
        log = own.process.stderr.read()
        assert "more connections than this system allows" in log and len(log) < 1000, log[:3000]
