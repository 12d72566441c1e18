"""What a model makes of a text that it does not go on with: words in gaps, labels, tags, answers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from attnlab.config.ranges import Range
from attnlab.config.values import ConfigError
from attnlab.data.example import words_in
from attnlab.session.filling import sentence
from attnlab.web.actions import Answer
from attnlab.web.worker_request import WorkerRequest

if TYPE_CHECKING:
    from attnlab.session.trained import Trained
    from attnlab.tasks.task import Prediction


@dataclass(frozen=True)
class FillValues:
    text: str
    top: Annotated[int, Range(least=1, most=50)] = 5


@dataclass(frozen=True)
class TextValues:
    text: str
    pair: str = ""


@dataclass(frozen=True)
class QuestionValues:
    question: str
    passage: str


def fill(asked: WorkerRequest) -> Answer:
    values, trained = asked.read(FillValues), asked.trained
    places = trained.fill(values.text, top=values.top)
    return {
        "text": sentence(trained, values.text, places),
        "places": [[{"piece": piece, "probability": p} for piece, p in place] for place in places],
    }


def classify(asked: WorkerRequest) -> Answer:
    """The probability of each label, the largest first; of a regression its number."""
    values = asked.read(TextValues)
    prediction, notes = predicted(asked.trained, values.text, values.pair)
    ranked = sorted(prediction.scores.items(), key=lambda score: -score[1])
    return {
        "answer": prediction.answer,
        "confidence": prediction.confidence,
        "scores": [{"label": label, "probability": p} for label, p in ranked],
        "notes": notes,
    }


def tag(asked: WorkerRequest) -> Answer:
    """The words of a text, each with the label of the span that it is in, and the spans by their
    characters."""
    values = asked.read(TextValues)
    prediction, notes = predicted(asked.trained, values.text, values.pair)
    if prediction.spans is None:
        raise ConfigError("This model labels texts, not their words; ask for the labels of the text.")
    words = [
        {
            "start": word.start,
            "end": word.end,
            "text": values.text[word.start : word.end],
            "label": next((s.label for s in prediction.spans if s.start <= word.start < s.end), ""),
        }
        for word in words_in(values.text)
    ]
    return {
        "words": words,
        "spans": list(prediction.spans),
        "confidence": prediction.confidence,
        "notes": notes,
    }


def answer(asked: WorkerRequest) -> Answer:
    """The answer with its characters in the passage. The best span is there also where it is not given, since
    its margin is below that of no answer and the threshold."""
    values, trained = asked.read(QuestionValues), asked.trained
    best = trained.ask(values.question, values.passage).best
    return {
        "answer": best.answer or None,
        "span": best.found.span,
        "start": best.found.start,
        "end": best.found.end,
        "margin": best.found.margin,
        "unknown_share": best.unknown,
    }


def predicted(trained: Trained, text: str, pair: str) -> tuple[Prediction, list[str]]:
    """What is predicted of a text or a pair, and what a person should know of it, such as what was cut
    off."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (prediction,) = trained.predict([(text, pair) if pair else text])
    if prediction.unread:
        raise ConfigError(f"Nothing can be predicted of this text: {prediction.unread}.")
    return prediction, [str(warning.message) for warning in caught]
