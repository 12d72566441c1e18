"""Findings are facts: every kind has words, and the words decide nothing."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import attnlab
from attnlab.checks.wording import NOT_APPLICABLE, TEMPLATES, sentences
from attnlab.checks.wording.template import Sentences
from attnlab.runs.findings import (
    COLLAPSES,
    Finding,
    Findings,
    collapse_of,
    read_findings,
    save_findings,
)

SOURCE = Path(attnlab.__file__).parent
FOLDERS = ("checks", "interop", "session", "targets")
"""Where findings are made."""


def constants(node):
    """The texts that an expression may be: both of a choice, and those of the pairs that a name is given."""
    return {
        one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    }


def kinds_used():
    """Every kind that a check or a loop gives a finding, as far as it is written as text."""
    for folder in FOLDERS:
        for file in (SOURCE / folder).glob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Tuple) and ast.unparse(node).startswith("(Outcome."):
                    yield from ((file.stem, kind) for kind in constants(node))
                if not isinstance(node, ast.Call):
                    continue
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                given = {one.arg: one.value for one in node.keywords}
                if name in ("finding", "finding_of") and len(node.args) > 2:
                    yield from ((file.stem, kind) for kind in constants(node.args[2]))
                elif name in ("judged", "about") and len(node.args) > 1:
                    yield from ((file.stem, kind) for kind in constants(node.args[1]))
                elif name == "Finding" and "kind" in given:
                    yield from ((file.stem, kind) for kind in constants(given["kind"]))


def test_every_kind_that_a_check_gives_has_words():
    known = {kind for _, kind in TEMPLATES} | set(NOT_APPLICABLE)
    used = set(kinds_used())
    assert len(used) > 100
    assert {(where, kind) for where, kind in used if kind not in known} == set()
    source = "".join(file.read_text() for name in FOLDERS for file in (SOURCE / name).glob("*.py"))
    assert {kind for kind in known if f'"{kind}"' not in source} == set(), "words that nothing says"


def test_a_finding_is_written_with_its_words_and_read_back_by_its_kind(tmp_path):
    found = Finding(
        check="accumulation",
        when="before",
        outcome="fail",
        kind="differ",
        values={"targets": [3, 40]},
        number=0.25,
        layers=(100, 150),
    )
    save_findings(tmp_path, [found])
    (held,) = json.loads((tmp_path / "checks.json").read_text())["findings"]
    first = [
        "check",
        "when",
        "outcome",
        "found",
        "number",
        "meaning",
        "fix",
        "seconds",
        "step",
        "implementation",
    ]
    assert list(held)[: len(first)] == first
    assert held["kind"] == "differ" and held["found"] == (
        "in parts of 3 and 40 targets the gradient differs by 0.25 of the largest (in 100 of 150 layers)"
    )
    nonsense = held | {"found": "ga", "meaning": "bu", "fix": "zo"}
    (tmp_path / "checks.json").write_text(json.dumps({"allowed": [], "findings": [nonsense]}))
    assert read_findings(tmp_path) == [found], "its words are made anew"


@pytest.mark.parametrize("kind", COLLAPSES)
def test_a_finding_from_before_kinds_keeps_its_words_and_what_it_decides(tmp_path, kind):
    old = {"check": "majority", "when": "after", "outcome": "fail", "found": "accuracy 20%"}
    old |= {"number": None, "meaning": COLLAPSES[kind], "fix": "Train.", "seconds": 0.1, "step": 3}
    other = old | {"meaning": "Labels and predictions are written in different names."}
    (tmp_path / "checks.json").write_text(json.dumps({"allowed": [], "findings": [old, other]}))
    collapsed, told = read_findings(tmp_path)
    assert (collapsed.kind, told.kind) == (kind, "told")
    assert (collapsed.found, collapsed.meaning, collapsed.fix) == ("accuracy 20%", COLLAPSES[kind], "Train.")
    assert collapse_of([collapsed]) is collapsed and collapse_of([told]) is None


def test_values_that_are_not_those_of_a_sentence_are_listed():
    assert sentences("accumulation", "differ", {"parts": 2}, number=1.0).found == "differ: parts 2"
    assert sentences("mine", "odd", {"n": 3}).found == "odd: n 3"


def test_what_findings_come_to_does_not_hang_on_their_words(monkeypatch):
    wording = sys.modules["attnlab.checks.wording"]
    findings = Findings(
        [
            Finding(check="majority", when="after", outcome="fail", kind="not_better"),
            Finding(check="collapse", when="after", outcome="pass", kind="several"),
        ]
    )
    before = findings.sound, findings.outcomes, collapse_of(findings)
    monkeypatch.setattr(wording, "sentences", lambda *_, **__: Sentences("ga", "bu", "zo"))
    monkeypatch.setattr(wording, "soundness_phrase", lambda sound: "zo")
    assert "ga. bu zo" in repr(findings) and findings[0].sentence.endswith("ga. bu zo")
    assert (findings.sound, findings.outcomes, collapse_of(findings)) == before


def test_words_are_made_without_torch():
    code = "import sys, attnlab.checks.wording, attnlab.runs.findings; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_number_below_zero_has_a_true_minus_in_every_sentence():
    values = {"low": -0.5, "high": -0.25, "n": 20}
    words = sentences("majority", "better_than_mean", values, number=-0.375)
    assert words.found.startswith("R² −0.375 (−0.500 to −0.250) of 20")
