"""Answers that are not where they should be, that cannot be given, or that are given to all or none; and
thresholds that were tuned on what they are scored on: each is injected, and each is named."""

from __future__ import annotations

import copy
import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from attnlab.checks.threshold import Threshold
from attnlab.config.wording import Signed
from attnlab.data.rows import Rows
from attnlab.metrics.metric import CLUSTER, Examples, t_reach
from attnlab.metrics.thresholds import curve
from attnlab.runs.findings import collapse_sentence
from attnlab.targets import TARGETS
from attnlab.tasks.answering import Answering
from attnlab.tasks.labelled import summed
from tests.checks.cases import case, config, found, of
from tests.training.small_run import set_up

SPANS = TARGETS["answer"]
LABELS = SPANS.draft()


def test_a_healthy_run_has_its_answers_in_place():
    finding = found("answers", case("answering"))
    assert (
        finding.outcome == "pass"
        and "answers of" in finding.found
        and "whole in no window" not in finding.found
    )
    assert found("answers", case("classification")).outcome == "not applicable"


@pytest.mark.parametrize("fault", ["off by one", "other row", "no answer points", "too wide"])
def test_rows_that_point_elsewhere_are_named(fault):
    about = case("answering")
    rows = about.dataset.rows("train")
    part = {name: np.array(column) for name, column in rows.parts[0].items()}
    has = part["start"] > 0
    if fault == "off by one":  # characters of another form of the text
        for name in ("char_start", "char_end"):
            part[name] = np.where(part[name] >= 0, part[name] + 1, -1)
    elif fault == "other row":
        part["start"], part["end"] = (np.where(has, part[name] + 1, 0) for name in ("start", "end"))
    elif fault == "no answer points":
        part["end"] = np.where(has, part["end"], 15)
        part["start"] = np.where(has, part["start"], 15)
    else:
        part["end"] = np.where(has, part["end"] + 1, 0)
    dataset = about.dataset
    broken = type(dataset)(dataset.settings, reader=dataset.reader)
    broken._rows = {"train": Rows([part], fingerprint=""), "dev": dataset.rows("dev")}
    broken.tokenizer = dataset.tokenizer
    finding = found("answers", dataclasses.replace(about, dataset=broken))
    assert finding.outcome == "fail" and finding.number > 50 and "such as" in finding.found


def squad(folder, answers):
    """One question of each passage with these answers, as SQuAD's files have them."""
    data = []
    for number, answer in enumerate(answers):
        passage = f"Number {number} says that {answer} is right, and that is all there is to say of it."
        asked = {"id": f"q{number}", "question": f"What is right of {number}?"}
        asked["answers"] = [{"text": answer, "answer_start": passage.index(answer)}] if answer else []
        data.append({"title": str(number), "paragraphs": [{"context": passage, "qas": [asked]}]})
    file = folder / "squad.json"
    file.write_text(json.dumps({"data": data}))
    return file


def test_answers_that_cannot_be_given_are_counted_and_named(tmp_path):
    long = " ".join(f"word{n}" for n in range(12))
    file = squad(tmp_path, ["yes"] * 30 + [long] * 6)
    text = {"corpus": str(file), "tokenizer": {"kind": "word", "vocabulary": 500, "minimum_count": 1}}
    setup = set_up(config("answering", data=text | {"length": 64}))
    setup.task.longest_answer = 5
    finding = found("answers", of(setup))
    assert finding.outcome == "warn" and "longer than 5 tokens" in finding.found
    assert "“word0 word1" in finding.found and "question q3" in finding.found
    short = {"encoding": "question(overlap=2, question_length=7)", "length": 22}
    cut = found("answers", of(set_up(config("answering", data=text | short))))
    assert cut.outcome == "warn" and "whole in no window, such as “word0" in cut.found
    assert cut.number > 0.1


# ---------------------------------------------------------------- scores and losses


class Company(nn.Module):
    """A head whose scores depend on the rest of the batch."""

    scores_words = False

    def __init__(self, inner):
        super().__init__()
        self.inner, self.scores = inner, inner.scores

    def forward(self, hidden, tokens):
        found = self.inner(hidden, tokens)
        return found - 0.5 * found.mean(0)

    def flops(self, positions):
        return self.inner.flops(positions)


class Deaf(Company):
    """A head that the text does not reach."""

    def forward(self, hidden, tokens):
        return self.inner(torch.ones_like(hidden), tokens)


def loud(about):
    """Scores that say something: the first ones are near 0."""
    with torch.no_grad():
        about.model.head.scores.weight.mul_(20.0)
    return about


def test_scores_that_depend_on_the_batch_are_named():
    about = loud(case("answering"))
    assert {found(name, about).outcome for name in ("invariance", "recomputed_loss")} == {"pass"}
    about.model.head = Company(about.model.head)
    finding = found("invariance", about)
    assert finding.outcome == "fail" and "depends on the batch" in finding.meaning
    assert found("recomputed_loss", about).outcome == "fail"


def halved(self, head, hidden, prepared, *, training):
    """The mean of first and last token, where their sum is said."""
    right = Answering.head_loss(self, head, hidden, prepared, training=training)
    return dataclasses.replace(
        right, total=right.total / 2, each=None if right.each is None else right.each / 2
    )


def of_all_tokens(self, head, hidden, prepared, *, training):
    """A softmax that padding and the question share."""
    chances = head(hidden, prepared.tokens).log_softmax(1)
    return summed(-chances.gather(1, prepared.targets[:, None]).sum((1, 2)))


@pytest.mark.parametrize("fault", [halved, of_all_tokens])
def test_a_loss_that_is_another_one_is_named(fault):
    about = loud(case("answering"))
    task = copy.copy(about.task)
    task.__class__ = type("Wrong", (Answering,), {"head_loss": fault})
    finding = found("recomputed_loss", dataclasses.replace(about, task=task))
    assert finding.outcome == "fail" and "not the cross-entropy" in finding.meaning


def test_an_input_that_does_not_arrive_is_named():
    about = case("answering")
    about.model.head = Deaf(about.model.head)
    finding = found("overfit", about)
    assert finding.outcome == "fail" and "an input that does not reach the model" in finding.fix
    after = found("inputs_matter", dataclasses.replace(about, when="after", step=400))
    assert after.outcome == "warn"


# ---------------------------------------------------------------- what is answered


def said(margin, f1, answerable, threshold=0.0):
    n = len(margin)
    columns = {"margin": margin, "span_f1": f1, "span_exact": np.floor(f1), "answerable": answerable}
    columns |= {"silent": 1.0 - answerable, "fold": np.arange(n) % 5, "threshold": np.full(n, threshold)}
    return Examples({name: np.asarray(column) for name, column in columns.items()})


def drawn(n=200, skill=1.0, seed=0):
    generator = np.random.default_rng(seed)
    there = generator.random(n) < 0.5
    margin = generator.normal(size=n) + skill * np.where(there, 1, -1)
    return margin, np.where(there, generator.random(n).round(), 0.0), there


@pytest.mark.parametrize("when", ["evaluation", "after"])
def test_models_that_always_or_never_answer_are_named(when):
    margin, f1, there = drawn()
    for threshold, told, score in (
        (99.0, "never answers", (~there).mean()),
        (-99.0, "answers every question", f1.mean()),
    ):
        about = case("answering", when=when, examples=said(margin, f1, there, threshold))
        finding = found("collapse", about)
        assert finding.outcome == "fail" and told in finding.meaning and f"{score:.2%}" in finding.meaning
        assert found("majority", about).outcome == "fail"
    healthy = case("answering", when=when, examples=said(margin, f1, there))
    assert found("collapse", healthy).outcome == "pass"


def test_f1_that_is_no_better_than_never_answering_is_told_first():
    margin, f1, there = drawn(skill=0.0)
    findings = SPANS.findings(said(margin, f1, there), LABELS)
    assert "not better than never answering" in collapse_sentence(findings)
    good = SPANS.findings(said(*drawn(skill=3.0, n=400)), LABELS)
    assert [one.outcome for one in good] == ["pass", "pass"] and not collapse_sentence(good)


def test_questions_of_one_passage_do_not_count_as_many():
    """Injected: each of 20 questions is there 20 times. By passage the interval is that of leaving out
    each passage in turn, and what 400 questions would have shown is not shown."""
    margin, f1, there = (np.repeat(column, 20) for column in drawn(skill=1.2, n=20))
    alone, together = said(margin, f1, there), said(margin, f1, there)
    together.columns[CLUSTER] = np.repeat(np.arange(20), 20)
    above = np.where(margin > 0, f1, 1.0 - there) - (1.0 - there)
    left = [np.delete(above.reshape(20, 20), n, 0).mean() for n in range(20)]
    half = t_reach(19, 0.05) * math.sqrt(19 / 20 * sum((one - np.mean(left)) ** 2 for one in left))
    low, high = above.mean() - half, above.mean() + half
    one, both = SPANS.majority(alone, LABELS), SPANS.majority(together, LABELS)
    assert f"{Signed(low):+.1%} to {high:+.1%}" in both.found
    assert (one.outcome, both.outcome) == ("pass", "fail")


def test_questions_that_all_have_an_answer_may_all_be_answered():
    margin, f1, _ = drawn()
    about = case("answering", when="evaluation", examples=said(margin, f1, np.ones(200, bool), -99.0))
    assert found("collapse", about).outcome == "not applicable"
    assert found("majority", about).outcome == "pass"


# ---------------------------------------------------------------- where the threshold comes from


def cross_fitted(examples, tuned_on_all=False):
    """The columns with the threshold that each fold gets from the others, or all from all: the fault."""
    columns = dict(examples.columns)
    threshold = np.zeros(len(examples))
    for fold in range(5):
        others = columns["fold"] != fold
        chosen = np.ones_like(others) if tuned_on_all else others
        threshold[~others] = curve(*(columns[n][chosen] for n in ("margin", "span_f1", "silent"))).best
    return Examples(columns | {"threshold": threshold})


@pytest.mark.parametrize("seed", range(3))
def test_a_threshold_that_was_tuned_on_the_scored_questions_is_caught(seed):
    examples = said(*drawn(n=60, skill=0.3, seed=seed))
    honest = Threshold().judge("evaluation", cross_fitted(examples))
    assert honest.outcome == "pass" and "chosen on the same questions" in honest.found
    tuned = Threshold().judge("evaluation", cross_fitted(examples, tuned_on_all=True))
    assert tuned.outcome == "fail" and tuned.number == 0.0 < honest.number
    assert "is not the best of the other folds" in tuned.found


def test_a_threshold_that_a_person_set_is_only_told():
    finding = Threshold().judge("evaluation", said(*drawn()), fixed=True)
    assert finding.outcome == "pass" and finding.found.startswith("τ was set to 0")
    assert found("threshold", case("classification", when="evaluation")).outcome == "not applicable"
