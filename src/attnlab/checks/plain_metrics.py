"""Every metric a second time, from what was said of each example, in plain lines that share nothing with
`metrics/`. A metric of one's own gets its second route with a line in PLAIN."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attnlab.checks.plain_spans import answer_scores, entity_agreement
from attnlab.checks.plain_texts import (
    bleu,
    bleu_counts,
    chrf,
    chrf_counts,
    copied_runs,
    equal_texts,
    rouge_scores,
)
from attnlab.data.example import Example

Column = NDArray[Any]
Sums = NDArray[np.float64]


@dataclass(frozen=True)
class Said:
    """What was said of each example and what was right, in named columns (n) or (n, k); the names of classes
    or tags, and the examples themselves where answers are compared with their text."""

    columns: Mapping[str, Column]
    names: Sequence[str] = ()
    texts: Sequence[Example] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]


@dataclass(frozen=True)
class PlainMetric:
    """A metric by its definition: the numbers that `each` example adds, one list a column, and the value of
    their sums (…, k). `interval` says which one the metric claims: Student's t over examples, the share's
    exact one, t of the logarithm, or t with the ranks taken anew."""

    needs: tuple[str, ...]
    each: Callable[[Said], Sequence[Sequence[float]]]
    value: Callable[[Sums], Sums]
    weight: int | None = None
    """Which of the columns says how much an example counts; every example counts 1 where none does."""
    interval: Literal["t", "share", "log", "ranks"] = "t"

    def parts(self, said: Said) -> Sums:
        """(n, k) what each example adds."""
        return np.array([[float(x) for x in column] for column in self.each(said)]).T

    def of(self, said: Said) -> float:
        """The value of these examples."""
        return self.of_parts(self.parts(said))

    def of_parts(self, parts: Sums) -> float:
        """The value, each column added up without rounding."""
        with np.errstate(all="ignore"):
            return float(self.value(np.array([math.fsum(column) for column in parts.T])))


# ---------------------------------------------------------------- one class, or several
def best_class(said: Said) -> list[int]:
    """The class of each example that nothing is more probable than, the first of equals."""
    return [row.index(max(row)) for row in said["probabilities"].tolist()]


def hits(said: Said) -> list[bool]:
    return [a == b for a, b in zip(best_class(said), said["label"].tolist(), strict=True)]


def by_class(said: Said) -> list[list[float]]:
    """True positives, false positives and false negatives of each class, a column each."""
    pairs = list(zip(best_class(said), said["label"].tolist(), strict=True))
    classes = range(said["probabilities"].shape[1])
    positives = [[float(a == c == b) for a, b in pairs] for c in classes]
    wrong = [[float(a == c != b) for a, b in pairs] for c in classes]
    missed = [[float(a != c == b) for a, b in pairs] for c in classes]
    return [*positives, *wrong, *missed]


def macro(sums: Sums) -> Sums:
    """The mean of the classes' F1, of those that are there or are predicted."""
    tp, fp, fn = np.split(sums, 3, axis=-1)
    there = tp + fp + fn > 0
    f1 = np.where(there, tp / (tp + (fp + fn) / 2), 0.0)
    return np.asarray(f1.sum(-1) / there.sum(-1))


def pairs_of_classes(said: Said) -> list[list[float]]:
    """The cells of the confusion matrix, row by row."""
    cells = list(zip(said["label"].tolist(), best_class(said), strict=True))
    classes = range(said["probabilities"].shape[1])
    return [[float(cell == (a, b)) for cell in cells] for a in classes for b in classes]


def correlation_of_cells(sums: Sums) -> Sums:
    """The covariance of labels and predictions as indicator vectors over both deviations; 0 without one."""
    size = math.isqrt(sums.shape[-1])
    shares = sums.reshape(*sums.shape[:-1], size, size) / sums.sum(-1)[..., None, None]
    labels, predictions = shares.sum(-1), shares.sum(-2)
    together = np.trace(shares, axis1=-2, axis2=-1) - (labels * predictions).sum(-1)
    spread = (1 - (labels**2).sum(-1)) * (1 - (predictions**2).sum(-1))
    return np.where(spread > 1e-12, together / np.sqrt(np.maximum(spread, 1e-12)), 0.0)


def confidence_gaps(said: Said) -> list[list[float]]:
    """Confidence minus being right, in the fifteenth that the confidence lies in, and 1 for the example."""
    sure, right = [max(row) for row in said["probabilities"].tolist()], hits(said)
    edges = [(k / 15, (k + 1) / 15) for k in range(15)]
    columns = [
        [p - r if low < p <= high or (p <= 0 == low) else 0.0 for p, r in zip(sure, right, strict=True)]
        for low, high in edges
    ]
    return [*columns, [1.0] * len(sure)]


def flags(said: Said) -> list[tuple[set[int], set[int]]]:
    """The labels that each example is given, those more likely than not, and those that it has."""
    given = [{c for c, chance in enumerate(row) if chance > 0.5} for row in said["chances"].tolist()]
    own = [{c for c, flag in enumerate(row) if flag} for row in said["labels"].tolist()]
    return list(zip(given, own, strict=True))


# ---------------------------------------------------------------- numbers
def errors(said: Said) -> list[float]:
    return [p - t for p, t in zip(said["predicted_number"].tolist(), said["number"].tolist(), strict=True)]


def around_middle(said: Said) -> list[list[float]]:
    """Squared errors, and true numbers around their middle."""
    true = said["number"].tolist()
    middle = math.fsum(true) / len(true)
    moved = [t - middle for t in true]
    return [[e * e for e in errors(said)], [m * m for m in moved], moved, [1.0] * len(true)]


def moments(x: Sequence[float], y: Sequence[float]) -> list[list[float]]:
    mx, my = math.fsum(x) / len(x), math.fsum(y) / len(y)
    u, v = [a - mx for a in x], [b - my for b in y]
    products = [a * b for a, b in zip(u, v, strict=True)]
    return [u, v, [a * a for a in u], [b * b for b in v], products, [1.0] * len(u)]


def correlation(sums: Sums) -> Sums:
    u, v, uu, vv, uv, n = np.moveaxis(sums, -1, 0)
    du, dv = uu / n - (u / n) ** 2, vv / n - (v / n) ** 2
    return np.asarray((uv / n - u * v / n**2) / np.sqrt(np.where(du * dv > 0, du * dv, np.nan)))


def ranks_of(numbers: Sequence[float]) -> list[float]:
    """How many are smaller, and half of those that are equal."""
    order = sorted(numbers)
    first: dict[float, int] = {}
    last: dict[float, int] = {}
    for place, number in enumerate(order):
        first.setdefault(number, place)
        last[number] = place
    return [(first[number] + last[number]) / 2 for number in numbers]


# ---------------------------------------------------------------- tags of words
def sentences(said: Said) -> list[tuple[list[str], list[str]]]:
    """The true and the given tags of each text, by name."""
    names, rows = said.names, zip(said["word_truth"].tolist(), said["word_tags"].tolist(), strict=True)
    return [
        ([names[t] for t in true if t >= 0], [names[g] for t, g in zip(true, given, strict=True) if t >= 0])
        for true, given in rows
    ]


def entity_counts(said: Said) -> list[list[float]]:
    """Entities that are right, true and given, of each text."""
    return np.array([entity_agreement(true, given) for true, given in sentences(said)]).T.tolist()


def right_words(said: Said) -> list[list[float]]:
    pairs = sentences(said)
    same = [sum(a == b for a, b in zip(*pair, strict=True)) for pair in pairs]
    return [list(map(float, same)), [float(len(true)) for true, _ in pairs]]


def unbegun(said: Said) -> list[list[float]]:
    """Tags that continue what no tag before them began, and words."""
    wrong = []
    for _, given in sentences(said):
        before = ["O", *given[:-1]]
        wrong.append(
            sum(
                tag[:2] in ("I-", "E-") and last not in ("B-" + tag[2:], "I-" + tag[2:])
                for last, tag in zip(before, given, strict=True)
            )
        )
    return [list(map(float, wrong)), [float(len(given)) for _, given in sentences(said)]]


# ---------------------------------------------------------------- answers and ranks
def answers(which: Literal["f1", "exact"], among: Literal["all", "has", "none"]) -> Callable[[Said], Any]:
    """Scores of the questions of a kind, and 1 for each of these."""

    def each(said: Said) -> list[list[float]]:
        scores = answer_scores(said.columns, said.texts)[which]
        kinds = {"all": [True] * len(scores), "has": said["answerable"].tolist()}
        kinds["none"] = [not has for has in said["answerable"].tolist()]
        chosen = [float(kind) for kind in kinds[among]]
        return [[s * c for s, c in zip(scores, chosen, strict=True)], chosen]

    return each


def ones(values: Sequence[float]) -> list[Sequence[float]]:
    return [values, [1.0] * len(values)]


def quotient(sums: Sums) -> Sums:
    return np.asarray(sums[..., 0] / sums[..., 1])


def quotient_or_zero(above: Sums, below: Sums) -> Sums:
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), 0.0)


def stored(*names: str) -> Callable[[Said], Sequence[Sequence[float]]]:
    """Columns as they are."""
    return lambda said: [said[name].tolist() for name in names]


def copied_counts(n: int, said: Said) -> Sequence[Sequence[float]]:
    """Of each text the runs of n words that its source has, and all of them."""
    return copied_runs(said.columns, n)


ONE, SETS, NUMBERS = ("label", "probabilities"), ("labels", "chances"), ("number", "predicted_number")
TAGS = ("word_truth", "word_tags")
ANSWERS = ("margin", "threshold", "char_start", "char_end", "answerable")
TEXTS = ("generated", "reference")
PLAIN: dict[str, PlainMetric] = {
    "loss": PlainMetric(("nats", "targets"), stored("nats", "targets"), quotient, weight=1),
    "perplexity": PlainMetric(
        ("words", "targets"),
        stored("words", "targets"),
        lambda sums: np.exp(np.minimum(quotient(sums), 700.0)),
        weight=1,
        interval="log",
    ),
    "bits_per_byte": PlainMetric(
        ("words", "bytes"), stored("words", "bytes"), lambda s: quotient(s) / math.log(2), weight=1
    ),
    "accuracy": PlainMetric(
        ONE, lambda said: ones([float(h) for h in hits(said)]), quotient, interval="share"
    ),
    "macro_f1": PlainMetric(ONE, by_class, macro),
    "matthews": PlainMetric(ONE, pairs_of_classes, correlation_of_cells),
    "calibration_error": PlainMetric(
        ONE, confidence_gaps, lambda sums: np.abs(sums[..., :-1]).sum(-1) / sums[..., -1]
    ),
    "exact_sets": PlainMetric(SETS, lambda said: ones([float(a == b) for a, b in flags(said)]), quotient),
    "micro_f1": PlainMetric(
        SETS,
        lambda said: [[2.0 * len(a & b) for a, b in flags(said)], [len(a) + len(b) for a, b in flags(said)]],
        quotient,
    ),
    "mean_squared_error": PlainMetric(NUMBERS, lambda said: ones([e * e for e in errors(said)]), quotient),
    "mean_absolute_error": PlainMetric(NUMBERS, lambda said: ones([abs(e) for e in errors(said)]), quotient),
    "explained_variance": PlainMetric(
        NUMBERS, around_middle, lambda s: 1 - s[..., 0] / (s[..., 1] - s[..., 2] ** 2 / s[..., 3])
    ),
    "pearson": PlainMetric(
        NUMBERS, lambda s: moments(s["predicted_number"].tolist(), s["number"].tolist()), correlation
    ),
    "spearman": PlainMetric(
        NUMBERS,
        lambda said: moments(*(ranks_of(said[name].tolist()) for name in reversed(NUMBERS))),
        correlation,
        interval="ranks",
    ),
    "entity_f1": PlainMetric(
        TAGS, entity_counts, lambda s: quotient_or_zero(2 * s[..., 0], s[..., 1] + s[..., 2])
    ),
    "entity_precision": PlainMetric(TAGS, entity_counts, lambda s: quotient_or_zero(s[..., 0], s[..., 2])),
    "entity_recall": PlainMetric(TAGS, entity_counts, lambda s: quotient_or_zero(s[..., 0], s[..., 1])),
    "tag_accuracy": PlainMetric(TAGS, right_words, quotient, weight=1),
    "invalid_tags": PlainMetric(TAGS, unbegun, quotient, weight=1),
    "span_f1": PlainMetric(ANSWERS, answers("f1", "all"), quotient),
    "exact_match": PlainMetric(ANSWERS, answers("exact", "all"), quotient),
    "span_f1_answerable": PlainMetric(ANSWERS, answers("f1", "has"), quotient, weight=1),
    "exact_match_answerable": PlainMetric(ANSWERS, answers("exact", "has"), quotient, weight=1),
    "exact_match_unanswerable": PlainMetric(ANSWERS, answers("exact", "none"), quotient, weight=1),
    "reciprocal_rank": PlainMetric(
        ("rank",), lambda said: ones([1 / r for r in said["rank"].tolist()]), quotient
    ),
    "recall_at_1": PlainMetric(
        ("rank",), lambda s: ones([float(r < 2) for r in s["rank"].tolist()]), quotient, interval="share"
    ),
    "recall_at_10": PlainMetric(
        ("rank",), lambda s: ones([float(r < 11) for r in s["rank"].tolist()]), quotient, interval="share"
    ),
    "bleu": PlainMetric(TEXTS, lambda said: bleu_counts(said.columns), bleu),
    "chrf": PlainMetric(TEXTS, lambda said: chrf_counts(said.columns), chrf),
    "rouge1": PlainMetric(TEXTS, lambda said: ones(rouge_scores(said.columns, "1")), quotient),
    "rouge2": PlainMetric(TEXTS, lambda said: ones(rouge_scores(said.columns, "2")), quotient),
    "rougeL": PlainMetric(TEXTS, lambda said: ones(rouge_scores(said.columns, "L")), quotient),
    "exact_text": PlainMetric(
        TEXTS, lambda said: ones(equal_texts(said.columns)), quotient, interval="share"
    ),
    **{
        f"copied{n}": PlainMetric((*TEXTS, "source"), partial(copied_counts, n), quotient, weight=1)
        for n in range(1, 5)
    },
}
