"""Facts before words: with every sentence replaced by nonsense, nothing is decided otherwise."""

import inspect
import json
import re
import sys
from contextlib import contextmanager

import pytest

from attnlab.checks.wording import of_data, of_models, of_scores
from attnlab.checks.wording.template import Sentences
from attnlab.runs.findings import Finding, read_findings
from attnlab.studies.outcome import StudyOutcome
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from tests.session.commands import command
from tests.studies.here import here
from tests.studies.small_study import study

WORDINGS = ("attnlab.checks.wording", "attnlab.studies.wording", "attnlab.studies.headline")
ZOB = "zobkrapf"
NONSENSE = {"str": ZOB, "Sentences": Sentences(ZOB, "mif", "kra"), "list[str]": [ZOB]}
WORDS = {"verdict", "words", "unequal", "reason", "found", "meaning", "fix", "date", "again"}
"""Keys of the files whose values are words, or the time."""


def sentence_makers():
    """Every function of a wording that gives words, by what it gives."""
    modules = [sys.modules[name] for name in WORDINGS] + [of_data, of_models, of_scores]
    for module in modules:
        for _, function in inspect.getmembers(module, inspect.isfunction):
            gives = function.__annotations__.get("return")
            if function.__module__ == module.__name__ and gives in NONSENSE:
                yield function, NONSENSE[gives]


@contextmanager
def nonsense():
    """Whoever imported a function that makes words has one that makes nonsense."""
    made = dict(sentence_makers())
    assert len(made) > 60
    with pytest.MonkeyPatch.context() as patch:
        loaded = [module for name, module in sys.modules.items() if name.startswith("attnlab")]
        for module in loaded:
            for name, value in list(vars(module).items()):
                if inspect.isfunction(value) and value in made:
                    patch.setattr(module, name, lambda *_, _said=made[value], **__: _said)
        yield


def facts(value):
    """Results without their words."""
    if isinstance(value, dict):
        told = {"notes"} if "question" in value else set()  # of the study itself: as text
        return {name: facts(inner) for name, inner in value.items() if name not in WORDS | told}
    return [facts(inner) for inner in value] if isinstance(value, list) else value


def marks(page):
    """What a reader sees but the words: verdicts by their colour, numbers, what is struck, in their order."""
    kinds = (
        r'class="verdict (verdict-[a-z-]+)|<(s) class="not-sound|<data value="([^"]*)"|(unsound|card [a-z]+)"'
    )
    return ["".join(found) for found in re.findall(kinds, page)]


def told(check, case, outcome, kind, **values):
    return Finding(check=check, when=case.when, outcome=outcome, kind=kind, values=values, step=case.step)


def injected(case, names=()):
    """The checks of a run: one arm leaks, and another learns no more than the most frequent label."""
    leak = {"path": "evaluation", "query": 2, "key": 5, "size": 0.7, "module": ""}
    leaks = case.config.model.attention.kind == "linear" and case.when == "before"
    nothing = case.config.model.heads == 1 and case.when == "after"
    scores = {"accuracy": 0.6, "low": 0.5, "high": 0.7, "n": 90, "label": "yes", "share": 0.62}
    return [
        told("dependency", case, "fail", "leak", leak=leak, pairs=3, paths=["evaluation"], cause="scores")
        if leaks
        else told("dependency", case, "pass", "sound", pairs=9, paths=2),
        told(
            "majority", case, "fail" if nothing else "pass", "not_better" if nothing else "better", **scores
        ),
    ]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """One study, trained and judged with nonsense; then judged again with its words."""
    folder = tmp_path_factory.mktemp("nonsense")
    arms = {
        "dot": {},
        "leaks": {"model.attention": "linear"},
        "idle": {"model.heads": 1},
        "wild": {"training.optimizer.learning_rate": 1e18, "training.clip": "off"},
        "refused": {"model.attention": "linear", "model.positions": "alibi"},
    }
    allow = {"leaks": ("dependency",)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnlab.session.soundness.run_checks", injected)
        with here():
            asked = resolve(study(folder, arms=arms, allow=allow, collapse="result", probes=(), sentence=""))
            with nonsense():
                first = run_study(asked, folder / "study", jobs=1)
                pages = [first.results, first.faults, (folder / "study/report.html").read_text()]
            second = run_study(asked, folder / "study", jobs=1, resume=True)
            again = [second.results, second.faults, (folder / "study/report.html").read_text()]
    return folder, first, pages, second, again


def test_verdicts_states_numbers_and_their_order_are_the_same(both):
    _, first, (results, faults, _), second, (with_words, faults_in_words, _) = both
    assert results["verdict"] == ZOB and "leaks is invalid" in with_words["verdict"]
    assert [one.verdict for one in first.outcome.comparisons] == [
        one.verdict for one in second.outcome.comparisons
    ]
    assert second.outcome.comparisons[0].verdict == "invalid"
    states = {arm.name: arm.state.value for arm in second.outcome.all_arms}
    assert states == {
        "refused": "refused",
        "dot": "finished",
        "leaks": "invalid",
        "idle": "finished",
        "wild": "failed",
    }
    assert facts(results) == facts(with_words)
    assert [fault.kind for fault in faults] == ["runs_failed", "arm_refused"], "what `attnlab run` exits with"
    assert [fault.kind for fault in faults_in_words] == ["runs_failed", "arm_refused"]
    assert faults[0].values == faults_in_words[0].values and faults[1].values["arm"] == "refused"
    assert first.outcome.at_majority == second.outcome.at_majority == {"idle": ([0, 1], 2)}


def test_what_is_marked_in_the_report_is_the_same(both):
    *_, (_, _, page), _, (_, _, page_in_words) = both
    assert ZOB in page and ZOB not in page_in_words
    assert marks(page) == marks(page_in_words) and len(marks(page)) > 50
    assert {"verdict-invalid", "verdict-not-trained-long-enough", "verdict-failed", "s"} <= {*marks(page)}
    head = [mark for mark in marks(page) if mark.startswith("verdict")][:3]
    told = ["invalid", "not-trained-long-enough", "failed"]
    assert head == [f"verdict-{kind}" for kind in told]


def test_the_files_are_read_back_by_their_facts(both):
    folder, first, (results, *_), *_ = both
    read = StudyOutcome.of_json(json.loads(json.dumps(results)))
    with nonsense():
        assert facts(read.as_json()) == facts(results)
    assert [one.verdict for one in read.comparisons] == [one.verdict for one in first.outcome.comparisons]
    kept = read_findings(folder / "study" / first.outcome.runs_of("leaks")[0].folder)
    assert {one.kind for one in kept if one.outcome == "fail"} == {"leak"}


@pytest.mark.parametrize("predicted", ["yes", "right"])
def test_a_check_exits_as_it_does_with_its_words(tmp_path, predicted):
    """Predictions that collapsed to one class, and right ones."""
    labels = ["yes", "no", "yes"] * 30
    said = labels if predicted == "right" else ["yes"] * 90
    rows = "".join(f"{label},{name}\n" for label, name in zip(labels, said, strict=True))
    (tmp_path / "said.csv").write_text(f"label,prediction\n{rows}")
    with_words = command("check", tmp_path / "said.csv", "--json")
    with nonsense():
        shown = command("check", tmp_path / "said.csv")
        without = command("check", tmp_path / "said.csv", "--json")
    assert shown.exit_code == without.exit_code == with_words.exit_code == (predicted == "yes")
    one, other = (json.loads(result.stdout) for result in (without, with_words))
    for found in (*one, *other):
        found.pop("seconds")
    assert facts(one) == facts(other) and one[0]["found"] == ZOB


def test_a_model_that_leaks_fails_by_its_numbers(tmp_path):
    from attnlab.session.checking import of_config
    from tests.training.small_run import config

    leaking = config(tmp_path, model={"masking": "zero"})
    with nonsense():
        (found,) = [one for one in of_config(leaking) if one.outcome == "fail" and one.check == "dependency"]
        assert found.found == ZOB and found.kind == "leak" and found.values["cause"] == "zeroed"
    assert found.fix.startswith('Set model.masking = "-inf"')
