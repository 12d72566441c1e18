"""What a model makes of a text that it does not go on with: words in gaps, labels, tags, answers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from attnlab.config.ranges import Range
from attnlab.config.values import ConfigError
from attnlab.data.encode import ENCODINGS
from attnlab.data.example import words_in
from attnlab.model.heads.sentence import Sentence
from attnlab.session.filling import sentence
from attnlab.tasks.answer_spans import AnswerSpans
from attnlab.web.actions import Answer
from attnlab.web.actions.pictures import asked_picture, text_beside
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
class ClassifyValues:
    """A text, or two; a `picture`, with its text where the model reads both."""

    text: str = ""
    pair: str = ""
    picture: dict[str, Any] = field(default_factory=dict)


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
    values = asked.read(ClassifyValues)
    prediction, notes = predicted(asked.trained, what_is_read(asked, values))
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
    prediction, notes = predicted(asked.trained, text_or_pair(values.text, values.pair))
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


def what_is_read(asked: WorkerRequest, values: ClassifyValues) -> Any:
    """What a prediction is asked of: a text, a pair, a picture, or a picture and its text."""
    trained = asked.trained
    if trained.config.model.picture is None:
        refuse_missing_pair(trained, values.pair)
        return text_or_pair(values.text, values.pair)
    image = asked_picture(asked, values.picture).image
    return (image, values.text) if text_beside(trained) == "needed" else image


def refuse_missing_pair(trained: Trained, pair: str) -> None:
    """Refuse one text where a model reads two in one row; one of vectors reads each alone."""
    reads_two = "pair" in ENCODINGS[trained.config.data.encoding.kind].uses
    if pair.strip() or not reads_two or isinstance(trained.model.head, Sentence):
        return
    if isinstance(trained.task, AnswerSpans):
        raise ConfigError(
            "The passage is empty: this model reads a question and the passage that answers it."
        )
    raise ConfigError("The second text is empty: this model reads two texts together; give both.")


def text_or_pair(text: str, pair: str) -> str | tuple[str, str]:
    return (text, pair) if pair else text


def predicted(trained: Trained, given: Any) -> tuple[Prediction, list[str]]:
    """What is predicted of a text, a pair or a picture, and what a person should know of it, such as what was
    cut off."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (prediction,) = trained.predict([given])
    if prediction.unread:
        kind = "text" if trained.config.model.picture is None else "picture"
        raise ConfigError(f"Nothing can be predicted of this {kind}: {prediction.unread}.")
    return prediction, [str(warning.message) for warning in caught]
