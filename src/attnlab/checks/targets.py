"""What is to be predicted, beside what is read."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.checks.answers import FoundAnswers, look
from attnlab.checks.check import NO_WORDS, Case, Check, Moment
from attnlab.checks.real import LOOKED_AT, batch_of, prepared_of, rows_of
from attnlab.config.streams import stream_seed
from attnlab.data.batch import Batch
from attnlab.data.example import Example
from attnlab.data.rows import Rows
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.model.heads.language import language_head
from attnlab.model.losses import IGNORE
from attnlab.model.model import Model
from attnlab.runs.findings import Finding, When
from attnlab.tasks.answer_spans import AnswerSpans
from attnlab.tasks.task import Prepared, Task

SHIFTS = (0, 1, 2, -1)
NAMES = {0: "the input itself", 1: "the next token", 2: "the token after the next", -1: "the token before"}
FIXES = {
    "hidden": "Take the targets from the text before tokens are hidden, at the same places.",
    "next": "Let target i be token i + 1 of the same text, shifted once, and ignore its end and padding.",
    "labels": "Give the labels as they are: the loss shifts them where the model predicts the next token.",
}
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
            return self.not_applicable(case, "the first batch has no targets")
        return self.judge(case, batch, prepared, hidden=hides(case, batch))

    def of_labels(self, case: Case) -> Finding:
        """What is found where a text has a label."""
        return self.not_applicable(case, NO_WORDS)

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
        if task.label_kind == "pair":
            return self.of_pairs(case, rows)
        examples = case.dataset.first("train", EXAMPLES)
        held = labels_of(rows, len(examples))
        right = {number: wanted(task, examples[number]) for number in held}
        wrong = [number for number in held if not agree(held[number], right[number])]
        if not wrong:
            return self.passed(case, f"the labels of {len(held)} texts are those of their rows", 0.0)
        return self.failed(
            case,
            f"{len(wrong)} of {len(held)} texts have another label in their rows, such as text {wrong[0]}: "
            f"{held[wrong[0]]}, where the text says {right[wrong[0]]}",
            len(wrong) / len(held),
            meaning="Texts are trained with the labels of other texts.",
            fix="Look at how rows are encoded; remove the cached rows, which are then made again.",
        )

    def of_answers(self, case: Case, found: FoundAnswers) -> Finding:
        """Where a text has an answer; see the check `answers`."""
        wrong = [*found.outside, *found.misplaced]
        if not wrong:
            told = f"the rows of {found.questions:,} questions point at their answers, or at none"
            return self.passed(case, told, 0.0)
        return self.failed(
            case,
            f"{len(wrong):,} answers are not where their rows point, such as {wrong[0]}",
            len(wrong) / found.questions,
            meaning="Other words than the answers are trained.",
            fix="Look at how rows are encoded; remove the cached rows, which are then made again.",
        )

    def of_pairs(self, case: Case, rows: Rows) -> Finding:
        """Whether each row's second text is that of its example."""
        tokenizer, examples = case.dataset.tokenizer, case.dataset.first("train", EXAMPLES)
        count, form, wrong = min(len(rows), len(examples)), tokenizer.form, 0
        for row in range(count):
            held = rows.ragged("target", row).tolist()
            inside = held[len(form.before) : len(held) - len(form.end)]
            whole = tokenizer.encode(examples[row].pair or "")
            cut = len(whole) - len(inside)
            wrong += inside not in (whole[: len(inside)], whole[cut:] if cut >= 0 else None)
        if not wrong:
            return self.passed(case, f"the second texts of {count} rows are those of their examples", 0.0)
        return self.failed(
            case,
            f"{wrong} of {count} rows have another second text than their example",
            wrong / count,
            meaning="Texts are trained to find other texts than their own.",
            fix="Look at how rows are encoded; remove the cached rows, which are then made again.",
        )

    def judge(self, case: Case, batch: Batch, prepared: Prepared, *, hidden: bool) -> Finding:
        right, place = (batch.ids, 0) if hidden else (shifted(prepared.ids, 1), 1)
        wrong = misplaced(prepared, right, batch, hidden)
        if wrong:
            return self.wrong(case, prepared, batch, wrong, hidden)
        rival = self.rival(case, prepared, right, place)
        if rival is not None:
            return self.failed(
                case,
                f"a model that answers with {NAMES[rival]} loses least, by the task's loss",
                float(rival),
                meaning="The loss compares each answer with another token than the one to be predicted.",
                fix="Shift targets in one place only: in the task's prepare, and not again in its loss.",
            )
        copied = copied_share(case, batch) if hidden else share(prepared, prepared.ids)
        what = "the hidden token" if hidden else "the next token of its text"
        shown = example(prepared, case.dataset.tokenizer)
        told = f"{prepared.count:,} targets, each {what}, such as {shown}; {copied:.0%} equal their input"
        if copied > HALF:
            return self.warned(
                case,
                told,
                copied,
                meaning="Most answers stand in the input: a model that copies it scores well.",
                fix="Hide more of the chosen tokens (task.mask), or look at the text: does it repeat?",
            )
        return self.passed(case, told, copied)

    def wrong(self, case: Case, prepared: Prepared, batch: Batch, wrong: int, hidden: bool) -> Finding:
        shown = f", such as {example(prepared, case.dataset.tokenizer)}"
        return self.taught_wrong(
            case, prepared.ids, prepared.targets, wrong, FIXES["hidden" if hidden else "next"], shown
        )

    def judge_taught(self, at: Moment, ids: Tensor, taught: Tensor, right: Tensor, fix: str) -> Finding:
        """What a training step really taught at each place (B,T), against what is right there."""
        there = taught != IGNORE
        if not bool(there.any()):
            return self.not_applicable(at, "the first step has no targets")
        known = right != IGNORE - 1  # what follows the last token of a row is not in it
        wrong = int((there & known & (taught != right)).sum())
        if wrong:
            return self.taught_wrong(at, ids, taught, wrong, fix)
        return self.passed(at, f"the {int(there.sum()):,} targets of the first step are the right ones", 0.0)

    def taught_wrong(
        self, at: Moment, ids: Tensor, targets: Tensor, wrong: int, fix: str, shown: str = ""
    ) -> Finding:
        there = targets != IGNORE
        count = int(there.sum())
        shares = {s: float((targets == shifted(ids, s))[there].double().mean()) for s in SHIFTS}
        likely = max(shares, key=lambda shift: shares[shift])
        return self.failed(
            at,
            f"{wrong:,} of {count:,} targets are wrong; {shares[likely]:.0%} are {NAMES[likely]}{shown}",
            wrong / count,
            meaning="The model is trained to predict something else than the next or hidden token: its "
            "loss is meaningless.",
            fix=fix,
        )

    @torch.no_grad()
    def rival(self, case: Case, prepared: Prepared, right: Tensor, place: int) -> int | None:
        """The shift of inputs that loses less than the right answer; None as it should be."""
        if not case.model.head.scores_words:
            return None
        model = Answering(case.model)
        some = rows_of(prepared, 0, ROWS)
        answers = {shift: shifted(prepared.ids, shift) for shift in SHIFTS} | {place: right}
        losses = {shift: model.loss(case, some, said[:ROWS]) for shift, said in answers.items()}
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
        said = self.table[answers.clamp(min=0)] * LOUD
        # without spans: what boundaries say of them is a loss of its own
        given = replace(prepared, spans=None, features=said)
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
    found = [prepared for prepared in draws(case, batch) if prepared.count]
    return sum(share(one, one.ids) * one.count for one in found) / sum(one.count for one in found)


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


def example(prepared: Prepared, tokenizer: Tokenizer) -> str:
    """An input and its target, as a person reads them, from the middle of the first row that has one."""
    row, place = (prepared.targets != IGNORE).nonzero()[prepared.count // 2].tolist()
    read, said = int(prepared.ids[row, place]), int(prepared.targets[row, place])
    return f'"{tokenizer.token(read)}" → "{tokenizer.token(said)}"'


def labels_of(rows: Rows, count: int) -> dict[int, Any]:
    """The labels that the rows of the first examples hold, by their number; tags of windows together."""
    found: dict[int, Any] = {}
    for row in range(len(rows)):
        example, label = rows.scalar("example", row), label_of(rows, row)
        if example >= count:
            break
        found[example] = (*found.get(example, ()), *label) if rows.has("tags") else label
    return found


def label_of(rows: Rows, row: int) -> Any:
    """The label that an encoded row holds: a number of a class, flags of classes, words and their tags, or a
    number."""
    if rows.has("tags"):
        held = zip(rows.ragged("words", row).tolist(), rows.ragged("tags", row).tolist(), strict=True)
        return tuple((word, tag) for word, tag in held if tag != IGNORE)
    if rows.has("label"):
        return rows.scalar("label", row)
    return rows.ragged("labels", row).tolist() if rows.has("labels") else rows.number("number", row)


def agree(held: Any, right: Any) -> bool:
    """Whether rows hold the right label; of tags each once, for all words that have a token."""
    if not isinstance(held, tuple):
        return bool(held == right)
    return bool(held) and len({*held}) == len(held) and {*held} <= {*right}


def wanted(task: Task, example: Example) -> Any:
    """The same, read off the text's own label."""
    found = task.label_of(example)
    if task.label_kind == "tags":
        return tuple((word, task.labels.names.index(tag)) for word, tag in enumerate(found))
    if task.label_kind == "class":
        return task.labels.names.index(found)
    return (
        [int(name in found) for name in task.labels.names] if task.label_kind == "classes" else float(found)
    )
