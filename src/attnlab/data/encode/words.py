from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import takewhile

from attnlab.config.ranges import Whole
from attnlab.data.columns import Row
from attnlab.data.encode.encoding import Encoding, windows
from attnlab.data.example import Example, Word, words_in
from attnlab.data.labels import WRITTEN, LabelReader
from attnlab.data.tokenizers.sized import Sized, sized
from attnlab.data.tokenizers.tokenizer import Tokenizer

NO_WORD, NO_TAG = -1, -100


class Words(Encoding):
    """One text, with the word that each token belongs to, and that word's tag at its first token.

    Words are those of the data (CoNLL's lines, the tokens of .jsonl, or letters and signs apart in a text
    with spans); a token belongs to the word in which it begins. Text beyond the length is read in several
    rows: windows that overlap by `overlap` tokens, or by half a row where that is less. A word is labelled in
    one of them, the one that shows most of the text on its shorter side; in others it is context alone.
    """

    labelled = True

    def __init__(
        self,
        tokenizer: Tokenizer,
        length: int,
        labels: Sequence[str] = (),
        reader: LabelReader = WRITTEN,
        *,
        overlap: Whole = 64,
    ):
        super().__init__(tokenizer, length, labels, reader)
        self.overlap = overlap

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        room = self.room(self.tokenizer.form.single_room)
        for number, encoding in enumerate(self.tokenizer.encode_with_offsets([e.text for e in chunk])):
            example = chunk[number]
            words = example.words or words_in(example.text)
            owners = owners_of(words, encoding.offsets, example.text)
            tokens = sized(example.text, encoding.ids, (end for _, end in encoding.offsets))
            self.cuts.count(len(tokens), 0)
            parts = list(windows(len(tokens), room, min(self.overlap, room // 2)))
            tags = [self._known.number(word.tag, example.place) for word in words] if self.labels else None
            for (begin, end), labelled in zip(parts, shared_out(owners, parts), strict=True):
                yield self._row(tokens[begin:end], labelled, tags, first + number)

    def _row(self, tokens: Sized, owners: list[int], tags: list[int] | None, number: int) -> Row:
        form = self.tokenizer.form
        whole = form.single_sized(tokens)
        words = [*[NO_WORD] * len(form.before), *owners, *[NO_WORD] * len(form.end)]
        row_tags = None if tags is None else _at_first_tokens(words, tags)
        return Row(whole.ids, number, whole.sizes, words=words, tags=row_tags)


def _at_first_tokens(owners: Sequence[int], tags: Sequence[int]) -> list[int]:
    """The number of each word's tag at its first token."""
    placed, seen = [NO_TAG] * len(owners), {NO_WORD}
    for place, word in enumerate(owners):
        if word not in seen:
            seen.add(word)
            placed[place] = tags[word]
    return placed


def shared_out(owners: Sequence[int], parts: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The words of each window's tokens, those left out that another window labels: every word that has a
    token is in one window alone."""
    if len(parts) == 1:
        return [list(owners)]
    spans: dict[int, tuple[int, int]] = {}
    for place, word in enumerate(owners):
        spans[word] = spans.get(word, (place, place))[0], place + 1
    chosen = {word: _best_window(span, parts, len(owners)) for word, span in spans.items() if word != NO_WORD}
    return [
        [word if chosen.get(word) == part else NO_WORD for word in owners[begin:end]]
        for part, (begin, end) in enumerate(parts)
    ]


def _best_window(word: tuple[int, int], parts: Sequence[tuple[int, int]], count: int) -> int:
    """Of the windows that hold the word's first token the one with most of the others, and then with most
    tokens on the word's shorter side; beyond an end of the text nothing is missing."""
    first, after = word

    def merit(part: int) -> tuple[int, float]:
        begin, end = parts[part]
        before = first - begin if begin else math.inf
        behind = end - after if end < count else math.inf
        return min(after, end), min(before, behind)

    last = bisect_right(parts, (first, count)) - 1
    holding = takewhile(lambda part: parts[part][1] > first, range(last, -1, -1))
    return max(holding, key=merit)


def owners_of(words: Sequence[Word], offsets: Sequence[tuple[int, int]], text: str) -> list[int]:
    """The word in which each token begins, white space aside; none for a token between words."""
    owners, word = [], 0
    for start, end in offsets:
        while start < end and text[start].isspace():
            start += 1
        while word < len(words) and words[word].end <= start:
            word += 1
        inside = word < len(words) and words[word].start <= start < words[word].end
        owners.append(word if inside and start < end else NO_WORD)
    return owners
