"""What is measured of a run once it is trained: the same for every arm, on the same text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict, cast

import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from attnlab.checks.learned import Learned
from attnlab.checks.recomputed_loss import confirm
from attnlab.checks.recomputed_metrics import RecomputedMetrics, confirm_metrics, scored_in_training
from attnlab.checks.source import source_of
from attnlab.evaluation.by_length import scores_by_length
from attnlab.evaluation.comparability import UNKNOWN
from attnlab.evaluation.documents import DocumentLosses, document_losses
from attnlab.evaluation.evaluator import Evaluation, Evaluator
from attnlab.evaluation.honesty import HonestLoss, honesty
from attnlab.evaluation.sample_quality import quality
from attnlab.evaluation.texts import sampled_texts
from attnlab.evaluation.word_frequencies import split_frequencies
from attnlab.evaluation.written_texts import read_texts, save_texts, text_signatures
from attnlab.explain.attention_maps import attention_weights
from attnlab.generation.sample_file import line, sampled
from attnlab.metrics import METRICS
from attnlab.metrics.measures import TRAIN
from attnlab.metrics.metric import Examples
from attnlab.model.tokens import Tokens
from attnlab.runs.atomic import replace_bytes
from attnlab.runs.faults import reading
from attnlab.runs.findings import Finding, Outcome, add_findings
from attnlab.runs.record import RECORD, read_record
from attnlab.runs.result import AttentionMap, RunResult, ScoredProbe
from attnlab.session.sentence_probes import evaluate_probes
from attnlab.session.trained import Trained
from attnlab.studies.aligned_sentence import alignment
from attnlab.targets.classes import confusion, reliability

Columns = dict[str, NDArray[Any]]
SAMPLES = 5
HONEST_TEXTS = 32
OF_VECTORS = ("query_vector", "passage_vector", "passage")
"""Columns that ranks were made of, which are large."""
OF_WORDS = ("nats", "targets", "bytes", "words")
"""Columns of the losses of each text; others are what the model said of it, and what was right."""


def measure_run(trained: Trained, *, probes: Sequence[str], sentence: str, documents: Path) -> RunResult:
    """Losses on dev and train, the honest loss, probe sentences, samples, and where it looks.

    `sentence` is drawn where there is one; the losses of each text go to the file `documents`.
    """
    written = written_samples(trained) if trained.continues else WrittenSamples()
    metrics, honest = losses(trained, documents), honest_loss(trained)
    texts = Examples(read_texts(documents.parent))
    drawn = {
        "texts_alone": texts_alone(honest) if honest else [],
        "predictions": predictions(trained, documents),
        "by_length": [one.as_json() for one in scores_by_length(texts)],
        "signatures": text_signatures(texts),
    }
    return RunResult(
        metrics=metrics | (token_by_token(honest) if honest else {}),
        probes=tuple(probed(trained, probes)),
        attention=attention(trained, sentence) if sentence else None,
        alignment=alignment(trained),
        samples=written.texts,
        quality=written.quality,
        extra={name: part for name, part in drawn.items() if part},
    )


def losses(trained: Trained, documents: Path) -> dict[str, float]:
    """Over all of dev, text by text, and over as many batches of train; the same for every run."""
    splits = [split for split in ("train", "dev") if split in trained.dataset.splits.names]
    evaluators = {split: trained.evaluator(split) for split in splits}
    size = min(len(evaluator.loader.plan(0)) for evaluator in evaluators.values())
    train = replace(evaluators["train"], batches=size)()
    metrics = {
        TRAIN + name: value for name, value in {"loss": train.loss, **train.scores}.items() if name in METRICS
    }
    if "dev" in evaluators:
        dev = document_losses(evaluators["dev"])
        if dev.texts:
            save_texts(documents.parent, dev.texts)
        metrics |= values_of(dev.examples) | {"targets": int(dev.targets.sum())}
        metrics |= {UNKNOWN: dev.unknown_share} if "bits_per_byte" in metrics else {}
        replace_bytes(documents, save(columns_of(dev)))
        recomputed: tuple[Finding, ...] = (
            confirm(evaluators["dev"], dev, metrics),
            confirmed(trained, evaluators["dev"], dev, metrics, train),
        )
        if trained.task.predicts_words:
            counted = split_frequencies(trained.dataset, "dev", evaluators["dev"])
            recomputed += (Learned().judge("evaluation", dev.examples, counted.by_text),)
        add_findings(trained.folder, recomputed)
    return metrics


def confirmed(
    trained: Trained,
    evaluator: Evaluator,
    dev: DocumentLosses,
    metrics: Mapping[str, float],
    train: Evaluation,
) -> Finding:
    """Whether the metrics of dev and of the sample of train are those of the rows of the files."""
    dataset, own = (
        trained.dataset,
        {n.removeprefix(TRAIN): x for n, x in metrics.items() if n.startswith(TRAIN)},
    )
    of_dev = confirm_metrics(dev, metrics, evaluator=evaluator, source=source_of(dataset), split="dev")
    of_train = RecomputedMetrics().judge(
        "evaluation", scored_in_training(train, "train", own, task=trained.task, dataset=dataset)
    )
    return of_train if of_dev.outcome is Outcome.PASS and of_train.outcome is Outcome.FAIL else of_dev


def values_of(examples: Examples) -> dict[str, float]:
    """Every metric that these examples have what it needs for."""
    metrics = {name: METRICS.build(name) for name in METRICS}
    return {name: metric.value(examples) for name, metric in metrics.items() if metric.applies(examples)}


def columns_of(losses: DocumentLosses) -> Columns:
    """What is kept of each text."""
    stored = {name: getattr(losses, name) for name in OF_WORDS}
    said = {name: column for name, column in losses.said.items() if name not in OF_VECTORS}
    return {name: column for name, column in stored.items() if column is not None} | said


def read_documents(file: Path) -> DocumentLosses | None:
    """The losses of each dev text of a run, where it has been measured."""
    if not file.is_file():
        return None
    with reading(file):
        stored = _columns_in(file)
        by_text = {name: column for name, column in stored.items() if name not in OF_WORDS}
        return DocumentLosses(
            stored["nats"],
            stored["targets"],
            stored["bytes"],
            words=stored.get("words"),
            said=by_text,
            texts=read_texts(file.parent),
        )


def label_names(run: Path) -> Sequence[str]:
    """The names of a run's classes or tags."""
    if not (run / RECORD).is_file():
        return ()
    names: Sequence[str] = (read_record(run).get("labels") or {}).get("names", ())
    return names


def _columns_in(file: Path) -> Columns:
    """Columns of numbers, one for each text: all as long as the first."""
    try:
        stored: Columns = load(file.read_bytes())
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    sizes = {len(column) if column.ndim else -1 for column in stored.values()}
    if len(sizes) > 1:
        raise ValueError(f"its columns are of {len(sizes)} lengths")
    return stored


def honest_loss(trained: Trained) -> HonestLoss | None:
    """The loss of a few texts all at once, and token by token; none where each sees all its text."""
    if "dev" not in trained.dataset.splits.names or not trained.task.predicts_words:
        return None
    return honesty(trained.model, trained.task, sampled_texts(trained.evaluator("dev"), HONEST_TEXTS))


def texts_alone(compared: HonestLoss) -> list[list[float]]:
    """Both losses of each text, for a figure."""
    return [[round(nats, 6) for nats in pair] for pair in compared.by_text if all(map(math.isfinite, pair))]


class PredictedClasses(TypedDict):
    """Of dev: how often each class (row) was called each (column), and accuracy by bins of confidence."""

    names: list[str]
    counts: list[list[int]]
    bins: list[dict[str, float]]


def predictions(trained: Trained, documents: Path) -> PredictedClasses | None:
    """How often each class of dev was called each, and how often predictions of a confidence are right."""
    dev = read_documents(documents)
    if dev is None or not {"label", "probabilities"} <= {*dev.said}:
        return None
    bins = [asdict(one) for one in reliability(dev.examples)]
    names = list(trained.task.labels.names)
    return {"names": names, "counts": confusion(dev.examples).tolist(), "bins": bins}


def token_by_token(compared: HonestLoss) -> dict[str, float]:
    return {
        "parallel_loss": compared.parallel.loss,
        "token_by_token_loss": compared.token_by_token.loss,
        "parallel_perplexity": compared.parallel.perplexity,
        "token_by_token_perplexity": compared.token_by_token.perplexity,
        "leak": compared.difference,
    }


@dataclass(frozen=True)
class WrittenSamples:
    """Texts that a model wrote, and what can be said of them in numbers."""

    texts: tuple[str, ...] = ()
    quality: Mapping[str, float | None] = field(default_factory=dict)


def written_samples(trained: Trained) -> WrittenSamples:
    """A few texts, always with the same chance, and what can be said of them in numbers."""
    tokenizer, length = trained.tokenizer, trained.config.longest_text
    samples = sampled(trained.model, tokenizer, length=length, number=SAMPLES)
    numbers = asdict(quality(samples, unknown=tokenizer.specials.unknown))
    return WrittenSamples(tuple(line(tokenizer, sample) for sample in samples), numbers)


def probed(trained: Trained, probes: Sequence[str]) -> list[ScoredProbe]:
    """The probe sentences, of models that can score a sentence by itself and read one as long."""
    tokenizer, length = trained.tokenizer, trained.config.longest_text
    fitting = [text for text in probes if len(tokenizer.form.single(tokenizer.encode(text))) <= length]
    scores = evaluate_probes(trained, fitting) if trained.continues or trained.fills else ()
    return cast(list[ScoredProbe], [asdict(score) for score in scores])


def attention(trained: Trained, sentence: str) -> AttentionMap:
    """The weights of one sentence: [layer][head][query][key]; a mask that asks gets half as its source."""
    if trained.model.trunk.reads_source:
        return {}
    ids = trained.tokenizer.form.single(trained.tokenizer.encode(sentence))[: trained.config.longest_text]
    halved = (torch.arange(len(ids)) < len(ids) // 2)[None]
    source = halved if trained.model.trunk.asks_for_source else None
    tokens = Tokens.of(len(ids), source=source)
    layers = attention_weights(trained.model, torch.tensor([ids]), tokens)
    allowed = trained.model.trunk.ways(tokens)[0].near.int().cpu().tolist()
    weights = [[[[round(w, 4) for w in row] for row in head] for head in x[0].tolist()] for x in layers]
    words = [trained.tokenizer.decode([token], specials=True).strip() for token in ids]
    return {"sentence": sentence, "tokens": words, "weights": weights, "allowed": allowed}
