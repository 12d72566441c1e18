"""Text of one split in another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from attnlab.checks.check import Case, Check, Moment
from attnlab.data.tokenizers.training_text import TrainingText
from attnlab.runs.findings import Finding, When

EXACT, SAME = 0.05, 0.5
"""Shares of a split's text that stands in another one as it is: told, and failed."""
STRETCHES = 0.4
"""The share of runs of 13 words, or of passages, that is told."""
MORE, DEVIATIONS, LEAST = 0.1, 3.0, 20
"""Nearly equal texts are told where their share is so much above that of train in itself, beyond what chance
does to samples of this size; fewer texts are not judged."""
TOKENIZER, UNREAD = 0.3, 0.8
"""How much more of a split than train has may be in the text of a tokenizer, and how much of it where not all
of train was read."""

SCORE = {"train": "a training score", "dev": "a score of the text that models were chosen by"}

Counts = Mapping[str, Any]


class Contamination(Check):
    """Contamination: is text of dev or test in train, or text of test in dev?

    Formula: for each two splits (a) the share of texts that stand in the other one, case and white space
    aside, and of their characters: a warning above 5 % of these, a failure from half on; (b) of 500 texts,
    the share that is nearly one of the other split: at least 60 % of its pairs of neighbouring words (of
    the 50 in its middle; pairs that occur more than 50 times left out) stand in one stretch of 100 words of
    one text. Many corpora repeat themselves, so it is a warning where this share is 10 points above that of
    train's own texts in the rest of train, and by more than 3 standard errors; (c) the share of runs of 13
    words, and of passages or groups, a warning above 40 %. And (d) the share of dev's and test's runs of 5
    words that are in the text on which the tokenizer was trained, where that is recorded: a warning where
    it is 30 points above their share in train. Equal texts and passages are counted in all text. Of a split
    of more than 100,000 texts or 8 million characters the rest is searched in a sample of that size, chosen
    by the texts' hashes from the whole of it; up to 2,000 texts are then looked up, and the bound of 10
    points falls with the share of train that is searched, to that of train in itself at the least.

    When it helps: memorised text is scored as if it had been understood. Splits that
    attnlab makes never share an equal text; given ones may be the same rows, or the same with a word changed.

    Cannot see: runs of words that stand only in what a sample leaves out, and text behind the first 400,000
    texts or 32 million characters of a split that was encoded before; paraphrases and translations;
    near duplicates that are less than 10 points more frequent than within train, as in a corpus of near
    duplicates that was split at random; those of texts of fewer than 4 words or of a few dozen different
    words; the text of a tokenizer that was trained elsewhere.
    """

    when: ClassVar[tuple[When, ...]] = ("before",)
    limit: ClassVar[float] = 1.5

    def run(self, case: Case) -> Finding:
        dataset = case.dataset
        if len(dataset.splits.names) < 2:
            return self.not_applicable(case, "there is no split but train")
        return self.judge(case, dataset.overlap, dataset.tokenizer.text)

    def judge(self, at: Moment, found: Counts, tokenizer_text: TrainingText | None = None) -> Finding:
        """What splits share (see data/overlap.py), and the text that the tokenizer was trained on."""
        pairs, tokenizer = found["pairs"], Tokenized(tokenizer_text, found)
        told = "; ".join([*(described(pair, found) for pair in pairs), *tokenizer.described, *unread(found)])
        worst = max(pairs, key=lambda pair: float(pair["same_share"]))
        if worst["same_share"] >= SAME:
            return self.failed(
                at,
                told,
                worst["same_share"],
                meaning="The splits hold the same text: what is called "
                f"{worst['split']} is {SCORE[worst['in']]}.",
                fix="Take dev and test from texts that are not in train; in attnlab, data.dev_share does.",
            )
        reasons = [reason for pair in pairs for reason in reasons_of(pair, found["own"])]
        reasons += tokenizer.reasons
        if reasons:
            return self.warned(
                at,
                told,
                worst["same_share"],
                meaning=f"{'; '.join(reasons)}: scores are better than on new text.",
                fix="Remove the shared texts from train, or split by document or passage, not by line; train "
                "the tokenizer on train alone.",
            )
        return self.passed(at, told, worst["same_share"])


def described(pair: Counts, found: Counts) -> str:
    """What one split shares with another, in numbers, with an example of what is told."""
    near, own = pair["near"], found["own"]
    equal = f"{pair['same']:,} of {pair['texts']:,} texts are equal"
    if pair["same"]:
        example = f'; "{pair["example"]}"' if pair["same_share"] > EXACT else ""
        equal += f" ({pair['same_share']:.1%} of the characters{example})"
    parts = [equal]
    if judged(near, own):
        alike = f"{near['near']:,} of {near['texts']:,} others are near duplicates ({share(near):.1%}"
        if pair["in"] == "train":
            alike += f", as are {share(own):.1%} of train's own"
        if near_reasons(pair, own):
            alike += '; "{}" and "{}"'.format(*near["example"])
        parts.append(alike + ")")
    else:
        parts.append("too short or too similar to search for near duplicates")
    runs = f"{pair['runs']:,} of {pair['all_runs']:,} runs of 13 words"
    parts.append(runs + (f" ({pair['runs'] / pair['all_runs']:.1%})" if pair["all_runs"] else ""))
    if pair["all_passages"]:
        parts.append(f"{pair['passages']:,} of {pair['all_passages']:,} passages")
    return f"{pair['split']} in {pair['in']}: {', '.join(parts)}"


def reasons_of(pair: Counts, own: Counts) -> list[str]:
    """Why the text of a split is not new where another one was learned or chosen by."""
    names = f"{pair['split']} {{}} {pair['in']}"
    reasons = []
    if pair["same_share"] > EXACT:
        reasons.append(names.format("has texts of"))
    reasons += near_reasons(pair, own)
    if pair["runs"] > STRETCHES * max(pair["all_runs"], 1):
        reasons.append(names.format("has long stretches of"))
    if pair["passages"] > STRETCHES * max(pair["all_passages"], 1):
        reasons.append(names.format("asks of the passages of"))
    return reasons


def near_reasons(pair: Counts, own: Counts) -> list[str]:
    near = pair["near"]
    if not judged(near, own):
        return []
    n, m = near["texts"], own["texts"]
    pooled = (near["near"] + own["near"]) / (n + m)
    error = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    # A text that repeats itself is found the more often, the more texts are searched.
    usual = share(own) * max(1.0, near["held"] / max(own["held"], 1))
    above = share(near) - usual > max(margin(near, own), DEVIATIONS * error)
    return (
        [f"{pair['split']} has texts that differ from those of {pair['in']} by a few words"] if above else []
    )


def margin(near: Counts, own: Counts) -> float:
    """How much more than usual is told. Of a split of which a tenth is searched, a tenth can be found; but
    texts that repeat themselves come in groups, whose share varies more than that of single ones."""
    searched = float(near["searched"])
    return MORE if searched == 1 else max(MORE * searched, min(MORE, share(own)))


def judged(near: Counts, own: Counts) -> bool:
    """Whether there are enough texts to say how many are nearly equal, and how many usually are."""
    return min(near["texts"], own["texts"]) >= LEAST


def share(near: Counts) -> float:
    return float(near["near"]) / max(near["texts"], 1)


def unread(found: Counts) -> list[str]:
    """Which splits are too large to be read or searched whole."""
    told = []
    for name, read in found["read"].items():
        first = "" if read["ended"] else "first "
        if read["texts"] < read["of"]:
            told.append(
                f"near duplicates and runs of words are of {read['texts']:,} of the {first}{read['of']:,} "
                f"texts of {name}, chosen by their hashes"
            )
        elif first:
            told.append(f"only the first {read['of']:,} texts of {name} were read")
    return told


class Tokenized:
    """The text that the tokenizer was trained on, beside dev and test."""

    def __init__(self, text: TrainingText | None, found: Counts):
        self.described, self.reasons = list[str](), list[str]()
        for name, runs in found["short_runs"].items() if text else ():
            assert text is not None
            inside, of = text.share_of(runs["hashes"])
            if of < LEAST:
                continue
            usual = runs["in_train"] / max(len(runs["hashes"]), 1)
            self.described.append(
                f"the tokenizer was trained on {text.source}, which has {inside / of:.0%} of the runs of 5 "
                f"words of {name} (train {usual:.0%})"
            )
            bound = usual + TOKENIZER if found["read"]["train"]["all"] else max(usual + TOKENIZER, UNREAD)
            if inside / of > bound:
                self.reasons.append(f"the tokenizer was trained on text of {name}")
