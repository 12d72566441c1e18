"""What is to be predicted, beside what is read."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.checks.answers import FoundAnswers, look
from attnlab.checks.check import Case, Check
from attnlab.checks.real import LOOKED_AT, batch_of, prepared_of, rows_of
from attnlab.config.streams import stream_seed
from attnlab.data.batch import Batch
from attnlab.data.example import Example
from attnlab.data.rows import Rows
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.model.heads.language import language_head
from attnlab.model.losses import IGNORE
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value
from attnlab.tasks.answer_spans import AnswerSpans
from attnlab.tasks.task import Prepared, Task

SHIFTS = (0, 1, 2, -1)
HALF = 0.5
ROWS = 4
EXAMPLES = 200
"""Rows whose labels are read again."""
LOUD = 300.0
"""How far an answer's score is above the others', in nats, about: no other then has any chance. Of larger
ones the exponentials would be too small for full precision, which takes a processor many times as long."""


class OfTargets(Check):
    """A check of what is to be predicted in a real batch, where that is words."""

    def run(self, case: Case) -> Finding:
        if not case.task.predicts_words:
            return self.of_labels(case)
        batch = batch_of(case)
        prepared = prepared_of(case, batch)
        if not prepared.count:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_targets")
        return self.judge(case, batch, prepared, hidden=hides(case, batch))

    def of_labels(self, case: Case) -> Finding:
        """What is found where a text has a label."""
        return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_words")

    @abstractmethod
    def judge(self, case: Case, batch: Batch, prepared: Prepared, *, hidden: bool) -> Finding:
        """What is found in a batch with targets; `hidden` says that they stood where they are predicted."""


class Targets(OfTargets):
    """Targets: is each target the right token, and not the input itself?

    Formula: of every target of a real batch: where the text is read as it is, it is the next token
    of the same text, id for id; where tokens were hidden, it is the one that stood there. Then a
    model that answers with the right token must lose less, by the task's own loss, than models
    that answer with their input, the token before it, or the one after the next. Of a task about labels:
    the labels that rows hold of the first 200 texts of train are those of the texts, read again; tags of
    words, each in one row alone.

    When it helps: labels that were shifted twice, or not at all; targets across the border of two
    texts, or on padding. The loss falls all the same, and means nothing.

    Cannot see: a text that is wrong itself, or a loss that goes wrong in training mode alone.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 0.5

    def of_labels(self, case: Case) -> Finding:
        if isinstance(case.task, AnswerSpans):
            return self.of_answers(case, look(case.dataset, "train", case.task.longest_answer))
        task, rows = case.task, case.dataset.rows("train")
        if task.target.compares_batch:
            return self.of_pairs(case, rows)
        examples = case.dataset.first("train", EXAMPLES)
        stored = labels_of(rows, len(examples))
        right = {number: wanted(rows, task, examples[number]) for number in stored}
        wrong = [number for number in stored if not agree(stored[number], right[number])]
        if not wrong:
            return self.finding(case.when, Outcome.PASS, "labels_agree", 0.0, texts=len(stored))
        first = wrong[0]
        values: dict[str, Value] = {"wrong": len(wrong), "texts": len(stored), "example": first}
        values |= {"held": str(stored[first]), "right": str(right[first])}
        return self.finding(case.when, Outcome.FAIL, "labels_differ", len(wrong) / len(stored), **values)

    def of_answers(self, case: Case, answers: FoundAnswers) -> Finding:
        """Where a text has an answer; see the check `answers`."""
        wrong = [*answers.outside, *answers.misplaced]
        if not wrong:
            return self.finding(case.when, Outcome.PASS, "answers_agree", 0.0, questions=answers.questions)
        wrong_share, shown = len(wrong) / answers.questions, asdict(wrong[0])
        return self.finding(
            case.when, Outcome.FAIL, "answers_differ", wrong_share, wrong=len(wrong), example=shown
        )

    def of_pairs(self, case: Case, rows: Rows) -> Finding:
        """Whether each row's second text is that of its example."""
        tokenizer, examples = case.dataset.tokenizer, case.dataset.first("train", EXAMPLES)
        count, form, wrong = min(len(rows), len(examples)), tokenizer.form, 0
        for row in range(count):
            target = rows.ragged("target", row).tolist()
            inside = target[len(form.before) : len(target) - len(form.end)]
            whole = tokenizer.encode(examples[row].second or "")
            cut = len(whole) - len(inside)
            wrong += inside not in (whole[: len(inside)], whole[cut:] if cut >= 0 else None)
        if not wrong:
            return self.finding(case.when, Outcome.PASS, "pairs_agree", 0.0, rows=count)
        return self.finding(case.when, Outcome.FAIL, "pairs_differ", wrong / count, wrong=wrong, rows=count)

    def judge(self, case: Case, batch: Batch, prepared: Prepared, *, hidden: bool) -> Finding:
        right, place = (batch.ids, 0) if hidden else (shifted(prepared.ids, 1), 1)
        wrong = misplaced(prepared, right, batch, hidden)
        if wrong:
            shown, fix_for = example(prepared, case.dataset.tokenizer), "hidden" if hidden else "next"
            return self.taught_wrong(case.when, prepared.ids, prepared.targets, wrong, fix_for, shown)
        rival = self.rival(case, prepared, right, place)
        if rival is not None:
            return self.finding(case.when, Outcome.FAIL, "rival", float(rival), shift=rival)
        copied = copied_share(case, batch) if hidden else share(prepared, prepared.ids)
        values: dict[str, Value] = {"targets": prepared.count, "hidden": hidden}
        values["example"] = example(prepared, case.dataset.tokenizer)
        outcome, kind = (Outcome.WARN, "copied") if copied > HALF else (Outcome.PASS, "right")
        return self.finding(case.when, outcome, kind, copied, **values)

    def judge_taught(self, when: When, ids: Tensor, taught: Tensor, right: Tensor, fix_for: str) -> Finding:
        """What a training step really taught at each place (B,T), against what is right there; `fix_for`
        names what that is: "next" or "labels"."""
        there = taught != IGNORE
        if not bool(there.any()):
            return self.finding(when, Outcome.NOT_APPLICABLE, "first_step_empty")
        known = right != IGNORE - 1  # what follows the last token of a row is not in it
        wrong = int((there & known & (taught != right)).sum())
        if wrong:
            return self.taught_wrong(when, ids, taught, wrong, fix_for, None)
        return self.finding(when, Outcome.PASS, "first_step_right", 0.0, targets=int(there.sum()))

    def taught_wrong(
        self, when: When, ids: Tensor, targets: Tensor, wrong: int, fix_for: str, shown: Value
    ) -> Finding:
        there = targets != IGNORE
        count = int(there.sum())
        shares = {s: float((targets == shifted(ids, s))[there].double().mean()) for s in SHIFTS}
        likely = max(shares, key=lambda shift: shares[shift])
        values: dict[str, Value] = {"wrong": wrong, "targets": count, "example": shown, "fix_for": fix_for}
        values |= {"likely": likely, "likely_share": shares[likely]}
        return self.finding(when, Outcome.FAIL, "wrong", wrong / count, **values)

    @torch.no_grad()
    def rival(self, case: Case, prepared: Prepared, right: Tensor, place: int) -> int | None:
        """The shift of inputs that loses less than the right answer; None as it should be."""
        if not case.model.head.scores_words:
            return None
        model = Answering(case.model)
        some = rows_of(prepared, 0, ROWS)
        answers = {shift: shifted(prepared.ids, shift) for shift in SHIFTS} | {place: right}
        losses = {shift: model.loss(case, some, targets[:ROWS]) for shift, targets in answers.items()}
        best = min(losses, key=lambda shift: losses[shift])
        return None if best == place or losses[best] >= losses[place] else best


class Answering:
    """The model's own head and the task's own loss, on answers that are given."""

    def __init__(self, model: Model):
        head = copy.deepcopy(language_head(model.head)).cpu().double()
        generator = torch.Generator().manual_seed(0)
        vectors = torch.randn(head.table.weight.shape, generator=generator, dtype=torch.float64)
        head.table.weight.copy_(vectors / vectors.norm(dim=1, keepdim=True))
        head.transform = torch.nn.Identity()
        head.width = head.inner
        self.model = Model(model.trunk, head)
        self.model.training = False  # of this wrapper alone: the trunk is the run's own
        self.table = head.table.weight

    def loss(self, case: Case, prepared: Prepared, answers: Tensor) -> float:
        """The loss of a model that gives these answers (B,T), without a doubt."""
        scores = self.table[answers.clamp(min=0)] * LOUD
        # without spans: what boundaries say of them is a loss of its own
        given = replace(prepared, spans=None, features=scores)
        return float(case.task.loss(self.model, given).total)


def draws(case: Case, batch: Batch) -> Iterator[Prepared]:
    """What the task makes of a batch with other random numbers: in one draw, all tokens may stay."""
    for number in range(LOOKED_AT):
        yield case.task.prepare(batch, stream_seed(case.config.seed, "masking", 0, number))


def hides(case: Case, batch: Batch) -> bool:
    """Whether the task hides some of the tokens that are read."""
    for prepared in draws(case, batch):
        if prepared.source is not None or prepared.ids.shape != batch.ids.shape:
            return False
        if not torch.equal(prepared.ids, batch.ids):
            return True
    return False


def copied_share(case: Case, batch: Batch) -> float:
    """The share of targets that stand in the input all the same."""
    drawn = [prepared for prepared in draws(case, batch) if prepared.count]
    return sum(share(draw, draw.ids) * draw.count for draw in drawn) / sum(draw.count for draw in drawn)


def misplaced(prepared: Prepared, right: Tensor, batch: Batch, hidden: bool) -> int:
    """How many targets are another token than the right one, of another text, or padding."""
    there = prepared.targets != IGNORE
    bad = there & (prepared.targets != right)
    if prepared.source is not None:
        bad[:, -1] = False  # the last target of all is read by nobody: the ids end before it
    document = prepared.tokens.document
    if not hidden and document is not None:
        bad[:, :-1] |= there[:, :-1] & (document[:, 1:] != document[:, :-1])
    real = batch.real if prepared.source is None else batch.target_real
    if real is not None:
        bad |= there & ~real[:, -there.shape[1] :]  # of a target that is written, all but the first token
    return int(bad.sum())


def shifted(ids: Tensor, by: int) -> Tensor:
    """(B,T) the token `by` places on; IGNORE − 1 where there is none, which equals no target."""
    if by == 0:
        return ids
    empty = torch.full_like(ids[:, : abs(by)], IGNORE - 1)
    return torch.cat([ids[:, by:], empty] if by > 0 else [empty, ids[:, :by]], 1)


def share(prepared: Prepared, answers: Tensor) -> float:
    """The share of targets that these answers are."""
    there = prepared.targets != IGNORE
    return float((prepared.targets == answers)[there].double().mean())


def example(prepared: Prepared, tokenizer: Tokenizer) -> dict[str, str]:
    """An input and its target, as a person reads them, from the middle of the first row that has one."""
    row, place = (prepared.targets != IGNORE).nonzero()[prepared.count // 2].tolist()
    read, wanted = int(prepared.ids[row, place]), int(prepared.targets[row, place])
    return {"read": tokenizer.target.token(read), "target": tokenizer.target.token(wanted)}


def labels_of(rows: Rows, count: int) -> dict[int, Any]:
    """The labels that the rows of the first examples hold, by their number; tags of windows together."""
    labels: dict[int, Any] = {}
    for row in range(len(rows)):
        example, label = rows.scalar("example", row), label_of(rows, row)
        if example >= count:
            break
        labels[example] = (*labels.get(example, ()), *label) if rows.has("tags") else label
    return labels


def label_of(rows: Rows, row: int) -> Any:
    """The label that an encoded row holds: a number of a class, flags of classes, words and their tags, or a
    number."""
    if rows.has("tags"):
        tagged = zip(rows.ragged("words", row).tolist(), rows.ragged("tags", row).tolist(), strict=True)
        return tuple((word, tag) for word, tag in tagged if tag != IGNORE)
    if rows.has("label"):
        return rows.scalar("label", row)
    return rows.ragged("labels", row).tolist() if rows.has("labels") else rows.number("number", row)


def agree(label: Any, right: Any) -> bool:
    """Whether rows hold the right label; of tags each once, for all words that have a token."""
    if not isinstance(label, tuple):
        return bool(label == right)
    return bool(label) and len({*label}) == len(label) and {*label} <= {*right}


def wanted(rows: Rows, task: Task, example: Example) -> Any:
    """The same, read off the text's own label."""
    label, names = task.label_of(example), task.labels.names
    if rows.has("tags"):
        return tuple((word, names.index(tag)) for word, tag in enumerate(label))
    if rows.has("label"):
        return names.index(label)
    return [int(name in label) for name in names] if rows.has("labels") else float(label)
