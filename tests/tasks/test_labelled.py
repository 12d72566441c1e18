"""Losses of labels against slow references in float64, and what they do not depend on."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.data.errors import DataError
from attnlab.data.labels import Labels
from attnlab.model.losses import LossSum
from attnlab.model.model import hidden_states
from attnlab.tasks import TASKS
from attnlab.training.loop import backward
from tests.tasks.examples import SIZE, batch, text, vocabulary

CLASSES = Labels("class", ("a", "b", "c"), (6, 3, 1), 10)
SETS = Labels("classes", ("a", "b", "c", "d"), (4, 3, 2, 1), 10)
NUMBERS = Labels("number", examples=10, mean=1e6, deviation=2.5)
KINDS = {"classification": CLASSES, "multilabel": SETS, "regression": NUMBERS}
ROWS = [text(length, seed=length) for length in (5, 9, 3, 7, 6)]
COLUMNS = {
    "classification": {"label": [0, 2, 1, 0, 2]},
    "multilabel": {"labels": [[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0], [0, 0, 1, 0]]},
    "regression": {"number": [1e6, 1e6 + 5.0, 1e6 - 2.5, 1e6 + 0.125, 1e6 - 7.5]},
}


def task_of(name, **options):
    return TASKS.build({"kind": name, **options}, vocabulary=vocabulary(), labels=KINDS[name])


def model_of(name, pooling="mean", family=lab.encoder, **changes):
    output = f"classification(classes={KINDS[name].outputs}, pooling={pooling})"
    sizes = {"vocabulary": SIZE, "width": 16, "layers": 2, "heads": 2, "length": 16}
    return family(**sizes, output=output, **changes).double()


def prepared_of(name, task, side="right"):
    return task.prepare(batch(*ROWS, side=side, **COLUMNS[name]), 0)


@pytest.fixture(params=KINDS)
def name(request):
    return request.param


# ---------------------------------------------------------------- references, written the slow way


def log_softmax(row):
    return [s - math.log(sum(math.exp(other) for other in row)) for s in row]


def cross_entropies(scores, labels, smoothing=0.0, weights=None):
    found = []
    for row, label in zip(scores.tolist(), labels, strict=True):
        logs = log_softmax(row)
        taught = [smoothing / len(row) + (1 - smoothing) * (k == label) for k in range(len(row))]
        loss = -sum(t * log for t, log in zip(taught, logs, strict=True))
        found.append(loss * (weights[label] if weights else 1.0))
    return found


def binary_losses(scores, flags):
    def one(score, flag):
        chance = 1 / (1 + math.exp(-score))
        return -math.log(chance if flag else 1 - chance)

    pairs = zip(scores.tolist(), flags, strict=True)
    return [sum(one(s, f) for s, f in zip(row, wanted, strict=True)) for row, wanted in pairs]


def squared(scores, numbers):
    return [(row[0] - (n - 1e6) / 2.5) ** 2 for row, n in zip(scores.tolist(), numbers, strict=True)]


PLAIN = {"classification": cross_entropies, "multilabel": binary_losses, "regression": squared}


def plain(name, scores):
    (column,) = COLUMNS[name].values()
    return PLAIN[name](scores, column)


def scores_of(model, prepared):
    with torch.no_grad():
        return model(**prepared.inputs)


# ---------------------------------------------------------------- losses


@pytest.mark.parametrize("training", [True, False])
def test_a_loss_is_that_of_the_reference_example_by_example(name, training):
    task, model = task_of(name), model_of(name).train(training)
    prepared = prepared_of(name, task)
    wanted = plain(name, scores_of(model, prepared))
    with torch.no_grad():
        loss = task.loss(model, prepared)
    assert loss.each is not None and loss.each.tolist() == pytest.approx(wanted, rel=1e-6)
    assert float(loss.total) == pytest.approx(math.fsum(wanted)) and int(loss.count) == len(ROWS)
    assert float(loss.reported) == pytest.approx(math.fsum(wanted)) and loss.penalty is None


@pytest.mark.parametrize(
    "options",
    [{"smoothing": 0.2}, {"class_weights": "balanced"}, {"smoothing": 0.1, "class_weights": "balanced"}],
)
def test_training_teaches_with_weights_and_smoothing_and_reports_without(options):
    task, model = task_of("classification", **options), model_of("classification").train()
    prepared = prepared_of("classification", task)
    scores, labels = scores_of(model, prepared), COLUMNS["classification"]["label"]
    weights = [10 / (3 * n) for n in (6, 3, 1)] if "class_weights" in options else None
    taught = math.fsum(cross_entropies(scores, labels, options.get("smoothing", 0.0), weights))
    reported = math.fsum(cross_entropies(scores, labels))
    loss = task.loss(model, prepared)
    assert float(loss.total.detach()) == pytest.approx(taught) and abs(taught - reported) > 0.05
    assert float(loss.reported.detach()) == pytest.approx(reported)
    assert loss.penalty is not None and float(loss.penalty) == pytest.approx(taught - reported)
    assert not loss.penalty.requires_grad and int(loss.count) == len(ROWS)


@pytest.mark.parametrize("options", [{"smoothing": 0.2}, {"class_weights": "balanced"}])
def test_outside_training_a_loss_is_the_plain_one(options):
    model = model_of("classification").eval()
    prepared = prepared_of("classification", task_of("classification"))
    with torch.no_grad():
        found = task_of("classification", **options).loss(model, prepared)
        usual = task_of("classification").loss(model, prepared)
    assert torch.equal(found.each, usual.each) and found.penalty is None


def test_the_gradient_is_that_of_what_is_taught():
    """By differences of the reference, in the head's bias."""
    task = task_of("classification", smoothing=0.1, class_weights="balanced")
    model, labels = model_of("classification").train(), COLUMNS["classification"]["label"]
    prepared = prepared_of("classification", task)
    task.loss(model, prepared).total.backward()
    scores, weights, step = scores_of(model, prepared), [10 / 18, 10 / 9, 10 / 3], 1e-6
    for place, found in enumerate(model.head.scores.bias.grad.tolist()):
        moved = scores.clone()
        moved[:, place] += step
        up, here = (math.fsum(cross_entropies(s, labels, 0.1, weights)) for s in (moved, scores))
        assert found == pytest.approx((up - here) / step, rel=1e-3, abs=1e-5)


def test_balanced_weights_count_each_class_alike():
    task = task_of("classification", class_weights="balanced")
    assert sum(n * w for n, w in zip(CLASSES.counts, task.weights, strict=True)) == pytest.approx(10)
    assert {round(n * w, 9) for n, w in zip(CLASSES.counts, task.weights, strict=True)} == {round(10 / 3, 9)}


def test_a_step_reports_the_plain_loss_of_smoothed_parts():
    """The loop's own sum over parts of a batch."""
    task, model = task_of("classification", smoothing=0.3), model_of("classification").train()
    parts = [
        task.prepare(batch(*ROWS[a:b], label=COLUMNS["classification"]["label"][a:b]), 0)
        for a, b in ((0, 1), (1, 5))
    ]
    scores = scores_of(model, prepared_of("classification", task))
    reported, _ = backward(model, task, parts)
    assert reported == pytest.approx(np.mean(cross_entropies(scores, COLUMNS["classification"]["label"])))


SMOOTHED = {"smoothing": 0.2, "class_weights": "balanced"}


@pytest.mark.parametrize(("name", "options"), [*((kind, {}) for kind in KINDS), ("classification", SMOOTHED)])
def test_parts_of_a_batch_add_up(name, options):
    task, model = task_of(name, **options), model_of(name).train()
    (column,), (values,) = zip(*COLUMNS[name].items(), strict=True)
    whole = task.loss(model, prepared_of(name, task))
    parts = [
        task.loss(model, task.prepare(batch(row, **{column: [v]}), 0))
        for row, v in zip(ROWS, values, strict=True)
    ]
    total: LossSum = parts[0]
    for part in parts[1:]:
        total = total + part
    assert float(total.total.detach()) == pytest.approx(float(whole.total.detach()), rel=1e-9)
    assert int(total.count) == int(whole.count) == 5
    assert float(total.reported.detach()) == pytest.approx(float(whole.reported.detach()), rel=1e-9)


# ---------------------------------------------------------------- what scores depend on


@pytest.mark.parametrize("pooling", ["first", "mean", "last"])
@pytest.mark.parametrize("family", [lab.encoder, lab.decoder])
def test_padding_changes_no_score_and_pooling_is_of_the_real_tokens(pooling, family):
    task = task_of("classification")
    model = model_of("classification", pooling, family).eval()
    alone = torch.cat([scores_of(model, task.prepare(batch(row, label=[0]), 0)) for row in ROWS])
    for side in ("right", "left"):
        together = scores_of(model, prepared_of("classification", task, side))
        torch.testing.assert_close(together, alone, rtol=1e-9, atol=1e-9)
    for row, score in zip(ROWS, alone, strict=True):
        prepared = task.prepare(batch(row, label=[0]), 0)
        with torch.no_grad():
            hidden = model(**prepared.inputs, objective=hidden_states)[0]
            chosen = {"first": hidden[0], "last": hidden[len(row) - 1], "mean": hidden[: len(row)].mean(0)}
            torch.testing.assert_close(model.head.scores(chosen[pooling]), score, rtol=1e-9, atol=1e-9)


def test_a_decoder_that_pools_its_first_token_reads_nothing_of_the_text():
    """Why `mean` is the default: the first token of a decoder sees only itself."""
    task = task_of("classification")
    seen = {
        pooling: scores_of(
            model_of("classification", pooling, lab.decoder).eval(), prepared_of("classification", task)
        )
        for pooling in ("first", "mean")
    }
    assert torch.allclose(seen["first"][0], seen["first"][1])
    assert not torch.allclose(seen["mean"][0], seen["mean"][1])
    assert "pooling=mean" in TASKS["classification"].head


# ---------------------------------------------------------------- predictions


def test_predictions_are_what_the_scores_say(name):
    task, model = task_of(name), model_of(name).eval()
    prepared = prepared_of(name, task)
    scores = scores_of(model, prepared)
    with torch.no_grad():
        found = task.predictions(task.predict(model, prepared), ())
    for one, row in zip(found, scores.tolist(), strict=True):
        if name == "classification":
            chances = [math.exp(log) for log in log_softmax(row)]
            assert list(one.scores.values()) == pytest.approx(chances)
            assert one.answer == CLASSES.names[int(np.argmax(row))] and one.confidence == pytest.approx(
                max(chances)
            )
        elif name == "multilabel":
            assert one.answer == tuple(n for n, s in zip(SETS.names, row, strict=True) if s > 0)
            sure = math.prod(1 / (1 + math.exp(-abs(s))) for s in row)
            assert one.confidence == pytest.approx(sure)
        else:
            assert one.answer == pytest.approx(1e6 + 2.5 * row[0], abs=1e-6) and one.confidence is None


def test_numbers_are_standardised_in_training_and_true_in_what_is_told():
    task = task_of("regression")
    prepared = prepared_of("regression", task)
    assert prepared.targets.tolist() == pytest.approx([0.0, 2.0, -1.0, 0.05, -3.0])
    told = task.truth(prepared)["number"].double().tolist()
    assert told == pytest.approx(COLUMNS["regression"]["number"], rel=0, abs=1e-3)


def test_numbers_far_from_zero_are_predicted_with_their_digits():
    """In float32 a million and an eighth is a million."""
    task = task_of("regression")
    model = model_of("regression").float().eval()
    with torch.no_grad():
        said = task.predict(model, prepared_of("regression", task))["predicted_number"].double()
    scores = scores_of(model, prepared_of("regression", task))[:, 0].double()
    assert said.tolist() == pytest.approx((1e6 + 2.5 * scores).tolist(), rel=0, abs=1e-4)


def test_a_model_that_knows_nothing_loses_what_is_said(name):
    task, model = task_of(name), model_of(name).eval()
    for parameter in model.head.parameters():
        parameter.data.zero_()
    prepared = prepared_of(name, task)
    with torch.no_grad():
        assert float(task.loss(model, prepared).mean) == pytest.approx(task.blind_loss(prepared))


# ---------------------------------------------------------------- what is refused


def test_rows_without_labels_are_refused_for_a_loss_and_taken_for_a_prediction(name):
    task, model = task_of(name), model_of(name).eval()
    unlabelled = batch(*ROWS)
    with pytest.raises(DataError, match="no labels"):
        task.prepare(unlabelled, 0)
    with torch.no_grad():
        assert len(task.predictions(task.predict(model, task.unlabelled(unlabelled)), ())) == len(ROWS)


def test_options_that_mean_nothing_are_refused():
    for smoothing in (-0.1, 1.0):
        with pytest.raises(ConfigError, match="at least 0 and below 1"):
            task_of("classification", smoothing=smoothing)
    with pytest.raises(ConfigError, match="separator is empty"):
        task_of("multilabel", separator="")
    with pytest.raises(ConfigError, match="balanced"):
        task_of("classification", class_weights="balancd")


def test_a_head_of_another_size_is_refused(name):
    with pytest.raises(ConfigError, match="outputs, and the labels ask for"):
        task_of(name).check(model_of("multilabel" if name != "multilabel" else "regression"))
