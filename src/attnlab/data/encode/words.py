from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnlab.data.encode.encoding import Shortened, refuse_cut
from attnlab.data.example import Example, Word
from attnlab.data.row import Row
from attnlab.data.tagged_text import words_in
from attnlab.data.tokenizers.sized import sized

NO_WORD, NO_TAG = -1, -100


class Words(Shortened):
    """One text, one row, with the word that each token belongs to, and that word's tag at its first token.

    Words are those of the data (CoNLL's lines, the tokens of .jsonl, or letters and signs apart in a text
    with spans); a token belongs to the word in which it begins. Text beyond the length loses its end (or its
    start), counted, with the tags of its words.
    """

    def chunk_rows(self, chunk: Sequence[Example], first: int) -> Iterator[Row]:
        for number, encoding in enumerate(self.tokenizer.encode_with_offsets([e.text for e in chunk])):
            example = chunk[number]
            words = example.words or words_in(example.text)
            owners = owners_of(words, encoding.offsets, example.text)
            tokens = sized(example.text, encoding.ids, (end for _, end in encoding.offsets))
            yield self._row(example, words, tokens.ids, tokens.sizes, owners, first + number)

    def _row(
        self,
        example: Example,
        words: Sequence[Word],
        ids: Sequence[int],
        sizes: Sequence[int],
        owners: list[int],
        number: int,
    ) -> Row:
        form = self.tokenizer.form
        lost = max(0, len(ids) - self.room(form.single_room))
        if lost and self.cut == "refuse":
            refuse_cut(example, len(ids), len(ids) - lost)
        self.cuts.count(len(ids), lost)
        kept = slice(lost, None) if self.cut == "start" else slice(0, len(ids) - lost)
        before, after = [NO_WORD] * len(form.before), [NO_WORD] * len(form.end)
        held = [*before, *owners[kept], *after]
        tags = self._tags(example, words, held) if self.labels else None
        return Row(form.single(ids[kept]), number, form.blank.single(sizes[kept]), words=held, tags=tags)

    def _tags(self, example: Example, words: Sequence[Word], owners: Sequence[int]) -> list[int]:
        """The number of each word's tag at its first token; a word whose first token is cut off has none."""
        numbers = [self._known.number(word.tag, example.place) for word in words]
        found, seen = [NO_TAG] * len(owners), set[int]()
        for place, word in enumerate(owners):
            if word != NO_WORD and word not in seen:
                seen.add(word)
                found[place] = numbers[word]
        return found


def owners_of(words: Sequence[Word], offsets: Sequence[tuple[int, int]], text: str) -> list[int]:
    """The word in which each token begins, white space aside; none for a token between words."""
    found, word = [], 0
    for start, end in offsets:
        while start < end and text[start].isspace():
            start += 1
        while word < len(words) and words[word].end <= start:
            word += 1
        inside = word < len(words) and words[word].start <= start < words[word].end
        found.append(word if inside and start < end else NO_WORD)
    return found
