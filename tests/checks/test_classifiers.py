"""Predictions of a classifier: each fault has its own diagnosis, and weak healthy models have none."""

import random

import pytest
from typer.testing import CliRunner

from attnlab.checks import judge
from attnlab.cli import app
from attnlab.data.errors import DataError
from attnlab.runs.findings import collapse_sentence
from attnlab.targets.relabelling import Predictions
from tests.checks.cases import case, found


def predictions(n=600, classes=5, skill=0.7, shares=None, seed=0):
    """Labels, and predictions that are right with a probability of `skill` and else drawn like the labels."""
    pick = random.Random(seed)
    names = [f"class {k}" for k in range(classes)] if classes > 2 else ["yes", "no"]
    labels = pick.choices(names, shares, k=n)
    said = [label if pick.random() < skill else pick.choices(names, shares)[0] for label in labels]
    return labels, said


def majority(labels, said):
    return judge(labels, said)[0]


def renamed(said, names):
    return [names.get(name, name) for name in said]


SWAP = {"yes": "no", "no": "yes"}


@pytest.mark.parametrize("skill", [0.15, 0.4, 0.8, 1.0])
@pytest.mark.parametrize("shares", [None, [0.7, 0.3]])
def test_swapped_binary_labels_are_named(skill, shares):
    labels, said = predictions(2000, 2, skill, shares)
    finding = majority(labels, renamed(said, SWAP))
    assert finding.outcome == "fail" and "learned nothing" not in finding.meaning
    assert "“yes” → “no”" in finding.found or "than by chance" in finding.meaning, finding


CYCLE = {f"class {k}": f"class {(k + 1) % 5}" for k in range(5)}
TWO = {"class 1": "class 3", "class 3": "class 1"}
REVERSED = {f"class {k}": f"class {4 - k}" for k in range(5)}


@pytest.mark.parametrize("names", [CYCLE, TWO, REVERSED], ids=["cycle", "two of five", "reversed"])
@pytest.mark.parametrize("skill", [0.4, 0.9])
def test_permuted_labels_are_named_and_what_they_hide(names, skill):
    labels, said = predictions(skill=skill)
    finding = majority(labels, renamed(said, names))
    right = sum(a == b for a, b in zip(labels, said, strict=True)) / len(labels)
    assert finding.outcome == "fail" and "swapped or permuted" in finding.meaning
    assert f"{right:.1%} are right" in finding.found


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(
    ("n", "classes", "skill"), [(100, 2, 0.3), (200, 5, 0.2), (60, 3, 0.4), (1000, 10, 0.15)]
)
def test_weak_healthy_models_are_not_told_to_rename(n, classes, skill, seed):
    labels, said = predictions(n, classes, skill, seed=seed)
    finding = majority(labels, said)
    assert "renamed" not in finding.found and "by chance" not in finding.found


@pytest.mark.parametrize("seed", range(40))
def test_models_that_know_nothing_are_not_told_that_they_learned(seed):
    pick = random.Random(seed)
    labels = pick.choices(["a", "b", "c"], [6, 3, 1], k=400)
    finding = majority(labels, pick.choices(["a", "b", "c"], [1, 1, 1], k=400))
    assert finding.outcome == "fail" and "renamed" not in finding.found


def test_a_constant_answer_is_no_swap():
    labels = ["yes"] * 900 + ["no"] * 100
    finding = majority(labels, ["no"] * 1000)
    assert "renamed" not in finding.found and "is not better than always" in finding.meaning


def test_only_a_model_that_says_one_class_has_collapsed():
    """Both are not better than the most frequent label, which is said of both with what to try."""
    labels = ["yes"] * 60 + ["no"] * 40
    one, two = (collapse_sentence(judge(labels, said)) for said in (["yes"] * 100, ["yes", "no"] * 50))
    for told in (one, two):
        assert "The model is not better than always predicting the most frequent label: " in told
        assert "of 100; always predicting “yes” gives 60.0%. Usual causes are" in told
    assert one.startswith("The model has collapsed to one class. ") and "collapsed" not in two
    assert collapse_sentence(judge(labels, labels)) == ""


def test_a_class_that_is_taken_for_another_is_no_swap():
    """All of b is called c, and c is called c: one class is never predicted."""
    labels = ["a"] * 200 + ["b"] * 200 + ["c"] * 150
    said = ["a"] * 200 + ["c"] * 350
    first, second = judge(labels, said)
    assert first.outcome == "pass"
    assert second.outcome == "warn" and "never “b” (36% of the labels)" in second.found


def test_rows_that_are_opposed_without_a_renaming_are_below_chance():
    """Each of three classes is always called one of the other two."""
    pick = random.Random(0)
    labels = pick.choices("abc", k=600)
    finding = majority(labels, [pick.choice([k for k in "abc" if k != label]) for label in labels])
    assert finding.outcome == "fail" and "than by chance" in finding.meaning


@pytest.mark.parametrize(
    "names",
    [
        {"yes": "Yes", "no": "No"},
        {"yes": "yes ", "no": " no"},
        {"yes": "1", "no": "0"},
        {"yes": "LABEL_1", "no": "LABEL_0"},
        {"yes": "YES"},
    ],
)
def test_label_sets_that_do_not_match_are_named(names):
    labels, said = predictions(400, 2, 0.8)
    first, second = judge(labels, renamed(said, names))
    assert first.outcome == "fail" and "different names" in first.meaning
    right = sum(a == b for a, b in zip(labels, said, strict=True)) / len(labels)
    assert f"{right:.1%} are right" in first.meaning
    assert "never" not in second.found


def test_a_class_that_only_the_model_knows_is_no_other_name():
    labels, said = predictions(400, 3, 0.8)
    assert majority(labels, [*said[:-2], "class 9", "class 9"]).outcome == "pass"


def test_frequent_classes_that_are_never_predicted_are_named():
    labels, said = predictions(1000, 5, 0.8)
    collapse = judge(labels, renamed(said, {"class 2": "class 0"}))[1]
    assert collapse.outcome == "warn" and "never “class 2”" in collapse.found
    assert judge(labels, said)[1].outcome == "pass"


def test_a_rare_class_may_be_left_out():
    labels, said = predictions(400, 4, 0.8, shares=[40, 40, 18, 2])
    assert judge(labels, renamed(said, {"class 3": "class 0"}))[1].outcome == "pass"


# the texts that they are about


def texts(count):
    return [f"text number {n}" for n in range(count)]


def test_without_repeated_texts_there_is_nothing_to_tell():
    labels, said = predictions(300)
    assert judge(labels, said, texts(300))[2].outcome == "pass"
    assert len(judge(labels, said)) == 2


@pytest.mark.parametrize("again", [lambda text: text, lambda text: text.upper(), lambda text: f" {text}  "])
def test_the_same_text_with_two_labels_is_named_with_what_can_be_reached(again):
    labels = ["a"] * 190 + ["b"] * 10
    read = [*texts(190), *map(again, texts(10))]
    finding = judge(labels, ["a"] * 195 + ["a"] * 5, read)[2]
    assert finding.outcome == "warn" and "20 have a text with two labels" in finding.found
    assert "95.0% of these rows" in finding.meaning


def test_repeated_rows_are_told():
    labels, said = predictions(200)
    finding = judge(labels * 2, said * 2, texts(200) * 2)[2]
    assert finding.outcome == "warn" and finding.number == 0.5 and "too narrow" in finding.meaning


def test_two_predictions_for_one_text_mean_chance():
    labels = ["a", "b"] * 50
    finding = judge([*labels, *labels], [*labels, *labels[1:], "a"], texts(100) * 2)[2]
    assert finding.outcome == "fail" and "two predictions" in finding.found and "dropout" in finding.fix


def test_a_few_repeated_rows_of_many_are_no_alarm():
    labels, said = predictions(1000)
    assert judge([*labels, labels[0]], [*said, said[0]], [*texts(1000), texts(1)[0]])[2].outcome == "pass"


def test_texts_of_a_case_are_judged():
    labels = ["a", "b"] * 50
    about = case(when="evaluation", predictions=Predictions(labels, labels, texts=texts(50) * 2))
    assert found("examples", about).outcome == "warn" and found("examples", about).when == "evaluation"
    about = case(when="evaluation", predictions=Predictions(labels, labels))
    assert found("examples", about).outcome == "not applicable"
    assert found("examples", case(when="evaluation")).outcome == "not applicable"
    with pytest.raises(ValueError, match="one for each, or none"):
        judge(labels, labels, ["one"])


def test_the_command_reads_the_texts_where_they_are(tmp_path):
    file = tmp_path / "predictions.csv"
    rows = [f"{'yes' if n % 2 else 'no'},{'no' if n % 2 else 'yes'},text {n % 50}" for n in range(200)]
    file.write_text("label,prediction,text\n" + "\n".join(rows))
    result = CliRunner().invoke(app, ["check", str(file)])
    said = " ".join(result.output.replace("│", " ").split())
    assert result.exit_code == 1 and "swapped or permuted" in said and "learned nothing" not in said
    assert "150 of them repeat a text" in said
    file.write_text("label,prediction,text\na,b,c\na,b,\n" + "\n".join(rows))
    with pytest.raises(DataError, match="in each, or in none"):
        CliRunner().invoke(app, ["check", str(file)], catch_exceptions=False)
