"""How good written text is, by n-grams that it shares with its references: BLEU and chrF as sacrebleu counts
them, ROUGE as rouge-score does, and texts that are equal.

The columns are detokenised, cased text; a reference is a text, or a tuple of several for one example.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnlab.metrics.classes import Accuracy
from attnlab.metrics.metric import OF_TEXTS, Examples, Floats, Mean, Metric

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer

MOST = 1 << 16
"""Pairs of texts whose scores are remembered: several metrics, their intervals and differences ask again."""
LONGEST = 4
"""Words of the longest n-grams of BLEU."""
ROUGES = ("rouge1", "rouge2", "rougeL")


def references_of(examples: Examples) -> list[tuple[str, ...]]:
    """The references of each example, of which there may be several."""
    return [(text,) if isinstance(text, str) else tuple(text) for text in examples["reference"]]


class OfNgrams(Metric):
    """A score of sacrebleu: a function of counts of n-grams, summed over all texts."""

    better = "higher"
    limits = (0.0, 100.0)
    needs = OF_TEXTS
    name: ClassVar[str]
    """As sacrebleu writes it before its signature."""

    def parts(self, examples: Examples) -> Floats:
        pairs = zip(examples["generated"], references_of(examples), strict=True)
        counts = [counts_of(self.name, text, references) for text, references in pairs]
        return np.array(counts, np.float64).reshape(len(counts), len(counts_of(self.name, "", ("",))))

    def of(self, sums: Floats) -> Floats:
        values: Floats = np.apply_along_axis(lambda counts: self.score(counts).score, -1, sums)
        return values

    def score(self, sums: Floats) -> Any:
        """Sacrebleu's own score of sums, with all that it is made of."""
        return sacre_metric(self.name)._compute_score_from_stats(sums.tolist())

    def signature(self, examples: Examples) -> str:
        sacre, counts = sacre_metric(self.name), {len(texts) for texts in references_of(examples)}
        sacre.num_refs = counts.pop() if len(counts) == 1 else -1
        return f"{self.name}|{sacre.get_signature()}"


class Bleu(OfNgrams):
    """BLEU: shared n-grams of up to four words, with a penalty for short texts, over all texts; 0 to 100.

    Formula: 100 · BP · (p₁·p₂·p₃·p₄)^¼; pₙ = Σ n-grams that a reference has / Σ n-grams of the written texts,
    BP = exp(1 − r/c) where the written texts (c words) are shorter than the references (r), else 1. Cased,
    words by mteval-v13a, an order without a match smoothed by halving: what sacrebleu computes of detokenised
    text. Its signature is with every score: BLEU of another tokenisation is another number.

    When it helps: texts of some words. Where no reference has four words, as of numbers, there is no BLEU.

    Paper: Papineni et al. 2002, "BLEU"; Post 2018, "A Call for Clarity in Reporting BLEU Scores".
    """

    name = "BLEU"

    def applies(self, examples: Examples) -> bool:
        words = sacre_metric(self.name)._preprocess_segment
        return super().applies(examples) and any(
            len(words(text).split()) >= LONGEST for texts in references_of(examples) for text in texts
        )


class Chrf(OfNgrams):
    """ChrF: F-score of shared character n-grams, recall counting twice, over all texts; 0 to 100.

    Formula: 100 · (1 + 2²)·P·R / (2²·P + R); P and R are means of precision and recall over n-grams of 1 to 6
    characters, white space aside. Fewer words need to match than for BLEU, which suits rich inflection.

    Paper: Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation".
    """

    name = "chrF2"


class Rouge1(Mean):
    """ROUGE-1: F1 of the words that a text shares with its reference, the mean over texts.

    Formula: 2·P·R / (P + R); P and R are shared words over the words of the text and of the reference; of
    several references the best. Words are runs of a–z and 0–9 in lower case, without stemming, as rouge-score
    has them: letters with accents and other scripts are not read at all.

    Paper: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries".
    """

    better = "higher"
    limits = (0.0, 1.0)
    needs = OF_TEXTS
    kind = "rouge1"

    def each(self, examples: Examples) -> Floats:
        pairs = zip(examples["generated"], references_of(examples), strict=True)
        return np.array([rouge(text, references)[ROUGES.index(self.kind)] for text, references in pairs])

    def signature(self, examples: Examples) -> str:
        counts = {len(texts) for texts in references_of(examples)}
        references = counts.pop() if len(counts) == 1 else "var"
        return f"{self.kind}|nrefs:{references}|case:lc|stem:no|rouge-score:{version('rouge-score')}"


class Rouge2(Rouge1):
    """ROUGE-2: F1 of the pairs of words that a text shares with its reference, the mean over texts.

    Formula: as of ROUGE-1, of pairs of neighbouring words.
    """

    kind = "rouge2"


class RougeL(Rouge1):
    """ROUGE-L: F1 of the longest common subsequence of text and reference, the mean over texts.

    Formula: as of ROUGE-1, of the words of the longest sequence, gaps allowed, that both have in this order.
    """

    kind = "rougeL"


class ExactText(Accuracy):
    """Exact text: the share of texts that are written as a reference is, character by character.

    Formula: Σ [text = a reference] / n, white space at both ends aside, with Wilson's interval.
    """

    needs = OF_TEXTS

    def each(self, examples: Examples) -> Floats:
        pairs = zip(examples["generated"], references_of(examples), strict=True)
        return np.array([float(text.strip() in {one.strip() for one in right}) for text, right in pairs])


@cache
def sacre_metric(name: str) -> Any:
    """Sacrebleu's own metric, with its default settings."""
    from sacrebleu.metrics.bleu import BLEU  # takes a while to import, as rouge-score does
    from sacrebleu.metrics.chrf import CHRF

    return BLEU(force=True) if name == "BLEU" else CHRF()  # tokenised text is found by a check of ours


@lru_cache(maxsize=MOST)
def counts_of(name: str, text: str, references: Sequence[str]) -> tuple[float, ...]:
    """What one text adds to the sums that sacrebleu makes a score of."""
    counts = sacre_metric(name)._extract_corpus_statistics([text], [[one] for one in references])
    return tuple(map(float, counts[0]))


@lru_cache(maxsize=MOST)
def rouge(text: str, references: Sequence[str]) -> tuple[float, ...]:
    """F1 of one text by each of ROUGES."""
    scores = rouge_scorer().score_multi(references, text)
    return tuple(float(scores[kind].fmeasure) for kind in ROUGES)


@lru_cache(maxsize=1)
def rouge_scorer() -> RougeScorer:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(ROUGES), use_stemmer=False)
