"""Sentences scored by themselves: perplexity, or pseudo-perplexity of masked models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnlab.config.values import ConfigError
from attnlab.data.encode.texts import ends
from attnlab.evaluation.documents import DocumentLosses
from attnlab.evaluation.evaluation_result import ProbeScore, PseudoPerplexity
from attnlab.evaluation.perplexity import Score, answer_losses, pseudo_losses, strided
from attnlab.evaluation.statistics import loss_interval

if TYPE_CHECKING:
    from attnlab.session.trained import Trained


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
        losses = pseudo_losses_of(trained, ids)
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
    tokenizer, (start, stop) = trained.tokenizer, ends(trained.tokenizer.target)
    read, target_ids = tokenizer.form.single(tokenizer.encode(source)), tokenizer.target.encode(target)
    longest, most = max(len(read), len(target_ids) + 1), trained.config.longest_text
    if longest > most:
        raise ConfigError(f"A probe of {longest} tokens is longer than the {most} that this model reads.")
    losses = answer_losses(trained.model, read, [start, *target_ids, stop])
    unknown = [token for token in target_ids if token == tokenizer.target.specials.unknown]
    return _probe_score(pair, losses, kind="perplexity", unknown=len(unknown))


def _probe_score(text: str, losses: Sequence[float], *, kind: str, unknown: int) -> ProbeScore:
    score = Score(math.fsum(losses), len(losses))
    return ProbeScore(text, score.loss, score.perplexity, kind, score.tokens, unknown)


def pseudo_of_rows(trained: Trained, rows: list[list[int]]) -> PseudoPerplexity:
    nats = [pseudo_losses_of(trained, row) for row in rows]
    counts = np.array([len(row) for row in nats])
    losses = DocumentLosses(np.array([math.fsum(row) for row in nats]), counts, np.zeros_like(counts))
    interval = loss_interval(losses, "perplexity").interval
    return PseudoPerplexity(losses.loss, losses.perplexity, interval, len(rows))


def pseudo_losses_of(trained: Trained, ids: Sequence[int]) -> list[float]:
    """Of the words of a text; what stands round every text is no word."""
    form, mask = trained.tokenizer.form, trained.tokenizer.specials.mask
    assert mask is not None
    length = trained.config.longest_text
    if len(ids) > length:
        raise ConfigError(f"A text of {len(ids)} tokens is longer than the {length} that this model reads.")
    return pseudo_losses(trained.model, ids, mask=mask, but={*form.before, *form.end})
