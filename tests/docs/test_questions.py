"""docs/questions.md prints what its commands and its code print."""

import shlex

from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.studies.builtin import STUDIES, builtin
from tests.docs.questions import PAGE, commands_only, execute, recorded, same, shown
from tests.unchecked import checked_by

TEXT = PAGE.read_text(encoding="utf-8")


def test_everything_that_is_shown_is_printed(tmp_path, monkeypatch):
    """In one empty folder, in order."""
    monkeypatch.chdir(tmp_path)
    space = {}
    with checked_by():
        for part in shown(TEXT):
            printed = execute(part.source, space)
            told = f"{part.source} prints otherwise now; python -m tests.docs.questions writes the page anew"
            assert part.printed.strip() and same(printed, part.printed), told


def test_recorded_studies_name_every_arm_with_a_number_and_a_verdict():
    """What was printed once is of the study as it stands: the same question, arms and metric."""
    for command, printed in recorded(TEXT):
        _, run, name, *_ = shlex.split(command)
        study, (table, verdict) = builtin(name), printed.split("Verdict: ", 1)
        rows = {line.split()[0] for line in table.splitlines() if line.strip()}
        assert run == "run" and {*study.arms} <= rows, command
        assert " ".join(study.question.split()) in " ".join(table.split()) and verdict.strip(), command


def test_other_outputs_are_not_the_same():
    assert same("loss 5.300 of 1,200 texts", "loss 5.301  of 1,200 texts")
    assert not same("loss 5.3 of 1,200 texts", "loss 5.9 of 1,200 texts")
    assert not same("loss 5.3", "bits 5.3") and not same("loss −5.3", "loss 5.3")


def test_commands_that_are_not_executed_exist():
    for command in commands_only(TEXT):
        words = shlex.split(command)[1:]
        if words[0] == "run":
            assert words[1] in STUDIES, command
        assert CliRunner().invoke(app, [words[0], "--help"]).exit_code == 0, command
