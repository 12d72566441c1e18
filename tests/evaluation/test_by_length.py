"""Scores by the length of the source: buckets that hold every text once, each scored as if it were alone."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from attnlab.evaluation.by_length import FEW, scores_by_length
from attnlab.evaluation.evaluation_result import DefinedScore, EvaluationResult
from attnlab.evaluation.written_texts import of_texts
from attnlab.metrics import METRICS
from attnlab.metrics.metric import Examples
from attnlab.studies.report.sections.predictions import length_line
from tests.metrics.noisy_texts import altered, written


def with_sources(lengths, texts=None):
    examples = texts or written(n=len(lengths))
    sources = [" ".join(["w"] * length) for length in lengths]
    return Examples({**examples.columns, "source": of_texts(sources)})


def test_every_text_is_in_the_bucket_of_its_length():
    lengths = np.random.default_rng(0).integers(1, 40, 100)
    examples = with_sources(lengths)
    buckets = scores_by_length(examples)
    assert sum(one.n for one in buckets) == 100 and len(buckets) == 5
    assert all(one.most < other.least for one, other in pairwise(buckets))
    for one in buckets:
        rows = np.flatnonzero((one.least <= lengths) & (lengths <= one.most))
        own = Examples({name: column[rows] for name, column in examples.columns.items()})
        assert (one.n, one.mean) == (len(rows), pytest.approx(lengths[rows].mean())) and one.n >= FEW
        for name, score in one.scores.items():
            assert score == METRICS.build(name).interval(own), name


def test_a_model_that_fails_at_long_texts_shows_it():
    """The bottleneck of a fixed vector: right up to ten words, and hardly beyond."""
    draw = np.random.default_rng(0)
    words = [f"w{number}" for number in range(50)]
    right = [" ".join(draw.choice(words, length)) for length in draw.integers(3, 20, 200)]
    texts = [altered(text, draw, 1.0 if len(text.split()) <= 10 else 0.3) for text in right]
    columns = {"generated": texts, "reference": right, "source": right}
    examples = Examples({name: of_texts(column) for name, column in columns.items()})
    buckets = scores_by_length(examples)
    first, last = (one.scores["bleu"] for one in (buckets[0], buckets[-1]))
    assert first.value == pytest.approx(100) and last.high < 60
    shown = EvaluationResult(name="dev", scores={"bleu": DefinedScore(50.0, "…")}, by_length=buckets)
    assert "words of the source" in repr(shown) and f"{buckets[0].least} to {buckets[0].most}" in repr(shown)
    record = shown["by_length"][-1]
    assert (record["n"], record["scores"]["bleu"]["high"]) == (buckets[-1].n, last.high)


def test_sources_of_one_word_are_told_apart_by_characters():
    numbers = [str(10**k) for k in range(12) for _ in range(5)]
    examples = Examples({**written(n=60).columns, "source": of_texts(numbers)})
    buckets = scores_by_length(examples)
    assert (
        {one.unit for one in buckets} == {"characters"} and buckets[0].least == 1 and buckets[-1].most == 12
    )


def test_nothing_is_said_of_few_texts_or_of_one_length():
    assert scores_by_length(with_sources([3, 9] * (FEW - 1))) == ()
    assert scores_by_length(with_sources([4] * 60)) == ()
    columns = written(n=60).columns
    unsourced = Examples({name: columns[name] for name in columns if name != "source"})
    assert scores_by_length(unsourced) == () != scores_by_length(written(n=60))


def test_seeds_give_no_interval_beyond_what_a_score_can_be():
    about = {"least": 6, "most": 6, "mean": 6.0, "unit": "words", "n": 20}
    runs = [[about | {"scores": {"chrf": {"value": value, "low": 1.0, "high": 99.0}}}] for value in (10, 60)]
    line = length_line(SimpleNamespace(name="one", label="one", ink="blue"), runs, "chrf")
    assert (line.low, line.high, line.hover) == ([0.0], [100.0], ["6 words, 20 texts"])
    alone = length_line(SimpleNamespace(name="one", label="one", ink="blue"), runs[:1], "chrf")
    assert (alone.low, alone.high) == ([1.0], [99.0])
