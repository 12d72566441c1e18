"""Text written by a trained model: after prompts, or for sources where it reads one and writes another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from attnlab.config.memory import refuse_beyond_memory
from attnlab.config.values import ConfigError
from attnlab.generation import DECODING
from attnlab.generation.beam import beam_searches
from attnlab.generation.decoder import Beyond, Decoder, window_start
from attnlab.generation.generate import Written, stream
from attnlab.generation.packed_weights import PackingDifference, by_columns, difference, pack
from attnlab.generation.request import SAMPLED, Request
from attnlab.generation.rules import DecodingRule, Greedy

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

USUAL_LENGTH = 50


def write(trained: Trained, prompts: Sequence[str], request: Request) -> list[Written]:
    """The texts that are wanted after each prompt."""
    texts, tokens = start_writing(trained, prompts, request)
    for _ in tokens:
        pass
    return texts


def start_writing(
    trained: Trained, prompts: Sequence[str], request: Request
) -> tuple[list[Written], Iterator[tuple[int, int]]]:
    """The texts that are wanted after each prompt; they grow as the iterator gives their (row, token)."""
    usual = USUAL_LENGTH if request.beyond == "window" else usual_length(trained, prompts)
    length = request.length or usual
    if request.beam:
        return beams(trained, prompts, request, length=length), iter(())
    rule = DECODING.build(request.rule or SAMPLED) if isinstance(request.rule, str) else request.rule
    _refuse_many(trained, len(prompts) * request.copies, "copies")
    texts = [Written(trained.prompt(prompt)) for prompt in request.repeated(prompts)]
    tokens = stream_tokens(
        trained,
        texts,
        rule=rule,
        length=length,
        stop=request.stop,
        seed=request.seed,
        beyond=request.beyond,
    )
    return texts, tokens


def stream_tokens(
    trained: Trained,
    texts: list[Written],
    *,
    rule: DecodingRule | None = None,
    length: int = USUAL_LENGTH,
    stop: Collection[str] = (),
    seed: int = 0,
    beyond: Beyond = "refuse",
) -> Iterator[tuple[int, int]]:
    """Writes into `texts`, and gives each (row, token) as it comes."""

    def ends(row: int, new: list[int]) -> bool:
        return bool(stop) and any(end in trained.tokenizer.target.decode(new) for end in stop)

    sources = _sources(trained, texts)
    by_columns(trained.model)
    yield from stream(
        trained.model,
        texts,
        rule=rule or Greedy(),
        length=length,
        stop=trained.stop,
        stop_when=ends,
        sources=sources,
        seed=seed,
        context=trained.config.longest_text,
        beyond=beyond,
    )


def beams(trained: Trained, prompts: Sequence[str], request: Request, *, length: int) -> list[Written]:
    """The `copies` most likely texts after each prompt that a beam finds, best first."""
    width = request.beam
    if request.copies > width:
        raise ConfigError(f"A beam of width {width} ends with {width} texts, not {request.copies}; widen it.")
    _refuse_many(
        trained, len(prompts) * min(width, trained.tokenizer.target.size ** min(length, 64)), "the beam"
    )
    texts = [Written(trained.prompt(prompt)) for prompt in prompts]
    sources = _sources(trained, texts)
    by_columns(trained.model)
    searches = beam_searches(
        trained.model,
        [text.prompt for text in texts],
        width=width,
        length=length,
        penalty=request.penalty,
        stop=trained.stop,
        sources=sources,
        context=trained.config.longest_text,
        beyond=request.beyond,
    )
    return [
        Written(text.prompt, hypothesis.new, hypothesis.stopped)
        for text, ended in zip(texts, searches, strict=True)
        for hypothesis in ended[: request.copies]
    ]


@torch.inference_mode()
def pack_weights(trained: Trained, weights: str, prompts: Sequence[str]) -> PackingDifference:
    """Hold the weights in fewer bits from here on: float16 or int8, faster and approximate.

    Gives how far that moves the scores of the token after each of these prompts.
    """
    _ = trained.miswrites  # asked while the weights are exact
    texts = [Written(trained.prompt(prompt)) for prompt in prompts]
    sources, context = _sources(trained, texts), trained.config.longest_text
    windows = [text.prompt[window_start(0, len(text.prompt), context) :] for text in texts]
    exact = Decoder(trained.model, windows, sources=sources).next
    pack(trained.model, weights)
    return difference(exact, Decoder(trained.model, windows, sources=sources).next)


def usual_length(trained: Trained, prompts: Sequence[str]) -> int:
    """How many new tokens to write where nobody says: the usual number, or what the context leaves."""
    longest = 1 if trained.reads_source else max(len(trained.prompt(prompt)) for prompt in prompts)
    return max(min(USUAL_LENGTH, trained.config.longest_text - longest), 1)


def text_of(trained: Trained, written: Written) -> str:
    """What was written after the prompt, with the space between the two where words have one."""
    tokenizer = trained.tokenizer.target
    return tokenizer.written([*written.prompt, *written.new]).removeprefix(tokenizer.written(written.prompt))


def refuse_pictured(trained: Trained) -> None:
    """Text that would be written without the picture that it is to describe."""
    if trained.captions:
        raise ConfigError(
            f"{trained.folder} describes pictures and continues no text; {trained.fitting_command}."
        )


def _refuse_many(trained: Trained, texts: int, what: str) -> None:
    """Stop before more texts are written at once than memory has room for the scores of."""
    work = f"Writing {texts:,} texts at once"
    refuse_beyond_memory(texts * trained.tokenizer.target.size, work, f"lower {what}, or give fewer prompts")


def _sources(trained: Trained, texts: Sequence[Written]) -> list[list[int]] | None:
    """Ready to write. For an encoder-decoder the prompts are what is read, and text is written from the start
    token on."""
    trained.refuse_headless()
    refuse_pictured(trained)
    if not trained.task.predicts_words:
        raise ConfigError(f"This model predicts labels and writes no text; {trained.fitting_command}")
    if not trained.model.writes:
        raise ConfigError(
            "This model reads a whole text and cannot continue one. A masked model fills in: "
            'attnlab generate RUN --fill "The [MASK] sat."'
        )
    if not trained.reads_source:
        return None
    if any(text.prompt == trained.prompt("") for text in texts):
        raise ConfigError(
            "This model generates a target from a source text, and none was given; give one: "
            'attnlab generate RUN "…"'
        )
    sources = [[*text.prompt, *trained.tokenizer.form.end] for text in texts]
    longest, room = max(map(len, sources)), trained.config.longest_text
    if longest > room:
        raise ConfigError(f"A prompt of {longest} tokens is longer than the {room} that this model reads.")
    for text in texts:
        text.prompt = [trained.tokenizer.target.first]
    return sources
