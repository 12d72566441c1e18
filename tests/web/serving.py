"""A server as a person starts it, and a client that says exactly what goes over the wire."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass

LISTENS = re.compile(r"http://([^\s/]+):(\d+)/(\?token=[\w-]+)?")
STARTED = 60.0


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self):
        return self.body.decode()

    def json(self):
        return json.loads(self.body)


@dataclass
class Served:
    """A server of a folder. `ask` sends one request, with the headers of a browser on its own page."""

    process: subprocess.Popen
    port: int
    token: str

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path, method="GET", values=None, headers=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        own = {"Host": f"127.0.0.1:{self.port}", "Accept": "text/html"}
        body = None
        if method != "GET":
            own |= {"Origin": self.address, "Content-Type": "application/json", "Accept": "application/json"}
            body = json.dumps(values or {})
        try:
            connection.request(method, path, body, own | (headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def events(self, path, timeout=30):
        """The messages of a stream as they come: regions by their names."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.request("GET", path, headers={"Host": f"127.0.0.1:{self.port}"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        try:
            for line in iter(answer.readline, b""):
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        finally:
            connection.close()


@contextmanager
def server(folder, *options):
    """`attnlab serve` on a free port, ended by Ctrl-C."""
    command = [sys.executable, "-m", "attnlab", "serve", str(folder), "--port", "0", *options]
    environment = {**os.environ, "COLUMNS": "1000", "NO_COLOR": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stderr.readline()
        found = LISTENS.search(line)
        assert found, line
        own = Served(process, int(found[2]), (found[3] or "").removeprefix("?token="))
        end = time.monotonic() + STARTED
        while True:
            try:
                own.ask("/static/live.js", timeout=5)
                break
            except OSError:
                assert time.monotonic() < end, "the server does not answer"
                time.sleep(0.05)
        yield own
    finally:
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(20) in (0, 130, -2), process.stderr.read()
        finally:
            process.kill()
            process.stderr.close()


def until(condition, seconds=20.0):
    """What a condition gives as soon as it gives anything."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)
    return value
