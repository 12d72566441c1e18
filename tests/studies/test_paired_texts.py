"""`attnlab compare` pairs the scores of what two runs write, as `attnlab score` does of two files."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.config.files import config_of
from attnlab.session.scoring import score_texts
from attnlab.session.trained import Trained
from attnlab.studies.outcome import NoteKind
from attnlab.studies.paired_texts import with_written_texts
from attnlab.studies.side_by_side import side_by_side
from tests.conftest import checked_by
from tests.evaluation.copying_run import copying
from tests.training.small_run import train


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two runs on the same pairs, one of which learns more slowly; 8 texts of dev are written in training."""
    place = tmp_path_factory.mktemp("pair")
    with checked_by():
        return [
            train(config_of(copying(place, optimizer={"learning_rate": rate})), place / name).folder
            for name, rate in (("slow", 3e-3), ("fast", 1e-2))
        ]


def written(folder):
    return Trained.at(folder).writer("dev")()


def compared(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)], catch_exceptions=False).stdout


def test_differences_are_those_of_two_files_of_the_same_texts(folders):
    slow, fast = map(written, folders)
    texts = {
        str(folder): one["generated"].tolist() for folder, one in zip(folders, (slow, fast), strict=True)
    }
    wanted = score_texts(texts, [slow["reference"].tolist()], sources=slow["source"].tolist())
    found = json.loads(compared(*folders, "--json"))
    assert found["texts"] == len(slow) > 8
    assert found["differences"] == wanted.as_json()["differences"]
    for run, system in zip(found["runs"], wanted.systems, strict=True):
        for metric, score in system.scores.items():
            assert run["measures"][metric] == pytest.approx(score.value), "of all of dev, not of 8 texts"
    (chrf,) = [one for one in found["differences"] if one["metric"] == "chrf"]
    assert chrf["value"] > 0 and chrf["baseline"] == str(folders[0])
    shown = compared(*folders)
    assert "fast − " in shown.replace("B − A", "fast − ") and f"{len(slow)} texts of dev" in shown


def test_runs_that_cannot_be_paired_are_told_and_keep_their_numbers(folders, tmp_path):
    copies = [shutil.copytree(folder, tmp_path / folder.name) for folder in folders]
    comparison = side_by_side(copies)
    assert "chrf" in comparison.of_texts
    lines = [
        {"generated": "x", "reference": one.target, "source": one.text, "stopped": True}
        for one in Trained.at(folders[0]).dataset.texts("dev")
    ]
    lines[3] |= {"reference": "another one"}
    (copies[1] / "said.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shutil.rmtree(copies[0] / "checkpoints")
    for fault in ("checkpoint", "not those of"):
        paired = with_written_texts(comparison, copies)
        (note,) = [one for one in paired.notes if one.kind is NoteKind.TEXTS_NOT_PAIRED]
        assert fault in str(note) and not paired.differences and paired.runs == comparison.runs
        shutil.copytree(folders[0] / "checkpoints", copies[0] / "checkpoints", dirs_exist_ok=True)


def test_runs_that_write_nothing_are_compared_without_a_model(folders):
    comparison = side_by_side(folders)
    assert not comparison.differences and comparison.of_texts
    assert "differences" not in comparison.as_json()
