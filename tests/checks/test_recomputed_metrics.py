"""Every metric has a second route, which agrees with other libraries; numbers of other rows are found out."""

import copy
import functools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnlab.checks.plain_intervals import expected_intervals, interval_gap
from attnlab.checks.plain_metrics import PLAIN, Said
from attnlab.checks.recomputed_metrics import confirm_metrics
from attnlab.checks.source import source_of
from attnlab.evaluation.documents import document_losses
from attnlab.evaluation.evaluator import Evaluator
from attnlab.evaluation.statistics import loss_interval
from attnlab.metrics import METRICS, answers, classes, tags, words
from attnlab.metrics.metric import Estimate, Examples, Metric
from attnlab.session.defined_scores import scores_of, values_and_intervals
from attnlab.tasks import TASKS
from tests.checks.cases import found, made, of
from tests.metrics.noisy_texts import written

LABELLED = [name for name in TASKS if not TASKS[name].target.of_words]
NAMES = ["O", "B-A", "I-A", "B-B", "I-B"]


# ---------------------------------------------------------------- columns as tasks make them
def columns_of(n=80, seed=0):
    """Columns of every kind, of a model that is right about half of the time."""
    draw = np.random.default_rng(seed)
    label = draw.choice(3, size=n, p=[0.6, 0.3, 0.1])
    probabilities = draw.dirichlet(np.ones(3), size=n)
    probabilities[np.arange(n), label] += draw.random(n)
    probabilities /= probabilities.sum(1, keepdims=True)
    number = draw.normal(10, 3, n).round(1)  # some are equal
    chances = draw.random((n, 4))
    targets = draw.integers(1, 40, n)
    truth = np.where(draw.random((n, 9)) < 0.5, 0, draw.integers(0, 5, (n, 9))).astype(np.int8)
    truth[:, 7:] = np.where(draw.random((n, 2)) < 0.5, -1, truth[:, 7:])
    truth[:, 8] = np.where(truth[:, 7] < 0, -1, truth[:, 8])
    said = np.where(draw.random(truth.shape) < 0.7, truth, draw.integers(0, 5, truth.shape))
    said = np.where(truth < 0, -1, said).astype(np.int8)
    counted = [
        tags.entity_counts([NAMES[t] for t in a if t >= 0], [NAMES[t] for t in b if t >= 0], ["A", "B"])
        for a, b in zip(truth, said, strict=True)
    ]
    by_tag = [
        np.concatenate([np.bincount(x[x >= 0], minlength=5) for x in (a[a == b], a, b)]).astype(float)
        for a, b in zip(truth, said, strict=True)
    ]
    return {
        "nats": draw.gamma(2, 1, n) * targets,
        "words": draw.gamma(2, 1, n) * targets,
        "targets": targets,
        "bytes": targets * 4,
        "label": label,
        "probabilities": probabilities,
        "labels": draw.random((n, 4)) < chances,
        "chances": chances,
        "number": number,
        "predicted_number": (number + draw.normal(0, 2, n)).round(1),
        "entities": np.stack(counted),
        "tag_counts": np.stack(by_tag),
        "invalid": np.array([float(tags.invalid([NAMES[t] for t in b if t >= 0])) for b in said]),
        "word_truth": truth,
        "word_tags": said,
        **written(seed, n).columns,
        "rank": draw.geometric(0.3, n),
        "margin": draw.normal(0, 2, n),
        "threshold": np.full(n, 0.3),
        "char_start": np.zeros(n, int),
        "char_end": np.ones(n, int),
        "span_f1": draw.random(n),
        "span_exact": (draw.random(n) < 0.4).astype(float),
        "silent": (draw.random(n) < 0.4).astype(float),
        "answerable": draw.random(n) < 0.6,
        "cluster": np.arange(n) // 2,
    }


def test_every_metric_has_a_plain_second_implementation():
    assert set(PLAIN) >= set(METRICS)


GROUPED = {"rank", "margin", "label", "labels", "number"}
CLUSTERED = [name for name in METRICS if GROUPED & {*METRICS[name].needs}]


@pytest.mark.parametrize(
    ("name", "clustered"), [*((name, False) for name in METRICS), *((name, True) for name in CLUSTERED)]
)
def test_both_routes_give_the_same_value_and_interval(name, clustered):
    columns = columns_of()
    if not clustered:
        del columns["cluster"]
    metric, said = METRICS.build(name), Said(columns, NAMES)
    estimate = metric.interval(Examples(columns))
    assert PLAIN[name].of(said) == pytest.approx(estimate.value, rel=1e-9)
    assert nearest(name, said, estimate) < 0.02
    narrow, value = 2 / 3, estimate.value
    third = replace(
        estimate, low=value + (estimate.low - value) * narrow, high=value + (estimate.high - value) * narrow
    )
    assert nearest(name, said, third) > 0.1


def nearest(name, said, estimate):
    limits = METRICS[name].limits
    gaps = [
        interval_gap(estimate.interval, expected, value=estimate.value, limits=limits)
        for expected in expected_intervals(PLAIN[name], said)
    ]
    return min(gaps)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("accuracy", lambda m, c: m.accuracy_score(c["label"], c["probabilities"].argmax(1))),
        ("macro_f1", lambda m, c: m.f1_score(c["label"], c["probabilities"].argmax(1), average="macro")),
        ("matthews", lambda m, c: m.matthews_corrcoef(c["label"], c["probabilities"].argmax(1))),
        ("micro_f1", lambda m, c: m.f1_score(c["labels"], c["chances"] > 0.5, average="micro")),
        ("exact_sets", lambda m, c: m.accuracy_score(c["labels"], c["chances"] > 0.5)),
        ("mean_squared_error", lambda m, c: m.mean_squared_error(c["number"], c["predicted_number"])),
        ("mean_absolute_error", lambda m, c: m.mean_absolute_error(c["number"], c["predicted_number"])),
        ("explained_variance", lambda m, c: m.r2_score(c["number"], c["predicted_number"])),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_plain_route_agrees_with_scikit_learn(name, other, seed):
    metrics = pytest.importorskip("sklearn.metrics")
    columns = columns_of(seed=seed)
    assert PLAIN[name].of(Said(columns)) == pytest.approx(other(metrics, columns), rel=1e-9)


@pytest.mark.parametrize("name", ["precision", "recall", "f1"])
def test_entities_agree_with_seqeval(name):
    seqeval = pytest.importorskip("seqeval.metrics")
    columns = columns_of(seed=3)
    rows = [[[NAMES[t] for t in row if t >= 0] for row in columns[c]] for c in ("word_truth", "word_tags")]
    expected = getattr(seqeval, f"{name}_score")(*rows)
    assert PLAIN[f"entity_{name}"].of(Said(columns, NAMES)) == pytest.approx(expected, rel=1e-9)


def test_a_class_that_is_neither_there_nor_predicted_has_no_part_in_the_macro_f1():
    """Of three classes two: one right of two, and one right of one beside a wrong one."""
    probabilities = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.1, 0.9, 0.0]])
    columns = {"label": np.array([0, 0, 1]), "probabilities": probabilities}
    assert PLAIN["macro_f1"].of(Said(columns)) == pytest.approx(2 / 3)
    assert METRICS.build("macro_f1").value(Examples(columns)) == pytest.approx(2 / 3)
    absent_and_predicted = columns | {"probabilities": probabilities[:, [0, 2, 1]]}
    assert PLAIN["macro_f1"].of(Said(absent_and_predicted)) == pytest.approx(2 / 9)
    assert METRICS.build("macro_f1").value(Examples(absent_and_predicted)) == pytest.approx(2 / 9)


@pytest.mark.parametrize(
    ("tags", "invalid"),
    [
        (["B-X", "I-X", "E-X", "O"], 0),
        (["O", "E-X", "O", "O"], 1),
        (["O", "I-X", "I-X", "O"], 1),
        (["B-X", "E-Y", "I-Y", "O"], 2),
        (["E-X", "I-X", "S-X", "B-X"], 2),
    ],
)
def test_tags_that_continue_what_was_not_begun_are_counted_by_hand(tags, invalid):
    names = ["O", "B-X", "I-X", "E-X", "S-X", "I-Y", "E-Y"]
    given = np.array([[names.index(tag) for tag in tags]])
    said = Said({"word_truth": np.zeros_like(given), "word_tags": given}, names)
    assert PLAIN["invalid_tags"].of(said) == pytest.approx(invalid / 4)


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_correlations_agree_with_scipy(name):
    from scipy import stats

    columns = columns_of(seed=4)
    expected = getattr(stats, f"{name}r")(columns["number"], columns["predicted_number"])[0]
    assert PLAIN[name].of(Said(columns)) == pytest.approx(expected, rel=1e-9)


# ---------------------------------------------------------------- in training
def told(task, evaluation, **facts):
    """What the check finds of an evaluation that is told as it is."""
    scores = {"loss": evaluation.loss, **evaluation.scores}
    about = of(made(task), when="evaluation", evaluation=evaluation, scores=scores, **facts)
    return found("recomputed_metrics", about)


@functools.cache
def evaluator(task, split="dev"):
    """How a split is scored; tags by a model that is often right."""
    batches = made(task).config.training.evaluate_batches if split == "dev" else "all"
    asked = made(task).evaluator(split, batches=batches)
    if task != "tagging":
        return asked
    skilled = copy.copy(asked.task)
    skilled.__class__ = type("Skilled", (type(skilled),), {"scores": often_right})
    return replace(asked, task=skilled)


def often_right(self, head, hidden, prepared):
    draw, classes = torch.Generator().manual_seed(0), self.labels.outputs
    noise = torch.rand(*prepared.targets.shape, classes, generator=draw)
    return 2 * noise + torch.nn.functional.one_hot(prepared.targets.clamp(min=0), classes)


@pytest.mark.parametrize("task", list(TASKS))
def test_healthy_evaluations_are_confirmed(task):
    setup, evaluation = made(task), evaluator(task)()
    train = replace(evaluator(task, "train"), batches=3)()
    scores = {"loss": evaluation.loss, **evaluation.scores}
    scores |= {f"train_{name}": value for name, value in {"loss": train.loss, **train.scores}.items()}
    facts = {"evaluation": evaluation, "train_evaluation": train, "scores": scores}
    finding = found("recomputed_metrics", of(setup, when="evaluation", **facts))
    assert finding.outcome == "pass", finding
    assert not finding.values["unconfirmed"] and finding.values["metrics"] >= len(evaluation.scores) - 2


def reading(choose):
    """An evaluator's batches, some of them left out or repeated."""

    def judged(self, plain=Evaluator.judged):
        yield from choose(list(plain(self)))

    return judged


READINGS = {
    "the last batch alone": lambda batches: batches[-1:],
    "all but the last": lambda batches: batches[:-1],
    "all but the first": lambda batches: batches[1:],
    "a batch twice": lambda batches: [*batches, batches[0]],
    "a batch in the place of another": lambda batches: [*batches[:-1], batches[0]],
}


@pytest.mark.parametrize("read", READINGS)
@pytest.mark.parametrize("task", LABELLED)
def test_metrics_of_other_rows_than_the_files_are_named(task, read, monkeypatch):
    monkeypatch.setattr(Evaluator, "judged", reading(READINGS[read]))
    whole = replace(evaluator(task), batches="all")
    setup = made(task)
    setting = replace(setup.config, training=replace(setup.config.training, evaluate_batches="all"))
    evaluation = whole()
    about = of(setup, when="evaluation", evaluation=evaluation, scores=dict(evaluation.scores))
    finding = found("recomputed_metrics", replace(about, config=setting))
    assert finding.outcome == "fail" and finding.kind in ("miscounted", "other_labels"), finding


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression", "tagging"])
@pytest.mark.parametrize("renumbered", [True, False])
def test_a_metric_of_train_is_not_one_of_dev(task, renumbered):
    evaluation = evaluator(task, "train")()
    if renumbered:  # as many rows as dev has, under their numbers
        size = len(source_of(made(task).dataset).rows["dev"])
        part = {name: column[:size] for name, column in evaluation.examples.columns.items()}
        evaluation = replace(evaluation, examples=Examples(part), numbers=np.arange(size), scores={})
    finding = told(task, evaluation)
    assert finding.outcome == "fail" and finding.kind in ("miscounted", "other_labels", "more_rows"), finding


def of_batches(self, examples, plain=Metric.value):
    """The mean of the values of parts of different size."""
    cut = max(1, len(examples) // 4)
    parts = [{n: c[at] for n, c in examples.columns.items()} for at in (slice(cut), slice(cut, None))]
    return sum(plain(self, Examples(part)) for part in parts) / 2


def above_045(self, examples):
    given, own = examples["chances"] > 0.45, examples["labels"]
    return np.stack([2 * (given & own).sum(1), given.sum(1) + own.sum(1)], 1).astype(float)


def of_all_classes(self, right, labels, predictions):
    return np.nan_to_num(2 * right / np.maximum(labels + predictions, 1)).mean(-1) * 0.9


def doubled(self, examples, plain=Metric.value):
    return 2 * plain(self, examples)


def from_nought(self, examples, plain=Metric.value):
    return plain(self, Examples(dict(examples.columns) | {"rank": examples["rank"] + 1}))


MACRO, LOSSES = (classes.MacroF1, "of_counts"), (Metric, "value")
MISNAMED = {
    "micro for macro": ("classification", *MACRO, lambda self, r, t, p: r.sum(-1) / t.sum(-1)),
    "macro over all classes": ("classification", *MACRO, of_all_classes),
    "a mean of batches' means": ("classification", *LOSSES, of_batches),
    "a mean of batches' means, of tags": ("tagging", *LOSSES, of_batches),
    "a mean of batches' means, of answers": ("answering", *LOSSES, of_batches),
    "a mean of exponentials": (
        *("causal", words.Perplexity, "value"),
        lambda self, e: np.exp(e["words"] / e["targets"]).mean(),
    ),
    "bits to the base of ten": (
        *("causal", words.BitsPerByte, "of"),
        lambda self, s: s[..., 0] / s[..., 1] / math.log(10),
    ),
    "chances above 0.45": ("multilabel", classes.MicroF1, "parts", above_045),
    "precision for recall": ("tagging", tags.EntityRecall, "of", tags.EntityPrecision.of),
    "errors in another unit": ("regression", *LOSSES, doubled),
    "ranks from nought": ("similarity", *LOSSES, from_nought),
}


@pytest.mark.parametrize("fault", MISNAMED)
def test_another_number_under_a_metrics_name_is_named(fault, monkeypatch):
    task, owner, method, wrong = MISNAMED[fault]
    healthy = evaluator(task)()
    assert told(task, healthy).outcome == "pass"
    monkeypatch.setattr(owner, method, wrong)
    evaluation = evaluator(task)()
    assert evaluation.scores != healthy.scores  # the fault does something here
    finding = told(task, evaluation)
    assert finding.outcome == "fail" and finding.kind == "misreported", finding


OFF_BY_ONE = {
    "those at the first word are lost": lambda one: one[1] > 0,
    "those of one word are lost": lambda one: one[2] - one[1] > 1,
}


@pytest.mark.parametrize("fault", OFF_BY_ONE)
def test_an_off_by_one_in_entities_is_named(fault, monkeypatch):
    def entities(names, plain=tags.entities):
        return [one for one in plain(names) if OFF_BY_ONE[fault](one)]

    monkeypatch.setattr(tags, "entities", entities)
    finding = told("tagging", evaluator("tagging")())
    assert finding.outcome == "fail" and finding.values["metric"].startswith("entity"), finding


def test_a_threshold_that_is_applied_twice_is_named(monkeypatch):
    asked = replace(evaluator("answering"), batches="all")
    fixed = copy.copy(asked.task)
    fixed.threshold = float(np.median(asked().examples["margin"]))
    asked = replace(asked, task=fixed)
    healthy = asked()
    monkeypatch.setattr(answers, "answered", lambda e: e["margin"] - e["threshold"] > e["threshold"])
    evaluation = asked()
    assert evaluation.scores["span_f1"] != healthy.scores["span_f1"]
    assert told("answering", healthy).outcome == "pass"
    assert told("answering", evaluation).kind == "misreported"


def changed(evaluation, **columns):
    return replace(evaluation, examples=Examples(dict(evaluation.examples.columns) | columns))


@pytest.mark.parametrize(
    ("task", "change", "kind"),
    [
        ("classification", lambda c: {"probabilities": np.roll(c["probabilities"], 1, 0)}, "other_losses"),
        ("classification", lambda c: {"probabilities": c["probabilities"] ** 2}, "other_losses"),
        ("multilabel", lambda c: {"chances": 1 / (1 + np.exp(-c["chances"]))}, "other_losses"),
        ("classification", lambda c: {"label": np.roll(c["label"], 1)}, "other_labels"),
        ("multilabel", lambda c: {"labels": c["labels"][::-1]}, "other_labels"),
        ("regression", lambda c: {"number": c["number"] + 0.01}, "other_labels"),
        ("regression", lambda c: {"predicted_number": c["predicted_number"] * np.nan}, "unread"),
        ("tagging", lambda c: {"word_truth": np.roll(c["word_truth"], 1, 0)}, "other_labels"),
        ("similarity", lambda c: {"rank": np.maximum(1, c["rank"] - 1)}, "ranks"),
        ("similarity", lambda c: {"rank": np.ones_like(c["rank"])}, "ranks"),
        ("causal", lambda c: {"nats": c["nats"] * np.nan}, "unread"),
        ("causal", lambda c: {"targets": c["targets"] + 1}, "targets"),
    ],
)  # fmt: skip
def test_columns_that_are_not_those_of_the_rows_are_named(task, change, kind):
    healthy = evaluator(task)()
    finding = told(task, changed(healthy, **change(healthy.examples.columns)))
    assert finding.outcome == "fail" and finding.kind == kind, finding


# ---------------------------------------------------------------- in evaluate, and in studies
def confirmed(task, losses, scores=None, **facts):
    values, intervals = values_and_intervals(scores_of(losses) if scores is None else scores)
    about = {"evaluator": replace(evaluator(task), batches="all"), "source": source_of(made(task).dataset)}
    return confirm_metrics(losses, values, intervals=intervals, split="dev", **about | facts)


@pytest.mark.parametrize("task", list(TASKS))
def test_scores_of_all_of_dev_are_confirmed_with_their_intervals(task):
    finding = confirmed(task, document_losses(replace(evaluator(task), batches="all")))
    assert finding.outcome == "pass", finding
    assert finding.values["intervals"] or task == "unilm"


@pytest.mark.parametrize("task", LABELLED)
def test_rows_that_were_not_read_make_the_number_fail(task, monkeypatch):
    monkeypatch.setattr(Evaluator, "judged", reading(lambda batches: batches[:-1]))
    losses = document_losses(replace(evaluator(task), batches="all"))
    assert np.isnan(losses.nats).any()  # and not 0
    finding = confirmed(task, losses, {})
    assert finding.outcome == "fail" and finding.kind == "unread"


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression", "tagging"])
def test_rows_that_are_filled_with_zeros_are_named(task, monkeypatch):
    monkeypatch.setattr(Evaluator, "judged", reading(lambda batches: batches[:-1]))
    losses = document_losses(replace(evaluator(task), batches="all"))
    said = {n: np.maximum(np.nan_to_num(c), 0).astype(c.dtype) for n, c in losses.said.items()}
    finding = confirmed(task, replace(losses, nats=np.nan_to_num(losses.nats), said=said))
    assert finding.outcome == "fail" and finding.kind in ("other_labels", "other_losses", "targets"), finding


def test_words_of_fewer_rows_than_the_split_has_are_named(monkeypatch):
    monkeypatch.setattr(Evaluator, "judged", reading(lambda batches: batches[:-1]))
    finding = confirmed("causal", document_losses(replace(evaluator("causal"), batches="all")))
    assert finding.outcome == "fail" and finding.kind == "targets"


NARROW = {"too narrow by a third": 2 / 3, "too wide by a third": 4 / 3, "a standard error": 1 / 1.96}


@pytest.mark.parametrize("fault", NARROW)
@pytest.mark.parametrize(
    ("task", "metric"),
    [
        ("classification", "macro_f1"),
        ("classification", "accuracy"),
        ("causal", "loss"),
        ("causal", "perplexity"),
        ("regression", "mean_squared_error"),
        ("tagging", "tag_accuracy"),
        ("answering", "span_f1"),
    ],
)
def test_intervals_that_are_off_by_more_than_a_tenth_are_named(task, metric, fault, monkeypatch):
    losses = document_losses(replace(evaluator(task), batches="all"))
    owner = METRICS[metric]

    def interval(self, examples, level=0.95, plain=owner.interval):
        estimate = plain(self, examples, level)
        ends = (
            estimate.value + (end - estimate.value) * NARROW[fault] for end in (estimate.low, estimate.high)
        )
        return Estimate(estimate.value, *ends, estimate.n, level)

    assert loss_interval(losses, metric).interval is not None
    monkeypatch.setattr(owner, "interval", interval)
    finding = confirmed(task, losses)
    assert finding.outcome == "fail" and finding.kind == "interval", finding
    assert METRICS[finding.values["metric"]].interval is interval


def test_a_loss_without_a_value_is_never_confirmed():
    losses = document_losses(replace(evaluator("causal"), batches="all"))
    broken = replace(losses, nats=losses.nats * math.inf)
    assert confirmed("causal", broken, {}).outcome == "fail"
