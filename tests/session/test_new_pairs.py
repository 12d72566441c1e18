"""What a person meets who brings pairs of texts for the first time: mistakes, told with line and fix."""

import numpy as np
import pytest

from attnlab.config.files import load
from attnlab.data.rows import Rows
from attnlab.runs.findings import read_findings
from attnlab.session.trained import Trained
from tests.checks.cases import found, of
from tests.session.commands import command
from tests.training.small_run import sentences, set_up
from tests.unchecked import checked_by

PAIRS = [(text, " ".join(reversed(text.split()))) for text in dict.fromkeys(sentences(600))]
SMALL = ("training.budget.steps=6", "model.width=16", "model.layers=1", "training.generate_examples=4")


def options(corpus, *more):
    return [word for setting in (f"data.corpus={corpus}", *SMALL, *more) for word in ("--set", setting)]


def table(folder, rows, name="pairs.tsv"):
    (folder / name).write_text("source\ttarget\n" + "".join(f"{row}\n" for row in rows))
    return folder / name


def lines(folder, name, texts):
    (folder / name).write_text("".join(f"{text}\n" for text in texts))
    return folder / name


def joined(pairs):
    return ["\t".join(pair) for pair in pairs]


MISTAKES = {
    "a broken line": lambda folder: table(folder, [*joined(PAIRS[:9]), "no tab", *joined(PAIRS[9:])]),
    "an empty target": lambda folder: table(folder, [*joined(PAIRS[:9]), "the cat\t ", *joined(PAIRS[9:])]),
    "unequal files": lambda folder: (
        f'files(path="{lines(folder, "a.en", [a for a, _ in PAIRS])}",'
        f'target_path="{lines(folder, "a.fr", [b for _, b in PAIRS[:-2]])}")'
    ),
    "no target": lambda folder: f'files(path="{lines(folder, "a.en", [a for a, _ in PAIRS])}",unit="line")',
    "no names": lambda folder: lines(folder, "pairs.tsv", joined(PAIRS)),
}
TOLD = {
    "a broken line": (
        "pairs.tsv line 11: it has 1 field where the header has 2",
        "data.corpus.skip_bad = true",
    ),
    "an empty target": ('pairs.tsv line 11: its "target" is empty', "data.corpus.skip_bad = true"),
    "unequal files": (
        f"a.en has {len(PAIRS)} lines",
        f"a.fr has {len(PAIRS) - 2}",
        "Find where they drift apart",
    ),
    "no target": ("needs a target in every example", "a.en line 1", "data.corpus.target_path"),
    "no names": ("put a line with the columns' names above it", "data.corpus.text"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_before_anything_is_trained(mistake, tmp_path):
    corpus = MISTAKES[mistake](tmp_path)
    result = command("train", "translator-mini", *options(corpus), "--out", tmp_path / "run")
    told = " ".join(str(result.exception).split())
    assert result.exit_code and all(part in told for part in TOLD[mistake]), told
    assert not list(tmp_path.glob("run/checkpoints/*"))


def test_broken_rows_may_be_skipped(tmp_path):
    corpus = MISTAKES["a broken line"](tmp_path)
    with checked_by("source_rows"):
        skipped = options(corpus, "data.corpus.skip_bad=true")
        result = command("train", "translator-mini", *skipped, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    dataset = Trained.at(tmp_path / "run").dataset
    assert sum(len(dataset.rows(split)) for split in dataset.splits.names) == len(PAIRS)
    assert len(list(dataset.corpus.read())) == len(PAIRS) and dataset.corpus.skipped == 1


@pytest.fixture(scope="module")
def two_files(tmp_path_factory):
    """With a blank line on both sides, which is none of a pair."""
    folder = tmp_path_factory.mktemp("parallel")
    sides = ([side[n] for side in [*PAIRS[:5], ("", ""), *PAIRS[5:]]] for n in (0, 1))
    path, target = (lines(folder, name, side) for name, side in zip(("a.en", "a.fr"), sides, strict=True))
    return f'files(path="{path}",target_path="{target}")'


def test_two_files_are_trained_on_with_every_check(two_files, tmp_path):
    result = command("train", "translator-mini", *options(two_files), "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    findings = {finding.check: finding for finding in read_findings(tmp_path / "run")}
    rows = findings["source_rows"]
    assert rows.outcome == "pass" and sum(rows.values["counts"].values()) == len(PAIRS)
    assert not [f for f in findings.values() if f.outcome == "fail"]


def test_targets_of_other_lines_are_found_in_two_files(two_files):
    session = set_up(load("translator-mini", set=[f"data.corpus={two_files}", *SMALL]))
    assert found("source_rows", of(session)).outcome == "pass"
    rows = session.dataset.rows("train")
    targets = [rows.ragged("target", row) for row in range(len(rows))]
    moved = targets[1:] + targets[:1]
    part = {name: np.concatenate([p[name] for p in rows.parts]) for name in rows.columns}
    part["target"] = np.concatenate(moved).astype(part["target"].dtype)
    bounds = next(name for name in part if name.startswith("target") and len(part[name]) == len(rows) + 1)
    part[bounds] = np.concatenate([[0], np.cumsum([len(target) for target in moved])])
    session.dataset._rows["train"] = Rows([part], fingerprint="moved")
    finding = found("source_rows", of(session))
    assert finding.outcome == "fail" and finding.kind == "other_text", finding
