"""Text of one split in another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from attnlab.checks.check import Case, Check
from attnlab.data.tokenizers.training_text import TrainingText
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

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

Counts = Mapping[str, Any]


class Contamination(Check):
    """Contamination: is text of dev or test in train, or text of test in dev?

    Formula: for each two splits (a) the share of texts that stand in the other one, case and white space
    aside, and of their characters: a warning above 5% of these, a failure from half on; (b) of 500 texts,
    the share that is nearly one of the other split: at least 60% of its pairs of neighbouring words (of
    the 50 in its middle; pairs that occur more than 50 times left out) stand in one stretch of 100 words of
    one text. Many corpora repeat themselves, so it is a warning where this share is 10 points above that of
    train's own texts in the rest of train, and by more than 3 standard errors; (c) the share of runs of 13
    words, and of passages or groups, a warning above 40%. And (d) the share of dev's and test's runs of 5
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
    same_for_seeds: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        dataset = case.dataset
        if len(dataset.splits.names) < 2:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "one_split")
        own = dataset.tokenizer
        both = [own] if own.target is own else [own, own.target]
        return self.judge(case.when, dataset.overlap, *(tokenizer.text for tokenizer in both))

    def judge(self, when: When, overlap: Counts, *tokenizer_texts: TrainingText | None) -> Finding:
        """What splits share (see data/overlap.py), and the texts that tokenizers were trained on."""
        pairs = overlap["pairs"]
        tokenizer = [share for text in tokenizer_texts for share in tokenizer_overlaps(text, overlap)]
        worst = max(pairs, key=lambda pair: float(pair["same_share"]))
        values: dict[str, Value] = {
            "pairs": [values_of(pair, overlap["own"]) for pair in pairs],
            "tokenizer": tokenizer,
            "in_part": read_in_part(overlap),
        }
        if worst["same_share"] >= SAME:
            values["worst"] = {"split": worst["split"], "other": worst["in"]}
            return self.finding(when, Outcome.FAIL, "same", worst["same_share"], **values)
        reasons = [
            {"kind": kind, "split": pair["split"], "other": pair["in"]}
            for pair in pairs
            for kind in shared_kinds(pair, overlap["own"])
        ]
        reasons += [
            {"kind": "tokenizer", "split": share["split"]} for share in tokenizer if share["too_much"]
        ]
        if reasons:
            return self.finding(when, Outcome.WARN, "shared", worst["same_share"], reasons=reasons, **values)
        return self.finding(when, Outcome.PASS, "apart", worst["same_share"], **values)


def values_of(pair: Counts, own: Counts) -> dict[str, Value]:
    """What one split shares with another, in numbers, with an example of what is told."""
    near: dict[str, Value] | None = None
    if enough_texts(pair["near"], own):
        near = {name: pair["near"][name] for name in ("near", "texts")} | {
            "share": share(pair["near"]),
            "usual": share(own) if pair["in"] == "train" else None,
            "example": list(pair["near"]["example"]) if has_near_texts(pair, own) else None,
        }
    counts = ("split", "same", "texts", "same_share", "runs", "all_runs", "passages", "all_passages")
    values: dict[str, Value] = {name: pair[name] for name in counts}
    example = pair["example"] if pair["same"] and pair["same_share"] > EXACT else ""
    return values | {"other": pair["in"], "example": example, "near": near}


def shared_kinds(pair: Counts, own: Counts) -> Iterator[str]:
    """In which ways the text of a split is not new where another one was learned or chosen by."""
    if pair["same_share"] > EXACT:
        yield "same"
    if has_near_texts(pair, own):
        yield "near"
    if pair["runs"] > STRETCHES * max(pair["all_runs"], 1):
        yield "runs"
    if pair["passages"] > STRETCHES * max(pair["all_passages"], 1):
        yield "passages"


def has_near_texts(pair: Counts, own: Counts) -> bool:
    """Whether more texts of a split are nearly ones of another than is usual."""
    near = pair["near"]
    if not enough_texts(near, own):
        return False
    n, m = near["texts"], own["texts"]
    pooled = (near["near"] + own["near"]) / (n + m)
    error = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    # A text that repeats itself is found the more often, the more texts are searched.
    usual = share(own) * max(1.0, near["held"] / max(own["held"], 1))
    return share(near) - usual > max(margin(near, own), DEVIATIONS * error)


def margin(near: Counts, own: Counts) -> float:
    """How much more than usual is told. Of a split of which a tenth is searched, a tenth can be found; but
    texts that repeat themselves come in groups, whose share varies more than that of single ones."""
    searched = float(near["searched"])
    return MORE if searched == 1 else max(MORE * searched, min(MORE, share(own)))


def enough_texts(near: Counts, own: Counts) -> bool:
    """Whether there are enough texts to say how many are nearly equal, and how many usually are."""
    return min(near["texts"], own["texts"]) >= LEAST


def share(near: Counts) -> float:
    return float(near["near"]) / max(near["texts"], 1)


def read_in_part(overlap: Counts) -> list[dict[str, Value]]:
    """The splits that are too large to be read or searched whole."""
    return [
        {"split": name, **{key: read[key] for key in ("texts", "of", "ended")}}
        for name, read in overlap["read"].items()
        if read["texts"] < read["of"] or not read["ended"]
    ]


def tokenizer_overlaps(text: TrainingText | None, overlap: Counts) -> list[dict[str, Value]]:
    """How much of dev and test is in the text that the tokenizer was trained on, and whether that is too
    much."""
    overlaps: list[dict[str, Value]] = []
    for name, runs in overlap["short_runs"].items() if text else ():
        assert text is not None
        inside, of = text.share_of(runs["hashes"])
        if of < LEAST:
            continue
        usual = runs["in_train"] / max(len(runs["hashes"]), 1)
        bound = usual + TOKENIZER if overlap["read"]["train"]["all"] else max(usual + TOKENIZER, UNREAD)
        shares = {"inside": inside / of, "usual": usual, "too_much": inside / of > bound}
        overlaps.append({"split": name, "source": str(text.source), **shares})
    return overlaps
