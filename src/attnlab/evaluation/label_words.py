"""Classes scored by the probability of their words in a text: a baseline that needs no training."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from string import Formatter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.config.values import ConfigError
from attnlab.data.example import Example
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.generation.decoder import padded
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens

TEMPLATE, OF_PAIRS = "{text} Label: {label}", "{text} {pair} Label: {label}"


class NoRoomError(ConfigError):
    """A template and its words are as long as what the model reads."""


SPARE = 4
"""Tokens left free where a text is cut: with the words round it, its last ones may be tokenised otherwise."""


@dataclass(frozen=True)
class Asked:
    """One row of ids that a model reads, and the `tokens` whose probability is asked at `places`."""

    text: int
    label: int
    ids: tuple[int, ...]
    places: tuple[int, ...]
    tokens: tuple[int, ...]


def names_in(template: str) -> set[str]:
    """What stands in the braces of a template: names, which are refused later with whatever follows them."""
    try:
        parts = [part for part in Formatter().parse(template) if part[1] is not None]
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f'The template "{template}" cannot be read ({error}); write {{text}} and {{label}}, and {{{{ or '
            "}} for a brace that stands for itself."
        ) from error
    return {f"{name}{'!' * bool(how)}{how or ''}{':' * bool(form)}{form}" for _, name, form, how in parts}


@dataclass(frozen=True)
class LabelWords:
    """Scores classes by the probability that a language model gives their words, as a template puts them.

    A decoder is asked for the words after the text, a masked model for all of their tokens where masks stand.
    The word of a class is its name, unless `words` has another. A text too long for `length` loses its end.
    """

    model: Model
    tokenizer: Tokenizer
    length: int
    names: tuple[str, ...]
    template: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    pairs: bool = False

    def __post_init__(self) -> None:
        if not can_score_words(self.model, self.tokenizer):
            raise ConfigError("Label words are for decoders and masked language models; this is neither.")
        if strange := sorted(self.words.keys() - set(self.names)):
            known = ", ".join(self.names)
            raise ConfigError(f'There is a label word for "{strange[0]}", and the classes are {known}.')
        if not self.names:
            raise ConfigError("There are no labels to choose from; give at least one.")
        asked = names_in(self.form)
        needed = {"text", "label"} | ({"pair"} if self.pairs else set())
        if asked != needed or self.form.count("{label}") != 1:
            wanted = ", ".join(f"{{{name}}}" for name in sorted(needed))
            raise ConfigError(f'The template "{self.form}" must hold {wanted}, each once, and no other name.')
        if self.model.writes and self.after:
            raise ConfigError(
                f'In the template "{self.form}" text follows {{label}}, and a decoder reads only what stands '
                "before; end it with {label}."
            )

    @property
    def form(self) -> str:
        """The template, or the usual one."""
        return self.template or (OF_PAIRS if self.pairs else TEMPLATE)

    @property
    def after(self) -> str:
        """What of the template follows the label."""
        return self.form.partition("{label}")[2]

    @torch.inference_mode()
    def probabilities(self, examples: Sequence[Example], *, batch_size: int = 32) -> NDArray[np.float64]:
        """(n,C) those of the classes' words, so scaled that they sum to 1."""
        rows: dict[tuple[int, ...], list[Asked]] = defaultdict(list)  # classes of one token share theirs
        for query in self._asked(examples):
            rows[query.ids].append(query)
        order = sorted(rows, key=len)  # alike in length, little padding
        scores = torch.zeros(len(examples), len(self.names), dtype=torch.float64)
        for first in range(0, len(order), batch_size):
            self._add(scores, [rows[ids] for ids in order[first : first + batch_size]])
        return scores.softmax(-1).numpy()

    def _add(self, scores: Tensor, rows: list[list[Asked]]) -> None:
        """The logarithms of the probabilities that are asked of these rows, added up for each class."""
        ids, real = padded([asked[0].ids for asked in rows], side="right")
        wanted = sorted(
            {(line, at) for line, asked in enumerate(rows) for query in asked for at in query.places}
        )
        number = {where: n for n, where in enumerate(wanted)}
        lines, places = (torch.tensor(part) for part in zip(*wanted, strict=True))
        tokens = Tokens.of(ids.shape[1], real=real)
        answers: Tensor = self.model.eval()(ids, tokens, places=(lines, places))
        chances = answers.double().log_softmax(-1)
        for line, asked in enumerate(rows):
            for query in asked:
                asked_rows = [number[line, at] for at in query.places]
                scores[query.text, query.label] = chances[asked_rows, list(query.tokens)].sum()

    def _asked(self, examples: Sequence[Example]) -> Iterator[Asked]:
        for number, example in enumerate(examples):
            variants = self._tokenised(example)
            shared, closing = self._shared(variants)
            for label, ids in enumerate(variants):
                words = tuple(ids[shared : len(ids) - closing])
                yield self._row(number, label, ids, words, shared)

    def _row(self, number: int, label: int, ids: list[int], words: tuple[int, ...], shared: int) -> Asked:
        before, end = self.tokenizer.form.before, self.tokenizer.form.end
        first = len(before) + shared
        if self.model.writes:  # each token is predicted at the place before its own
            row = (*before, *ids[: shared + len(words) - 1])
            places = range(first - 1, first - 1 + len(words))
        else:
            mask = self.tokenizer.specials.mask
            assert mask is not None
            hidden = [*ids[:shared], *[mask] * len(words), *ids[shared + len(words) :]]
            row, places = (*before, *hidden, *end), range(first, first + len(words))
        return Asked(number, label, row, tuple(places), words)

    def _shared(self, variants: Sequence[Sequence[int]]) -> tuple[int, int]:
        """How many tokens stand before the words of every class, and how many after them."""
        shortest = min(map(len, variants))
        closing = 0
        if self.after:
            most = min(len(self.tokenizer.encode(self.after)), shortest - 1)
            closing = _alike([ids[::-1] for ids in variants], most)
        shared = _alike(variants, shortest - closing - 1)
        least = 0 if self.tokenizer.form.before or not self.model.writes else 1
        return max(shared, least), closing

    def _tokenised(self, example: Example) -> list[list[int]]:
        """The ids of the template with each class's word, the text cut where they would be too many."""
        room = self.length - self.tokenizer.form.single_room
        parts = {"text": example.text, "pair": example.pair or ""}
        while True:
            words = (self.words.get(name, name) for name in self.names)
            encoded = self.tokenizer.encode_many([self._filled(parts, word) for word in words])
            over = max(map(len, encoded)) - room
            if over <= 0:
                return encoded
            longest = max(parts, key=lambda part: len(parts[part]))
            parts[longest] = self._cut(parts[longest], over)

    def _filled(self, parts: Mapping[str, str], word: str) -> str:
        return self.form.format(
            label=word, **{name: parts[name] for name in parts if f"{{{name}}}" in self.form}
        )

    def _cut(self, text: str, over: int) -> str:
        (encoded,) = self.tokenizer.encode_with_offsets([text])
        kept = len(encoded.ids) - over - SPARE
        if kept <= 0:
            raise NoRoomError(
                f'The template "{self.form}" leaves no room for text in {self.length} tokens; '
                "shorten it, or the label words."
            )
        return text[: encoded.offsets[kept - 1][1]]


def can_score_words(model: Model, tokenizer: Tokenizer) -> bool:
    """Whether a model gives the words of a text a probability: a decoder, or one that fills in."""
    if not model.head.scores_words or model.trunk.reads_source or model.trunk.asks_for_source:
        return False
    return model.writes or tokenizer.specials.mask is not None


def _alike(rows: Sequence[Sequence[int]], most: int) -> int:
    """How many tokens all rows begin with alike, at most so many."""
    columns = zip(*rows, strict=False)
    return min(most, sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns)))
