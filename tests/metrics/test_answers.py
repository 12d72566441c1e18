"""Exact match and F1 of answers agree with SQuAD's own definition to the last digit; thresholds with trying
all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.data.example import Answer, Example
from attnlab.metrics import METRICS
from attnlab.metrics.answers import exact_match, gold_of, normalised, overlap_f1
from attnlab.metrics.metric import Examples
from attnlab.metrics.thresholds import cross_fitted, curve, folds
from attnlab.tasks.answering import Answering
from attnlab.tasks.vocabulary import Vocabulary
from tests.metrics import squad_official as official

WORDS = ["the", "a", "An", "cat", "Cat's", "U.S.", "-", "—", "é", "İstanbul", "ﬁne", "1,000", "theatre", "ᾳ"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
ANSWERS = st.lists(TEXTS, max_size=3)


def examples_of(questions, spans, margins, threshold="dev"):
    """What the task makes of questions whose best spans and margins are given."""
    texts, said = [], {"margin": np.array(margins, float), "char_start": [], "char_end": []}
    for number, (golds, span) in enumerate(zip(questions, spans, strict=True)):
        passage = f"{span} | " + " | ".join(golds)
        answers = tuple(Answer(gold, passage.index(gold)) for gold in golds)
        texts.append(Example(f"question {number}", pair=f"{passage} {number}", answers=answers))
        said["char_start"].append(0)
        said["char_end"].append(len(span))
    task = Answering(Vocabulary.draft(9), labels=None, threshold=threshold)
    held = {name: np.asarray(column) for name, column in said.items()}
    return Examples(task.compare(held, texts))


@settings(max_examples=150)
@given(st.lists(st.tuples(ANSWERS, TEXTS, st.floats(-3, 3)), min_size=1, max_size=8), st.floats(-3, 3))
def test_scores_are_the_official_ones_to_the_last_digit(rows, threshold):
    questions, spans, margins = map(list, zip(*rows, strict=True))
    examples = examples_of(questions, spans, margins, threshold)
    said = [span if margin > threshold else "" for span, margin in zip(spans, margins, strict=True)]
    right = official.scores(questions, said)
    for name, value in right.items():
        if name == "span_f1_unanswerable":  # the same number as exact match
            assert value == right["exact_match_unanswerable"]
            continue
        metric = METRICS.build(name)
        assert metric.applies(examples) and metric.value(examples) == pytest.approx(value, abs=1e-15)


@pytest.mark.parametrize(
    ("said", "golds", "exact", "f1"),
    [
        ("", [], 1, 1),
        ("", ["Oslo"], 0, 0),
        ("Oslo", [], 0, 0),
        ("the", [], 1, 1),  # nothing is left of it, as nothing is of no answer
        ("", ["The"], 1, 1),  # nor of such a gold answer
        ("The Cat!", ["cat"], 1, 1),
        ("a small cat", ["cat", "small cat"], 1, 1),  # the best of several
        ("cat cat dog", ["cat dog dog"], 0, 2 / 3),
        ("U.S.A.", ["usa"], 1, 1),
        ("theatre", ["atre the"], 0, 0),  # an article within a word is none
        ("Ⅷ", ["ⅷ"], 1, 1),
        ("İ", ["i̇"], 1, 1),  # lower case is longer than it was
        ("a—b", ["ab"], 0, 0),  # only ASCII punctuation is left out
    ],
)
def test_one_answer(said, golds, exact, f1):
    gold = gold_of(golds)
    assert exact_match(said, gold) == exact == official.raw(golds, said)[0]
    assert overlap_f1(said, gold) == f1 == official.raw(golds, said)[1]


def test_normalised_leaves_words_that_only_hold_an_article():
    assert normalised("  The Anna-Lena's  an-a the\tx ") == "annalenas ana x"


# ---------------------------------------------------------------- thresholds

FEW = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
ROWS = st.lists(st.tuples(FEW, st.sampled_from([0.0, 0.4, 1.0]), st.sampled_from([0.0, 1.0])), min_size=1)


@given(ROWS)
def test_the_curve_is_every_way_to_part_the_questions_and_its_best_the_best(rows):
    margin, answer, silent = (np.array(column) for column in zip(*rows, strict=True))
    found = curve(margin, answer, silent)
    sums = [np.where(margin > tau, answer, silent).sum() for tau in found.thresholds]
    assert found.sums == pytest.approx(sums)
    assert found.answered.tolist() == [(margin > tau).sum() for tau in found.thresholds]
    tried = [np.where(margin > tau, answer, silent).sum() for tau in [*margin, margin.min() - 1]]
    best = np.where(margin > found.best, answer, silent).sum()
    assert best == pytest.approx(max(tried))
    assert len(found.thresholds) == len(set(margin)) + 1


@settings(max_examples=50)
@given(st.lists(st.tuples(ANSWERS, TEXTS, FEW), min_size=1, max_size=6))
def test_the_best_threshold_gives_the_best_official_f1(rows):
    questions, spans, margins = map(list, zip(*rows, strict=True))
    examples = examples_of(questions, spans, margins)
    best = curve(examples["margin"], examples["span_f1"], examples["silent"])
    assert best.sums.max() / len(rows) == pytest.approx(official.best_f1(questions, spans, margins))


def test_of_equally_good_thresholds_the_nearest_to_zero_is_taken():
    margin = np.array([-3.0, -1.0, 2.0, 5.0])
    assert curve(margin, np.ones(4), np.ones(4)).best == 0.5
    assert curve(margin + 10, np.ones(4), np.ones(4)).best == 6.0  # below them all, by 1


def test_what_cannot_be_answered_is_never_answered():
    found = curve(np.array([-math.inf, 1.0]), np.array([1.0, 1.0]), np.zeros(2))
    assert found.answered.tolist() == [1, 0] and np.isfinite(found.thresholds).all()
    nothing = curve(np.array([-math.inf]), np.zeros(1), np.ones(1))
    assert nothing.best == 0.0 and nothing.sums.tolist() == [1.0]


def test_a_question_never_helps_to_choose_its_own_threshold():
    generator = np.random.default_rng(0)
    margin, answer = generator.normal(size=60), generator.random(60)
    silent, fold = (generator.random(60) < 0.5).astype(float), np.arange(60) % 5
    before = cross_fitted(margin, answer, silent, fold)
    for number in range(5):
        own = fold == number
        assert len(set(before[own])) == 1
        other = np.where(own, generator.normal(size=60) * 9, margin)
        after = cross_fitted(other, np.where(own, 1 - answer, answer), silent, fold)
        assert (after[own] == before[own]).all()
    others = fold != 0
    assert before[0] == curve(margin[others], answer[others], silent[others]).best


def test_folds_keep_passages_whole_and_are_of_equal_size():
    keys = [f"passage {n // 3}" for n in range(60)]
    found = folds(keys, [hash(key) % 97 for key in keys])
    assert {len({*found[n : n + 3]}) for n in range(0, 60, 3)} == {1}
    assert np.bincount(found).tolist() == [12] * 5


def test_intervals_are_those_of_a_mean():
    examples = examples_of([["x"]] * 12 + [[]] * 8, ["x", "y", "x", "", "z"] * 4, [1.0] * 20, 0.0)
    found = METRICS.build("span_f1").interval(examples)
    each = np.array([1.0, 0, 1, 0, 0] * 2 + [1.0, 0] + [0.0, 1, 0] + [0.0, 0, 0, 1, 0])
    assert found.value == pytest.approx(each.mean()) and found.n == 20
    assert found.high - found.value == pytest.approx(2.093 * each.std(ddof=1) / 20**0.5, rel=1e-3)
    assert METRICS.build("span_f1_answerable").interval(examples).n == 12
