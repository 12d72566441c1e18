"""Synthetic tasks: the answer follows from the question, by an independent solution of each."""

from collections.abc import Callable

import pytest

from attnlab.config.values import ConfigError
from attnlab.data.corpora import CORPORA
from attnlab.data.corpora.spelled_out import SpelledOut  # tests/data/test_spelled_out.py has theirs
from attnlab.data.corpora.synthetic import Puzzle
from attnlab.data.errors import DataError
from attnlab.data.splits import Splits


def recalled(question: list[str]) -> list[str]:
    colon = question.index(":")
    pairs = dict(zip(question[:colon:2], question[1:colon:2], strict=True))
    return [pairs[key] for key in question[colon + 1 :]]


def listed(question: list[str]) -> list[str]:
    pairs = dict(zip(question[:-1:2], question[1:-1:2], strict=True))
    return [word for n in range(32) if f"k{n}" in pairs for word in (f"k{n}", pairs[f"k{n}"])]


def induced(question: list[str]) -> list[str]:
    *before, last = question
    assert before.count(last) == 1
    return [question[before.index(last) + 1]]


SOLUTIONS: dict[str, Callable[[list[str]], list[str]]] = {
    "copy": lambda q: q,
    "reverse": lambda q: [q[-i] for i in range(1, len(q) + 1)],
    "sorting": lambda q: list(map(str, sorted(map(int, q)))),
    "recall": recalled,
    "pairs": listed,
    "induction": induced,
    "modular_addition": lambda q: [str((int(q[0]) + int(q[2])) % 97)],
}
OPTIONS = {
    "copy": "copy(symbols=40, shortest=3, longest=5, examples=500)",
    "recall": "recall(pairs=5, queries=3, keys=9, values=4, examples=500)",
    "pairs": "pairs(pairs=6, fewest=2, keys=9, values=4, examples=500)",
    "induction": "induction(symbols=5, length=9, examples=500)",
}


def test_every_task_has_a_solution_here() -> None:
    puzzles = {name for name in CORPORA if issubclass(CORPORA[name], Puzzle)}
    assert set(SOLUTIONS) == {name for name in puzzles if not issubclass(CORPORA[name], SpelledOut)}


@pytest.mark.parametrize("task", SOLUTIONS)
@pytest.mark.parametrize("sized", [False, True])
def test_the_answers_are_right(task: str, sized: bool) -> None:
    examples = list(CORPORA.build(OPTIONS.get(task, task) if sized else task).read())
    assert len(examples) == (500 if sized and task in OPTIONS else 9409 if "modular" in task else 10_000)
    for example in examples[:2000]:
        assert example.target is not None
        assert example.target.split() == SOLUTIONS[task](example.text.split())


def test_sizes_are_those_asked_for() -> None:
    copies = [e.text.split() for e in CORPORA.build(OPTIONS["copy"]).read()]
    assert {len(c) for c in copies} == {3, 4, 5} and len({s for c in copies for s in c}) == 40
    assert {len(e.text.split()) for e in CORPORA.build(OPTIONS["induction"]).read()} == {9}
    sums = {e.text for e in CORPORA.build("modular_addition(modulus=7)").read()}
    assert sums == {f"{a} + {b} =" for a in range(7) for b in range(7)}


def test_an_example_depends_on_seed_and_number_alone() -> None:
    few = [e.text for e in CORPORA.build("copy(examples=5)").read()]
    many = [e.text for e in CORPORA.build("copy(examples=50)").read()]
    assert many[:5] == few
    assert [e.text for e in CORPORA.build("copy(examples=5, seed=1)").read()] != few
    assert CORPORA.build("copy(seed=1)").fingerprint() != CORPORA.build("copy").fingerprint()


def test_no_question_is_in_two_splits() -> None:
    splits = Splits(CORPORA.build("copy(symbols=3, longest=4, examples=400)"), 0.2, 0.2)
    train, dev = ({e.text for e in splits.read(name)} for name in ("train", "dev"))
    assert train and dev and not train & dev


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("recall(pairs=9, keys=8)", "needs at least 9 keys"),
        ("recall(pairs=2, queries=3)", "at most 2 queries"),
        ("copy(shortest=5, longest=4)", "are not a range"),
        ("induction(length=2)", "needs 2 symbols and a length of 3"),
        ("modular_addition(modulus=0)", "modulus is 0; it must be at least 1"),
        ("sorting(examples=0)", "examples is 0; it must be at least 1"),
    ],
)
def test_impossible_sizes_are_refused(choice: str, message: str) -> None:
    with pytest.raises((DataError, ConfigError), match=message):
        CORPORA.build(choice)
