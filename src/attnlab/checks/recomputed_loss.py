"""Every loss that a run reports, computed a second time without its code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from attnlab.checks.check import Case, Check
from attnlab.checks.loss_causes import Losses, cause_of, mean_of
from attnlab.checks.real import evaluator_of, uneven
from attnlab.data.batch import Batch
from attnlab.evaluation.documents import DocumentLosses, document_losses
from attnlab.evaluation.evaluator import Evaluator
from attnlab.evaluation.honesty import honesty
from attnlab.evaluation.texts import MisreadError, Text, nats_alone, sampled_texts, texts_of
from attnlab.model.heads.sentence import Contrast
from attnlab.model.isolation import copy_of, undisturbed
from attnlab.model.losses import IGNORE, LossSum
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value
from attnlab.tasks.answer_spans import AnswerSpans
from attnlab.tasks.task import Prepared
from attnlab.training.loop import backward

LINES, TEXTS, FEW = 6, 12, 4
EQUAL = 1e-6
"""Of a loss in float64, relative: what is above is no rounding."""
ROUNDED = {"float32": 1e-4, "bfloat16": 0.1}
"""Nats by which nine targets in ten may differ from float64, by the declared precision."""


PREDICTED = ("probabilities", "chances", "predicted_number", "margin", "char_start", "char_end")
"""What is said of an example, which is compared like its loss."""


@dataclass(frozen=True)
class Gap:
    """A reported number that is not the recomputed one: `where` it is reported, and of which text."""

    where: str
    reported: float
    recomputed: float
    text: int | None = None

    @property
    def size(self) -> float:
        gap = abs(self.reported - self.recomputed)
        return gap / max(1.0, abs(self.recomputed)) if math.isfinite(gap) else math.inf

    @property
    def values(self) -> dict[str, Value]:
        """It as a finding holds it."""
        numbers = {"reported": float(self.reported), "recomputed": float(self.recomputed)}
        return {"where": self.where, "text": self.text, **numbers}


class RecomputedLoss(Check):
    """Recomputed loss: is every loss that the run reports the cross-entropy of its targets?

    Formula: a few dev texts, each read alone (unpacked, unpadded, no dropout, float64), with −log p = log Σ
    e^s − s_target written out (of several labels Σ log(1 + e^s) − y·s, of a number (s − y)², of an answer the
    sum of its first and last token's), compared with
    what training, the evaluation and the losses by text report of the same texts in their batches: target
    by target, text by text, and as means over batches of very different sizes. All agree to 1e-6, and in
    the run's own precision to 1e-4 (bfloat16: 0.1) nats.

    When it helps: smoothing or z-loss inside a reported loss, a wrong divisor, a mean of batch means or of
    exponentials, dropout that is left on, a lower precision than declared, positions that run on across
    packed texts: each gives a number that looks like a loss and is another one.

    Cannot see: what is wrong in the model itself (both sides use it; one that leaks is not asked), targets
    that are the wrong tokens (see `targets`), batches other than the two that are looked at.
    """

    when: ClassVar[tuple[When, ...]] = ("before", "after")
    limit: ClassVar[float] = 1.0
    same_for_seeds: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        evaluator = evaluator_of(case)
        pieces = uneven(evaluator.loader, LINES)
        exact = copy_of(case.model).double().eval()
        plain = Evaluator(model=exact, task=case.task, loader=pieces, seed=evaluator.seed)
        try:
            truth = recomputed(plain)
        except MisreadError as error:
            return self.finding(case.when, Outcome.FAIL, "misread", math.inf, error=str(error))
        if not truth.count:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_targets")
        worst = max([*evaluated(plain, truth), *by_text(plain, truth)], key=lambda gap: gap.size)
        if not worst.size <= EQUAL and leaks(plain, sampled_texts(plain, FEW)):
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "leaks")
        if not worst.size <= EQUAL:
            values = worst.values | ({} if worst.where in PREDICTED else why(plain, truth, worst))
            return self.finding(case.when, Outcome.FAIL, "misreported", worst.size, **values)
        precision = case.config.training.precision
        step = trained(case, exact, truth)
        if not step.size <= (EQUAL if precision == "float32" else ROUNDED[precision]):
            values = step.values | why(plain, truth, step)
            return self.finding(case.when, Outcome.FAIL, "misreported", step.size, **values)
        rounded = rounding(replace(evaluator, loader=pieces, batches="all"), truth)
        if not rounded <= ROUNDED[precision]:
            return self.finding(case.when, Outcome.FAIL, "rounded", rounded, precision=precision)
        values = {"targets": truth.count, "texts": truth.texts, "rounded": rounded}
        return self.finding(case.when, Outcome.PASS, "agree", worst.size, precision=precision, **values)


def why(evaluator: Evaluator, truth: Truth, gap: Gap) -> dict[str, Value]:
    """The cause that explains a gap, by trying each."""
    single = gap.where in ("target", "target_count", "targets", "text_nats", "text_targets")
    reported = mean_of(evaluator) if single else gap.reported
    batches = [prepared for prepared, _ in truth.batches]
    losses = Losses(reported, truth.each, batches, list(truth.of_text.values()))
    return cause_of(evaluator, losses)


@dataclass(frozen=True)
class Truth:
    """The nats (B,T) of each target of some batches, 0 where there is none, and where texts are in them."""

    batches: list[tuple[Prepared, Tensor]]
    of_text: dict[int, tuple[float, int]]
    """Nats and targets of each example."""
    texts: int
    said: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """What is said of each example that is one row, by column."""

    @property
    def each(self) -> list[Tensor]:
        """(n) the nats of each batch's targets, in the order of their places."""
        return [
            nats if prepared.of_examples else nats[prepared.targets != IGNORE]
            for prepared, nats in self.batches
        ]

    @property
    def count(self) -> int:
        return sum(prepared.count for prepared, _ in self.batches)

    @property
    def loss(self) -> float:
        return math.fsum(nats for each in self.each for nats in each.tolist()) / self.count


def recomputed(evaluator: Evaluator) -> Truth:
    """What the evaluator's batches come to when each of their texts is read alone."""
    rows, model = evaluator.loader.rows, evaluator.model
    plan, batches, texts = evaluator.loader.plan(0), [], 0
    of_text: dict[int, tuple[float, int]] = {}
    said: dict[int, Mapping[str, Any]] = {}
    for number in range(len(plan)):
        batch = evaluator.loader.load(plan, number)
        prepared = evaluator.prepare(batch, number)
        if prepared.of_examples:
            alone = read_alone(evaluator, batch, prepared)
            nats = alone.nats
            examples, counts = rows.scalars("example")[batch.rows.numpy()], prepared.row_targets
            said |= dict(zip(examples.tolist(), alone.said, strict=True))
            for example, loss, targets in zip(examples.tolist(), nats.tolist(), counts.tolist(), strict=True):
                before = of_text.get(example, (0.0, 0))
                of_text[example] = before[0] + loss, before[1] + targets
            batches.append((prepared, nats))
            texts += len(nats)
            continue
        nats = torch.zeros(prepared.targets.shape, dtype=torch.float64)
        for text in texts_of(batch, prepared, rows):
            if not len(text.asked):
                continue
            losses = nats_alone(model, text)
            nats[text.line, text.places[text.asked]] = losses
            before = of_text.get(example := rows.scalar("example", text.row), (0.0, 0))
            of_text[example] = before[0] + float(losses.sum()), before[1] + len(losses)
            texts += 1
        batches.append((prepared, nats))
    single = np.bincount(rows.scalars("example")) == 1
    return Truth(batches, of_text, texts, {text: columns for text, columns in said.items() if single[text]})


def evaluated(evaluator: Evaluator, truth: Truth) -> Iterator[Gap]:
    """The task's loss target by target, and the evaluation's means."""
    for (_, _, loss), each in zip(evaluator.losses(), truth.each, strict=True):
        yield token_gap(loss.of_words, each)
    evaluation, known = evaluator(), {"targets", *evaluator.task.metrics}
    parts = {name: value for name, value in evaluation.scores.items() if name not in known}
    words = next(iter(parts.values()), evaluation.loss)
    yield Gap("targets", evaluation.scores["targets"], truth.count)
    yield Gap("loss", words, truth.loss)
    yield Gap("sum", evaluation.loss, sum(parts.values()) or truth.loss)
    if "perplexity" in evaluation.scores:
        yield Gap("perplexity", log(evaluation.scores["perplexity"]), truth.loss)


def token_gap(loss: LossSum, each: Tensor) -> Gap:
    """The target at which they differ most."""
    if loss.each is None or len(loss.each) != len(each):
        return Gap("target_count", float(loss.count), len(each))
    if not len(each):
        return Gap("target", 0.0, 0.0)
    own = loss.each.double().cpu()
    place = int((own - each).abs().nan_to_num(torch.inf).argmax())
    return Gap("target", float(own[place]), float(each[place]))


def by_text(evaluator: Evaluator, truth: Truth) -> Iterator[Gap]:
    """The losses of each text, which intervals and comparisons are made of, and their means."""
    losses = document_losses(evaluator)
    own = losses.of_words
    for example, (nats, targets) in truth.of_text.items():
        yield Gap("text_nats", float(own.nats[example]), nats, example)
        yield Gap("text_targets", float(own.targets[example]), targets, example)
    yield from prediction_gaps(losses, truth.said)
    read = replace(own, nats=np.nan_to_num(own.nats))  # of a few batches: other texts have no number
    yield Gap("texts", read.loss, truth.loss)
    if evaluator.task.predicts_words:
        yield Gap("texts_perplexity", log(losses.perplexity), truth.loss)


def prediction_gaps(losses: DocumentLosses, said: Mapping[int, Mapping[str, Any]]) -> Iterator[Gap]:
    """What is said of texts in their batches, where it differs most from what is said of each alone."""
    for example, columns in said.items():
        for name, alone in columns.items():
            if name in losses.said:
                own, other = np.atleast_1d(losses.said[name][example]), np.atleast_1d(alone)
                at = int(np.abs(own - other).argmax())
                yield Gap(name, float(own[at]), float(other[at]), example)


def trained(case: Case, exact: Model, truth: Truth) -> Gap:
    """The loss that a training step reports of the same batches, without dropout."""
    batches = [prepared for prepared, _ in truth.batches]
    exact.training = True  # of the model alone, which tasks ask; its parts still drop nothing
    taken = backward(exact, case.task, batches) if case.backward is None else case.backward(exact, batches)
    loss, parts = taken
    exact.zero_grad(set_to_none=True)
    exact.training = False
    return Gap("step", next(iter(parts.values()), loss), truth.loss)


def rounding(evaluator: Evaluator, truth: Truth) -> float:
    """What nine targets in ten of the run's own evaluation differ by at most, in nats.

    Not all: under argmax attention, rounding may choose another of two equal keys.
    """
    gaps = []
    with undisturbed(evaluator.model):
        for (_, _, loss), each in zip(evaluator.losses(), truth.each, strict=True):
            if loss.of_words.each is not None:
                gaps.append((loss.of_words.each.double().cpu() - each).abs())
    return float(torch.cat(gaps).nan_to_num(torch.inf).quantile(0.9))


def confirm(evaluator: Evaluator, losses: DocumentLosses, reported: Mapping[str, float]) -> Finding:
    """Whether losses by text, as an evaluator gave them, and the means reported of them, are what they say.

    The means are taken again from all texts; a few texts that are one row each are read alone.
    """
    words = losses.of_words
    loss = math.fsum(words.nats) / max(1, int(words.targets.sum()))
    means = []
    if "perplexity" in reported:
        means.append(Gap("reported_perplexity", log(reported["perplexity"]), loss))
    if not losses.parts:
        means.append(Gap("reported_loss", reported["loss"], loss))
    exact = replace(evaluator, model=copy_of(evaluator.model).double().eval())
    texts = whole_texts(evaluator)
    read = [
        Gap("alone", words.nats[n] / words.targets[n], float(nats_alone(exact.model, text).mean()), n)
        for n, text in texts
    ]
    if not evaluator.task.predicts_words:
        read = [gap for n, nats, said in labels_alone(exact) for gap in label_gaps(losses, n, nats, said)]
    # all but one: under argmax attention, rounding may choose another of two equal keys
    worst = max(
        [*means, *sorted(read, key=lambda gap: gap.size)[: max(len(read) - 1, 1)]], key=lambda g: g.size
    )
    about: dict[str, Any] = {"check": "recomputed_loss", "when": "evaluation", "number": worst.size}
    if worst.size <= ROUNDED["float32"]:
        return Finding(outcome=Outcome.PASS, kind="texts_agree", values={"texts": len(read)}, **about)
    if leaks(evaluator, [text for _, text in texts]):
        return Finding(outcome=Outcome.NOT_APPLICABLE, kind="leaks", **about)
    return Finding(outcome=Outcome.FAIL, kind="misreported", values=worst.values, **about)


def label_gaps(losses: DocumentLosses, n: int, nats: float, said: Mapping[str, Any]) -> Iterator[Gap]:
    """The larger of what an example's loss and what its prediction differ by, from those of it alone."""
    own = Gap("alone", losses.nats[n] / losses.targets[n], nats, n)
    yield max([own, *prediction_gaps(losses, {n: said})], key=lambda gap: gap.size)


def leaks(evaluator: Evaluator, texts: Sequence[Text]) -> bool:
    """Whether scores depend on later tokens: then they depend on padding too, and no text has a loss."""
    if not texts:
        return False
    compared = honesty(evaluator.model, evaluator.task, texts)
    return compared is not None and not compared.sound


def whole_texts(evaluator: Evaluator) -> list[tuple[int, Text]]:
    """Some texts that are one encoded row each, with the number of their example."""
    example = evaluator.loader.rows.scalars("example")
    single = np.bincount(example) == 1
    numbered = [(int(example[text.row]), text) for text in sampled_texts(evaluator, TEXTS)]
    return [(number, text) for number, text in numbered if single[number]]


def log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


@dataclass(frozen=True)
class ReadAlone:
    """The loss of each row's label (B), and what is said of it by column."""

    nats: Tensor
    said: Sequence[Mapping[str, Any]]


@torch.no_grad()
def read_alone(evaluator: Evaluator, batch: Batch, prepared: Prepared) -> ReadAlone:
    """What the model makes of each row when it reads that row and nothing else, written out."""
    if prepared.second is not None:
        return ReadAlone(pair_nats(evaluator, batch, prepared), [{}] * len(batch.real))
    model, task, nats, said = evaluator.model, evaluator.task, [], []
    longest = task.longest_answer if isinstance(task, AnswerSpans) else 0
    for line, real in enumerate(batch.real):
        patch = None if batch.patch is None else batch.patch[line][real][None]
        ids, tokens = prepared.ids[line][real][None], Tokens.of(int(real.sum()), patch=patch)
        beside = {"types": prepared.types, "vectors": prepared.vectors}
        given = {name: column[line][real][None] for name, column in beside.items() if column is not None}
        scores = model(ids, tokens, **given)[0].double()
        columns = {"words": prepared.words, "char_start": batch.char_start, "char_end": batch.char_end}
        columns |= {"targets": prepared.targets}
        row = {name: column[line] for name, column in columns.items() if column is not None}
        row |= {"real": real, "longest": longest}
        nats.append(task.target.plain_loss(scores, row))
        said.append(task.target.plain_prediction(scores, row, task.labels))
    return ReadAlone(torch.stack(nats), said)


def pair_nats(evaluator: Evaluator, batch: Batch, prepared: Prepared) -> Tensor:
    """The loss of two texts by the cosine of their vectors, each text read alone."""
    task = evaluator.task
    assert batch.target_ids is not None and batch.target_real is not None
    first = torch.stack([first_alone(evaluator.model, batch, line) for line in range(len(batch.ids))])
    second = torch.stack(
        [
            alone(evaluator.model, row[kept])
            for row, kept in zip(batch.target_ids, batch.target_real, strict=True)
        ]
    )
    cosines = torch.nn.functional.cosine_similarity(first[:, None], second[None], dim=-1)
    head = evaluator.model.head
    cosines = cosines * (head.log_scale.exp() if isinstance(head, Contrast) else 1.0)
    if task.target.compares_batch:
        rows = [
            (cosines[line], {"targets": prepared.targets, "line": line, "from_second": cosines[:, line]})
            for line in range(len(first))
        ]
    else:
        own = zip(cosines.diagonal(), prepared.targets, strict=True)
        rows = [(cosine[None], {"targets": number}) for cosine, number in own]
    return torch.stack([task.target.plain_loss(scores, row) for scores, row in rows])


def first_alone(model: Model, batch: Batch, line: int) -> Tensor:
    """The vector of a row's first text, or of its picture."""
    real = batch.real[line]
    if batch.patch is None:
        return alone(model, batch.ids[line][real])
    tokens = Tokens.of(int(real.sum()), patch=batch.patch[line][real][None])
    return alone(model, batch.ids[line][real], tokens, vectors=batch.vectors[line][real][None])


def alone(model: Model, ids: Tensor, tokens: Tokens | None = None, **beside: Tensor) -> Tensor:
    vector: Tensor = model(ids[None], tokens, **beside)[0]
    return vector.double()


def labels_alone(evaluator: Evaluator) -> Iterator[tuple[int, float, Mapping[str, Any]]]:
    """A few examples of the first and last batch, by number, each read alone: loss and prediction; none of
    several rows. All of the first batch where examples are compared with each other."""
    loader, together = evaluator.loader, evaluator.task.target.compares_batch
    batches = [loader.load(loader.plan(0), 0)] if together else uneven(loader, LINES).batches
    example = loader.rows.scalars("example")
    single = np.bincount(example) == 1
    for number, batch in enumerate(batches):
        prepared = evaluator.prepare(batch, number)
        alone = read_alone(evaluator, batch, prepared)
        nats = alone.nats / prepared.row_targets.clamp(min=1)
        numbered = zip(example[batch.rows.numpy()].tolist(), nats.tolist(), alone.said, strict=True)
        yield from (read for read in numbered if single[read[0]])
