"""Reported numbers that are no cross-entropies, each put in on purpose where it could happen."""

import math
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from attnlab.checks.real import Pieces, cut_lines, evaluator_of
from attnlab.checks.recomputed_loss import confirm
from attnlab.config.values import Choice
from attnlab.data.batch import Batch
from attnlab.evaluation import evaluator as evaluators
from attnlab.evaluation.documents import DocumentLosses, document_losses
from attnlab.evaluation.evaluator import Evaluation, Evaluator
from attnlab.evaluation.perplexity import Score
from attnlab.metrics.metric import Examples
from attnlab.model.contracts.small_models import loosen
from attnlab.model.heads.language import LanguageModel
from attnlab.tasks import TASKS
from attnlab.training.loop import backward
from tests.checks.cases import case, config, found, made, of
from tests.training.small_run import set_up


def loosened(task="causal", **facts):
    """A case whose model says something, as if it had been trained."""
    about = case(task, **facts)
    loosen(about.model, seed=3)
    return about


@pytest.mark.parametrize("task", TASKS)
def test_the_runs_own_numbers_are_cross_entropies(task):
    for about in (case(task), loosened(task, when="after")):
        finding = found("recomputed_loss", about)
        assert finding.outcome == "pass" and finding.number < 1e-9, finding.found


@pytest.mark.parametrize(
    "changes",
    [
        {"data": {"padding": "left", "batching": {"kind": "padded", "batch_size": 5}}},
        {"data": {"batching": {"kind": "bucketed", "tokens": 96}}},
        {"model": {"attention": "argmax"}},
        {"model": {"attention": "linear", "positions": "rotary"}},
        {"training": {"precision": "bfloat16"}},
        {"data": {"length": 8}},
    ],
    ids=str,
)
def test_healthy_settings_pass(changes):
    assert found("recomputed_loss", of(set_up(config(**changes)))).outcome == "pass"


@pytest.mark.parametrize("rows", [1, 2, 6])
@pytest.mark.parametrize("task", ["classification", "causal"])
def test_a_dev_of_a_single_small_batch_is_counted_once(task, rows):
    """Its last line is not taken a second time; what says one thing of each text would differ."""
    about = case(task)
    whole = evaluator_of(about)
    first = cut_lines(whole.loader.load(whole.loader.plan(0), 0), whole.loader.rows, 0, rows)
    few = replace(whole, loader=Pieces(whole.loader.rows, [first]))
    finding = found("recomputed_loss", replace(about, evaluator=few))
    assert finding.outcome == "pass", finding.found


def test_smoothing_is_for_the_gradient_alone():
    """It has a gradient, and the reported training loss is the plain cross-entropy all the same."""
    smoothed = replace(config("seq2seq"), task=Choice("seq2seq", {"smoothing": 0.3}))
    about = of(set_up(smoothed))
    assert found("recomputed_loss", about).outcome == "pass"
    batch = about.task.prepare(*first_batch(about))
    model, plain = about.model, made("seq2seq").task
    model.eval().training = True
    loss, _ = backward(model, about.task, [batch])
    smooth = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    wanted, _ = backward(model, plain, [batch])
    assert loss == pytest.approx(wanted, rel=1e-6)
    gaps = [(smooth[n] - p.grad).abs().max() / p.grad.abs().max() for n, p in model.named_parameters()]
    assert max(gaps) > 0.1


def test_z_loss_is_for_the_gradient_alone():
    about = of(set_up(replace(config(), task=Choice("causal", {"z_weight": 0.1}))))
    assert found("recomputed_loss", about).outcome == "pass"


def first_batch(about):
    loader = about.dataset.loader("train", seed=0)
    return loader.load(loader.plan(0), 0), 1


@pytest.mark.parametrize("batching", ["bucketed(tokens=96)", "padded(batch_size=5)"])
def test_a_leak_is_left_to_the_checks_that_name_it(batching):
    """Zeroed weights see the padding of the batch: another loss, and no fault of its computing."""
    about = of(set_up(config(model={"masking": "zero"}, data={"batching": batching})))
    loosen(about.model, seed=3)
    finding = found("recomputed_loss", about)
    assert finding.outcome == "not applicable" and "depend on later tokens" in finding.found
    assert confirmed(about).outcome == "not applicable"
    assert found("recomputed_loss", of(set_up(config(data={"batching": batching})))).outcome == "pass"


# ---------------------------------------------------------------- the loss of a target
@pytest.mark.parametrize("extra", [{"smoothing": 0.1}, {"z_weight": 0.01}], ids=str)
def test_smoothing_and_z_loss_in_a_reported_loss(extra, monkeypatch):
    plain = LanguageModel.loss

    def added(self, hidden, targets, **given):
        return plain(self, hidden, targets, **given | extra)

    monkeypatch.setattr(LanguageModel, "loss", added)
    finding = found("recomputed_loss", loosened())
    assert finding.outcome == "fail" and "recomputed" in finding.found
    ((name, share),) = extra.items()
    assert finding.values["cause"] == {"smoothing": "smoothing", "z_weight": "z_loss"}[name]
    assert finding.values["share"] == pytest.approx(share, rel=1e-3)


def test_dropout_left_on_in_an_evaluation(monkeypatch):
    monkeypatch.setattr(evaluators, "judging", lambda model: nullcontext(model.train()))
    finding = found("recomputed_loss", loosened())
    assert finding.outcome == "fail" and finding.values["cause"] == "dropout"
    assert finding.fix == "Evaluate in eval mode: call model.eval() before scoring."


def test_positions_that_run_on_across_packed_texts(monkeypatch):
    about = loosened()
    prepare = about.task.prepare

    def running_on(batch, seed):
        made = prepare(batch, seed)
        tokens = made.tokens
        return replace(made, tokens=replace(tokens, position=tokens.index.expand_as(made.ids), bound=24))

    monkeypatch.setattr(about.task, "prepare", running_on)
    finding = found("recomputed_loss", about)
    assert finding.outcome == "fail" and "a target in its batch" in finding.found
    assert finding.values["cause"] == "positions"


def test_packed_texts_that_see_each_other(monkeypatch):
    about = loosened()
    prepare = about.task.prepare

    def joined(batch, seed):
        made = prepare(batch, seed)
        return replace(made, tokens=replace(made.tokens, document=None))

    monkeypatch.setattr(about.task, "prepare", joined)
    finding = found("recomputed_loss", about)
    assert finding.outcome == "fail" and finding.values["cause"] == "documents"


@pytest.mark.parametrize("task", ["causal", "masked", "seq2seq"])
def test_a_precision_lower_than_declared(task):
    about = loosened(task)
    lower = replace(evaluator_of(about), autocast=partial(torch.autocast, "cpu", dtype=torch.bfloat16))
    finding = found("recomputed_loss", replace(about, evaluator=lower))
    assert finding.outcome == "fail" and "in float32 differ" in finding.found


# ---------------------------------------------------------------- means
def spoilt(change):
    """An evaluation whose result is changed by what its batches were."""

    def call(self):
        sums = [(float(loss.total), int(loss.count)) for _, _, loss in self.losses()]
        total, count = (sum(column) for column in zip(*sums, strict=True))
        scores = {"perplexity": math.exp(total / count), "targets": count}
        return change(Evaluation(total / count, scores, Examples({})), sums)

    return call


def mean_of_means(whole, sums):
    mean = sum(total / count for total, count in sums) / len(sums)
    return replace(whole, loss=mean, scores=whole.scores | {"perplexity": math.exp(mean)})


def mean_of_exponentials(whole, sums):
    mean = sum(math.exp(total / count) for total, count in sums) / len(sums)
    return replace(whole, loss=whole.loss, scores=whole.scores | {"perplexity": mean})


def one_divisor_more(whole, sums):
    count = whole.scores["targets"]
    return replace(whole, loss=whole.loss * count / (count + 1), scores=whole.scores)


def bits(whole, sums):
    return replace(whole, loss=whole.loss / math.log(2), scores=whole.scores)


def fewer(whole, sums):
    return replace(whole, loss=whole.loss, scores=whole.scores | {"targets": whole.scores["targets"] - 1})


CAUSES = {
    mean_of_means: "mean_of_means",
    mean_of_exponentials: "exponentials",
    one_divisor_more: "divisor",
    bits: "bits",
    fewer: "",  # the count itself is wrong, and named
}


@pytest.mark.parametrize("fault", [mean_of_means, mean_of_exponentials, one_divisor_more, bits, fewer])
def test_an_evaluation_that_divides_wrongly(fault, monkeypatch):
    monkeypatch.setattr(Evaluator, "__call__", spoilt(fault))
    finding = found("recomputed_loss", loosened())
    assert finding.outcome == "fail" and "evaluation" in finding.found
    assert finding.values.get("cause", "") == CAUSES[fault]


def test_the_untouched_stand_in_is_healthy(monkeypatch):
    monkeypatch.setattr(Evaluator, "__call__", spoilt(lambda whole, sums: whole))
    assert found("recomputed_loss", loosened()).outcome == "pass"


def owners_shifted(monkeypatch):
    whole = Batch.owner.fget
    monkeypatch.setattr(Batch, "owner", property(lambda self: whole(self).roll(1, 0)))


def texts_weighed_alike(monkeypatch):
    mean = property(lambda self: float(np.mean(self.nats / np.maximum(self.targets, 1))))
    monkeypatch.setattr(DocumentLosses, "loss", mean)


def texts_exponentials(monkeypatch):
    def mean(self):
        return float(np.mean(np.exp(self.nats[self.targets > 0] / self.targets[self.targets > 0])))

    monkeypatch.setattr(DocumentLosses, "perplexity", property(mean))


def bytes_as_divisor(monkeypatch):
    monkeypatch.setattr(Score, "loss", property(lambda self: self.nats / max(1, self.bytes)))


@pytest.mark.parametrize("fault", [owners_shifted, texts_weighed_alike, texts_exponentials, bytes_as_divisor])
def test_losses_by_text_that_are_wrong(fault, monkeypatch):
    fault(monkeypatch)
    finding = found("recomputed_loss", loosened())
    assert finding.outcome == "fail" and "text" in finding.found


def trained_mean_of_means(model, batches, task):
    means = [backward(model, task, [batch])[0] for batch in batches]
    return sum(means) / len(means), {}


def trained_with_smoothing(model, batches, task):
    loss, _ = backward(model, task, batches)
    return loss + 0.01, {}


def trained_by_rows(model, batches, task):
    loss, _ = backward(model, task, batches)
    return loss * sum(b.count for b in batches) / sum(b.ids.numel() for b in batches), {}


@pytest.mark.parametrize("fault", [trained_mean_of_means, trained_with_smoothing, trained_by_rows])
def test_a_training_loss_that_is_another_number(fault):
    about = loosened()
    finding = found("recomputed_loss", replace(about, backward=partial(fault, task=about.task)))
    assert finding.outcome == "fail" and "training step" in finding.found
    causes = {trained_mean_of_means: "mean_of_means", trained_by_rows: "divisor"}
    assert finding.values.get("cause", "") == causes.get(fault, "")


# ---------------------------------------------------------------- what evaluate and studies report
def confirmed(about, change=lambda found, reported: (found, reported), **chosen):
    evaluator = replace(evaluator_of(about), **chosen)
    measured = document_losses(evaluator)
    reported = {"loss": measured.loss, "perplexity": measured.perplexity}
    return confirm(evaluator_of(about), *change(measured, reported))


@pytest.mark.parametrize("task", TASKS)
def test_what_is_reported_is_confirmed(task):
    finding = confirmed(loosened(task))
    assert finding.outcome == "pass" and int(finding.found.split()[0]) >= 5, finding.found


FAULTS = {
    "a mean over texts": lambda f, r: (f, r | {"loss": float(np.mean(f.nats / np.maximum(f.targets, 1)))}),
    "exponentials": lambda f, r: (f, r | {"perplexity": r["perplexity"] * 1.001}),
    "smoothed": lambda f, r: (replace(f, nats=f.nats * 1.01), {k: v * 1.01 for k, v in r.items()}),
    "shuffled texts": lambda f, r: (replace(f, nats=f.nats[::-1], targets=f.targets[::-1]), r),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_reports_that_are_wrong_are_not_confirmed(fault):
    assert confirmed(loosened(), FAULTS[fault]).outcome == "fail"


def test_reports_under_dropout_or_another_precision_are_not_confirmed(monkeypatch):
    lower = partial(torch.autocast, "cpu", dtype=torch.bfloat16)
    assert confirmed(loosened(), autocast=lower).outcome == "fail"
    monkeypatch.setattr(evaluators, "judging", lambda model: nullcontext(model.train()))
    assert confirmed(loosened()).outcome == "fail"
