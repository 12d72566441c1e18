"""Terminals that do not speak UTF-8 get the same words, in the letters that they have."""

import io
import json
import os
import subprocess
import sys
import warnings

import pytest

from attnlab.cli import main
from attnlab.cli.encoding import likeness


@pytest.fixture
def said(monkeypatch):
    """A command in this process, its output in bytes of an encoding: (exit code, stdout, stderr)."""

    def run(encoding, *words):
        streams = {name: io.TextIOWrapper(io.BytesIO(), encoding=encoding) for name in ("stdout", "stderr")}
        with monkeypatch.context() as patch:
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            patch.setattr(sys, "argv", ["attnlab", *words])
            patch.setattr(warnings, "showwarning", warnings.showwarning)  # which the command replaces
            patch.setenv("COLUMNS", "80")
            with pytest.raises(SystemExit) as ended:
                main()
        for stream in streams.values():
            stream.flush()
        return ended.value.code, *(s.buffer.getvalue().decode(encoding) for s in streams.values())

    return run


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_a_command_answers_in_any_encoding(said, encoding):
    code, out, err = said(encoding, "show", "masking")
    assert code == 0 and not err
    assert "two arms x 5 seeds" in out or "two arms × 5 seeds" in out


def test_an_error_is_still_a_sentence(said):
    code, _, err = said("ascii", "show", "maské")
    assert code == 2 and err.startswith("Error:") and "mask" in err


def test_a_terminal_of_another_encoding_is_answered_by_the_program():
    done = subprocess.run(
        [sys.executable, "-m", "attnlab", "list", "maské"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
        check=False,
        timeout=60,
    )
    told = done.stderr.decode("ascii")
    assert done.returncode == 2 and told.startswith("Error:") and "maske" in told


def test_json_loses_nothing(said):
    code, out, _ = said("ascii", "explain", "counts", "gpt2", "--json")
    held = json.loads(out)
    assert code == 0 and any("·" in term["formula"] for term in held["parameters"]["terms"])


def test_signs_become_what_they_resemble():
    assert "".join(map(likeness, "é−×…✓漢φΔ")) == "e-x...ok?phiDelta"


def test_streams_that_a_shell_closed_lead_nowhere():
    """Not into the next file that is opened, which would get their number."""
    code = (
        "import os; from attnlab.cli.encoding import accept_any_terminal; accept_any_terminal();"
        "os.write(2, b'words of a library'); print('said'); file = open(os.devnull);"
        "raise SystemExit(file.fileno())"
    )
    for closed in ("2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
        done = subprocess.run(["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, code], check=False)
        assert done.returncode >= 3
