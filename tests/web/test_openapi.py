"""Requests that nobody would write, to every address of the page: none breaks it, and none hangs."""

from __future__ import annotations

import json
import shutil
import threading
import time
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from inspect import isgenerator

import pytest
import requests
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from attnlab.config.registry import locate
from attnlab.config.values import ConfigError
from attnlab.web.actions import ACTIONS
from attnlab.web.app import create_app
from attnlab.web.laboratory import Laboratory
from attnlab.web.serving import EndingServer, bound
from attnlab.web.started_processes import StartedProcesses

LONGEST = 20.0
"""Seconds that a question to a model may take here; no answer takes longer than that and a little."""
REFUSED = "Nothing is started here."
RUNS = ("causal", "classification", "study/runs/a/seed-0", "broken", "causal/checkpoints", "study", "")
KNOWN = {
    "address": RUNS,
    "topic": ("runs/nobody-looked", "\x00", "home/"),
    "action": tuple(ACTIONS),
    "table": ("masks", "positions", "attention", "optimizers", "nothing"),
    "name": ("rotary", "causal", "linear", "adamw", "../x", ""),
    "choice": ("window(size=8)", "window(size=0)", "causal & window", "rotary(base=-1)", "linear(", "all()"),
    "config": ("mini-gpt", "classifier-mini", "nothing", ""),
    "set": (["model.width=130"], ["seed=x"], ["="], ["data.corpus=text(path=/etc/passwd)"], ["imports=[os]"]),
    "study": ("masking", "nothing.toml", "../x.toml", "/", "."),
    "limit": ("steps", ""),
    "amount": ("1e999", "nan", "-1", "10"),
    "run": (["causal", "classification"], ["causal", "causal"], ["broken", "causal"], ["causal"] * 21),
}
"""What a name in an address, a query or a body may stand for: guessed texts alone would find only 404."""
TEXTS = st.sampled_from(["", "the list of all names", "\ud800", "\x00", "\u202e", "a" * 3000, "\n\n", "🙂"])
VALUES = st.one_of(
    TEXTS,
    st.text(max_size=20),
    st.integers(-2, 40) | st.sampled_from([2**70, -(2**70), True, None, 1e308, 0.5, 0.0]),
    st.lists(TEXTS | st.integers(-2, 5), max_size=4),
    st.lists(st.lists(st.integers(-2, 5) | st.floats(-2, 2), max_size=4), max_size=4),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


class FieldsWantedError(Exception):
    """Which values an action reads."""


class Spy:
    """Stands for a request, to learn what an action reads."""

    def read(self, record):
        raise FieldsWantedError([field.name for field in fields(record)])


@cache
def fields_of(action):
    try:
        answer = locate(ACTIONS[action])(Spy())
        return next(answer) if isgenerator(answer) else []
    except FieldsWantedError as wanted:
        return wanted.args[0]
    except AttributeError:  # it reads none
        return []


@pytest.fixture(scope="module")
def folder(served, tmp_path_factory):
    """Two runs that can be opened, a study that has begun, and a damaged run."""
    root = tmp_path_factory.mktemp("openapi") / "runs"
    for name in ("causal", "classification"):
        shutil.copytree(served / name, root / name)
    shutil.copytree(served / "causal", root / "study" / "runs" / "a" / "seed-0")
    record = {"study": {"name": "study", "question": "?", "seeds": 1}, "configs": {"a": {}}}
    (root / "study" / "study.json").write_text(json.dumps(record))
    (root / "broken").mkdir()
    (root / "broken" / "run.json").write_text('{"config"')
    return root


@contextmanager
def page_of(folder, complaints):
    """A server in this process, which starts and stops nothing; what its workers complain of is kept."""
    laboratory = Laboratory.at(folder)
    laboratory.workers.seconds, laboratory.workers.log = LONGEST, complaints.append
    with bound("127.0.0.1", 0) as (listening, door):
        served_by = uvicorn.Config(
            create_app(laboratory, door),
            log_level="critical",
            access_log=False,
            ws="none",
            timeout_graceful_shutdown=1,
        )
        server = EndingServer(served_by, laboratory)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{door.port}"
        finally:
            server.should_exit = True
            thread.join()


def fuzz(folder, monkeypatch, each):
    """So many requests to each operation, half of them as its schema has them; gives how many were sent."""

    def refuse(self, *words):
        raise ConfigError(REFUSED)

    monkeypatch.setattr(StartedProcesses, "start", refuse)
    monkeypatch.setattr(StartedProcesses, "stop", refuse)
    complaints: list[str] = []
    sent = 0
    with page_of(folder, complaints) as address, requests.Session() as session:
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json", wait_for_schema=10)

        def send(case, data):
            nonlocal sent
            for part in (case.path_parameters, case.query, case.body):
                for name in part if isinstance(part, dict) else ():
                    if name in KNOWN and data.draw(st.integers(0, 3)):
                        part[name] = data.draw(st.sampled_from(KNOWN[name]))
            if "/api/ask/" in case.path and data.draw(st.integers(0, 3)):
                names = fields_of(action) if (action := case.path_parameters["action"]) in ACTIONS else []
                case.body = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(names, VALUES)))
            sent += 1
            begun = time.monotonic()
            answer = case.call(session=session, headers={"Origin": address}, timeout=LONGEST + 10)
            assert answer.status_code < 500, f"{answer.status_code}: {case.as_curl_command()}"
            assert time.monotonic() - begun < LONGEST + 5, case.as_curl_command()

        for operation in (result.ok() for result in schema.get_all_operations()):
            modes = [operation.as_strategy(generation_mode=mode) for mode in GenerationMode]
            thorough = settings(
                max_examples=each,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            thorough(given(st.one_of(modes), st.data())(send))()
        assert session.get(f"{address}/", timeout=30).status_code == 200
    assert not [line for line in complaints if "Traceback" in line], "\n".join(complaints)
    return sent


def test_a_few_requests_to_every_address(folder, monkeypatch):
    assert fuzz(folder, monkeypatch, 7) >= 150


@pytest.mark.slow
def test_5000_requests(folder, monkeypatch):
    assert fuzz(folder, monkeypatch, 250) >= 5000
