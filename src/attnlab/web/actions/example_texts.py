"""Texts that the page's forms come with: short ones of the run's own dev split, which its tokenizer knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from attnlab.config.values import ConfigError
from attnlab.data.example import Example
from attnlab.generation.sample_file import split_shown
from attnlab.runs.faults import RunError
from attnlab.web.actions.files_read import text_outside
from attnlab.web.worker_request import WorkerRequest

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

READ = 300
"""Examples that are looked through."""
SHORTEST, LONGEST = 4, 12
"""Words of a text that is read at a glance."""
USUAL = "the cat sees a dog in the garden ."
PAIRS = (
    ("the cat sees a dog in the", "the bird sees a dog in the"),
    ("one two three four", "one six three four"),
    ("a b c d", "a e c d"),
)


@dataclass(frozen=True)
class ExampleTexts:
    """A `text` (with its `pair`, where the model reads two), and two of as many tokens for patching."""

    text: str = USUAL
    pair: str = ""
    first: str = PAIRS[0][0]
    second: str = PAIRS[0][1]


def example_texts(asked: WorkerRequest) -> ExampleTexts:
    """What is prefilled for a run."""
    trained = asked.trained
    own = [example for example in own_texts(asked) if fits(trained, example)]
    first, second = equal_pair(trained, [example.text for example in own if example.pair is None])
    chosen = min(own, key=unsuitable, default=Example(USUAL))
    return ExampleTexts(" ".join(chosen.text.split()), chosen.pair or "", first, second)


def unsuitable(example: Example) -> tuple[bool, int]:
    """A passage without the answer, and a long one, come last; of single texts the first is as good."""
    return example.pair is not None and not example.answers, len(example.pair or "")


def own_texts(asked: WorkerRequest) -> list[Example]:
    """The first examples that the run is judged on, where the page may read them."""
    trained = asked.trained
    if trained.imported or trained.config.model.picture is not None or text_outside(asked, trained.config):
        return []
    try:
        dataset = trained.dataset
        return list(islice(dataset.examples(split_shown(dataset)), READ))
    except (ConfigError, RunError, OSError):  # its text is gone, or damaged
        return []


def fits(trained: Trained, example: Example) -> bool:
    """Whether a text is short, of words, and known to the tokenizer."""
    words = example.text.split()
    texts = (example.text, example.pair or "")
    return (
        SHORTEST <= len(words) <= LONGEST
        and sum(map(str.isalpha, words)) >= SHORTEST - 1
        and not any(trained.tokenizer.unknown_parts(text) for text in texts)
        and sum(len(trained.tokenizer.encode(text)) for text in texts) <= trained.config.longest_text // 2
    )


def equal_pair(trained: Trained, texts: Sequence[str]) -> tuple[str, str]:
    """Two texts of as many tokens that differ in a word: of the run's own, else of those that anybody
    knows."""
    pairs = [*islice(changed_pairs(texts), READ), *PAIRS]
    even = [pair for pair in pairs if len(set(token_counts(trained, pair))) == 1]
    known = [pair for pair in even if not any(map(trained.tokenizer.unknown_parts, pair))]
    return next(iter(known or even or pairs))


def token_counts(trained: Trained, texts: Sequence[str]) -> list[int]:
    return [len(trained.tokenizer.encode(text)) for text in texts]


def changed_pairs(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each text, and the same with one of its words changed for one of another text."""
    others = list(dict.fromkeys(word for text in texts for word in text.split() if is_plain(word)))
    for text in texts:
        words = text.split()
        place = next((n for n, word in enumerate(words[:-1]) if is_plain(word)), None)
        if place is None:
            continue
        for other in others:
            if other not in words:
                yield " ".join(words), " ".join([*words[:place], other, *words[place + 1 :]])


def is_plain(word: str) -> bool:
    return word.isalpha() and word.islower() and len(word) > 2
