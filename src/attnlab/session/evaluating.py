"""A trained model's scores, each with its definition and its denominator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlab.checks.learned import Learned
from attnlab.checks.recomputed_loss import confirm
from attnlab.checks.recomputed_metrics import confirm_metrics, confirm_words
from attnlab.checks.recomputed_text import confirm_text
from attnlab.checks.source import source_of, source_of_corpus
from attnlab.checks.threshold import Threshold
from attnlab.checks.word_baseline import WordBaseline, said_by_words
from attnlab.config.pictures import PictureGrid
from attnlab.config.values import ConfigError
from attnlab.data.batching import BATCHING
from attnlab.data.corpora.own_files import Files
from attnlab.data.dataset import Dataset
from attnlab.data.encode import ENCODINGS
from attnlab.data.encode.encoding import Encoding
from attnlab.data.example import Example
from attnlab.data.loader import Loader
from attnlab.data.rows import in_memory
from attnlab.evaluation.by_length import scores_by_length
from attnlab.evaluation.documents import DocumentLosses, document_losses
from attnlab.evaluation.evaluation_result import EvaluationResult
from attnlab.evaluation.evaluator import Evaluator
from attnlab.evaluation.honesty import honesty
from attnlab.evaluation.perplexity import strided
from attnlab.evaluation.texts import sampled_texts
from attnlab.evaluation.word_frequencies import frequencies_of, row_frequencies, split_frequencies
from attnlab.explain.head_losses import HeadLosses, head_losses
from attnlab.explain.head_vectors import HeadVectors, head_vectors
from attnlab.metrics.metric import Examples
from attnlab.session.baselines import Wording, baselines_of, frequency_baselines, word_baselines, wording_of
from attnlab.session.defined_scores import definitions_for, scores_of, values_and_intervals
from attnlab.session.embedding import Embedder
from attnlab.session.evaluation_checks import history_confirmed, rows_scored, texts_judged, training_dataset
from attnlab.session.searching import compare_pairs
from attnlab.session.sentence_probes import evaluate_probes, other_text, pseudo_of_rows
from attnlab.session.stored import name_of
from attnlab.tasks.answer_spans import AnswerSpans
from attnlab.tasks.task import Task

if TYPE_CHECKING:
    from attnlab.session.trained import Trained


def evaluate(
    trained: Trained,
    split: str = "dev",
    *,
    on: str | Path | None = None,
    probes: Sequence[str] = (),
    rows: int = 32,
    wording: Wording | None = None,
    **reading: Any,
) -> EvaluationResult:
    """Scores of a split, or of the texts of a file, and of probe sentences; `reading` says how the file is
    read. An imported model has no text of its own."""
    if on is not None:
        result = evaluate_file(trained, on, wording=wording, **reading)
    elif trained.imported and probes:
        result = EvaluationResult()
    else:
        result = evaluate_split(trained, split, rows=rows, wording=wording)
    return replace(result, probes=evaluate_probes(trained, probes))


def evaluate_split(
    trained: Trained, split: str, *, rows: int, wording: Wording | None = None
) -> EvaluationResult:
    """The task's own loss over a split with its interval over texts; and on a sample of `rows` texts the
    token-by-token loss where predictions may not see all of their text, the pseudo-perplexity of masked
    models."""
    trained.refuse_headless()
    if trained.imported:
        raise ConfigError(
            f"{trained.folder} was imported, and the text that it was trained on is not known here. "
            f"{other_text(trained)}"
        )
    config, dataset = trained.config, trained.dataset
    if split not in dataset.splits.names:
        raise ConfigError(f'This corpus has no split "{split}"; it has {", ".join(dataset.splits.names)}.')
    if dataset.tokenizer.fingerprint != trained.tokenizer.fingerprint:
        raise ConfigError(
            f"The corpus of {trained.folder} gives another tokenizer than the run's own: its text has "
            "changed since. Restore it, or score another text with --on FILE."
        )
    task = trained.task if split == "dev" else trained.deciding  # what was chosen on dev is not scored there
    evaluator = trained.evaluator(split, task=task)
    losses = document_losses(evaluator)
    scores = scores_of(losses, definitions_for(trained), trained.task.metrics)
    values, intervals = values_and_intervals(scores)
    result = EvaluationResult(
        name=f"{split} of {config.data.corpus.options.get('path', config.data.corpus.kind)}",
        fingerprint=dataset.fingerprint(split),
        cuts=dataset.truncation(split).record(),
        scores=scores,
        recomputed=confirm(evaluator, losses, values),
        confirmations=(
            confirm_metrics(
                losses,
                values,
                evaluator=evaluator,
                source=source_of(dataset),
                split=split,
                intervals=intervals,
            ),
            *history_confirmed(trained, split, values, losses),
            rows_scored(trained, dataset.examples(split), split),
            *texts_judged(trained, split, Examples(losses.texts)),
        ),
    )
    if not trained.task.predicts_words:
        return _with_examples(result, trained, task, dataset.first(split, len(losses)), losses, wording)
    sampled = spread_rows(dataset, split, max(rows // 4, 2)) if trained.fills else None
    counted = split_frequencies(dataset, split, evaluator)
    return replace(
        result,
        learned=Learned().judge("evaluation", losses.examples, counted.by_text),
        by_length=scores_by_length(Examples(losses.texts)),
        baselines=tuple(word_baselines(trained, split)),
        honesty=honesty(trained.model, trained.task, sampled_texts(evaluator, rows)),
        pseudo=None if sampled is None else pseudo_of_rows(trained, sampled),
    )


def spread_rows(dataset: Dataset, split: str, count: int) -> list[list[int]]:
    """Rows evenly spread over a split."""
    stored = dataset.rows(split)
    step = max(len(stored) // count, 1)
    return [stored.ragged("ids", row).tolist() for row in range(0, len(stored), step)][:count]


def evaluate_file(
    trained: Trained, file: str | Path, *, wording: Wording | None = None, **options: Any
) -> EvaluationResult:
    """The texts of files of any format that a corpus may have (see Files, whose `options` these are).

    Plain text is one long text, a row of a table one each; scored in windows that overlap by half, and
    every token counts once.
    """
    trained.refuse_headless()
    if not trained.task.predicts_words:
        return _evaluate_labelled(trained, file, wording, **options)
    if not trained.continues:
        raise ConfigError(f"Only a causal model gives a text a probability. {other_text(trained)}")
    corpus = Files(path=str(file), unit="document", **options)
    examples = [example for split in corpus.given for example in corpus.read(split)]
    texts = [example.text for example in examples]
    rows = [trained.prompt(text) for text in texts]
    nats = [strided(trained.model, row, context=trained.config.longest_text) for row in rows]
    losses = DocumentLosses(
        nats=np.array([math.fsum(row) for row in nats]),
        targets=np.array([len(row) for row in nats]),
        bytes=np.array([len(text.encode()) for text in texts]),
        unknown=sum(row[1:].count(trained.unknown_token) for row in rows),
    )
    if not losses.targets.any():
        raise ConfigError(f"{file} has no text to score.")
    scores = scores_of(losses)
    values, intervals = values_and_intervals(scores)
    result = EvaluationResult(
        name=str(file),
        scores=scores,
        recomputed=confirm_text(trained.model, rows, nats, values, context=trained.config.longest_text),
        confirmations=(
            confirm_words(losses, values, trained.task, intervals=intervals),
            rows_scored(trained, examples),
        ),
    )
    dataset = training_dataset(trained)
    if dataset is None:
        return result
    counted = row_frequencies(frequencies_of(dataset, trained.task), rows)
    learned = Learned().judge("evaluation", losses.examples, counted.by_text)
    return replace(result, learned=learned, baselines=tuple(frequency_baselines(counted)))


def evaluator_of_texts(trained: Trained, texts: Sequence[Example]) -> tuple[Evaluator, Encoding]:
    """How texts are scored that are no split: encoded and batched as those of the run's own splits."""
    config = trained.config
    encoding = ENCODINGS.build(
        config.data.encoding,
        tokenizer=trained.tokenizer,
        length=config.data.length,
        labels=trained.labels.names,
        reader=trained.task.reader,
        pictures=config.model.picture or PictureGrid(),
    )
    rows = in_memory(encoding.rows(texts), vocabulary=max(trained.tokenizer.sizes))
    batching = BATCHING.build(config.data.batching, length=config.data.length)
    seed = config.data.split_seed
    loader = Loader(rows, batching, seed=seed, pad=trained.tokenizer.pad)
    given: dict[str, Any] = {"loader": loader, "seed": seed, "texts": lambda: texts}
    return Evaluator(model=trained.model, task=trained.deciding, **given), encoding


def _evaluate_labelled(
    trained: Trained, file: str | Path, wording: Wording | None, **options: Any
) -> EvaluationResult:
    """The labelled texts of a file, encoded and scored as those of the run's own splits."""
    own = {part: trained.columns(part) for part in trained.parts}
    corpus = Files(path=str(file), **own | options)
    texts = [example for split in corpus.given for example in corpus.read(split)]
    evaluator, encoding = evaluator_of_texts(trained, texts)
    losses = document_losses(evaluator)
    scores = scores_of(losses, definitions_for(trained), trained.task.metrics)
    values, intervals = values_and_intervals(scores)
    confirmed = confirm_metrics(
        losses, values, evaluator=evaluator, source=source_of_corpus(corpus), intervals=intervals
    )
    result = EvaluationResult(
        name=str(file),
        cuts=encoding.cuts.record(),
        scores=scores,
        confirmations=(confirmed, rows_scored(trained, texts)),
    )
    return _with_examples(result, trained, trained.deciding, texts, losses, wording)


def _with_examples(
    result: EvaluationResult,
    trained: Trained,
    task: Task,
    texts: Sequence[Example],
    losses: DocumentLosses,
    wording: Wording | None,
) -> EvaluationResult:
    """What is reported of labels beside the metrics, and what the scores are to be compared with."""
    examples = losses.examples
    report = task.target.report(task, texts, examples)
    if isinstance(task, AnswerSpans):
        threshold = Threshold().judge("evaluation", examples, fixed=task.threshold != "dev")
        report = replace(report, checks=(*(report.checks or ()), threshold))
    words = words_of(trained, texts)
    return replace(
        result,
        learned=None if words is None else WordBaseline().judge("evaluation", task, examples, words),
        retrieval=compare_pairs(texts, examples) if task.target.compares_batch else None,
        target=report,
        baselines=tuple(baselines_of(trained, texts, wording or wording_of(trained.folder), words=words)),
    )


def words_of(trained: Trained, texts: Sequence[Example]) -> Examples | None:
    """What a bag of words of a run's training rows says of texts; None where it cannot be learned."""
    dataset = training_dataset(trained) if trained.task.target.told_by_words and texts else None
    return None if dataset is None else said_by_words(dataset, trained.task)(texts)


def evaluate_heads(
    trained: Trained,
    on: str | Path | None = None,
    *,
    texts: int = 200,
    progress: Callable[[int, int], None] = lambda done, of: None,
    **reading: Any,
) -> HeadLosses | HeadVectors:
    """The change of the loss without each head, on the first texts of a file or of the run's dev split; of a
    model that has none, the change of the texts' vectors."""
    if on is None:
        if trained.imported:
            raise ConfigError(
                f"{name_of(trained.folder)} was imported, and the text that it was trained on is not known "
                "here; give texts with --on FILE."
            )
        if "dev" not in trained.dataset.splits.names:
            raise ConfigError("This run's corpus has no dev split; give texts with --on FILE.")
        examples, name = trained.dataset.first("dev", texts), "the dev split"
    else:
        labelled = not trained.task.predicts_words and not trained.headless
        own = {p: trained.columns(p) for p in trained.parts} if labelled else {}
        corpus = Files(path=str(on), **own | reading)
        read = (example for split in corpus.given for example in corpus.read(split))
        examples, name = tuple(islice(read, texts)), str(on)
    if not examples:
        raise ConfigError(f"{name} has no text to score.")
    if trained.headless:
        embedder, read_texts = Embedder.of(trained), [example.text for example in examples]
        embed = partial(embedder, read_texts, cut="end")
        return head_vectors(trained.model, embed, on=name, progress=progress)
    evaluator, _ = evaluator_of_texts(trained, examples)
    return head_losses(evaluator, on=name, progress=progress)
