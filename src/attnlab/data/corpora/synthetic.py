"""Tasks with known answers, made on the spot: what a model can or cannot do is seen within minutes.

Each example is a function of (seed, number) alone; splits are made by the text, so that no question
is in two of them. Text and answer are words with spaces between: use the `word` tokenizer with the
`prefix` encoding for a decoder, or `translation` for an encoder with a decoder.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator
from random import Random
from typing import Annotated, Literal

from attnlab.config.ranges import Range, Seed
from attnlab.config.streams import stream_seed
from attnlab.data.corpora.corpus import Corpus
from attnlab.data.errors import DataError
from attnlab.data.example import Example

Examples = Annotated[int, Range(least=1, most=10_000_000)]
Small = Annotated[int, Range(least=1, most=100_000)]
"""Of symbols, and of what one example holds: a puzzle is written by Python, symbol by symbol."""


class Puzzle(Corpus):
    """A question and its answer, again and again."""

    def __init__(self, *, examples: Examples = 10_000, seed: Seed = 0):
        self.examples, self.seed = positive("examples", examples), seed

    @abstractmethod
    def item(self, number: int) -> tuple[list[str], list[str]]:
        """The words of question and answer number `number`."""

    def read(self, split: str = "train") -> Iterator[Example]:
        self.check_given(split)
        for number in range(self.examples):
            question, answer = self.item(number)
            yield Example(" ".join(question), target=" ".join(answer))

    def fingerprint(self) -> str:
        settings = sorted((k, v) for k, v in vars(self).items() if not k.startswith("_"))
        return hashlib.sha256(repr((type(self).__name__, settings)).encode()).hexdigest()[:16]


class Drawn(Puzzle):
    """A task whose questions are drawn at random, each from a stream of its own."""

    def item(self, number: int) -> tuple[list[str], list[str]]:
        return self.draw(Random(stream_seed(self.seed, type(self).__name__, number)))

    @abstractmethod
    def draw(self, random: Random) -> tuple[list[str], list[str]]:
        """The words of a question and of its answer."""


class Sequences(Drawn):
    """Sequences of symbols with lengths drawn evenly from shortest to longest."""

    def __init__(
        self,
        *,
        symbols: Small = 26,
        shortest: Small = 2,
        longest: Small = 12,
        examples: Examples = 10_000,
        seed: Seed = 0,
    ):
        super().__init__(examples=examples, seed=seed)
        self.symbols, self.shortest, self.longest = positive("symbols", symbols), shortest, longest
        if not 1 <= shortest <= longest:
            raise DataError(
                f"shortest {shortest} and longest {longest} are not a range; use 1 ≤ shortest ≤ longest."
            )

    def drawn(self, random: Random) -> list[int]:
        return [random.randrange(self.symbols) for _ in range(random.randint(self.shortest, self.longest))]

    def draw(self, random: Random) -> tuple[list[str], list[str]]:
        numbers = self.drawn(random)
        return [self.word(n) for n in numbers], [self.word(n) for n in self.answer(numbers)]

    def word(self, number: int) -> str:
        return chr(ord("a") + number) if self.symbols <= 26 else f"s{number}"

    @abstractmethod
    def answer(self, numbers: list[int]) -> list[int]:
        """What a sequence is to become."""


class Copy(Sequences):
    """`d a c` → `d a c`: the simplest use of attention, learned within seconds or not at all."""

    def answer(self, numbers: list[int]) -> list[int]:
        return numbers


class Reverse(Sequences):
    """`d a c` → `c a d`: needs to know positions, and from the end."""

    def answer(self, numbers: list[int]) -> list[int]:
        return numbers[::-1]


class Sorting(Sequences):
    """`31 7 19` → `7 19 31`: every output looks at every input."""

    def word(self, number: int) -> str:
        return str(number)

    def answer(self, numbers: list[int]) -> list[int]:
        return sorted(numbers)


class Recall(Drawn):
    """`k3 v8 k1 v5 … : k1` → `v5`: associative recall, the value that went with a key.

    Many pairs fill a fixed-size state (linear attention, recurrent networks) and leave full
    attention untouched. With `fewest` the number of pairs is drawn evenly from it up to `pairs`.
    Arora et al. 2023, "Zoology".
    """

    def __init__(
        self,
        *,
        pairs: Small = 8,
        fewest: Small | Literal["pairs"] = "pairs",
        queries: Small = 1,
        keys: Small = 32,
        values: Small = 32,
        examples: Examples = 10_000,
        seed: Seed = 0,
    ):
        super().__init__(examples=examples, seed=seed)
        self.pairs, self.queries = positive("pairs", pairs), positive("queries", queries)
        self.keys, self.values = keys, positive("values", values)
        self.fewest = pairs if fewest == "pairs" else positive("fewest", fewest)
        if keys < pairs or queries > self.fewest or self.fewest > pairs:
            raise DataError(
                f"recall with {self.fewest} to {pairs} pairs needs at least {pairs} keys (has {keys}) and at "
                f"most {self.fewest} queries (has {queries}), and no more of the fewest than of the most."
            )

    def draw(self, random: Random) -> tuple[list[str], list[str]]:
        pairs = random.randint(self.fewest, self.pairs) if self.fewest < self.pairs else self.pairs
        keys = random.sample(range(self.keys), pairs)
        value = {key: random.randrange(self.values) for key in keys}
        asked = random.sample(keys, self.queries)
        shown = [word for key in keys for word in (f"k{key}", f"v{value[key]}")]
        return [*shown, ":", *(f"k{key}" for key in asked)], [f"v{value[key]}" for key in asked]


class PairRecall(Recall):
    """`k3 v8 k1 v5 :` → `k1 v5 k3 v8`: associative recall of every pair, in the order of the keys.

    Each value stands after its key: as many questions as pairs in one text, so that there is more to
    learn from than in `recall`. Arora et al. 2023, "Zoology".
    """

    def __init__(
        self,
        *,
        pairs: Small = 8,
        fewest: Small | Literal["pairs"] = "pairs",
        keys: Small = 32,
        values: Small = 32,
        examples: Examples = 10_000,
        seed: Seed = 0,
    ):
        super().__init__(pairs=pairs, fewest=fewest, keys=keys, values=values, examples=examples, seed=seed)

    def draw(self, random: Random) -> tuple[list[str], list[str]]:
        shown, _ = super().draw(random)
        pairs = sorted(zip(shown[:-2:2], shown[1:-2:2], strict=True), key=lambda pair: int(pair[0][1:]))
        return shown[:-1], [word for pair in pairs for word in pair]


class Induction(Drawn):
    """`… a b … a` → `b`: what followed the last symbol when it was there before, once.

    The task of induction heads, which take two layers. Olsson et al. 2022.
    """

    def __init__(
        self, *, symbols: Small = 26, length: Small = 16, examples: Examples = 10_000, seed: Seed = 0
    ):
        super().__init__(examples=examples, seed=seed)
        self.symbols, self.length = symbols, length
        if length < 3 or symbols < 2:
            raise DataError(
                f"induction(symbols={symbols}, length={length}) needs 2 symbols and a length of 3."
            )

    def draw(self, random: Random) -> tuple[list[str], list[str]]:
        asked = random.randrange(self.symbols)
        others = [n for n in range(self.symbols) if n != asked]
        sequence = [random.choice(others) for _ in range(self.length - 1)]
        place = random.randrange(self.length - 2)  # something follows it before the end
        sequence[place] = asked
        return [f"s{n}" for n in [*sequence, asked]], [f"s{sequence[place + 1]}"]


class ModularAddition(Puzzle):
    """`12 + 40 =` → `52`: sums modulo a prime, every pair once.

    Small enough to be memorised, and learned as a rule long after that: grokking. Power et al. 2022.
    """

    def __init__(self, *, modulus: Annotated[int, Range(least=1, most=2000)] = 97, seed: Seed = 0):
        self.modulus = positive("modulus", modulus)
        super().__init__(examples=modulus**2, seed=seed)
        self._order = list(range(modulus**2))
        Random(stream_seed(seed, "modular addition")).shuffle(self._order)

    def item(self, number: int) -> tuple[list[str], list[str]]:
        a, b = divmod(self._order[number], self.modulus)
        return [str(a), "+", str(b), "="], [str((a + b) % self.modulus)]


def positive(name: str, value: int) -> int:
    if value < 1:
        raise DataError(f"{name} is {value}; it must be at least 1.")
    return value
