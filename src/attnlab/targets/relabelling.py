"""Labels that were swapped, permuted or written in another way: what was learned with them still shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

SURE, FAIRLY_SURE, HARDLY_SURE = 1e-3, 1e-2, 5e-2
"""The probability of luck below which a relabelling counts: in all, for each label that it moves against its
own name, and against every other name."""
MUCH = 0.05
"""How much higher accuracy must be for it."""


@dataclass(frozen=True)
class Predictions:
    """What a classifier said, beside what was right. `classes` are all that it could have said, `texts` what
    it read. `sets` are the classes of each label and each prediction, where that is a set of them."""

    labels: Sequence[Hashable]
    predicted: Sequence[Hashable]
    classes: Sequence[Hashable] = ()
    texts: Sequence[str] = ()
    sets: tuple[Sequence[Collection[str]], Sequence[Collection[str]]] | None = None


@dataclass(frozen=True)
class Names:
    """Other names under which a share of the predictions is right: pairs of what is said and its label,
    or of a label and its name. `foreign` is the share of predictions that are no label."""

    kind: Literal["renamed", "relabelled"]
    names: list[tuple[str, str]]
    matched: float
    foreign: float = 0.0

    @property
    def values(self) -> dict[str, Any]:
        """Them as a finding holds them."""
        return {
            "names": [list(pair) for pair in self.names],
            "matched": self.matched,
            "foreign": self.foreign,
        }


def by_chance(given: Predictions) -> float:
    """The accuracy of the same predictions in random order."""
    labels, predictions, n = Counter(given.labels), Counter(given.predicted), len(given.labels)
    return sum(count * predictions[name] for name, count in labels.items()) / n**2


def renamed(given: Predictions) -> Names | None:
    """Whether predictions are written in other names than labels."""
    labels, predictions = Counter(given.labels), Counter(given.predicted)
    foreign = {
        name: count for name, count in predictions.items() if name not in labels and name not in given.classes
    }
    plain = {spelt(name): name for name in labels}
    other_spelling = {name: plain[spelt(name)] for name in foreign if spelt(name) in plain}
    if predictions.keys() & labels.keys() and not other_spelling:
        return None
    if not foreign:
        return None
    matching = other_spelling or {name: label for name, label in best_names(given).items() if name in foreign}
    right = sum(matching.get(p, p) == label for label, p in zip(given.labels, given.predicted, strict=True))
    pairs = [(str(name), str(label)) for name, label in list(matching.items())[:3]]
    n = len(given.labels)
    return Names("renamed", pairs, right / n, foreign=sum(foreign.values()) / n)


def spelt(name: Hashable) -> str:
    return " ".join(str(name).casefold().split())


def relabelled(given: Predictions, share: float) -> Names | None:
    """The permutation of labels under which much more is right, where that is no luck; `share` is that of the
    most frequent label, which a constant answer reaches."""
    table = Counter(zip(given.labels, given.predicted, strict=True))
    matching = {label: name for name, label in best_names(given).items()}
    moved = {a: b for a, b in matching.items() if a != b and table[a, a] + table[a, b]}
    n = len(given.labels)
    gained, lost = (
        sum(table[a, b] for a, b in pairs) for pairs in (moved.items(), zip(moved, moved, strict=True))
    )
    right = sum(table[pair] for pair in matching.items())
    clear = all(clearly_named(table, label, name) for label, name in moved.items())
    if not clear or (gained - lost) / n < MUCH or luck(gained, lost) >= SURE or right / n <= share:
        return None
    return Names(
        "relabelled", [(str(label), str(name)) for label, name in list(moved.items())[:4]], right / n
    )


def clearly_named(table: Mapping[tuple[Hashable, Hashable], int], label: Hashable, name: Hashable) -> bool:
    """Whether a label's examples are called by this name rather than by their own, or by any other."""
    counts = {other: count for (given, other), count in table.items() if given == label}
    rival = max((count for other, count in counts.items() if other not in (label, name)), default=0)
    called = counts.get(name, 0)
    return luck(called, counts.get(label, 0)) < FAIRLY_SURE and luck(called, rival) < HARDLY_SURE


def best_names(given: Predictions) -> dict[Hashable, Hashable]:
    """The label for each predicted name, one to one, with which most predictions are right."""
    from scipy.optimize import (
        linear_sum_assignment,
    )  # takes a while to import: only where there are predictions

    labels, predictions = list(Counter(given.labels)), list(Counter(given.predicted))
    names = list(dict.fromkeys([*labels, *predictions]))
    place = {name: number for number, name in enumerate(names)}
    table = [[0] * len(names) for _ in names]
    for label, prediction in zip(given.labels, given.predicted, strict=True):
        table[place[label]][place[prediction]] += 1
    rows, columns = linear_sum_assignment(table, maximize=True)
    return {
        names[column]: names[row] for row, column in zip(rows, columns, strict=True) if names[row] in labels
    }


def luck(more: int, fewer: int) -> float:
    """The probability of such a majority, or a larger one, among fair coins."""
    from scipy.stats import binom

    return float(binom.sf(more - 1, more + fewer, 0.5))
