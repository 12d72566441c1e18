"""Which rows a score is of, by their content: those that were trained on, or that something was chosen by?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from attnlab.checks.best_step import dev_values
from attnlab.checks.check import Case, Check
from attnlab.checks.trained_text import TrainedText, Unread, too_large
from attnlab.data.dataset import Dataset
from attnlab.data.example import Example
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value

MANY, MANY_LINES = 0.01, 0.05
"""The share of scored rows, and of lines of plain text, some of which recur anywhere, from which on it is
said that they are others, too."""
HALF = 0.5
"""The share of dev from which on a run is not judged by it."""
LONG = 6
"""Words of a line that does not recur by chance."""
RATES = "rates.json"
"""What was tried, where several learning rates were."""


class ScoredRows(Check):
    """Scored rows: were rows of dev trained on by what the run began from, and what was chosen by them?

    Formula: each row is hashed by its content (text, second text and target, white space aside; of plain
    text each line of six words or more). The share of dev's hashes that are among those of the run's own
    training rows, of those of its start, and of whatever that began from: a warning from 1% on (5% of lines),
    a failure where the start has learned half of them. After training: what was chosen by dev (the best step,
    the threshold).

    When it helps: a model that is adapted twice, with the rows split in another way, is scored on what it has
    learned by heart. `attnlab evaluate` asks the same of every file and split that it scores.

    Cannot see: rows that were changed by a word (see `contamination`); what a published model was trained
    on; starts whose files were changed or removed, or are above 32 MB, which are named.
    """

    when: ClassVar[tuple[When, ...]] = ("before", "after")
    limit: ClassVar[float] = 1.0
    same_for_seeds: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        if "dev" not in case.dataset.splits.names:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_dev")
        before = case.when == "before"
        if before and not case.trained_before:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "scratch")
        metric, words = case.config.training.deciding(case.task.metrics), case.task.predicts_words
        chosen = [] if before else chosen_on_dev(case.folder, metric, decides=case.decides)
        known: dict[str, Any] = {"before": case.trained_before, "words": words}
        finding = identify((), case.dataset, split="dev", chosen=chosen, **known)
        return self.finding(case.when, finding.outcome, finding.kind, finding.number, **finding.values)


def chosen_on_dev(folder: Path | None, metric: str, *, decides: bool) -> list[str]:
    """What of a run was chosen by its rows of dev."""
    chosen = ["threshold"] * decides
    if folder is None:
        return chosen
    step = ["step"] * (len(dev_values(folder, metric)) > 1)
    rate = ["rate"] * any((place / RATES).is_file() for place in (folder, folder.parent))
    return [*step, *chosen, *rate]


def identify(
    texts: Iterable[Example],
    dataset: Dataset | None,
    *,
    split: str | None,
    chosen: Sequence[str],
    before: Sequence[TrainedText] = (),
    words: bool = True,
    unread: Unread | None = None,
) -> Finding:
    """Whether rows that were scored, as a split of this name or as a file (None), were trained on, or are
    those of dev, by which this was `chosen`: the step, the threshold, the learning rate.

    `before` is what the run began from was trained on, `words` whether the text itself is predicted, `unread`
    why the run's own text (`dataset`) cannot be compared."""
    if dataset is not None and split is None and too_large(dataset):
        unread = Unread.LARGE
    readable = [text for text in before if text.dataset is not None and "train" in text.dataset.splits.names]
    unknown: list[Value] = [{"name": "", "why": unread.value}] if unread else []
    unknown += [{"name": text.name, "why": text.unread.value} for text in before if text.unread]
    values: dict[str, Value] = {"chosen": list(chosen), "split": split or "", "unread": unknown}
    about: dict[str, Any] = {"check": "scored_rows", "when": "evaluation"}
    if unread is not None and not readable:
        return Finding(outcome=Outcome.NOT_APPLICABLE, kind="unknown_rows", values=values, **about)
    scored = RowContents(texts, dataset if split is not None else None, split or "")
    shares = {"train": 0.0, "dev": 0.0}
    if dataset is not None and unread is None:
        shares |= {name: scored.share_in(dataset, name) for name in shares if name in dataset.splits.names}
    earlier = {text.name: scored.share_in(text.dataset, "train") for text in readable if text.dataset}
    most = max(earlier, key=earlier.__getitem__, default="")
    values |= {"n": len(scored), **shares, "start": most, "start_share": earlier.get(most, 0.0)}
    many, outcome = MANY_LINES if scored.plain else MANY, Outcome.WARN
    if split != "train" and shares["train"] >= many:
        kind = "trained_on"
    elif earlier.get(most, 0.0) >= many:
        unlabelled = {text.name for text in readable if text.words and not words}
        kind = "read_before" if most in unlabelled else "trained_before"
        decided = split == "dev" and kind == "trained_before" and earlier[most] >= HALF
        outcome = Outcome.FAIL if decided else outcome
    elif split not in ("train", "dev") and shares["dev"] >= many:
        kind = "chosen_on"
    elif unread is not None:
        outcome, kind = Outcome.NOT_APPLICABLE, "unknown_rows"
    else:
        outcome = Outcome.PASS
        kind = {"train": "train_by_name", "dev": "dev_by_name"}.get(split or "", "apart")
    number = max([*(share for name, share in shares.items() if name != split), *earlier.values()])
    return Finding(outcome=outcome, kind=kind, values=values, number=number, **about)


class RowContents:
    """The rows that are scored: those of a split of a dataset, or the given texts."""

    def __init__(self, texts: Iterable[Example], dataset: Dataset | None, split: str):
        self.dataset, self.split = dataset, split
        self.texts = [] if dataset is not None else list(texts)
        self.plain = is_plain(dataset.examples(split) if dataset is not None else self.texts)

    def __len__(self) -> int:
        return len(self.keys(lines=self.plain and self.dataset is None))

    def keys(self, *, lines: bool) -> frozenset[str]:
        if self.dataset is not None:
            return keys_in(self.dataset, self.split, lines=lines)
        return frozenset(chain.from_iterable(keys_of(example, lines=lines) for example in self.texts))

    def share_in(self, other: Dataset, split: str) -> float:
        """The share of these rows that are rows of a split. Plain text of somewhere else may be cut into
        other rows: there it is the share of lines."""
        if other is self.dataset and too_large(other):
            return overlap_share(other, self.split, split)
        lines = other is not self.dataset and (self.plain or is_plain(other.examples(split)))
        own = self.keys(lines=lines)
        return len(own & keys_in(other, split, lines=lines)) / max(1, len(own))


def overlap_share(dataset: Dataset, split: str, other: str) -> float:
    """The share of a split's texts that stand in another one, as `contamination` counts them."""
    pairs = (pair for pair in dataset.overlap["pairs"] if (pair["split"], pair["in"]) == (split, other))
    return next((pair["same"] / max(1, pair["texts"]) for pair in pairs), float(split == other))


def keys_in(dataset: Dataset, split: str, *, lines: bool) -> frozenset[str]:
    """The content of all rows of a split, hashed once and kept."""

    def made() -> list[str]:
        examples = dataset.examples(split)
        return sorted({key for example in examples for key in keys_of(example, lines=lines)})

    limits = "-".join(map(str, dataset.limits)) if split == "train" else ""
    return frozenset(dataset.kept(f"{'lines' if lines else 'rows'}-{split}{limits}", made))


def is_plain(examples: Iterable[Example]) -> bool:
    """Whether rows are plain text, which may be cut into rows elsewhere."""
    first = next(iter(examples), None)
    return first is not None and first.pair is None and first.label is None and first.target is None


def keys_of(example: Example, *, lines: bool) -> list[str]:
    """A hash of what is read of an example, or one of each long line of its text, if it has any."""
    if not lines:
        picture = () if example.image is None else (example.image.digest,)
        return [hashed(example.text, example.pair or "", example.target or "", *picture)]
    texts = [line for line in example.text.splitlines() if line.strip()]
    return [hashed(line) for line in texts if len(line.split()) >= LONG] or [hashed(line) for line in texts]


def hashed(*parts: str) -> str:
    text = "\x1f".join(" ".join(part.split()) for part in parts)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
