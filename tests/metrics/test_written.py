"""Scores of written text against the packages' own commands, and their intervals against resampling."""

import csv
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF

from attnlab.checks.plain_metrics import PLAIN, Said
from attnlab.evaluation.written_texts import of_texts
from attnlab.metrics import METRICS
from attnlab.metrics.metric import Examples
from attnlab.metrics.written import ROUGES, references_of
from tests.metrics.noisy_texts import written

NAMES = ("bleu", "chrf", *ROUGES, "exact_text")


def examples_of(texts, references):
    return Examples({"generated": of_texts(texts), "reference": of_texts(references)})


def files_of(examples, folder):
    """Each column as a file of lines."""
    for name in ("generated", "reference"):
        (folder / name).write_text("".join(f"{line}\n" for line in examples[name]), encoding="utf-8")
    return str(folder / "generated"), str(folder / "reference")


def test_bleu_and_chrf_are_those_of_sacrebleus_command(tmp_path):
    examples = written(n=40)
    texts, references = files_of(examples, tmp_path)
    command = [sys.executable, "-m", "sacrebleu", references, "-i", texts, "-m", "bleu", "chrf", "-f", "text"]
    lines = subprocess.run(
        [*command, "-w", "12"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name, line in zip(("bleu", "chrf"), lines, strict=True):
        metric = METRICS.build(name)
        signature, value = line.split(" = ")[:2]
        assert f"{metric.value(examples):.12f}" == value.split()[0]
        assert metric.signature(examples) == signature.strip()


def test_rouge_is_that_of_the_packages_command(tmp_path):
    examples = written(n=40)
    texts, references = files_of(examples, tmp_path)
    command = [sys.executable, "-m", "rouge_score.rouge", f"--rouge_types={','.join(ROUGES)}"]
    files = [f"--target_filepattern={references}", f"--prediction_filepattern={texts}"]
    to = [f"--output_filename={tmp_path / 'scores.csv'}", "--aggregate=False", "--use_stemmer=False"]
    subprocess.run([*command, *files, *to], capture_output=True, check=True)
    rows = list(csv.DictReader((tmp_path / "scores.csv").read_text().splitlines()))
    for name in ROUGES:
        each = METRICS.build(name).each(examples)
        assert [f"{value:f}" for value in each] == [row[f"{name}-F"] for row in rows]
    assert "rouge-score:0" in METRICS.build("rougeL").signature(examples)


@pytest.mark.parametrize("references", [1, 2, 3])
@pytest.mark.parametrize("skill", [0.0, 0.6, 0.95])
def test_corpus_scores_are_equal_to_the_last_bit(references, skill):
    examples = written(seed=references, skill=skill, references=references)
    streams = [list(stream) for stream in zip(*references_of(examples), strict=True)]
    for name, package in (("bleu", BLEU()), ("chrf", CHRF())):
        metric, score = METRICS.build(name), package.corpus_score(list(examples["generated"]), streams)
        assert metric.value(examples) == score.score
        assert metric.signature(examples).endswith(str(package.get_signature()))
        assert f"nrefs:{references}" in metric.signature(examples)


TEXT = st.text(alphabet="ab A.,-'&;!?()<>0123é \n\"", max_size=40)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=2)), min_size=1, max_size=4))
def test_the_plain_route_counts_what_the_packages_count(pairs):
    """Words, n-grams, the nearest length and the best reference, of any text."""
    examples = examples_of([text for text, _ in pairs], [tuple(references) for _, references in pairs])
    for name in NAMES:
        plain = PLAIN[name].of(Said(examples.columns))
        assert plain == pytest.approx(METRICS.build(name).value(examples), rel=1e-9, abs=1e-9), name


@pytest.mark.parametrize("name", ["bleu", "chrf"])
@pytest.mark.parametrize(("n", "skill"), [(300, 0.5), (300, 0.9), (1000, 0.7)])
def test_intervals_are_those_of_sentences_drawn_again(name, n, skill):
    """Half of the width is sacrebleu's own, from its bootstrap over sentences."""
    examples = written(seed=n, n=n, skill=skill)
    package = {"bleu": BLEU, "chrf": CHRF}[name]()
    drawn = package.corpus_score(list(examples["generated"]), [list(examples["reference"])], n_bootstrap=1000)
    estimate = METRICS.build(name).interval(examples)
    assert (estimate.high - estimate.low) / 2 == pytest.approx(drawn._ci, rel=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_paired_differences_are_those_of_sentences_drawn_again(name):
    """Two systems that make the same mistakes at the same sentences differ by less than two that do not."""
    one, metric = written(seed=3, n=500, skill=0.7), METRICS.build(name)
    draw = np.random.default_rng(0)
    changed = [
        text if draw.random() < 0.7 else " ".join(text.split()[:-1]) for text in one["generated"].tolist()
    ]
    other = examples_of(changed, one["reference"].tolist())
    estimate = metric.difference(one, other)
    rows = draw.integers(0, 500, (400, 500))
    parts = [metric.parts(examples) for examples in (one, other)]
    first, second = (metric.of(part[rows].sum(1)) for part in parts)
    drawn = np.std(first - second, ddof=1) * 1.96
    assert (estimate.high - estimate.low) / 2 == pytest.approx(drawn, rel=0.12)
    apart = np.sqrt(sum(metric.standard_error(examples) ** 2 for examples in (one, other))) * 1.96
    assert drawn < 0.8 * apart


def test_other_text_is_another_number():
    """Case and tokenisation change BLEU; the same with blanks at its ends is equal text."""
    right = ["The cat sat on the mat, and the dog (Rex) slept.", "It's 3.5 km to Paris."] * 3
    scores = {
        name: METRICS.build("bleu").value(examples_of([change(text) for text in right], right))
        for name, change in {
            "same": str,
            "lower": str.lower,
            "pieces": lambda text: text.replace("cat", "c@@ at"),
        }.items()
    }
    assert scores["same"] == pytest.approx(100) and scores["lower"] < 90 and scores["pieces"] < 90
    exact = METRICS.build("exact_text")
    assert exact.value(examples_of(["a b ", "a  b", "A b"], ["a b", "a b", "a b"])) == pytest.approx(1 / 3)
    several = examples_of(["x", "y"], [("y", "x"), ("z", "w")])
    assert exact.value(several) == 0.5
