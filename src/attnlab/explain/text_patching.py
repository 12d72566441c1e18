"""What of a text decides the output: hidden states of one text, put into another of the same length. Of an
encoder-decoder the texts are sources, under one target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.config.wording import count_of
from attnlab.explain.ablation import divergences, repeated_row, row_by_row
from attnlab.explain.attention_maps import RowOfText
from attnlab.model.capture import capture, patch
from attnlab.model.heads.head import Head
from attnlab.model.isolation import undisturbed
from attnlab.model.model import Model
from attnlab.model.places import places_of
from attnlab.model.tokens import Tokens

LONGEST = 128
"""Tokens of a text: each is patched at each layer, which is a forward of its own."""
ALIKE = 1e-9
"""How far two outputs are apart at the least, for a share of the way to mean something."""
WORDS = (
    "share of the way to the first text's prediction of the word after token {at} ({word}): 1 − KL(first ‖ "
    "patched) / KL(first ‖ second)"
)
WRITTEN = (
    "share of the way to what is written for the first text after token {at} of the target ({word}): 1 − "
    "KL(first ‖ patched) / KL(first ‖ second)"
)
OUTPUTS = "share of the way to the first text's output: 1 − |first − patched| / |first − second|"


@dataclass(frozen=True)
class TextPatching:
    """How far the output goes from the second text's (0) to the first one's (1) with the first one's states.

    `hidden` (L+1,T): at one place of the embedding or of the stream after a layer; `heads` (L,H): of one head
    at all places, where there is attention.
    """

    first: Sequence[str]
    second: Sequence[str]
    layers: Sequence[str]
    hidden: Sequence[Sequence[float]]
    heads: Sequence[Sequence[float]]
    measure: str
    apart: float
    """How far the two outputs are from each other, in `unit`."""
    unit: str
    at: int
    target: Sequence[str] = ()
    """What an encoder-decoder had written, of both texts the same."""

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


def patch_texts(model: Model, first: RowOfText, second: RowOfText, *, at: int | None = None) -> TextPatching:
    """Patch the states of the first text into the second, place by place and head by head; of a model of
    words what it says after token `at` is looked at: the last, and of a target where it says most unlike
    things, unless somebody says."""
    sources = model.trunk.reads_source
    texts = (first.source_words, second.source_words) if sources else (first.words, second.words)
    refuse_unequal(*texts)
    side = "encoder." if sources else ""
    streams, heads = stream_places(model, side), head_places(model, side)
    with undisturbed(model):
        if at is None:
            at = most_unlike(model, first, second) if sources else -1
        place = at % len(first.words) if -len(first.words) <= at < len(first.words) else None
        if place is None:
            raise ConfigError(f"There is no token {at}: they are 0 to {len(first.words) - 1}.")
        with capture(model, *streams, *heads) as seen:
            wanted = outputs(model, first.inputs, 1, place)
        usual = outputs(model, second.inputs, 1, place)
        compare = OutputWay(model.head.scores_words, wanted[0], usual[0])

        def shares(name: str, change: Any, rows: int) -> list[float]:
            return patched_each(model, second.inputs, name, change, rows, place, compare)

        hidden = [shares(name, placewise(seen[name]), len(texts[0])) for name in streams]
        of_heads = [shares(name, headwise(seen[name]), seen[name].shape[1]) for name in heads]
    of_words = WRITTEN if sources else WORDS
    measure = of_words.format(at=place, word=second.words[place]) if compare.of_words else OUTPUTS
    return TextPatching(
        first=texts[0],
        second=texts[1],
        layers=["embedding", *(f"layer {number}" for number in range(len(streams) - 1))],
        hidden=hidden,
        heads=of_heads,
        measure=measure,
        apart=compare.apart,
        unit="nats" if compare.of_words else "",
        at=place,
        target=first.words if sources else (),
    )


def most_unlike(model: Model, first: RowOfText, second: RowOfText) -> int:
    """Where in one target two sources make a model say most unlike things."""
    (of_first, *_), (of_second, *_) = (row_scores(model, row) for row in (first, second))
    return int(divergences(of_first, of_second).argmax())


def row_scores(model: Model, row: RowOfText) -> list[Tensor]:
    """The scores (T,V) of one row."""
    scores: list[Tensor] = model(**repeated_row(row.inputs, 1), objective=row_by_row)
    return scores


def refuse_unequal(first: Sequence[str], second: Sequence[str]) -> None:
    if len(first) != len(second):
        raise ConfigError(
            f"The first text has {len(first)} tokens and the second {len(second)}: states are patched place "
            "by place, which needs the same number. Change a word for one of as many tokens."
        )
    if len(first) > LONGEST:
        raise ConfigError(
            f"The texts have {len(first)} tokens; at most {count_of(LONGEST, 'token')} are patched."
        )


def stream_places(model: Model, side: str = "") -> list[str]:
    """The stream before the first layer, and after each."""
    named = [name for name in places_of(model.trunk) if fnmatchcase(name, f"{side}layers.*.output")]
    return [f"{side}embedding", *(name for name in named if name.removeprefix(side).count(".") == 2)]


def head_places(model: Model, side: str = "") -> list[str]:
    return [name for name in places_of(model.trunk) if fnmatchcase(name, f"{side}layers.*.heads")]


def placewise(state: Tensor) -> Any:
    """The change of rows (T,T,D) that gives row n the state (1,T,D) at its place n."""
    chosen = torch.eye(state.shape[1], dtype=torch.bool, device=state.device)[:, :, None]
    return lambda value: torch.where(chosen, state, value)


def headwise(state: Tensor) -> Any:
    """The change of rows (H,H,T,K) that gives row n the state (1,H,T,K) of head n."""
    chosen = torch.eye(state.shape[1], dtype=torch.bool, device=state.device)[:, :, None, None]
    return lambda value: torch.where(chosen, state, value)


def patched_each(
    model: Model,
    inputs: Mapping[str, Any],
    name: str,
    change: Any,
    rows: int,
    at: int,
    compare: OutputWay,
) -> list[float]:
    """How far each of the rows goes, which are changed at one place of the model."""
    with patch(model, {name: change}):
        return [compare.share(output) for output in outputs(model, inputs, rows, at)]


def outputs(model: Model, inputs: Mapping[str, Any], rows: int, at: int) -> list[Tensor]:
    """The scores of each row: of words those after one token, else all of them."""

    def scores(head: Head, hidden: Tensor, tokens: Tokens, *, training: bool) -> list[Tensor]:
        if head.scores_words:
            return list(head(hidden[:, at : at + 1], tokens))
        return [head(row[None], tokens)[0] for row in hidden]

    found: list[Tensor] = model(**repeated_row(inputs, rows), objective=scores)
    return found


class OutputWay:
    """How far an output is from one text's (0) to the other's (1)."""

    def __init__(self, of_words: bool, wanted: Tensor, usual: Tensor):
        self.of_words, self.wanted = of_words, wanted
        self.apart = self._distance(usual)
        if not self.apart > ALIKE:
            raise ConfigError(
                "Both texts have the same output at this token, so that no patch can change it. Look at an "
                "earlier one, or change another word."
            )

    def share(self, output: Tensor) -> float:
        return 1 - self._distance(output) / self.apart

    def _distance(self, output: Tensor) -> float:
        if self.of_words:
            return float(divergences(self.wanted, output).mean())
        return float((self.wanted.double() - output.double()).norm())
