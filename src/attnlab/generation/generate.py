"""Text, token by token."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from attnlab.generation.decoder import Decoder
from attnlab.generation.rules import Chance, DecodingRule, Greedy
from attnlab.model.model import Model

Beyond = Literal["refuse", "window"]
StopWhen = Callable[[int, list[int]], bool]
"""(row, its new tokens so far) -> whether to stop there, as for a stop string."""


@dataclass
class Written:
    """What was written after one prompt."""

    prompt: list[int]
    new: list[int] = field(default_factory=list)
    stopped: bool = False  # by a stop token or a stop string, not by the length


def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    *,
    rule: DecodingRule | None = None,
    length: int = 100,
    stop: Collection[int] = (),
    stop_when: StopWhen = lambda row, new: False,
    sources: Sequence[Sequence[int]] | None = None,
    seed: int = 0,
    context: int | None = None,
    beyond: Beyond = "refuse",
) -> list[Written]:
    """Up to `length` new tokens after each prompt, all at once; the text is that of one by one."""
    texts = [Written(list(prompt)) for prompt in prompts]
    for _ in stream(
        model,
        texts,
        rule=rule or Greedy(),
        length=length,
        stop=stop,
        stop_when=stop_when,
        sources=sources,
        seed=seed,
        context=context,
        beyond=beyond,
    ):
        pass
    return texts


@torch.no_grad()
def stream(
    model: Model,
    texts: list[Written],
    *,
    rule: DecodingRule,
    length: int,
    stop: Collection[int] = (),
    stop_when: StopWhen = lambda row, new: False,
    sources: Sequence[Sequence[int]] | None = None,
    seed: int = 0,
    context: int | None = None,
    beyond: Beyond = "refuse",
) -> Iterator[tuple[int, int]]:
    """Writes into `texts`, and gives each (row, token) as it is chosen; the stop token is not text."""
    _check_length(texts, length, context, beyond)
    model.eval()
    chance = Chance([text.prompt for text in texts], seed)
    decoder = Decoder(model, [text.prompt for text in texts], sources=sources)
    said = _said(texts, decoder.next)
    done = [length == 0] * len(texts)
    for step in range(length):
        logits = rule.adjusted(decoder.next, said)
        chosen = rule.choose(logits, chance.draws(step).to(logits.device))
        said.scatter_(1, chosen[:, None], True)
        for row, token in enumerate(chosen.tolist()):
            if done[row]:
                continue
            if token in stop:
                texts[row].stopped = done[row] = True
                continue
            texts[row].new.append(token)
            yield row, token
            if stop_when(row, texts[row].new):
                texts[row].stopped = done[row] = True
        if all(done) or step == length - 1:
            return
        if context is not None and decoder.length >= context:
            decoder = Decoder(model, _window(texts, context), sources=sources)
        else:
            decoder.step(chosen)


def _check_length(texts: list[Written], length: int, context: int | None, beyond: Beyond) -> None:
    if context is None or beyond == "window":
        return
    longest = max((len(text.prompt) for text in texts), default=0)
    if longest + length > context:
        raise ValueError(
            f"A prompt of {longest} tokens and {length} new ones make {longest + length}, and this model was "
            f"trained on {context}: what it would write beyond means nothing. Ask for at most "
            f"{max(context - longest, 0)} new tokens, or let it forget the beginning (beyond=window)."
        )


def _window(texts: list[Written], context: int) -> list[list[int]]:
    """The last half of the context, to be read anew: what stands before it is forgotten."""
    return [(text.prompt + text.new)[-max(context // 2, 1) :] for text in texts]


def _said(texts: list[Written], logits: Tensor) -> Tensor:
    said = torch.zeros(len(texts), logits.shape[-1], dtype=torch.bool, device=logits.device)
    for row, text in enumerate(texts):
        said[row, torch.tensor(text.prompt, device=logits.device)] = True
    return said
