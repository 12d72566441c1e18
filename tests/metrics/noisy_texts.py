"""Sentences, and what a model of some skill writes of them."""

import numpy as np

from attnlab.evaluation.written_texts import of_texts
from attnlab.metrics.metric import Examples

WORDS = ("the", "a", "cat,", "dog;", "mat.", "sits", "on", "(under)", "3.5", "1,000", "well-known", "Paris")
WORDS += ("it's", "l'eau", "über", "who?", "stands", "runs")


def written(seed=0, n=60, skill=0.8, references=1):
    """Some are right, some empty or shorter; with signs that a tokenizer parts from words."""
    draw = np.random.default_rng(seed)
    right = [
        [" ".join(draw.choice(WORDS, draw.integers(1, 14))) for _ in range(references)] for _ in range(n)
    ]
    texts = [altered(texts[0], draw, skill) for texts in right]
    texts[n // 2] = ""
    more = np.random.default_rng(seed + 1)
    sources = [" ".join([*text[0].split(), *more.choice(WORDS, 20)]) for text in right]
    return Examples(
        {
            "source": of_texts(sources),
            "generated": of_texts(texts),
            "reference": of_texts([x[0] if references == 1 else tuple(x) for x in right]),
        }
    )


def altered(text, draw, skill):
    words = [word if draw.random() < skill else str(draw.choice([*WORDS, ""])) for word in text.split()]
    return " ".join(word for word in words if word)
