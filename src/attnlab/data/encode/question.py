from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnlab.config.ranges import Count, Whole
from attnlab.data.columns import Row
from attnlab.data.encode.encoding import Encoding, cut_to, windows
from attnlab.data.errors import DataError
from attnlab.data.example import Answer, Example
from attnlab.data.tokenizers.sized import Sized, sized
from attnlab.data.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class Passage:
    """A tokenised passage: its tokens, and where each begins and ends in the text, spaces aside."""

    tokens: Sized
    starts: list[int]
    ends: list[int]


class Question(Encoding):
    """Question and passage, the passage in overlapping windows, with the answer's place in tokens.

    Long passages give several rows: windows overlap by `overlap` tokens, so that an answer shorter
    than that is whole in at least one of them. A window without the whole answer points at token
    0, as questions without an answer do (SQuAD 2.0). Every token of the passage carries its exact
    place in the text. Questions beyond `question_length` tokens lose their end, counted. Without `types` only
    the separator tells question and passage apart: for models without token types.
    """

    uses = ("pair", "answers")
    typed = True

    def __init__(
        self,
        tokenizer: Tokenizer,
        length: int,
        *,
        overlap: Whole = 32,
        question_length: Count = 48,
        types: bool = True,
    ):
        super().__init__(tokenizer, length)
        least = self.room(tokenizer.form.pair_room) - question_length
        if overlap < 0 or least <= overlap:
            raise DataError(
                f"question(overlap={overlap}, question_length={question_length}) leaves {max(0, least)} "
                f"tokens a window of data.length {length}, which must exceed the overlap; raise data.length."
            )
        self.overlap, self.question_length, self._types = overlap, question_length, types

    def settings(self) -> dict[str, object]:
        return super().settings() | ({} if self._types else {"types": False})

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        questions = self.tokenizer.encode_sized([e.text for e in chunk])
        texts = [self.needs(e, "pair") for e in chunk]
        encodings = self.tokenizer.encode_with_offsets(texts)
        for number, example in enumerate(chunk):
            whole, text, encoding = questions[number], texts[number], encodings[number]
            question = cut_to(whole, self.question_length, "end", example)
            self.cuts.count(len(whole) + len(encoding.ids), len(whole) - len(question))
            tokens = sized(text, encoding.ids, (end for _, end in encoding.offsets))
            passage = Passage(tokens, *trimmed(encoding.offsets, text))
            yield from self._windows(question, passage, example, first + number)

    def _windows(self, question: Sized, passage: Passage, example: Example, number: int) -> Iterator[Row]:
        room = self.length - self.tokenizer.form.pair_room - len(question)
        answer = tokens_of(example, passage)
        if answer and (passage.starts[answer[0]], passage.ends[answer[1]]) != span(example.answers[0]):
            self.cuts.inexact += 1
        parts = list(windows(len(passage.tokens), room, self.overlap))
        if example.answers:
            self.cuts.answers += 1
            self.cuts.split += answer is None or not any(a <= answer[0] and answer[1] < b for a, b in parts)
        for part in parts:
            yield self._row(question, passage, part, answer, number)

    def _row(
        self,
        question: Sized,
        passage: Passage,
        window: tuple[int, int],
        answer: tuple[int, int] | None,
        number: int,
    ) -> Row:
        form, (begin, end) = self.tokenizer.form, window
        whole = form.pair_sized(question, passage.tokens[begin:end])
        before = len(form.before) + len(question) + len(form.middle)
        outside, after = [-1] * before, [-1] * len(form.after)
        inside = answer is not None and begin <= answer[0] and answer[1] < end
        shift = before - begin
        return Row(
            whole.ids,
            number,
            whole.sizes,
            types=form.pair_types(len(question), end - begin) if self._types else None,
            start=answer[0] + shift if inside and answer else 0,
            end=answer[1] + shift if inside and answer else 0,
            char_start=[*outside, *passage.starts[begin:end], *after],
            char_end=[*outside, *passage.ends[begin:end], *after],
        )


def trimmed(offsets: Sequence[tuple[int, int]], text: str) -> tuple[list[int], list[int]]:
    """Token places without the white space that byte-level tokens carry at their start."""
    starts, ends = [], []
    for start, end in offsets:
        while start < end and text[start].isspace():
            start += 1
        starts.append(start)
        ends.append(end)
    return starts, ends


def tokens_of(example: Example, passage: Passage) -> tuple[int, int] | None:
    """First and last token of the (first) answer: the fewest tokens that hold all of it."""
    if not example.answers:
        return None
    answer = example.answers[0]
    last_character = answer.start + len(answer.text)
    first = next((t for t, end in enumerate(passage.ends) if end > answer.start), None)
    last = next((t for t in reversed(range(len(passage.tokens))) if passage.starts[t] < last_character), None)
    if first is None or last is None or last < first:
        return None
    return first, last


def span(answer: Answer) -> tuple[int, int]:
    return answer.start, answer.start + len(answer.text)
