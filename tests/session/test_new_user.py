"""What a person meets who adapts a model for the first time: mistakes in the table, told with the fix."""

import csv
import random

import pytest

import attnlab as lab
from attnlab.data.errors import DataError
from attnlab.runs.events import Warned
from attnlab.session.adapting import adapting_config
from tests.session.adapted import RATE, asked
from tests.session.commands import answer
from tests.training.small_run import set_up, train


@pytest.fixture(scope="module")
def rows(home):
    with (home / "reviews.csv").open() as stream:
        return [(row["body"], row["who"]) for row in csv.DictReader(stream)]


@pytest.fixture
def table(tmp_path):
    def write(rows, name="table.csv"):
        with (tmp_path / name).open("w", newline="") as stream:
            csv.writer(stream).writerows([("body", "who"), *rows])
        return tmp_path / name

    return write


def config(home, file, **changes):
    reading = {"text": "body", "label": "who"}
    return adapting_config(home / "bert", data=file, adapter="head", **{"reading": reading} | changes)


def test_a_misspelt_column_is_answered_with_the_nearest(home, table, rows):
    for wrong, part in (("bdoy", "text"), ("woh", "label")):
        reading = {"text": "body", "label": "who"} | {part: wrong}
        said = rf'no column "{wrong}"\. Did you mean .* It has: body, who\. .*--{part} COLUMN'
        with pytest.raises(DataError, match=said):
            config(home, table(rows), reading=reading)


def test_an_empty_text_is_named_by_its_line_and_may_be_left_out(home, table, rows):
    file = table([*rows[:50], ("", "cat"), *rows[50:]])
    with pytest.raises(DataError, match=r'line 52: its "body" is empty\.\n.*--skip-bad'):
        set_up(config(home, file))
    reading = {"text": "body", "label": "who", "skip_bad": True}
    whole = set_up(config(home, file, reading=reading)).dataset
    assert sum(len(whole.rows(split)) for split in whole.splits.names) == len(rows)


def test_one_class_alone_is_refused(home, table, rows):
    with pytest.raises(DataError, match='have the label "cat"; a classifier needs at least two classes'):
        set_up(config(home, table([(text, "cat") for text, _ in rows])))


def test_a_class_with_one_example_is_told(home, table, rows, tmp_path, unchecked):
    said = []
    changes = [RATE, "training.budget.epochs=1", "data.dev_share=0.05", "data.test_share=0"]
    wanted = config(home, table([("a fox", "fox"), *rows]), set=changes)
    train(wanted, tmp_path / "run", listeners=[lambda e: said.append(e) if isinstance(e, Warned) else None])
    assert any('The class "fox" has 1 example of' in one.message for one in said)


def test_one_number_written_in_two_ways_is_not_two_classes(home, table, rows):
    names = {"cat": ("1", "1.0"), "dog": ("0", "0")}
    file = table([(text, names[who][n % 2]) for n, (text, who) in enumerate(rows)])
    with pytest.raises(DataError, match=r'"1" and "1\.0" are one number written in two ways'):
        set_up(config(home, file, task="classification"))


def test_classes_are_known_by_name_in_whatever_order_a_file_has_them(home, tmp_path, table, rows, unchecked):
    """A file whose first row is of the last class, one of a single class, and one with a new name."""
    train(asked(home, adapter="head", set=[RATE]), tmp_path / "run")
    shuffled = list(rows)
    random.Random(3).shuffle(shuffled)
    read = "--text", "body", "--label", "who"
    found = []
    for order in (sorted(rows, key=lambda row: row[1]), sorted(rows, key=lambda row: row[1])[::-1], shuffled):
        scored = answer("evaluate", tmp_path / "run", "--on", table(order), *read)["text"]
        counts = {one["name"]: (one["examples"], one["recall"]) for one in scored["classes"]}
        found.append((scored["measures"]["accuracy"]["value"], counts))
    assert found[0] == found[1] == found[2] and found[0][0] > 0.7
    trained = lab.open(tmp_path / "run")
    dogs = [row for row in rows if row[1] == "dog"]
    alone = trained.evaluate(on=table(dogs), text="body", label="who")
    assert alone["measures"]["accuracy"]["value"] == pytest.approx(found[0][1]["dog"][1])
    said = [one.answer for one in trained.predict([text for text, _ in dogs])]
    assert said.count("dog") / len(said) == pytest.approx(found[0][1]["dog"][1])
    with pytest.raises(DataError, match=r'The label "dgo".* Did you mean "dog"'):
        trained.evaluate(on=table([("a dog", "dgo"), *rows]), text="body", label="who")
