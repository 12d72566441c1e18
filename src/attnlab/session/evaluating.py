"""A trained model's scores, each with its definition and its denominator."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlab.checks.learned import Learned
from attnlab.checks.outputs import Outputs
from attnlab.checks.recomputed_loss import confirm
from attnlab.checks.recomputed_metrics import confirm_metrics, confirm_words
from attnlab.checks.recomputed_text import confirm_history, confirm_text
from attnlab.checks.scored_rows import chosen_on_dev, identify
from attnlab.checks.source import source_of, source_of_corpus
from attnlab.checks.text_pairs import TextPairs
from attnlab.checks.threshold import Threshold
from attnlab.checks.trained_text import TrainedText, Unread
from attnlab.checks.word_baseline import WordBaseline, said_by_words
from attnlab.config.values import ConfigError
from attnlab.data.batching import BATCHING
from attnlab.data.corpora.own_files import Files
from attnlab.data.dataset import Dataset
from attnlab.data.encode import ENCODINGS
from attnlab.data.encode.encoding import Encoding
from attnlab.data.encode.texts import ends
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.data.loader import Loader
from attnlab.data.rows import in_memory
from attnlab.evaluation.by_length import scores_by_length
from attnlab.evaluation.documents import DocumentLosses, document_losses
from attnlab.evaluation.evaluation_result import DefinedScore, EvaluationResult, ProbeScore, PseudoPerplexity
from attnlab.evaluation.evaluator import Evaluator
from attnlab.evaluation.honesty import honesty
from attnlab.evaluation.perplexity import Score, answer_losses, pseudo_losses, strided
from attnlab.evaluation.statistics import loss_interval
from attnlab.evaluation.texts import sampled_texts
from attnlab.evaluation.word_frequencies import frequencies_of, row_frequencies, split_frequencies
from attnlab.evaluation.written_texts import text_scores
from attnlab.explain.head_losses import HeadLosses, head_losses
from attnlab.explain.head_vectors import HeadVectors, head_vectors
from attnlab.metrics import METRICS
from attnlab.metrics.measures import measure_of
from attnlab.metrics.metric import Examples
from attnlab.runs.findings import Finding
from attnlab.session.baselines import Wording, baselines_of, frequency_baselines, word_baselines, wording_of
from attnlab.session.embedding import Embedder
from attnlab.session.searching import compare_pairs
from attnlab.session.stored import name_of
from attnlab.session.trained_texts import text_of_run, texts_before
from attnlab.targets.wording import DEFINITIONS as DEFINITIONS_BY_TARGET
from attnlab.targets.wording import LABELLED
from attnlab.tasks.answer_spans import AnswerSpans
from attnlab.tasks.task import Task

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

DEFINITIONS = {
    "unknown_share": "share of the targets that are unknown words, predicted as such, not by their letters",
    "targets": "tokens that were predicted",
    "texts": "texts scored; intervals are over others like them",
}
MASKED = {
    "loss": "nats per hidden token, many hidden at once",
    "perplexity": "e^loss of hidden tokens; not of a text: see pseudo-perplexity",
    "targets": "tokens that were hidden and predicted",
}
THREE_MASKS = {
    "loss": "nats per hidden token, many hidden at once, seen from both sides, the left or a source by turns"
}
PART = "a part of the loss, nats per target"


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
            *texts_judged(Examples(losses.texts)),
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
        pseudo=None if sampled is None else _pseudo(trained, sampled),
    )


def scores_of(
    losses: DocumentLosses, definitions: Mapping[str, str] = DEFINITIONS, first: Sequence[str] = ()
) -> dict[str, DefinedScore]:
    """Each metric by its name, some first, with its definition, and its interval where it has one."""
    built = {name: METRICS.build(name) for name in dict.fromkeys([*first, *METRICS])}
    metrics = {name: metric for name, metric in built.items() if metric.applies(losses.examples)}
    count = losses.score.tokens
    values: dict[str, float] = {name: metric.value(losses.examples) for name, metric in metrics.items()}
    values |= {"unknown_share": losses.unknown_share} if "bits_per_byte" in metrics else {}
    values |= {name: part / max(1, count) for name, part in losses.parts.items()}
    values |= {"targets": count, "texts": int((losses.targets > 0).sum())}
    usual = {name: measure_of(name).definition for name in metrics}
    defined = {**usual, **definitions, **sum_of(losses.parts), **unspelt(losses.unknown_share)}
    finite = [name for name in metrics if math.isfinite(values[name])]  # others fail their confirmation
    intervals = {name: loss_interval(losses, name).interval for name in finite}
    signatures = {name: metric.signature(losses.examples) for name, metric in metrics.items()}
    return {
        name: DefinedScore(value, defined.get(name, PART), intervals.get(name), signatures.get(name, ""))
        for name, value in values.items()
    }


def values_and_intervals(
    scores: Mapping[str, DefinedScore],
) -> tuple[dict[str, float], dict[str, tuple[float, float] | None]]:
    """Both apart, of those that are metrics the intervals."""
    values = {name: score.value for name, score in scores.items()}
    return values, {name: score.interval for name, score in scores.items() if name in METRICS}


def sum_of(parts: Collection[str]) -> dict[str, str]:
    """The definitions of a loss that has several parts, the words' first."""
    if not parts:
        return {}
    named, first = " + ".join(parts), next(iter(parts))
    return {
        "loss": f"{named}, a sum of {len(parts)} losses: nats per hidden token",
        "perplexity": f"e^{first} of hidden tokens; not of a text: see pseudo-perplexity",
    }


def unspelt(share: float) -> dict[str, str]:
    """What bits per byte are worth where words were unknown: their bytes count, their letters are free."""
    if not share:
        return {}
    reason = f"{share:.1%} of the targets are unknown words, whose spelling is not paid for"
    return {
        "bits_per_byte": f"bits per byte of UTF-8 text; {reason}: not comparable with another tokenizer's"
    }


def definitions_for(trained: Trained) -> dict[str, str]:
    """What the measures mean for this model."""
    if not trained.task.predicts_words:
        return DEFINITIONS_BY_TARGET.get(trained.task.target.name, LABELLED)
    if not trained.fills:
        return DEFINITIONS
    return DEFINITIONS | MASKED | (THREE_MASKS if trained.task.marks_source else {})


def spread_rows(dataset: Dataset, split: str, count: int) -> list[list[int]]:
    """Rows evenly spread over a split."""
    stored = dataset.rows(split)
    step = max(len(stored) // count, 1)
    return [stored.ragged("ids", row).tolist() for row in range(0, len(stored), step)][:count]


def _pseudo(trained: Trained, rows: list[list[int]]) -> PseudoPerplexity:
    nats = [_pseudo_losses(trained, row) for row in rows]
    counts = np.array([len(row) for row in nats])
    losses = DocumentLosses(np.array([math.fsum(row) for row in nats]), counts, np.zeros_like(counts))
    interval = loss_interval(losses, "perplexity").interval
    return PseudoPerplexity(losses.loss, losses.perplexity, interval, len(rows))


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


def history_confirmed(
    trained: Trained, split: str, values: Mapping[str, float], losses: DocumentLosses
) -> tuple[Finding, ...]:
    """Whether dev's numbers are those of the run's history at this step, where it scored the same rows; those
    of written texts by as many as the run wrote then."""
    settings, dev = trained.config.training, (trained.record.get("data") or {}).get("dev")
    same = split == "dev" and settings.evaluate_batches == "all" and dev == trained.dataset.fingerprint("dev")
    if not same:
        return ()
    texts = settings.generate_examples
    first = slice(None if texts == "all" else texts)
    written = Examples({name: column[first] for name, column in losses.texts.items()})
    finding = confirm_history(
        trained.folder,
        trained.step,
        {**values, **text_scores(written)},
        n=len(losses),
        texts=len(written),
        precision=settings.precision,
    )
    return () if finding is None else (finding,)


def texts_judged(texts: Examples) -> tuple[Finding, ...]:
    """What checks say of written texts; nothing where none were."""
    if not len(texts):
        return ()
    return TextPairs().judge("evaluation", texts), Outputs().judge("evaluation", texts)


def training_dataset(trained: Trained) -> Dataset | None:
    """The data that a run was trained on; none where they are not known, or not there any more."""
    if trained.imported:
        return None
    with suppress(ConfigError, DataError, OSError):
        return trained.dataset if trained.dataset.text_fingerprint == trained.record.get("text") else None
    return None


def rows_scored(trained: Trained, texts: Iterable[Example], split: str | None = None) -> Finding:
    """Whether the rows that are scored were trained on, or chose something; of a split, or of a file."""
    own = TrainedText("", unread=Unread.PUBLISHED)
    if not trained.imported:
        fingerprint = trained.record.get("text", "")
        own = text_of_run("", trained.config, fingerprint, trained.cache)
    metric = trained.config.training.deciding(trained.task.metrics)
    large = split is not None and own.unread is Unread.LARGE  # whose splits were compared as they were read
    return identify(
        texts,
        trained.dataset if large else own.dataset,
        split=split,
        chosen=chosen_on_dev(trained.folder, metric, decides=bool(trained.decision)),
        before=tuple(texts_before(trained.config, trained.cache)),
        words=trained.task.predicts_words,
        unread=None if large else own.unread,
    )


def evaluator_of_texts(trained: Trained, texts: Sequence[Example]) -> tuple[Evaluator, Encoding]:
    """How texts are scored that are no split: encoded and batched as those of the run's own splits."""
    config = trained.config
    encoding = ENCODINGS.build(
        config.data.encoding,
        tokenizer=trained.tokenizer,
        length=config.data.length,
        labels=trained.labels.names,
        reader=trained.task.reader,
    )
    rows = in_memory(encoding.rows(texts), vocabulary=trained.tokenizer.size)
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


def other_text(trained: Trained) -> str:
    """What a model can be scored on instead."""
    if not trained.task.predicts_words:
        return "Score rows with labels: --on FILE --label COLUMN."
    sentence = "source => target" if trained.reads_source else "A sentence."
    ways = ["texts with --on FILE"] * trained.continues + ["its own dev split"] * (not trained.imported)
    ways.append(f'sentences with --probe "{sentence}"')
    return f"Score {' or '.join(ways)}."


def evaluate_probes(trained: Trained, sentences: Sequence[str]) -> tuple[ProbeScore, ...]:
    """Each sentence by itself. A masked model gets a pseudo-perplexity, and it is called so."""
    if sentences:
        trained.refuse_headless()
    return tuple(_probe(trained, sentence) for sentence in sentences)


def _probe(trained: Trained, sentence: str) -> ProbeScore:
    if trained.reads_source:
        return _probe_pair(trained, sentence)
    if not trained.task.predicts_words:
        raise ConfigError('This model predicts labels, not words; ask it: attnlab predict RUN "…"')
    words = trained.tokenizer.encode(sentence)
    if not words:
        raise ConfigError(f'The probe "{sentence}" has no text to score.')
    ids = trained.tokenizer.form.single(words)
    if trained.continues:
        losses = strided(trained.model, ids, context=trained.config.longest_text)
    elif trained.fills:
        losses = _pseudo_losses(trained, ids)
    else:
        raise ConfigError(
            "Sentences are scored by causal and masked models, and pairs by an encoder-decoder."
        )
    kind = "perplexity" if trained.continues else "pseudo-perplexity"
    return _probe_score(sentence, losses, kind=kind, unknown=ids.count(trained.unknown_token))


def _probe_pair(trained: Trained, pair: str) -> ProbeScore:
    """A target after its source, written "source => target"; only the target's tokens are scored."""
    source, _, target = (part.strip() for part in pair.partition("=>"))
    if not source or not target:
        raise ConfigError(
            f'The probe "{pair}" has no source or no target, and this model scores one after the other; '
            'write "source => target".'
        )
    tokenizer, (start, stop) = trained.tokenizer, ends(trained.tokenizer)
    read, target_ids = tokenizer.form.single(tokenizer.encode(source)), tokenizer.encode(target)
    longest, most = max(len(read), len(target_ids) + 1), trained.config.longest_text
    if longest > most:
        raise ConfigError(f"A probe of {longest} tokens is longer than the {most} that this model reads.")
    losses = answer_losses(trained.model, read, [start, *target_ids, stop])
    return _probe_score(pair, losses, kind="perplexity", unknown=target_ids.count(trained.unknown_token))


def _probe_score(text: str, losses: Sequence[float], *, kind: str, unknown: int) -> ProbeScore:
    score = Score(math.fsum(losses), len(losses))
    return ProbeScore(text, score.loss, score.perplexity, kind, score.tokens, unknown)


def _pseudo_losses(trained: Trained, ids: Sequence[int]) -> list[float]:
    """Of the words of a text; what stands round every text is no word."""
    form, mask = trained.tokenizer.form, trained.tokenizer.specials.mask
    assert mask is not None
    length = trained.config.longest_text
    if len(ids) > length:
        raise ConfigError(f"A text of {len(ids)} tokens is longer than the {length} that this model reads.")
    return pseudo_losses(trained.model, ids, mask=mask, but={*form.before, *form.end})


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
