"""Where a tokenizer's special tokens stand round a text, and round two."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import tokenizers as library

from attnlab.data.tokenizers.sized import Sized
from attnlab.data.tokenizers.specials import Specials


@dataclass(frozen=True)
class Form:
    """`before A end` for one text; `before A middle B after` for two, with B's segment id.

    BERT: [CLS] A [SEP] B [SEP] with segments 0 and 1; RoBERTa: <s> A </s></s> B </s>, all 0;
    a tokenizer that adds nothing (GPT-2's): A <stop> B <stop>.
    """

    before: tuple[int, ...]
    end: tuple[int, ...]
    middle: tuple[int, ...]
    middle_types: tuple[int, ...]
    after: tuple[int, ...]
    second_type: int

    @property
    def single_room(self) -> int:
        """How many special tokens stand round one text."""
        return len(self.before) + len(self.end)

    @property
    def pair_room(self) -> int:
        """How many special tokens stand round and between two texts."""
        return len(self.before) + len(self.middle) + len(self.after)

    @functools.cached_property
    def blank(self) -> Form:
        """The same form with 0 for every special token, for a column in which they have nothing."""
        nothing = {name: (0,) * len(getattr(self, name)) for name in ("before", "end", "middle", "after")}
        return replace(self, **nothing)  # type: ignore[arg-type]  # all four are tuples of ids

    def single_sized(self, text: Sized) -> Sized:
        """One text, its special tokens without bytes."""
        return Sized(self.single(text.ids), self.blank.single(text.sizes))

    def pair_sized(self, first: Sized, second: Sized) -> Sized:
        """Two texts, their special tokens without bytes."""
        return Sized(self.pair(first.ids, second.ids), self.blank.pair(first.sizes, second.sizes))

    def single(self, text: Sequence[int]) -> list[int]:
        return [*self.before, *text, *self.end]

    def pair(self, first: Sequence[int], second: Sequence[int]) -> list[int]:
        return [*self.before, *first, *self.middle, *second, *self.after]

    def pair_types(self, first: int, second: int) -> list[int]:
        """Segment ids for a pair of these lengths."""
        head = [0] * (len(self.before) + first)
        return [*head, *self.middle_types, *[self.second_type] * (second + len(self.after))]


def form_of(tokenizer: library.Tokenizer, specials: Specials) -> Form:
    """Read off what the tokenizer's own post-processor does, by trying it on a pair."""
    word = next(w for w in ("a", "the", "0", *tokenizer.get_vocab()) if tokenizer.encode(w).sequence_ids)
    single, pair = tokenizer.encode(word), tokenizer.encode(word, word)
    begin, end = stretch(single, 0)
    before, closing = tuple(single.ids[:begin]), tuple(single.ids[end:])
    _, first_end = stretch(pair, 0)
    second_begin, second_end = stretch(pair, 1)
    middle, after = tuple(pair.ids[first_end:second_begin]), tuple(pair.ids[second_end:])
    types = tuple(pair.type_ids[first_end:second_begin])
    if not before and not closing and specials.stop is not None:
        stop = (specials.stop,)
        return Form((), stop, stop, (0,), stop, 0)
    return Form(before, closing, middle, types, after, pair.type_ids[second_begin])


def stretch(encoding: library.Encoding, sequence: int) -> tuple[int, int]:
    """From where to where the tokens of one of the two texts go."""
    places = [i for i, s in enumerate(encoding.sequence_ids) if s == sequence]
    return places[0], places[-1] + 1
