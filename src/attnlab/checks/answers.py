"""Where answers stand: in the text, in the rows, and within the limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import ClassVar

from attnlab.checks.check import Case, Check
from attnlab.data.dataset import Dataset
from attnlab.data.example import Answer, Example
from attnlab.data.rows import Rows
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value
from attnlab.tasks.answer_spans import AnswerSpans

SPLITS = ("train", "dev")
QUESTIONS = 2000
"""Of a split, those that are looked at."""
MUCH = 0.02
"""The share of answers that cannot be given from which on it is told."""


@dataclass(frozen=True)
class NamedAnswer:
    """An answer and the question it is given to; None is an answer to a question that has none."""

    answer: str | None
    question: str
    place: str

    @classmethod
    def of(cls, example: Example, answer: str | None) -> NamedAnswer:
        return cls(None if answer is None else answer[:40], example.text[:60], str(example.place or ""))


@dataclass
class FoundAnswers:
    """Questions of a split, and those whose answer is not where it should be."""

    questions: int = 0
    answers: int = 0
    outside: list[NamedAnswer] = field(default_factory=list)
    misplaced: list[NamedAnswer] = field(default_factory=list)
    unheld: list[NamedAnswer] = field(default_factory=list)
    too_long: list[NamedAnswer] = field(default_factory=list)

    @property
    def lost(self) -> int:
        return len(self.unheld) + len(self.too_long)


class Answers(Check):
    """Answers: does each answer stand where its row says, and can it be given at all?

    Formula: of the first 2,000 questions of train and dev: (a) the passage has each gold answer at its own
    place, character for character; (b) a row that points at an answer points at characters that hold the
    first gold answer and no more than the rest of its first and last token, and every token of a row is the
    same stretch of the text as in the passage; a row without the whole answer points at its first token; (c)
    answers that no window holds whole (data.length, the encoding's overlap) and those of more tokens than
    task.longest_answer are counted: no model can give them. Above 2% of the answers is a warning.

    When it helps: offsets that are off by one after a normalisation, or bytes taken for characters, teach
    and score other words than the answer. An answer that is cut off is trained as "no answer".

    Cannot see: an answer that is wrong itself; questions behind the first 2,000.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 1.0
    same_for_seeds: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        task = case.task
        if not isinstance(task, AnswerSpans):
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_answers")
        splits = [split for split in SPLITS if split in case.dataset.splits.names]
        by_split = {split: look(case.dataset, split, task.longest_answer) for split in splits}
        wrong = [answer for answers in by_split.values() for answer in (*answers.outside, *answers.misplaced)]
        if wrong:
            count, example = len(wrong), asdict(wrong[0])
            return self.finding(
                case.when, Outcome.FAIL, "misplaced", float(count), wrong=count, example=example
            )
        values: dict[str, Value] = {
            "splits": [counts_of(split, answers) for split, answers in by_split.items()],
            "longest": task.longest_answer,
        }
        worst = max(answers.lost / max(1, answers.answers) for answers in by_split.values())
        if worst <= MUCH:
            return self.finding(case.when, Outcome.PASS, "in_place", worst, **values)
        return self.finding(case.when, Outcome.WARN, "lost", worst, **values)


def counts_of(split: str, answers: FoundAnswers) -> dict[str, Value]:
    """A split's questions and answers in numbers, with an example of those that cannot be given."""
    lost = {
        name: {"count": len(some), "example": asdict(some[0]) if some else None}
        for name, some in (("unheld", answers.unheld), ("too_long", answers.too_long))
    }
    return {"split": split, "answers": answers.answers, "questions": answers.questions, **lost}


def look(dataset: Dataset, split: str, longest: int) -> FoundAnswers:
    """The first questions of a split, and their rows."""
    answers, rows = FoundAnswers(), dataset.rows(split)
    windows: dict[int, list[int]] = defaultdict(list)
    for row, number in enumerate(rows.scalars("example").tolist()):
        if number >= QUESTIONS:
            break
        windows[number].append(row)
    texts = dataset.first(split, QUESTIONS)
    for number, numbers in windows.items():
        example = texts[number]
        answers.questions += 1
        gone = [answer for answer in example.answers if not stands(example, answer)]
        answers.outside += [NamedAnswer.of(example, answer.text) for answer in gone]
        if not answers.outside:
            _look_at(example, numbers, rows, longest, answers)
    return answers


def _look_at(example: Example, windows: list[int], rows: Rows, longest: int, answers: FoundAnswers) -> None:
    pointing = [row for row in windows if rows.scalar("start", row) or rows.scalar("end", row)]
    if not example.answers:
        answers.misplaced += [NamedAnswer.of(example, None)] * bool(pointing)
        return
    answer = example.answers[0]
    answers.answers += 1
    for row in pointing:
        if not all(points(example, rows, row)):
            answers.misplaced.append(NamedAnswer.of(example, answer.text))
            return
    if not pointing:
        answers.unheld.append(NamedAnswer.of(example, answer.text))
    elif all(rows.scalar("end", row) - rows.scalar("start", row) >= longest for row in pointing):
        answers.too_long.append(NamedAnswer.of(example, answer.text))


def points(example: Example, rows: Rows, row: int) -> Iterator[bool]:
    """Whether a row's first and last token hold the answer, and nothing more than the rest of themselves."""
    answer, text = example.answers[0], example.pair or ""
    starts, ends = rows.ragged("char_start", row), rows.ragged("char_end", row)
    first, last = rows.scalar("start", row), rows.scalar("end", row)
    if not 0 <= first <= last < len(starts):
        yield False
        return
    begin, end = int(starts[first]), int(ends[last])
    yield 0 <= begin <= answer.start and answer.start + len(answer.text) <= end <= len(text)
    yield answer.text in text[begin:end]
    yield int(ends[first]) > answer.start and int(starts[last]) < answer.start + len(answer.text)


def stands(example: Example, answer: Answer) -> bool:
    """Whether the passage has an answer at its place."""
    return (example.pair or "")[answer.start : answer.start + len(answer.text)] == answer.text
