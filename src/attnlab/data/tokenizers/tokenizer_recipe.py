"""What every variant of the tokenizers' table can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

import tokenizers as library
from tokenizers.trainers import Trainer

from attnlab.data.errors import DataError, reason_of
from attnlab.data.tokenizers.specials import OURS
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.training_text import Watched


class TokenizerRecipe(ABC):
    """How a tokenizer comes to be: trained on text, or read from files."""

    trains = True
    samples = True  # whether a part of a large text teaches it enough
    vocabulary = 10_000

    @property
    def most(self) -> int:
        """The most tokens that it may have: what a model is counted with before the tokenizer is made."""
        return self.vocabulary

    @abstractmethod
    def make(self, texts: Iterable[str]) -> Tokenizer:
        """The tokenizer. `texts` is read once, and only by those that train."""

    def train(self, texts: Iterable[str], *, source: str) -> Tokenizer:
        """The tokenizer with a record of the text it was trained on; `source` says where that is from."""
        watched = Watched(texts)
        made = self.make(watched)
        if self.trains:
            made.text = watched.record(tokenizer=made.fingerprint, source=source)
        return made


def trained(tokenizer: library.Tokenizer, trainer: Trainer, texts: Iterable[str]) -> Tokenizer:
    """Train with the library, and finish."""
    seen = Counted(texts)
    try:
        tokenizer.train_from_iterator(seen.batches(), trainer=trainer)
    except Exception as error:
        if type(error) is not Exception:  # the library's own errors have no other name
            raise
        raise DataError(
            f"The tokenizer cannot be trained on this text: {reason_of(error)}. Give it a larger vocabulary "
            "(data.tokenizer.vocabulary), or other text."
        ) from error
    return closed(tokenizer, seen.count)


def closed(tokenizer: library.Tokenizer, seen: int) -> Tokenizer:
    """Put <START> and <STOP> round every text, with <SEP> between two."""
    if not seen:
        raise DataError("There is no text to train a tokenizer on; give a corpus with at least one text.")
    start, stop, separator = (tokenizer.token_to_id(OURS[r]) for r in ("start", "stop", "separator"))
    tokenizer.post_processor = library.processors.TemplateProcessing(
        single=f"{OURS['start']} $A {OURS['stop']}",
        pair=f"{OURS['start']} $A {OURS['separator']} $B:1 {OURS['stop']}:1",
        special_tokens=[(OURS["start"], start), (OURS["stop"], stop), (OURS["separator"], separator)],
    )
    return Tokenizer(tokenizer)


class Counted:
    """Texts in batches, counted on the way."""

    def __init__(self, texts: Iterable[str]):
        self.texts, self.count = texts, 0

    def batches(self, size: int = 1000) -> Iterator[list[str]]:
        batch: list[str] = []
        for text in self.texts:
            batch.append(text)
            self.count += 1
            if len(batch) == size:
                yield batch
                batch = []
        if batch:
            yield batch


def room_for(vocabulary: int, least: int, kind: str) -> None:
    if vocabulary < least:
        raise DataError(
            f"{kind}(vocabulary={vocabulary}) is too small: {least} entries are needed before anything "
            f"is learned; use at least {least}."
        )
