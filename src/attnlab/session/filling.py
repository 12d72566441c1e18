"""What a masked model puts where a word is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from attnlab.config.values import ConfigError
from attnlab.evaluation.perplexity import seen_whole

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

Places = list[list[tuple[str, float]]]
"""For each masked place the most likely words with their probabilities, the best first."""


@torch.inference_mode()
def places(trained: Trained, text: str, *, top: int) -> Places:
    """The `top` words of each masked place. A token that stands for no text is none of them."""
    trained.refuse_headless()
    mask, tokenizer = mask_of(trained), trained.tokenizer
    ids = tokenizer.form.single(tokenizer.encode(with_mask(trained, text), specials=True))
    masked = [place for place, token in enumerate(ids) if token == mask]
    if not masked:
        raise ConfigError("The text has nothing to fill in; write [MASK] where a word is missing.")
    if len(ids) > trained.config.longest_text:
        raise ConfigError(
            f"The text has {len(ids)} tokens, and this model reads at most {trained.config.longest_text}: "
            "give the sentence round the [MASK] alone."
        )
    scores = trained.model.eval()(torch.tensor([ids]), seen_whole(trained.model, len(ids)))
    chances = scores[0, masked].softmax(-1)[:, : tokenizer.size]
    chances[:, sorted(tokenizer.special_ids)] = -1.0
    best = chances.topk(min(top, tokenizer.size - len(tokenizer.special_ids)))
    return [
        [(tokenizer.decode([token], specials=True), p) for token, p in zip(tokens, values, strict=True)]
        for tokens, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def sentence(trained: Trained, text: str, places: Places) -> str:
    """The text with the best word in each place."""
    first, *rest = with_mask(trained, text).split(mask_text(trained))
    return first + "".join(f"{place[0][0].strip()}{after}" for place, after in zip(places, rest, strict=True))


def with_mask(trained: Trained, text: str) -> str:
    return text.replace("[MASK]", mask_text(trained))


def mask_text(trained: Trained) -> str:
    return trained.tokenizer.token(mask_of(trained))


def mask_of(trained: Trained) -> int:
    """The token that stands for what is missing, of a model that was trained to say what it was."""
    mask = trained.tokenizer.specials.mask
    if mask is None or not trained.fills:
        raise ConfigError("Only a masked language model can fill in [MASK]; give this one a prompt instead.")
    return mask
