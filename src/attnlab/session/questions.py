"""A question, asked of one passage or of several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from attnlab.config.values import ConfigError
from attnlab.data.errors import unusable
from attnlab.data.example import Example
from attnlab.documents.nodes import DocumentPage, Number, Table
from attnlab.documents.notebook import SelfShowing
from attnlab.session.predicting import Predictor
from attnlab.tasks.answer_spans import AnswerPrediction, AnswerSpans

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

AROUND = 240
"""Characters of the passage that are shown to either side of an answer."""
UNKNOWN = 0.1
"""The share of a passage's tokens that the tokenizer does not know, from which on it is told."""
NO_ANSWER = "no answer in this text"


@dataclass(frozen=True)
class PassageAnswer:
    """What one passage answers. `unknown` is the share of its tokens that the tokenizer does not know."""

    name: str
    passage: str
    found: AnswerPrediction
    unknown: float = 0.0

    @property
    def answer(self) -> str:
        return str(self.found.answer)

    @property
    def line(self) -> int:
        """The line of the passage in which the answer begins, from 1 on."""
        return self.passage.count("\n", 0, self.found.start) + 1

    @property
    def context(self) -> tuple[str, str, str]:
        """The text before the best span, the span, and the text after it, cut between words."""
        start, end = self.found.start, self.found.end
        before, after = self.passage[max(0, start - AROUND) : start], self.passage[end : end + AROUND]
        if start > AROUND:
            before = f"… {before.partition(' ')[2] or before}"
        if end + AROUND < len(self.passage):
            after = f"{after.rpartition(' ')[0] or after} …"
        return before, self.passage[start:end], after

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self.found) | {"line": self.line, "passage": self.name, "unknown_share": self.unknown}
        margin = self.found.margin if math.isfinite(self.found.margin) else None
        return fields | {"margin": margin} | ({} if self.answer else {"answer": None})


@dataclass(frozen=True, repr=False)
class RankedAnswers(SelfShowing):
    """What passages answer to a question, the one with the largest margin first."""

    question: str
    ranked: tuple[PassageAnswer, ...]

    @property
    def best(self) -> PassageAnswer:
        return self.ranked[0]

    @property
    def answer(self) -> str:
        """The answer of the best passage; empty where none of them has one."""
        return self.best.answer

    def document(self) -> DocumentPage:
        rows = [
            (answer.name, answer.answer or f"({NO_ANSWER})", margin_number(answer), "".join(answer.context))
            for answer in self.ranked
        ]
        table = Table(("passage", "answer", "margin", "in its text"), rows)
        return DocumentPage("answers", self.question, [table])


def margin_number(answer: PassageAnswer) -> Number:
    """Nats above "no answer" and the threshold."""
    return Number(answer.found.margin, form="signed", decimals=2)


def ask(
    trained: Trained,
    question: str,
    passages: str | Sequence[str] | Mapping[str, str],
    *,
    batch_size: int = 64,
) -> RankedAnswers:
    """Ask one passage, several, or several by name; all are ranked by their margin."""
    if not isinstance(trained.task, AnswerSpans):
        raise ConfigError(
            f'{trained.folder} was trained for task "{trained.config.task.kind}", not to answer questions. '
            f"Adapt it: attnlab adapt {trained.folder} --task answering --data FILE"
        )
    named = _named(passages)
    for what, text in {"question": question, **named}.items():
        if not text.strip():
            raise ConfigError(f"The {what} is empty; give some text.")
        if reason := unusable(text):
            raise ConfigError(f"The {what} cannot be tokenised: {reason}.")
    predictor = Predictor(trained, batch_size=batch_size)
    answers = predictor(Example(question, pair=text) for text in named.values())
    ranked = [
        PassageAnswer(name, text, cast("AnswerPrediction", answer), unknown_share(trained, text))
        for (name, text), answer in zip(named.items(), answers, strict=True)
    ]
    return RankedAnswers(question, tuple(sorted(ranked, key=lambda one: -one.found.margin)))


def _named(passages: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Passages by name; those without one are numbered."""
    if isinstance(passages, Mapping):
        by_name = {f"{name}": text for name, text in passages.items()}
    elif isinstance(passages, str):
        by_name = {"passage": passages}
    else:
        by_name = {f"passage {number}": text for number, text in enumerate(passages, start=1)}
    if not by_name:
        raise ConfigError("There is no passage to ask; give one, or several.")
    return by_name


def unknown_share(trained: Trained, text: str) -> float:
    """How many of a text's tokens stand for words that the tokenizer does not know."""
    ids = trained.tokenizer.encode(text)
    return ids.count(trained.unknown_token) / max(1, len(ids))
