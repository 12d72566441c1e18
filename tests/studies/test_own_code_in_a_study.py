"""An arm of one's own: its file is handed to the processes of the study, and a changed one is told."""

import json

import pytest

from attnlab.config.imports import import_code
from attnlab.config.values import ConfigError
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.dot import Dot
from attnlab.runs.record import read_record
from attnlab.studies.resolved import from_record, resolve
from attnlab.studies.runner import run_study
from attnlab.studies.study_files import load_study
from tests.own_code import RULE, new_session
from tests.studies.here import here
from tests.studies.small_study import study

ARMS = {"dot": {}, "mine": {"model.attention": "own_distance"}}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(RULE)
    with new_session():
        yield tmp_path


def test_workers_import_what_the_person_named(folder):
    """In processes of their own, which know nothing of this one."""
    code = import_code(folder / "mine.py")
    arms = {"mine": ARMS["mine"]}
    ended = run_study(resolve(study(folder, arms=arms, seeds=1, budget={"steps": 2})), folder / "study")
    assert not ended.failed, ended.failed
    for run in ended.results["runs"]:
        (held,) = read_record(folder / "study" / run["folder"])["imports"]
        assert held["hash"] == code.hash
    record = json.loads((folder / "study" / "study.json").read_text())
    with new_session():
        with pytest.raises(ConfigError, match=rf"uses the code of mine\.py \(hash {code.hash}\)"):
            from_record(record)
        import_code(folder / "mine.py")
        assert "mine" in from_record(record).arms


def test_an_error_in_ones_own_code_is_told_by_its_line(folder, unchecked):
    (folder / "mine.py").write_text(RULE.replace("return -self.rate", "return -self.rats"))
    import_code(folder / "mine.py")
    with here():
        ended = run_study(resolve(study(folder, arms=ARMS, seeds=1, budget={"steps": 2})), folder / "study")
    (reason,) = [run["reason"] for run in ended.results["runs"] if run["arm"] == "mine"]
    assert reason.startswith(f"{folder / 'mine.py'}, line 16: AttributeError: ")


def test_a_python_file_registers_the_parts_of_its_own_study(folder):
    text = (
        "from attnlab.studies.spec import Study\n"
        f"def study():\n    return Study(name='own', question='Why?', arms={ARMS!r})\n"
    )
    (folder / "question.py").write_text(RULE + text)
    resolved = resolve(load_study(folder / "question.py"))
    (held,) = resolved.imports
    assert held["file"].endswith("question.py") and held["parts"] == [["attention", "own_distance"]]


def test_a_file_that_changed_between_runs_makes_the_verdict_invalid(folder, unchecked):
    code = import_code(folder / "mine.py")
    asked = {"arms": ARMS, "budget": {"steps": 2}}
    with here():
        run_study(resolve(study(folder, seeds=1, **asked)), folder / "study")
        (folder / "mine.py").write_text(RULE.replace("square()", "abs()"))
        now = import_code(folder / "mine.py")
        ended = run_study(resolve(study(folder, seeds=2, **asked)), folder / "study", resume=True)
    said = ended.results["verdict"]
    assert [one["verdict"] for one in ended.results["comparisons"]] == ["invalid"]
    assert "runs used different versions of mine.py" in said and code.hash in said and now.hash in said
    assert "seed 0" in said and "seed 1" in said


def test_a_class_of_a_notebook_cannot_enter_a_study(folder):
    class Mine(Dot):
        """Mine."""

    Mine.__module__ = "__main__"
    ATTENTION.register("own_mine", Mine)
    resolved = resolve(study(folder, arms={"dot": {}, "mine": {"model.attention": "own_mine"}}))
    with pytest.raises(ConfigError, match=r'attention "own_mine": registered in a notebook or script'):
        run_study(resolved, folder / "study")
