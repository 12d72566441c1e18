"""What is served, and to whom: nothing outside the folder, to nobody but its own page."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.web.serving import server, until

HOUSE = Path(__file__).parents[1] / "session" / "before_house" / "runs.tar.xz"
SECRET = "the secret of another folder"


@pytest.fixture(scope="module")
def folder(served, tmp_path_factory):
    """Healthy runs beside every hostile one."""
    root = tmp_path_factory.mktemp("hostile") / "runs"
    shutil.copytree(served / "causal", root / "good")
    outside = root.parent / "outside"
    shutil.copytree(served / "causal", outside)
    (outside / "samples.txt").write_text(f"step 1\n1. {SECRET}\n")
    (root / "linked").symlink_to(outside)
    part = root / "part"
    shutil.copytree(served / "causal", part)
    (part / "samples.txt").unlink(missing_ok=True)
    (part / "samples.txt").symlink_to(outside / "samples.txt")
    markup = root / "<img src=x onerror=alert(1)>"
    shutil.copytree(served / "causal", markup)
    record = json.loads((markup / "run.json").read_text())
    record |= {"status": "failed", "error": "</script><script>alert(2)</script>"}
    (markup / "run.json").write_text(json.dumps(record))
    (markup / "samples.txt").write_text("step 1\n1. <script>alert(3)</script>\u202e\n")
    for name, content in BROKEN.items():
        (root / name).mkdir()
        (root / name / "run.json").write_bytes(content)
    shutil.copytree(served / "causal", root / os.fsdecode(b"not-utf-8-\xff"))
    (root / "pipe").mkdir()
    os.mkfifo(root / "pipe" / "run.json")
    for name in ("samples.txt", "metrics.jsonl", "lock"):
        place = root / f"pipe-of-{name}"
        shutil.copytree(served / "causal", place)
        (place / name).unlink(missing_ok=True)
        os.mkfifo(place / name)
    for name, values in ODD.items():
        shutil.copytree(served / "causal", root / name)
        record = json.loads((root / name / "run.json").read_text())
        (root / name / "run.json").write_text(json.dumps(record | {"status": "running"}))
        lines = (root / name / "metrics.jsonl").read_text().splitlines()
        changed = [json.dumps({**json.loads(line), **values}) for line in lines]
        (root / name / "metrics.jsonl").write_text("\n".join(changed) + "\n")
    large = root / "large"
    shutil.copytree(served / "causal", large)
    with (large / "samples.txt").open("wb") as file:
        file.truncate(65 << 20)
    return root


ODD = {
    "words": {"step": "x", "progress": {}, "loss": [], "tokens": "many"},
    "not-numbers": {"loss": float("nan"), "progress": float("nan"), "seconds": float("inf")},
    "large-numbers": {"step": 10**400, "tokens": 10**400, "flops": 10**400},
}
"""What the events of a run that goes on say, and no run writes."""

BROKEN = {
    "empty": b"",
    "cut": b'{"config": {"model"',
    "list": b"[]",
    "wrong": b'{"config": 3, "seed": "x"}',
    "deep": b'{"config": ' + b"[" * 100_000 + b"]" * 100_000 + b', "seed": 0}',
    "binary": bytes(range(256)) * 40,
    "nan": b'{"config": {"model": NaN}, "seed": 1e999}',
}


@pytest.fixture(scope="module")
def page(folder):
    with server(folder) as own:
        yield own


def test_home_shows_the_good_and_names_what_is_wrong_with_the_others(page, folder):
    runs = {run["address"]: run for run in page.ask("/api/runs").json()}
    assert runs["good"]["state"] == "finished"
    assert {runs[name]["state"] for name in [*BROKEN, "pipe", "part", "large"]} == {"damaged"}
    assert "linked" not in runs
    assert not any(name.startswith("not-utf-8") for name in runs)
    home = page.ask("/")
    assert home.status == 200
    assert "&lt;img src=x onerror=alert(1)&gt;" in home.text
    assert "<img" not in home.text


class Elements(HTMLParser):
    """What a browser would run of a page: elements and attributes that text of others must not become."""

    def __init__(self):
        super().__init__()
        self.dangerous, self.inside = [], ""

    @classmethod
    def of(cls, html):
        elements = cls()
        elements.feed(html)
        return elements

    def handle_starttag(self, tag, attributes):
        self.inside = tag
        self.dangerous += [f"{tag} {name}" for name, _ in attributes if name.startswith("on")]
        self.dangerous += [
            f"{tag} {value}" for _, value in attributes if (value or "").startswith("javascript:")
        ]
        self.dangerous += [tag] if tag == "img" else []

    def handle_data(self, data):
        if self.inside == "script" and "alert(" in data:
            self.dangerous.append(data)


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", *BROKEN, "pipe", "part", "large", "good"])
def test_every_run_has_a_page_whose_text_is_text(page, name):
    from urllib.parse import quote

    answer = page.ask(f"/runs/{quote(name)}")
    assert answer.status == 200
    assert SECRET not in answer.text
    assert Elements.of(answer.text).dangerous == []
    assert "\u202e" not in answer.text
    saved = page.ask(f"/saved/runs/{quote(name)}")
    assert saved.status in (200, 400, 404)
    assert Elements.of(saved.text).dangerous == []


@pytest.mark.parametrize(
    "path",
    [
        "/runs/../outside",
        "/runs/%2e%2e/outside",
        "/runs/good/../../outside",
        "/runs/linked",
        "/runs//etc",
        "/runs/%2fetc",
        "/runs/good%00",
        "/studies/../outside",
        "/static/../shell.py",
        "/static/%2e%2e%2fshell.py",
        "/static/..%5cshell.py",
        "/events/runs/..%2f..%2foutside",
        "/saved/runs/..%2foutside",
        "/try/..%2foutside",
        "/compare?run=good&run=..%2foutside",
    ],
)
def test_nothing_outside_the_folder_is_read(page, path):
    answer = page.ask(path)
    assert answer.status in (400, 404), answer.status
    assert SECRET not in answer.text
    assert "Traceback" not in answer.text


def test_a_model_behind_a_link_is_not_opened(page, folder):
    checkpoint = folder / "borrowed"
    shutil.copytree(folder / "good", checkpoint)
    own = next((checkpoint / "checkpoints").glob("step-*/*.safetensors"))
    own.unlink()
    own.symlink_to(next((folder.parent / "outside" / "checkpoints").glob(f"{own.parent.name}/{own.name}")))
    answer = page.ask("/api/resume/borrowed", "POST")
    assert answer.status in (400, 404)
    assert "link" in answer.json()["error"]


@pytest.mark.parametrize(
    "name", [*ODD, "pipe-of-samples.txt", "pipe-of-metrics.jsonl", "pipe-of-lock", "empty"]
)
def test_odd_events_and_pipes_are_shown_or_said(page, name):
    assert page.ask(f"/runs/{name}", timeout=10).status == 200
    assert page.ask(f"/saved/runs/{name}", timeout=10).status in (200, 400)
    assert page.ask("/", timeout=10).status == 200


def asking_for(folder, name, corpus):
    """A copy of a healthy run whose record names another corpus."""
    shutil.copytree(folder / "good", folder / name)
    record = json.loads((folder / name / "run.json").read_text())
    record["config"]["data"]["corpus"] = {"kind": "files", "path": [corpus]}
    (folder / name / "run.json").write_text(json.dumps(record))


def test_nothing_that_the_page_starts_reads_text_outside(page, folder):
    secret = folder.parent / "secret.txt"
    secret.write_text(f"{SECRET} " * 1000)
    (folder / "link.txt").symlink_to(secret)
    arms = f'question = "?"\n[arms.a]\n[arms.b]\n"data.corpus" = "{secret}"\n'
    (folder / "reads.toml").write_text(arms)
    starts = f'question = "?"\nstarts.m = "{folder.parent}/outside"\n[arms.a]\nstart = "study:m"\n[arms.b]\n'
    (folder / "starts.toml").write_text(starts)
    asking_for(folder, "asks", str(secret))
    asking_for(folder, "asks-by-link", str(folder / "link.txt"))
    asking_for(folder, "asks-by-pattern", f"{folder}/li*.txt")
    before = {*folder.iterdir()}
    for path, values in (
        ("/api/train", {"config": "mini-gpt", "set": [f"data.corpus={secret}"]}),
        ("/api/train", {"config": "mini-gpt", "set": [f"data.corpus={folder}/link.txt"]}),
        ("/api/resume/asks", {}),
        ("/api/resume/asks-by-link", {}),
        ("/api/resume/asks-by-pattern", {}),
        ("/api/studies", {"study": "reads.toml"}),
        ("/api/studies", {"study": "starts.toml"}),
    ):
        answer = page.ask(path, "POST", values)
        assert answer.status == 400, (path, values, answer.text)
        assert "folder that is served" in answer.json()["error"], answer.text
    assert {*folder.iterdir()} == before, "something was begun"


@pytest.mark.parametrize(
    ("headers", "method"),
    [
        ({"Host": "evil.example:{port}"}, "GET"),  # a name that was made to lead here
        ({"Host": "127.0.0.1:1"}, "GET"),
        ({"Host": ""}, "GET"),
        ({"Host": f"127.0.0.1:{'1' * 5000}"}, "GET"),
        ({"Origin": "http://evil.example"}, "POST"),  # another site's form or script
        ({"Origin": "http://127.0.0.1:1"}, "POST"),
        ({"Origin": "null"}, "POST"),
        ({"Origin": ""}, "POST"),
    ],
)
def test_other_names_and_other_origins_are_refused(page, headers, method):
    filled = {name: value.replace("{port}", str(page.port)) for name, value in headers.items()}
    answer = page.ask("/api/stop/good", method, headers=filled)
    assert answer.status == 403, answer.text
    assert page.ask("/api/stop/good", "POST").status == 400  # there is nothing to stop: it was let in


@pytest.mark.parametrize("path", ["/", "/runs/good", "/static/live.js", "/nowhere", "/api/runs"])
def test_a_browser_is_held_to_the_page(page, path):
    headers = page.ask(path).headers
    policy = headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    assert "unsafe-eval" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_what_is_too_large_is_refused(page):
    answer = page.ask("/api/config", "POST", {"config": "mini-gpt", "set": ["a=" + "x" * (1 << 21)]})
    assert answer.status == 403
    assert "limit 1,048,576 bytes" in answer.text


def test_another_address_asks_for_a_token(folder):
    with server(folder, "--host", "0.0.0.0") as own:
        assert own.token
        assert own.ask("/").status == 401
        assert own.ask("/?token=wrong").status == 401
        entered = own.ask(f"/?token={own.token}")
        assert entered.status == 303
        assert "token" not in entered.headers["location"]
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert own.ask("/", headers={"Cookie": cookie.partition(";")[0]}).status == 200
        assert own.ask("/", headers={"Cookie": "attnlab=wrong"}).status == 401
        assert own.ask("/api/runs", headers={"Cookie": "attnlab="}).status == 401


def test_a_port_that_is_taken_is_a_sentence(page, folder):
    command = [sys.executable, "-m", "attnlab", "serve", str(folder), "--port", str(page.port)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "cannot be listened on" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_server_has_no_torch(page):
    maps = Path(f"/proc/{page.process.pid}/maps").read_text()
    assert "uvloop" in maps or "python" in maps
    assert "libtorch" not in maps


# ---------------------------------------------------------------- as it goes on
def step(number, loss):
    event = {"event": "stepped", "step": number, "loss": loss, "learning_rate": 0.1, "gradient": 1.0}
    event |= {"tokens": 10, "flops": 100, "seconds": 0.1, "progress": number / 10, "epoch": 0.1, "parts": {}}
    return json.dumps(event) + "\n"


def test_what_a_run_writes_is_told_within_a_second(page, folder, served):
    run = folder / "growing"
    shutil.copytree(served / "causal", run)
    record = json.loads((run / "run.json").read_text()) | {"status": "running"}
    (run / "run.json").write_text(json.dumps(record))
    (run / "result.json").unlink(missing_ok=True)
    (run / "metrics.jsonl").write_text(step(1, 5.0))
    with (run / "lock").open("w") as lock:  # a process works in it: this one
        lock.write(str(os.getpid()))
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        shown = page.ask("/runs/growing")
        assert "Running: 10% of its budget, 1 step" in shown.text
        mark = shown.text.partition('data-mark="')[2].partition('"')[0]
        told = page.events(f"/events/runs/growing?after={mark}")
        with (run / "metrics.jsonl").open("a") as file:
            file.write(step(2, 4.5) + step(3, 4.0)[:20])  # and a line that is being written
        begun = time.monotonic()
        news = next(told)
        assert time.monotonic() - begun < 2.0
        assert news["headline"] == "Running: 20% of its budget, 2 steps"
        assert json.loads(news["plot:course"])["views"]["0,0"][0]["data"][0]["y"] == [5.0, 4.5]
        assert "samples" not in news  # it did not change
        (run / "run.json").write_text(json.dumps(record | {"status": "failed", "error": "it broke"}))
        news = next(told)
        assert news["headline"].startswith("Failed")
        assert "it broke" in news["notices"]
        told.close()


def test_who_comes_back_is_told_what_changed_meanwhile(page, folder, served):
    run = folder / "later"
    shutil.copytree(served / "causal", run)
    shown = page.ask("/").text
    mark = shown.partition('data-mark="')[2].partition('"')[0]
    record = json.loads((run / "run.json").read_text()) | {"status": "failed", "error": "later"}
    (run / "run.json").write_text(json.dumps(record))
    told = page.events(f"/events/home?after={mark}")
    assert until(lambda: next(told).get("row:later", ""))  # of what changed before it came
    told.close()
    told = page.events("/events/home?after=other-99")  # a mark of a server that is gone: all of it
    everything = next(told)
    assert {"headline", "order", "row:good"} <= set(everything)
    told.close()


def test_a_run_whose_process_was_killed_is_interrupted(page, folder, served):
    run = folder / "killed"
    shutil.copytree(served / "causal", run)
    record = json.loads((run / "run.json").read_text()) | {"status": "running"}
    (run / "run.json").write_text(json.dumps(record))
    long_ago = time.time() - 60
    for file in run.glob("*.json*"):
        os.utime(file, (long_ago, long_ago))
    runs = until(
        lambda: {one["address"]: one for one in page.ask("/api/runs").json() if one["address"] == "killed"}
    )
    assert runs["killed"]["state"] == "interrupted"
    assert "its process is gone" in page.ask("/runs/killed").text
    assert page.ask("/api/stop/killed", "POST").status == 400


def test_comparing_says_what_is_not_comparable(page, folder, served):
    shutil.copytree(served / "masked", folder / "masked")
    answer = page.ask("/compare?run=good&run=masked")
    assert answer.status == 200
    assert "not comparable" in answer.text
    paired = page.ask("/api/paired", "POST", {"run": ["good", "masked"]})
    assert paired.status == 400 and "not comparable" in paired.json()["error"]
    assert page.ask("/compare?run=good").status == 400
    assert "Compare 2 to 20 runs: 0 chosen" in page.ask("/compare").text


def test_differences_are_paired_by_the_texts_that_a_study_kept(page, folder, served):
    from attnlab.metrics import METRICS
    from attnlab.studies.run_measures import read_documents

    with tarfile.open(HOUSE) as house:
        house.extractall(folder / "house", filter="data")
    names = [f"house/study/runs/{arm}/seed-0" for arm in ("dot", "linear")]
    answer = page.ask("/api/paired", "POST", {"run": names})
    assert answer.status == 200, answer.text
    first, second = (read_documents(folder / name / "documents.safetensors") for name in names)
    wanted = METRICS.build("loss").difference(second.examples, first.examples)
    assert f'value="{wanted.value}"' in answer.json()["html"]
    assert f"{len(first):,} of dev" in answer.json()["html"]
    if not (folder / "masked").exists():
        shutil.copytree(served / "masked", folder / "masked")
    others = page.ask("/api/paired", "POST", {"run": [names[0], "masked", names[1]]})  # masked is left out
    assert others.status == 200, others.text
    assert f'value="{wanted.value}"' in others.json()["html"] and "masked" not in others.json()["html"]


def test_text_outside_the_folder_is_not_scored(page, folder, served):
    runs = []
    for name in ("mine", "yours"):
        runs.append(name)
        shutil.copytree(served / "causal", folder / name)
    answer = page.ask("/api/paired", "POST", {"run": runs})
    assert answer.status == 400
    assert "is not in the served folder" in answer.json()["error"]


def test_ctrl_c_ends_a_server_that_is_watched_without_a_word(folder):
    with server(folder) as own:
        mark = own.ask("/").text.partition('data-mark="')[2].partition('"')[0]
        watching = own.events(f"/events/home?after=other-{mark}")
        next(watching)
        began = time.monotonic()
        own.process.send_signal(signal.SIGINT)
        assert own.process.wait(20) in (0, 130, -2)
        assert time.monotonic() - began < 8
        assert own.process.stderr.read() in ("", "Stopped; nothing was lost.\n")
        for change in watching:  # what changed just before may still come; then the stream ends
            assert isinstance(change, dict)


def test_a_page_that_was_made_for_one_is_made_again_when_something_changed(page, folder, served):
    assert "row:newcomer" not in page.ask("/").text
    shutil.copytree(served / "causal", folder / "newcomer")
    until(lambda: "row:newcomer" in page.ask("/").text, 10)
    shutil.rmtree(folder / "newcomer")
    until(lambda: "row:newcomer" not in page.ask("/").text, 10)


def test_the_time_of_a_run_is_that_of_runs_like_it_or_measured(page, folder, served):
    from attnlab.config.files import load, to_json

    (folder / "text.txt").write_text("\n\n".join(f"The number {i} is not {i + 1}." for i in range(400)))
    small = ["model.width=16", "model.heads=2", "model.layers=1", f"data.corpus={folder}/text.txt"]
    small += ["data.length=32", "training.evaluate_every=never", "training.budget.epochs=unlimited"]
    steps, epochs = "training.budget.steps=50", "training.budget.epochs=2"

    def told(path, *more):
        answer = page.ask(path, "POST", {"config": "mini-gpt", "set": [*small, *more]})
        assert answer.status == 200, answer.text
        return answer.json()

    first = told("/api/config", steps)
    assert first["errors"] == [] and first["measure"], "no run here has such steps"
    assert "measuring" in first["html"]
    assert "measured from a few steps" in told("/api/pace", steps)["html"]
    again = told("/api/config", steps)
    assert not again["measure"] and "measured from a few steps" in again["html"]
    assert "measured from a few steps" in told("/api/pace", epochs)["html"], "epochs, too"
    seconds = told("/api/config", "training.budget.seconds=90")
    assert "about 1 min 30 s" in seconds["html"] and not seconds["measure"]
    config = to_json(load("mini-gpt", set=[*small, steps]))
    flops = page.ask("/api/ask/config", "POST", {"config": "mini-gpt", "set": [*small, steps]})
    step = json.loads(flops.text)["done"]["step_flops"]
    record = json.loads((folder / "good" / "run.json").read_text())
    shutil.copytree(served / "causal", folder / "alike")
    record |= {"config": config, "status": "finished", "seconds": 400.0, "flops": step * 20}
    events = [{"event": "stepped", "step": 20, "loss": 1.0, "gradient": 1.0, "tokens": 1, "seconds": 20.0}]
    lines = [json.dumps(event | {"progress": 1.0}) for event in events]
    (folder / "alike" / "run.json").write_text(json.dumps(record))
    (folder / "alike" / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    until(lambda: "row:alike" in page.ask("/").text, 10)
    other = told("/api/config", "training.budget.steps=51", "seed=7")
    assert "at the rate of alike" in other["html"], other["html"]


def test_a_run_of_another_machine_is_neither_stopped_nor_resumed_here(page, folder, served):
    own = folder / "elsewhere"
    shutil.copytree(served / "causal", own)
    record = json.loads((own / "run.json").read_text())
    machine = {"node": "big-machine", "processor": "", "accelerator": ""}
    (own / "run.json").write_text(json.dumps(record | {"status": "running", "machines": [machine]}))
    shown = until(lambda: "big-machine" in (answer := page.ask("/runs/elsewhere").text) and answer, 10)
    assert "data-send" not in shown, "no button that cannot work"
    for action in ("stop", "resume"):
        answer = page.ask(f"/api/{action}/elsewhere", "POST")
        assert answer.status == 400 and "big-machine" in answer.json()["error"]
    (own / "run.json").write_text(json.dumps(record | {"status": "interrupted", "machines": [machine]}))
    until(lambda: "/api/resume/elsewhere" in page.ask("/runs/elsewhere").text, 10)
