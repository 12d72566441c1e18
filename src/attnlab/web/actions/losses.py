"""Where a model is surprised: the loss of each token of a text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnlab.config.values import ConfigError
from attnlab.data.inspection import shown
from attnlab.evaluation.perplexity import Score, strided
from attnlab.session.sentence_probes import pseudo_losses_of
from attnlab.web.actions import Answer
from attnlab.web.worker_request import WorkerRequest

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

MOST_TOKENS = 4096
KINDS = {
    True: "Loss of each token after those before it, in nats. The first token of a text has none where "
    "nothing stands before it.",
    False: "Loss of each token with that token alone masked, in nats: a pseudo-loss, and no probability of "
    "the text.",
}


@dataclass(frozen=True)
class LossValues:
    text: str


def losses(asked: WorkerRequest) -> Answer:
    values, trained = asked.read(LossValues), asked.trained
    trained.refuse_headless()
    if not trained.continues and not trained.fills:
        raise ConfigError(f"This model gives a text no probability; {trained.fitting_command}")
    tokenizer, text = trained.tokenizer, values.text
    (encoding,) = tokenizer.encode_with_offsets([text])
    if not encoding.ids:
        raise ConfigError("The text has no tokens; give some text.")
    if len(encoding.ids) > MOST_TOKENS:
        raise ConfigError(
            f"The text has {len(encoding.ids):,} tokens; the page colours at most {MOST_TOKENS:,}. Score "
            "longer ones with attnlab evaluate RUN --on FILE."
        )
    ends = list(tokenizer.form.end) if trained.continues else []
    places = [*encoding.offsets, *[(len(text), len(text))] * len(ends)]
    nats = token_nats(trained, encoding.ids)
    ids = [*encoding.ids, *ends]
    tokens = [
        {
            "start": start,
            "end": end,
            "text": shown(tokenizer, token) if start == end else text[start:end],
            "name": shown(tokenizer, token),
            "piece": piece,
            "loss": loss,
            "probability": probability(loss),
        }
        for token, (start, end), piece, loss in zip(ids, places, pieces(places), nats, strict=True)
    ]
    return {"tokens": tokens, **summary(text, places, nats), "note": KINDS[trained.continues]}


def pieces(places: list[tuple[int, int]]) -> list[int]:
    """Of each token the number of the piece of text that it is of: one character may be several tokens, each
    a byte of it."""
    numbers, reached = list[int](), -1
    for start, end in places:
        numbers.append((numbers[-1] if numbers else -1) + (start >= reached))
        reached = max(reached, end)
    return numbers


def token_nats(trained: Trained, ids: list[int]) -> list[float | None]:
    """Of each token of the text, and of what ends it where the model says that; None of one that has nothing
    before it."""
    form = trained.tokenizer.form
    row = form.single(ids)
    if not trained.continues:
        special = {*form.before, *form.end}
        nats = iter(pseudo_losses_of(trained, row))
        return [None if token in special else next(nats) for token in ids]
    every = [None, *strided(trained.model, row, context=trained.config.longest_text)]
    return every[len(form.before) :]


def probability(loss: float | None) -> float | None:
    return None if loss is None else math.exp(-loss)


def summary(text: str, offsets: list[tuple[int, int]], nats: list[float | None]) -> Answer:
    """Over the tokens that have a loss, and the bytes of text that they stand for."""
    scored = [(place, loss) for place, loss in enumerate(nats) if loss is not None]
    if not scored:
        return {"loss": None, "perplexity": None, "bits_per_byte": None, "scored": 0}
    begin = 0 if scored[0][0] == 0 else offsets[scored[0][0] - 1][1]
    size = len(text[begin:].encode())
    score = Score(math.fsum(loss for _, loss in scored), len(scored), size)
    return {
        "loss": score.loss,
        "perplexity": score.perplexity,
        "bits_per_byte": score.bits_per_byte if size else None,
        "scored": len(scored),
    }
