"""A trained model's scores, each with its definition and its denominator."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnlab.config.streams import stream_seed
from attnlab.config.values import ConfigError
from attnlab.data.dataset import Dataset
from attnlab.evaluation.documents import Documents, document_losses
from attnlab.evaluation.perplexity import Score, honesty, pseudo_losses, strided
from attnlab.evaluation.statistics import loss_interval
from attnlab.experiment.run import default_cache
from attnlab.experiment.trained import Trained
from attnlab.model.heads.language import LanguageModel
from attnlab.model.masks import asks_for_source, incremental
from attnlab.objectives import OBJECTIVES
from attnlab.objectives.vocabulary import Vocabulary

DEFINITIONS = {
    "loss": "nats a target token, over all targets",
    "perplexity": "e^loss over all targets; not a mean of texts",
    "bits_per_byte": "bits a byte of UTF-8 text; survives a change of tokenizer",
    "targets": "tokens that were predicted",
    "texts": "texts scored; intervals are over others like them",
}
MASKED = {
    "loss": "nats a hidden token, many hidden at once",
    "perplexity": "e^loss of hidden tokens; not of a text: see pseudo-perplexity",
    "targets": "tokens that were hidden and predicted",
}


def of_split(trained: Trained, split: str, *, rows: int) -> dict[str, Any]:
    """The objective's own loss over a split with its interval over texts; and on a sample of rows the
    honest one for causal models, the pseudo-perplexity for masked ones."""
    config = trained.config
    dataset = Dataset(config.data, cache=default_cache())
    if split not in dataset.splits.names:
        raise ConfigError(f'This corpus has no split "{split}"; it has {", ".join(dataset.splits.names)}.')
    if dataset.tokenizer.fingerprint != trained.tokenizer.fingerprint:
        raise ConfigError(
            f"The corpus of {trained.folder} gives another tokenizer than the run's own: its text has "
            "changed since. Restore it, or score another text with --on FILE."
        )
    objective = OBJECTIVES.build(config.objective, vocabulary=Vocabulary.of(trained.tokenizer))
    seed = config.data.split_seed
    loader = dataset.loader(split, seed=stream_seed(seed, "evaluation"))
    device = torch.device("cpu")
    found = document_losses(trained.model, objective, loader, seed=seed, device=device, autocast=nullcontext)
    result = {
        "name": f"{split} of {config.data.corpus.options.get('path', config.data.corpus.kind)}",
        "fingerprint": dataset.fingerprint(split),
        **measured(found, masked=is_masked(trained)),
    }
    if is_causal(trained):
        result["honesty"] = honest(trained, spread_rows(dataset, split, rows))
    elif is_masked(trained):
        result["pseudo"] = _pseudo(trained, spread_rows(dataset, split, max(rows // 4, 2)))
    return result


def measured(found: Documents, *, masked: bool = False) -> dict[str, Any]:
    """Each measure with its definition, and the 95 % intervals of those that have one."""
    score = found.score
    metrics = [n for n in ("loss", "perplexity", "bits_per_byte") if math.isfinite(getattr(found, n))]
    values: dict[str, float] = {name: getattr(found, name) for name in metrics}
    values |= {name: part / max(1, score.tokens) for name, part in found.parts.items()}
    values |= {"targets": score.tokens, "texts": int((found.targets > 0).sum())}
    definitions = DEFINITIONS | (MASKED if masked else {}) | (sum_of(found.parts) if found.parts else {})
    estimates = {name: loss_interval(found, name) for name in metrics}
    return {
        "measures": [
            (n, v, definitions.get(n, "a part of the loss, nats a target")) for n, v in values.items()
        ],
        "intervals": {n: [e.low, e.high] for n, e in estimates.items() if math.isfinite(e.low)},
    }


def sum_of(parts: Collection[str]) -> dict[str, str]:
    """The definitions of a loss that has several parts."""
    named, first = " + ".join(parts), next(iter(parts))
    return {
        "loss": f"{named}: a sum, nats a hidden token",
        "perplexity": f"e^{first} of hidden tokens; not of a text: see pseudo-perplexity",
    }


def is_masked(trained: Trained) -> bool:
    """Whether the model guesses what is hidden, seeing both sides of it."""
    model, mask = trained.model, trained.tokenizer.specials.mask
    reads = isinstance(model.head, LanguageModel) and model.trunk.decoder is None
    return reads and mask is not None and not asks_for_source(model.trunk.main.mask)


def is_causal(trained: Trained) -> bool:
    """Whether the model writes from left to right, so that parallel and incremental loss must agree."""
    trunk = trained.model.trunk
    alone = trunk.decoder is not None and trunk.encoder is None
    return alone and trained.config.objective.kind == "causal" and incremental(trunk.main.mask)


def spread_rows(dataset: Dataset, split: str, count: int) -> list[list[int]]:
    """Rows evenly spread over a split."""
    held = dataset.rows(split)
    step = max(len(held) // count, 1)
    return [held.ragged("ids", row).tolist() for row in range(0, len(held), step)][:count]


def honest(trained: Trained, rows: list[list[int]]) -> dict[str, Any]:
    """Parallel beside incremental loss, on these rows."""
    found = honesty(trained.model, rows)
    return {
        "usual": found.usual.loss,
        "alone": found.alone.loss,
        "difference": found.difference,
        "interval": list(found.interval),
        "rows": found.rows,
        "sound": found.sound,
        "meaning": found.meaning,
    }


def _pseudo(trained: Trained, rows: list[list[int]]) -> dict[str, Any]:
    nats = [_pseudo_losses(trained, row) for row in rows]
    counts = np.array([len(row) for row in nats])
    found = Documents(np.array([math.fsum(row) for row in nats]), counts, np.zeros_like(counts))
    estimate = loss_interval(found, "perplexity")
    interval = [estimate.low, estimate.high] if math.isfinite(estimate.low) else None
    return {"loss": found.loss, "perplexity": found.perplexity, "interval": interval, "rows": len(rows)}


def of_text(trained: Trained, file: Path) -> dict[str, Any]:
    """A text file as one long text, in windows that overlap by half; every token counts once."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.") from error
    ids = trained.prompt(text)
    if len(ids) < 2:
        raise ConfigError(f"{file} has no text to score.")
    if not is_causal(trained):
        raise ConfigError(
            "Only a causal model gives a text a probability; score this one with --split or --probe."
        )
    losses = strided(trained.model, ids, context=trained.config.model.length)
    score = Score(math.fsum(losses), len(losses), len(text.encode()))
    one = np.array([score.nats]), np.array([score.tokens]), np.array([score.bytes])
    return {"name": str(file), **measured(Documents(*one))}


def of_probes(trained: Trained, sentences: Sequence[str]) -> list[dict[str, Any]]:
    """Each sentence by itself. A masked model gets a pseudo-perplexity, and it is called so."""
    return [_probe(trained, sentence) for sentence in sentences]


def _probe(trained: Trained, sentence: str) -> dict[str, Any]:
    words = trained.tokenizer.encode(sentence)
    if not words:
        raise ConfigError(f'The probe "{sentence}" has no text to score.')
    ids = trained.tokenizer.form.single(words)
    causal = is_causal(trained)
    if causal:
        losses = strided(trained.model, ids, context=trained.config.model.length)
    elif is_masked(trained):
        losses = _pseudo_losses(trained, ids)
    else:
        raise ConfigError("Sentences are scored by causal and masked models; this one needs a source.")
    score = Score(math.fsum(losses), len(losses), len(sentence.encode()))
    return {
        "text": sentence,
        "loss": score.loss,
        "perplexity": score.perplexity,
        "kind": "perplexity" if causal else "pseudo-perplexity",
        "tokens": score.tokens,
        "unknown": sum(token == trained.tokenizer.specials.unknown for token in ids),
    }


def _pseudo_losses(trained: Trained, ids: Sequence[int]) -> list[float]:
    """Of the words of a text; what stands round every text is no word."""
    form, mask = trained.tokenizer.form, trained.tokenizer.specials.mask
    assert mask is not None
    length = trained.config.model.length
    if len(ids) > length:
        raise ConfigError(f"A text of {len(ids)} tokens is longer than the {length} that this model reads.")
    return pseudo_losses(trained.model, ids, mask=mask, but={*form.before, *form.end})
