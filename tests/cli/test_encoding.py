"""Terminals that do not speak UTF-8 get the same words, in the letters that they have."""

import json
import os
import subprocess
import sys

import pytest

from attnlab.cli.encoding import likeness


def said(encoding, *words):
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-m", "attnlab", *words],
        capture_output=True,
        env=environment,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_a_command_answers_in_any_encoding(encoding):
    code, out, err = said(encoding, "show", "masking")
    assert code == 0 and not err
    assert "two arms x 5 seeds" in out or "two arms × 5 seeds" in out


def test_an_error_is_still_a_sentence():
    code, _, err = said("ascii", "show", "maské")
    assert code == 2 and err.startswith("Error:") and "mask" in err


def test_json_loses_nothing():
    code, out, _ = said("ascii", "explain", "counts", "gpt2", "--json")
    held = json.loads(out)
    assert code == 0 and any("·" in term["formula"] for term in held["parameters"]["terms"])


def test_signs_become_what_they_resemble():
    assert "".join(map(likeness, "é−×…✓漢φΔ")) == "e-x...ok?phiDelta"
