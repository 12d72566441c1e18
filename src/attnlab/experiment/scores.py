"""A trained model's scores, each with its definition and its denominator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from attnlab.config.streams import stream_seed
from attnlab.config.values import ConfigError
from attnlab.data.dataset import Dataset
from attnlab.evaluation.perplexity import Score, honesty, pseudo_losses, strided, token_losses
from attnlab.experiment.run import default_cache
from attnlab.experiment.trained import Trained
from attnlab.model.masks import incremental
from attnlab.objectives import OBJECTIVES
from attnlab.objectives.vocabulary import Vocabulary
from attnlab.training.evaluate import evaluate

DEFINITIONS = {
    "loss": "nats a target token, over all targets",
    "perplexity": "e^loss, over the whole split; not a mean of sentences",
    "bits_per_byte": "bits a byte of UTF-8 text; survives a change of tokenizer",
    "targets": "tokens that were predicted",
}


def of_split(trained: Trained, split: str, *, rows: int) -> dict[str, Any]:
    """The objective's own loss over a split, and for causal models the honest one on a sample."""
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
    found = evaluate(
        trained.model, objective, loader, batches="all", seed=seed, device=device, autocast=nullcontext
    )
    values = {"loss": found.loss, **found.scores}
    result: dict[str, Any] = {
        "name": f"{split} of {config.data.corpus.options.get('path', config.data.corpus.kind)}",
        "fingerprint": dataset.fingerprint(split),
        "measures": [
            (n, v, DEFINITIONS.get(n, "a part of the loss, nats a target")) for n, v in values.items()
        ],
    }
    if is_causal(trained):
        result["honesty"] = honest(trained, dataset, split, rows)
    return result


def is_causal(trained: Trained) -> bool:
    """Whether the model writes from left to right, so that parallel and incremental loss must agree."""
    trunk = trained.model.trunk
    alone = trunk.decoder is not None and trunk.encoder is None
    return alone and trained.config.objective.kind == "causal" and incremental(trunk.main.mask)


def honest(trained: Trained, dataset: Dataset, split: str, rows: int) -> dict[str, Any]:
    """Parallel beside incremental loss, on rows spread over the split."""
    held = dataset.rows(split)
    step = max(len(held) // rows, 1)
    sample = [held.ragged("ids", row).tolist() for row in range(0, len(held), step)][:rows]
    found = honesty(trained.model, sample)
    return {
        "usual": found.usual.loss,
        "alone": found.alone.loss,
        "difference": found.difference,
        "interval": list(found.interval),
        "rows": found.rows,
        "sound": found.sound,
        "meaning": found.meaning,
    }


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
    values = {"loss": score.loss, "perplexity": score.perplexity, "bits_per_byte": score.bits_per_byte}
    measures: list[tuple[str, float, str]] = [(n, v, DEFINITIONS[n]) for n, v in values.items()]
    return {"name": str(file), "measures": [*measures, ("targets", score.tokens, DEFINITIONS["targets"])]}


def of_probes(trained: Trained, sentences: Sequence[str]) -> list[dict[str, Any]]:
    """Each sentence by itself. A masked model gets a pseudo-perplexity, and it is called so."""
    return [_probe(trained, sentence) for sentence in sentences]


def _probe(trained: Trained, sentence: str) -> dict[str, Any]:
    ids = trained.tokenizer.form.single(trained.tokenizer.encode(sentence))
    mask = trained.tokenizer.specials.mask
    causal = is_causal(trained)
    if causal:
        losses = token_losses(trained.model, torch.tensor([ids]))[0].tolist()
    elif mask is not None and trained.model.trunk.decoder is None:
        losses = pseudo_losses(trained.model, ids, mask=mask)
    else:
        raise ConfigError("Sentences are scored by causal and masked models; this one needs a source.")
    score = Score(math.fsum(losses), len(losses), len(sentence.encode()))
    kind = "perplexity" if causal else "pseudo-perplexity"
    return {
        "text": sentence,
        "loss": score.loss,
        "perplexity": score.perplexity,
        "kind": kind,
        "tokens": score.tokens,
        "unknown": sum(token == trained.tokenizer.specials.unknown for token in ids),
    }
