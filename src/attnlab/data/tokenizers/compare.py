"""Which tokenizer suits a text, in numbers, and whether a new one would be worth training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.config.streams import stream_seed
from attnlab.data.corpora.units import divided
from attnlab.data.errors import DataError
from attnlab.data.splits import fraction
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_recipe import TokenizerRecipe
from attnlab.data.tokenizers.trained import Bpe

WORTH = 0.10
"""A new tokenizer pays when it needs this much less: about what it saves in training and attention."""

UNKNOWN_TOO_OFTEN = 0.01
LEAST_TEXTS = 20
SMALLEST_VOCABULARY = 300


@dataclass(frozen=True)
class TokenizerMeasure:
    """A tokenizer on some texts."""

    vocabulary: int
    tokens: int
    words: int
    bytes: int
    unknown: int
    used: int
    exact: float
    each: NDArray[np.int64]

    @property
    def fertility(self) -> float:
        """Tokens per word (between white space)."""
        return self.tokens / self.words if self.words else 0.0

    @property
    def bytes_per_token(self) -> float:
        return self.bytes / self.tokens if self.tokens else 0.0

    @property
    def unknown_rate(self) -> float:
        return self.unknown / self.tokens if self.tokens else 0.0

    @property
    def used_share(self) -> float:
        """The share of the vocabulary that occurs in the text."""
        return self.used / self.vocabulary if self.vocabulary else 0.0

    def as_json(self) -> dict[str, Any]:
        names = ("fertility", "bytes_per_token", "unknown_rate", "used_share")
        counts = {k: v for k, v in vars(self).items() if k != "each"}
        return counts | {name: getattr(self, name) for name in names}


def measured(tokenizer: Tokenizer, texts: Sequence[str]) -> TokenizerMeasure:
    """Tokens, unknown ones, and how much of the vocabulary is used."""
    used: set[int] = set()
    each, unknown = [], 0
    for begin in range(0, len(texts), 1000):
        for ids in tokenizer.encode_many(texts[begin : begin + 1000]):
            each.append(len(ids))
            used.update(ids)
            unknown += ids.count(tokenizer.specials.unknown) if tokenizer.specials.unknown is not None else 0
    return TokenizerMeasure(
        vocabulary=tokenizer.size,
        tokens=sum(each),
        words=sum(len(text.split()) for text in texts),
        bytes=sum(len(text.encode()) for text in texts),
        unknown=unknown,
        used=len(used),
        exact=exactness(tokenizer, texts),
        each=np.array(each, np.int64),
    )


def exactness(tokenizer: Tokenizer, texts: Sequence[str], most: int = 500) -> float:
    """The share of lines that decoding gives back exactly: case, accents and white space included."""
    some = list(islice((line for text in texts for line in divided(text, "line")), most))
    ids = tokenizer.encode_many(some)
    return sum(tokenizer.decode(row) == text for row, text in zip(ids, some, strict=True)) / max(1, len(some))


def enough(texts: Sequence[str]) -> Sequence[str]:
    """The texts, or their lines where the texts themselves are too few to compare on."""
    if len(texts) >= 4 * LEAST_TEXTS:
        return texts
    return [line for text in texts for line in divided(text, "line")]


def halves(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Texts to learn from and texts to measure on; equal texts are on one side."""
    learn: list[str] = []
    measure: list[str] = []
    for text in texts:
        (learn if fraction(text, 0) < 0.5 else measure).append(text)
    if len(learn) < LEAST_TEXTS or len(measure) < LEAST_TEXTS:
        raise DataError(
            f"{len(texts)} texts are too few to compare on; {4 * LEAST_TEXTS} or more are needed. "
            "Take the file by line or sentence (--unit), or give more text."
        )
    return learn, measure


@dataclass(frozen=True)
class TokenizerVerdict:
    """Whether a new tokenizer is worth training: the saving with its 95% interval, and in words."""

    worth: str
    saving: float
    low: float
    high: float
    text: str


def compared(
    names: Sequence[str],
    recipes: Sequence[TokenizerRecipe],
    made: Sequence[Tokenizer],
    learn: Sequence[str],
    held_out: Sequence[str],
) -> tuple[dict[str, TokenizerMeasure], TokenizerVerdict]:
    """The given tokenizers measured, and the verdict: a byte-level BPE kind among them is the new one."""
    rows = {name: measured(tokenizer, held_out) for name, tokenizer in zip(names, made, strict=True)}
    given = next((name for name, recipe in zip(names, recipes, strict=True) if isinstance(recipe, Bpe)), None)
    if given is None:
        fresh = measured(fresh_tokenizer(learn, made), held_out)
        return rows | {"new (bpe)": fresh}, judged(names, list(rows.values()), fresh)
    others = [name for name in names if name != given]
    return rows, judged(others, [rows[name] for name in others], rows[given], f"a new {given}")


def judged(
    names: Sequence[str],
    measures: Sequence[TokenizerMeasure],
    fresh: TokenizerMeasure,
    new: str = "a new one",
) -> TokenizerVerdict:
    """Compare the better of the given tokenizers with one trained on the other half of the text."""
    name, best = min(zip(names, measures, strict=True), key=lambda pair: (lossy(pair[1]), pair[1].tokens))
    saving = 1 - fresh.tokens / best.tokens
    low, high = saving_interval(best.each, fresh.each)
    saving_phrase = f"{new} needs {saved_in_words(name, saving, low, high)}"
    if lossy(best):
        return TokenizerVerdict(
            "yes",
            saving,
            low,
            high,
            f"Yes: {best.unknown_rate:.1%} of {name}'s tokens are unknown, so "
            "that much of the text is lost to the model. A byte-level one loses nothing.",
        )
    if low >= WORTH:
        text = f"Yes, for a model trained from scratch: {saving_phrase}."
        return TokenizerVerdict("yes", saving, low, high, text)
    if high < WORTH:
        return TokenizerVerdict(
            "no",
            saving,
            low,
            high,
            f"No: {saving_phrase}; below {WORTH:.0%} it is not worth it. Keep {name}.",
        )
    return TokenizerVerdict("unclear", saving, low, high, f"Unclear: {saving_phrase}. Compare on more text.")


def saved_in_words(name: str, saving: float, low: float, high: float) -> str:
    if saving >= 0:
        return f"{saving:.1%} fewer tokens than {name} (95% interval {low:.1%} to {high:.1%})"
    return f"{-saving:.1%} more tokens than {name} (95% interval {-high:.1%} to {-low:.1%})"


def lossy(measure: TokenizerMeasure) -> bool:
    return measure.unknown_rate > UNKNOWN_TOO_OFTEN


def saving_interval(old: NDArray[np.int64], new: NDArray[np.int64], draws: int = 1000) -> tuple[float, float]:
    """A 95% interval of 1 − Σnew/Σold, by drawing texts anew: texts, not tokens, are independent."""
    random = np.random.default_rng(stream_seed(0, "bootstrap", len(old)))
    savings = []
    for _ in range(draws):
        picked = random.integers(0, len(old), len(old))
        savings.append(1 - new[picked].sum() / max(1, old[picked].sum()))
    low, high = np.quantile(savings, (0.025, 0.975))
    return float(low), float(high)


def fresh_tokenizer(texts: Sequence[str], like: Sequence[Tokenizer]) -> Tokenizer:
    """A byte-level BPE tokenizer of this text, with no larger vocabulary than the larger given one."""
    size = max(SMALLEST_VOCABULARY, *(tokenizer.size for tokenizer in like))
    return Bpe(vocabulary=size).make(texts)


def telling(texts: Sequence[str], a: Tokenizer, b: Tokenizer, count: int = 3) -> list[str]:
    """Short texts on which the two differ most: the ones to look at."""
    short = [text.strip()[:100] for text in texts[:2000]]
    short = [text for text in dict.fromkeys(short) if len(text) > 20] or short
    lengths = zip(a.encode_many(short), b.encode_many(short), short, strict=True)
    ranked = sorted(lengths, key=lambda item: -abs(len(item[0]) - len(item[1])))
    return [text for _, _, text in ranked[:count]]
