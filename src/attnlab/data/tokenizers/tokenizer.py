"""A tokenizer: from text to ids and back, with an identity that a checkpoint can hold."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers as library

from attnlab.data.errors import DataError, unusable
from attnlab.data.tokenizers.form import Form, form_of
from attnlab.data.tokenizers.sized import Sized, SizedTexts, size, sized
from attnlab.data.tokenizers.specials import Specials
from attnlab.data.tokenizers.training_text import TrainingText
from attnlab.data.tokenizers.word_cache import Words, parts_of
from attnlab.runs.atomic import replace_bytes

PROBES = ("The quick brown fox", "naïve café 你好 🙂", "  x = [1, 2]\n\treturn x", "1234567890")
"""Fixed strings whose ids are recorded with a checkpoint: another tokenizer gives others."""


TARGET_FILE = "target_tokenizer.json"
"""Beside the tokenizer.json of a run whose targets have a vocabulary of their own."""
GROUP = 200
"""Words handed to the library at once: one by one, each costs more than its tokenising."""


class Tokenizer:
    """One tokenizer of the `tokenizers` library, with truncation and padding left to attnlab.

    Text is only ever text: "<STOP>" written in a document stays six characters, and does not
    end it, unless `specials=True` asks for special tokens to be read (for prompts with [MASK]).
    `text` is what it was trained on, None where nobody recorded that. `target` is the one that targets are
    written with: itself, unless they have a vocabulary of their own (`with_target`).
    """

    def __init__(self, inner: library.Tokenizer):
        inner.no_truncation()
        inner.no_padding()
        inner.encode_special_tokens = True
        self.inner = inner
        self.specials = Specials.of(inner.token_to_id)
        self.text: TrainingText | None = None
        self._target: Tokenizer | None = None

    @property
    def target(self) -> Tokenizer:
        return self if self._target is None else self._target

    def with_target(self, target: Tokenizer) -> Tokenizer:
        """The same for sources, with another one for targets: one fingerprint, saved together."""
        pair = Tokenizer(self.inner)
        pair.text, pair._target = self.text, target
        return pair

    @property
    def alone(self) -> Tokenizer:
        """The one that sources are read with, without that of targets."""
        return self if self._target is None else Tokenizer(self.inner)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many ids targets have, and then those of sources where that is another vocabulary."""
        return (self.size,) if self._target is None else (self._target.size, self.size)

    @property
    def common_size(self) -> int:
        """How many ids sources and targets both have."""
        return min(self.sizes)

    def __len__(self) -> int:
        return self.size

    @functools.cached_property
    def size(self) -> int:
        """How many ids there are: one more than the largest."""
        return max(self.inner.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @functools.cached_property
    def form(self) -> Form:
        return form_of(self.inner, self.specials)

    @property
    def pad(self) -> int:
        """What fills a row, also of targets. Masks go by `real`, so a tokenizer without a pad token can use
        any id."""
        for found in (self.specials.pad, self.specials.stop):
            if found is not None and found < self.common_size:
                return found
        return 0

    @property
    def first(self) -> int:
        """What a text that a decoder writes begins with."""
        return self.pad if self.specials.start is None else self.specials.start

    def encode(self, text: str, *, specials: bool = False) -> list[int]:
        """Ids of a text alone, nothing added."""
        self.inner.encode_special_tokens = not specials
        try:
            return list(self._checked([text])[0].ids)
        finally:
            self.inner.encode_special_tokens = True

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of many texts."""
        if self._words is None or len(texts) < 2:
            return [encoding.ids for encoding in self._checked(texts)]
        try:
            return self._words.encode(texts)
        except (TypeError, AttributeError, UnicodeEncodeError) as error:
            raise named_unusable(texts) from error

    def encode_sized(self, texts: Sequence[str]) -> list[Sized]:
        """Ids of many texts, with the bytes of text that each stands for."""
        return self.encode_together(texts).parted()

    def encode_together(self, texts: Sequence[str]) -> SizedTexts:
        """The same in arrays: of millions of tokens no number is made one by one."""
        if self._words is None or len(texts) < 2:
            encodings = (
                sized(text, one.ids, (end for _, end in one.offsets))
                for text, one in zip(texts, self.encode_with_offsets(texts), strict=True)
            )
            return SizedTexts.of(list(encodings))
        try:
            return self._words.encode_sized(texts)
        except (TypeError, AttributeError, UnicodeEncodeError) as error:
            raise named_unusable(texts) from error

    @functools.cached_property
    def _words(self) -> Words | None:
        parts = parts_of(self.inner)
        return None if parts is None else Words(parts, self._encode_words)

    def _encode_words(self, words: Sequence[str]) -> tuple[list[int], list[int], list[int]]:
        """Ids of words that have nothing to do with each other, how many each has, where in it they end."""
        groups = [words[begin : begin + GROUP] for begin in range(0, len(words), GROUP)]
        encodings = self.inner.encode_batch(groups, is_pretokenized=True, add_special_tokens=False)
        ids = [i for encoding in encodings for i in encoding.ids]
        lengths: list[int] = []
        ends: list[int] = []
        for encoding, group in zip(encodings, groups, strict=True):
            owners = np.array(encoding.word_ids, np.int64)
            lengths += np.bincount(owners, minlength=len(group)).tolist()
            ends += ends_in_words(encoding, group)
        return ids, lengths, ends

    def encode_with_offsets(self, texts: Sequence[str]) -> list[library.Encoding]:
        """Encodings with each token's (start, end) in characters of its text."""
        return self._checked(texts, offsets=True)

    def _checked(self, texts: Sequence[str], *, offsets: bool = False) -> list[library.Encoding]:
        encode = self.inner.encode_batch if offsets else self.inner.encode_batch_fast
        try:
            return encode(texts, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError) as error:
            raise named_unusable(texts) from error

    def decode(self, ids: Iterable[int], *, specials: bool = False) -> str:
        """The text of ids; special tokens are left out unless asked for."""
        return self.inner.decode(list(map(int, ids)), skip_special_tokens=not specials)

    def written(self, ids: Iterable[int], *, holes: bool = False) -> str:
        """The text of ids as a model met it: of special tokens only unknown words, and `holes` if asked."""
        left_out = self.special_ids - {self.specials.unknown, self.specials.mask if holes else None}
        return self.decode((i for i in map(int, ids) if i not in left_out), specials=True)

    @functools.cached_property
    def special_ids(self) -> set[int]:
        """The tokens that stand for no text of their own."""
        added = self.inner.get_added_tokens_decoder()
        return {i for i, token in added.items() if token.special}

    def unknown_parts(self, text: str) -> list[str]:
        """What of a text it has no token for, each once; nothing where it has one for everything."""
        (encoded,) = self.encode_with_offsets([text])
        parts = zip(encoded.ids, encoded.offsets, strict=True)
        return list(dict.fromkeys(text[a:b] for token, (a, b) in parts if token == self.specials.unknown))

    def token(self, number: int) -> str:
        """A token as the vocabulary holds it."""
        return self.inner.id_to_token(int(number)) or f"<no token {number}>"

    def id(self, token: str) -> int | None:
        return self.inner.token_to_id(token)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of everything that decides ids, of targets too."""
        # Rounded, since the library does not read floats back to the last bit.
        content = json.loads(self.inner.to_str(), parse_float=lambda digits: round(float(digits), 6))
        decisive = {k: v for k, v in content.items() if k not in ("truncation", "padding", "version")}
        text = json.dumps(decisive, sort_keys=True, ensure_ascii=True)
        both = text if self._target is None else f"{text}\n{self._target.fingerprint}"
        return hashlib.sha256(both.encode()).hexdigest()[:16]

    def identity(self) -> dict[str, Any]:
        """What a checkpoint records, to notice when it meets another tokenizer."""
        if self._target is not None:
            each = {"source": self.alone.identity(), "target": self._target.identity()}
            return {"fingerprint": self.fingerprint, "vocabulary": self._target.size, **each}
        return {
            "fingerprint": self.fingerprint,
            "vocabulary": self.size,
            "specials": vars(self.specials),
            "probes": {probe: self.encode(probe) for probe in PROBES},
        }

    @property
    def text_identity(self) -> dict[str, Any] | None:
        """What a run's record says of the text that it was trained on; None where nobody recorded that."""
        own = self.text.identity if self.text else None
        return own if self._target is None else {"source": own, "target": self._target.text_identity}

    def save(self, path: str | Path) -> Path:
        """Write tokenizer.json (whole or not at all), and what it was trained on beside it; that of targets
        into a file beside it."""
        file = Path(path)
        if file.suffix != ".json":
            file = file / "tokenizer.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        if self.text is not None:
            self.text.save(file)
        replace_bytes(file, self.inner.to_str(pretty=True).encode())
        if self._target is not None:
            self._target.save(file.with_name(TARGET_FILE))
        return file


def ends_in_words(encoding: library.Encoding, words: Sequence[str]) -> list[int]:
    """The byte of its own word at which each token of many words ends."""
    ends = [end for _, end in encoding.offsets]
    if all(map(str.isascii, words)):
        return ends
    return [size(words[word or 0][:end]) for word, end in zip(encoding.word_ids, ends, strict=True)]


def named_unusable(texts: Sequence[str]) -> DataError:
    """Which of the texts no tokenizer can take, and why."""
    for number, text in enumerate(texts, start=1):
        if reason := unusable(text):
            return DataError(f"Text {number} of {len(texts)} cannot be tokenised: {reason}.")
    return DataError(f"One of {len(texts)} texts is not text at all; give strings.")
