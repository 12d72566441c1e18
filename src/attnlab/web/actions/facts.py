"""What a run's model is, and what it can be asked."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from attnlab.data.encode import ENCODINGS
from attnlab.model.heads.sentence import Sentence
from attnlab.tasks.answer_spans import AnswerSpans
from attnlab.web.actions import Answer
from attnlab.web.actions.example_texts import example_texts
from attnlab.web.actions.pictures import picture_facts
from attnlab.web.worker_request import NoValues, WorkerRequest

if TYPE_CHECKING:
    from attnlab.session.trained import Trained


def facts(asked: WorkerRequest) -> Answer:
    asked.read(NoValues)
    trained = asked.trained
    tokenizer, labels = trained.tokenizer, trained.labels
    return {
        "task": trained.config.task.kind,
        "can": abilities(trained),
        "labels": list(labels.names),
        "pairs": "pair" in ENCODINGS[trained.config.data.encoding.kind].uses,
        "pictures": picture_facts(asked),
        "mask": "[MASK]" if trained.fills else "",
        "examples": asdict(example_texts(asked)),
        "reads_source": trained.reads_source,
        "longest": trained.config.longest_text,
        "vocabulary": tokenizer.target.size,
        "parameters": sum(p.numel() for p in trained.model.parameters()),
        "step": trained.step,
        "checkpoint": trained.checkpoint,
        "imported": trained.imported,
        "unsound": trained.unsound,
    }


def abilities(trained: Trained) -> dict[str, bool]:
    """Which actions it can answer."""
    task, model = trained.task, trained.model
    says = not trained.headless
    pictured = trained.config.model.picture is not None
    labels = says and not task.predicts_words
    tags, answers = labels and "tags" in trained.parts, labels and isinstance(task, AnswerSpans)
    vectors = isinstance(model.head, Sentence) or trained.headless
    looks = bool(model.trunk.attentions())
    return {
        "write": says and task.predicts_words and model.writes and not pictured and not trained.translates,
        "fill": says and trained.fills,
        "classify": labels and not (tags or answers or vectors),
        "tag": tags,
        "answer": answers,
        "translate": says and trained.translates and not pictured,
        "caption": says and trained.captions,
        "search": vectors and not pictured,
        "search_pictures": vectors and trained.config.model.modalities == ("image", "text"),
        "losses": says and (trained.continues or trained.fills) and not pictured,
        "attention": looks,
        "without_heads": looks and (says or vectors),
        "patch_texts": says and not vectors and not answers and not pictured,
    }
