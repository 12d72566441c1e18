"""BM25 and ranks against what is written the slow way; search with every family of model."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.evaluation.retrieval import BM25, Questions, by_vectors, by_words
from attnlab.metrics import METRICS
from attnlab.metrics.metric import Examples
from attnlab.metrics.retrieval import ranks

WORDS = st.lists(st.sampled_from(["cat", "Dog", "sat", "é", "mat", "42"]), max_size=9).map(" ".join)


def slow_bm25(query, texts, k=1.2, b=0.75):
    held = [re.findall(r"\w+", text.lower()) for text in texts]
    mean = sum(map(len, held)) / len(held)
    scores = []
    for words in held:
        score = 0.0
        for word in re.findall(r"\w+", query.lower()):
            n = sum(word in other for other in held)
            idf = math.log(1 + (len(held) - n + 0.5) / (n + 0.5))
            tf = words.count(word)
            score += idf * tf * (k + 1) / (tf + k * (1 - b + b * len(words) / max(mean, 1)))
        scores.append(score)
    return scores


@settings(max_examples=80, derandomize=True, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(WORDS, min_size=1, max_size=4))
def test_bm25_is_its_formula(texts, queries):
    found = BM25(texts).scores([*queries, "word that nobody knows"])
    assert found.shape == (len(queries) + 1, len(texts)) and not found[-1].any()
    for query, row in zip(queries, found, strict=False):
        assert row == pytest.approx(slow_bm25(query, texts), abs=1e-12)


def test_a_rank_counts_all_that_score_as_high():
    scores = np.array([[0.1, 0.9, 0.5, 0.5], [1.0, 1.0, 1.0, 1.0], [np.nan, 0.0, 0.0, 0.0]])
    assert ranks(lambda some: scores[some], np.array([2, 0, 0])).tolist() == [3, 4, 4]


def test_ranks_do_not_depend_on_how_many_are_scored_at_once(monkeypatch):
    draw = np.random.default_rng(0)
    queries, passages = (draw.normal(size=(n, 6)).astype(np.float32) for n in (50, 20))
    own = draw.integers(20, size=50)
    found = by_vectors(queries, passages, own)["rank"]
    slow = [
        1 + sum(query @ other >= query @ passages[o] for i, other in enumerate(passages) if i != o)
        for query, o in zip(queries, own, strict=True)
    ]
    assert found.tolist() == slow
    monkeypatch.setattr("attnlab.metrics.retrieval.AT_ONCE", 7)
    assert by_vectors(queries, passages, own)["rank"].tolist() == slow


def test_a_passage_of_several_queries_is_there_once():
    pairs = [("who sat?", "the cat sat"), ("who ran?", "the dog ran"), ("what sat?", "the cat sat")]
    found = Questions.of(pairs)
    assert found.passages == ["the cat sat", "the dog ran"] and found.own.tolist() == [0, 1, 0]
    assert by_words(found)["rank"].tolist() == [1, 1, 1]


def test_scores_of_ranks():
    held = Examples({"rank": np.array([1, 2, 10, 11, 100])})
    wanted = {"recall_at_1": 0.2, "recall_at_10": 0.6, "reciprocal_rank": (1.61 + 1 / 11) / 5}
    assert {name: METRICS.build(name).value(held) for name in wanted} == pytest.approx(wanted)


def test_a_paired_difference_is_narrower_than_two_intervals():
    draw = np.random.default_rng(1)
    hard = draw.integers(1, 50, 300)
    one, other = Examples({"rank": hard}), Examples({"rank": hard + draw.integers(0, 3, 300)})
    metric = METRICS.build("reciprocal_rank")
    found, alone = metric.difference(one, other), metric.interval(one)
    assert found.low < found.value < found.high and found.high - found.low < alone.high - alone.low
    slow = 1 / one["rank"] - 1 / other["rank"]
    assert found.value == pytest.approx(slow.mean())
    assert (found.high - found.low) / 2 == pytest.approx(1.9679 * slow.std(ddof=1) / math.sqrt(300), rel=1e-3)
    same = metric.difference(one, one)
    assert same.value == 0 and math.isnan(same.low)
