"""Every metric that is reported, computed a second time from what was said of each row of the file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attnlab.checks.check import Case, Check
from attnlab.checks.denominators import expected_targets
from attnlab.checks.plain_intervals import Interval, expected_intervals, interval_gap
from attnlab.checks.plain_metrics import PLAIN, Said
from attnlab.checks.source import Source, SourceRow, source_of
from attnlab.checks.source_values import differing, right_of
from attnlab.data.dataset import Dataset
from attnlab.data.example import Example
from attnlab.evaluation.documents import DocumentLosses
from attnlab.evaluation.evaluator import Evaluation, Evaluator
from attnlab.metrics import METRICS
from attnlab.metrics.measures import TRAIN
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.typed import Value
from attnlab.tasks.task import Task

EQUAL = 1e-6
"""Of a metric, relative: what is above is no rounding."""
ROUNDED = 2e-3
"""Of the loss of one example, which is in float32 where probabilities are near 0 or 1."""
TENTH = 0.1
RANKED = 200
"""Queries whose passages are ranked again."""
FINITE = ("nats", "words", "probabilities", "chances", "number", "predicted_number")
"""Columns that have a number for every example that was read."""


@dataclass(frozen=True, kw_only=True)
class ScoredRows:
    """What is reported, and what it should follow from. `numbers` says which example of the split each entry
    is, `rows` are those of the file in the split's own order, `wanted` the numbers of all that should have
    been scored; each is empty where it is not known."""

    reported: Mapping[str, float]
    columns: Mapping[str, NDArray[Any]]
    task: Task | None = None
    """None where texts of files are scored, which may be anybody's."""
    texts: Sequence[Example] = ()
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    wanted: Sequence[int] = ()
    rows: Sequence[SourceRow] = ()
    targets: tuple[int, int] | None = None
    """The least and the most targets that the encoded rows have."""
    intervals: Mapping[str, Interval | None] = field(default_factory=dict)
    written: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What was written and what was to be, where that is of fewer examples than the rest."""

    @property
    def said(self) -> Said:
        return Said(self.columns, () if self.task is None else self.task.labels.names, self.texts)

    def said_for(self, metric: str) -> Said | None:
        """What a metric is made of; None where it is not at hand, or the metric has no second route."""
        needs = {*PLAIN[metric].needs} if metric in PLAIN else {""}
        return next((s for s in (self.said, Said(self.written)) if needs <= {*s.columns}), None)


@dataclass(frozen=True)
class Fault:
    """Why a reported number is not confirmed."""

    kind: str
    number: float
    values: dict[str, Value]


class RecomputedMetrics(Check):
    """Recomputed metrics: is every reported metric that of all rows of the file?

    Formula: each metric once more by its definition, in plain lines that share nothing with the first, from
    what was said of each example; equal to 1e-6. The examples are those that the file has, each once, with
    the labels of its lines; none is without a number. The loss of a class is −log of its probability. Ranks
    of 200 queries are counted again from the vectors. Intervals (in `attnlab evaluate`) are those of examples
    drawn again 1,000 times, or, since of few examples that tells little, of leaving out each, to a tenth; of
    shares by their definition.

    When it helps: a metric of the last batch, of fewer rows than said, of rows that were never read and count
    as zero, of another split, or of another average than its name says looks like any other.

    Cannot see: what is wrong in the predictions themselves (see `recomputed_loss`, `reload`); the rows of
    files above 32 MB and of text that is not from files, which are not counted again; metrics of one's own
    without a line in attnlab.checks.plain_metrics.PLAIN, which are named.
    """

    when: ClassVar[tuple[When, ...]] = ("evaluation", "after")
    limit: ClassVar[float] = 0.5
    of_scores: ClassVar[bool] = True

    def run(self, case: Case) -> Finding:
        if case.evaluation is None:
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "not_scored")
        about: dict[str, Any] = {"task": case.task, "dataset": case.dataset}
        wanted = wanted_numbers(case, case.evaluation)
        finding = self.judge(
            case.when, scored_in_training(case.evaluation, "dev", case.scores, wanted=wanted, **about)
        )
        train = case.train_evaluation
        if finding.outcome is Outcome.PASS and train is not None:
            own = {name.removeprefix(TRAIN): x for name, x in case.scores.items() if name.startswith(TRAIN)}
            of_train = self.judge(case.when, scored_in_training(train, "train", own, **about))
            return finding if of_train.outcome is Outcome.PASS else of_train
        return finding

    def judge(self, when: When, scored: ScoredRows) -> Finding:
        """Whether what is reported follows from what was said of each row."""
        fault = next(faults(scored), None)
        if fault is not None:
            return self.finding(when, Outcome.FAIL, fault.kind, fault.number, **fault.values)
        metrics = [name for name in scored.reported if name in METRICS]
        confirmed = [name for name in metrics if scored.said_for(name) is not None]
        values: dict[str, Value] = {
            "metrics": len(confirmed),
            "n": len(scored.numbers) or len(scored.said),
            "from_file": bool(len(scored.rows)),
            "intervals": sum(interval is not None for interval in scored.intervals.values()),
            "unconfirmed": [name for name in metrics if name not in confirmed],
        }
        return self.finding(when, Outcome.PASS, "agree", float(len(confirmed)), **values)


def faults(scored: ScoredRows) -> Iterator[Fault]:
    """What is wrong, the plainest first."""
    yield from unread(scored)
    yield from miscounted(scored)
    yield from other_labels(scored)
    yield from other_losses(scored)
    yield from other_ranks(scored)
    yield from misreported(scored)
    yield from other_intervals(scored)


# ---------------------------------------------------------------- rows
def unread(scored: ScoredRows) -> Iterator[Fault]:
    """Rows without a number."""
    missing = np.zeros(len(scored.said), bool)
    for name in FINITE:
        if name in scored.columns:
            column = np.asarray(scored.columns[name], np.float64).reshape(len(missing), -1)
            missing |= ~np.isfinite(column).all(1)
    if missing.any():
        count = int(missing.sum())
        yield Fault("unread", float(count), {"rows": count, "n": len(missing)})


def miscounted(scored: ScoredRows) -> Iterator[Fault]:
    """Rows that were not scored, or more than once; targets that are not those of the rows."""
    n = len(scored.numbers)
    if len(scored.wanted) and sorted(scored.numbers.tolist()) != sorted(scored.wanted):
        missing = len({*scored.wanted} - {*scored.numbers.tolist()})
        values: dict[str, Value] = {"n": n, "rows": len(scored.wanted), "missing": missing}
        yield Fault("miscounted", float(n), values)
    targets = scored.reported.get("targets")
    if targets is not None and "targets" in scored.columns:
        counted = int(scored.columns["targets"].sum())
        whole = not len(scored.wanted) or len(scored.numbers) == len(scored.wanted)
        if whole and counted != targets and not windowed(scored):
            yield Fault("targets", float(targets), {"targets": targets, "counted": counted})
        least, most = scored.targets or (targets, targets)
        if not least <= targets <= most:
            yield Fault("targets", float(targets), {"targets": targets, "counted": most})


def windowed(scored: ScoredRows) -> bool:
    """Whether some rows of long texts may be scored whose texts are not among the examples."""
    return len(scored.numbers) > 0 and not len(scored.wanted)


def other_labels(scored: ScoredRows) -> Iterator[Fault]:
    """Rows whose label is not the one in the file."""
    if scored.task is None or not len(scored.rows) or not len(scored.numbers):
        return
    if int(scored.numbers.max()) >= len(scored.rows):
        values: dict[str, Value] = {"n": int(scored.numbers.max()) + 1, "rows": len(scored.rows)}
        yield Fault("more_rows", float(scored.numbers.max() + 1), values)
        return
    right = right_of(scored.columns, scored.task)
    wrong = differing(right, [scored.rows[n] for n in scored.numbers.tolist()], scored.task)
    if wrong:
        place, held, written = wrong[0]
        values = {"rows": len(wrong), "n": len(right), "place": place, "held": held, "written": written}
        yield Fault("other_labels", float(len(wrong)), values)


def other_losses(scored: ScoredRows) -> Iterator[Fault]:
    """Examples whose loss is not that of the probability which they were given."""
    columns = scored.columns
    with np.errstate(divide="ignore", invalid="ignore"):
        if "probabilities" in columns and "label" in columns:
            chances = columns["probabilities"][np.arange(len(columns["label"])), columns["label"]]
            nats = -np.log(chances)
        elif "chances" in columns and "labels" in columns:
            right = np.where(columns["labels"], columns["chances"], 1 - columns["chances"])
            nats = -np.log(right).sum(1)
        else:
            return
    known = np.isfinite(nats) & (nats < 10)  # beyond, float32 has too few digits of a probability
    gaps = np.abs(nats - columns["nats"])[known] / np.maximum(1.0, nats[known])
    if len(gaps) and gaps.max() > ROUNDED:
        at = int(np.flatnonzero(known)[gaps.argmax()])
        values: dict[str, Value] = {"rows": int((gaps > ROUNDED).sum()), "n": len(nats)}
        values |= {"nats": float(columns["nats"][at]), "recomputed": float(nats[at])}
        yield Fault("other_losses", float(gaps.max()), values)


def other_ranks(scored: ScoredRows) -> Iterator[Fault]:
    """Ranks that the vectors do not give: as many other passages as score higher, ties at most on top."""
    if "query_vector" not in scored.columns or "rank" not in scored.columns:
        return
    queries, passages, keys, ranks = (
        scored.columns[name] for name in ("query_vector", "passage_vector", "passage", "rank")
    )
    kinds = {key: place for place, key in reversed(list(enumerate(keys.tolist())))}
    among = passages[list(kinds.values())]
    step = max(1, len(queries) // RANKED)
    wrong = 0
    for n in range(0, len(queries), step):
        own = float(queries[n] @ passages[kinds[keys[n]]])
        scores = among @ queries[n]
        higher, equal = int((scores > own + 1e-6).sum()), int((np.abs(scores - own) <= 1e-6).sum())
        wrong += not higher < ranks[n] <= higher + max(1, equal)
    if wrong:
        yield Fault("ranks", float(wrong), {"rows": wrong, "n": len(range(0, len(queries), step))})


# ---------------------------------------------------------------- values
def misreported(scored: ScoredRows) -> Iterator[Fault]:
    """Metrics that their definition does not give."""
    for name, value in scored.reported.items():
        said = scored.said_for(name)
        if said is None:
            continue
        again = PLAIN[name].of(said)
        values: dict[str, Value] = {"metric": name, "reported": float(value), "recomputed": again}
        if math.isnan(value) and math.isnan(again) and name != "loss":
            continue  # neither route has a value, as of the correlation with a constant
        if not math.isfinite(again):
            yield Fault("impossible", math.inf, values)
        elif not abs(value - again) <= EQUAL * max(1.0, abs(again)):
            yield Fault("misreported", abs(value - again), values)


def other_intervals(scored: ScoredRows) -> Iterator[Fault]:
    """Intervals that are wider or narrower than the examples make them, by more than a tenth."""
    for name, claimed in scored.intervals.items():
        said = scored.said_for(name)
        if said is None:
            continue
        value, limits = float(scored.reported[name]), METRICS[name].limits
        gap, nearest = math.inf, None
        for expected in expected_intervals(PLAIN[name], said):
            apart = interval_gap(claimed, expected, value=value, limits=limits)
            gap, nearest = (apart, expected) if apart <= gap else (gap, nearest)
            if gap <= TENTH:
                break
        if gap > TENTH:
            values: dict[str, Value] = {"metric": name, "gap": gap}
            values |= {"claimed": list(claimed or ()), "expected": list(nearest or ())}
            yield Fault("interval", gap, values)


# ---------------------------------------------------------------- what was scored
def confirm_metrics(
    losses: DocumentLosses,
    reported: Mapping[str, float],
    *,
    evaluator: Evaluator,
    source: Source | None,
    split: str | None = None,
    intervals: Mapping[str, Interval | None] | None = None,
) -> Finding:
    """Whether scores of a split, or of all rows of a file, and their intervals are what their names say."""
    task = evaluator.task
    rows: Sequence[SourceRow] = ()
    if source is not None and source.countable:
        rows = source.every if split is None else source.rows.get(split, ())
    stored = evaluator.loader.rows
    scored = ScoredRows(
        reported=reported,
        columns=losses.examples.columns,
        task=task,
        texts=evaluator.texts() if task.compares_text else (),
        numbers=np.arange(len(losses)),
        wanted=range(len(rows) or len(losses)),
        rows=rows,
        targets=expected_targets(task, stored, np.arange(len(stored))),
        intervals=intervals or {},
    )
    return RecomputedMetrics().judge("evaluation", scored)


def confirm_words(
    losses: DocumentLosses,
    reported: Mapping[str, float],
    task: Task,
    *,
    intervals: Mapping[str, Interval | None],
) -> Finding:
    """Whether scores of texts that were read in windows are those of their nats, tokens and bytes."""
    n = len(losses)
    about: dict[str, Any] = {"reported": reported, "columns": losses.examples.columns, "task": task}
    scored = ScoredRows(**about, numbers=np.arange(n), wanted=range(n), intervals=intervals)
    return RecomputedMetrics().judge("evaluation", scored)


def scored_in_training(
    evaluation: Evaluation,
    split: str,
    scores: Mapping[str, float],
    *,
    task: Task,
    dataset: Dataset,
    wanted: Sequence[int] = (),
) -> ScoredRows:
    """What an evaluation in the course of training reports: `scores` as they were told, else its own."""
    numbers = evaluation.numbers
    reported = dict(scores) or {"loss": evaluation.loss, **evaluation.scores}
    texts = dataset.texts(split) if task.compares_text else ()
    return ScoredRows(
        reported=reported,
        columns=evaluation.examples.columns,
        task=task,
        texts=[texts[n] for n in numbers.tolist()] if texts else (),
        numbers=numbers,
        wanted=wanted,
        rows=rows_in_file(dataset, split),
        written={} if evaluation.texts is None else evaluation.texts.columns,
    )


def rows_in_file(dataset: Dataset, split: str) -> Sequence[SourceRow]:
    """The rows of a split as its file has them; none where an example is not a row of a file."""
    source = source_of(dataset)
    limited = split == "train" and dataset.settings.train_rows != "unlimited"
    return () if source is None or limited else countable_rows(source, split)


def countable_rows(source: Source, split: str) -> Sequence[SourceRow]:
    return source.rows.get(split, ()) if source.countable else ()


def wanted_numbers(case: Case, evaluation: Evaluation) -> Sequence[int]:
    """The examples of dev that an evaluation should have scored: all of the file, or those all of whose rows
    are in the batches that the config asks for."""
    if not len(evaluation.numbers):
        return ()
    loader, most = case.dataset.scored("dev"), case.config.training.evaluate_batches
    plan = loader.plan(0)
    if most == "all" or most >= len(plan):
        rows = rows_in_file(case.dataset, "dev")
        return range(len(rows) or len(set(loader.rows.scalars("example").tolist())))
    rows_of: dict[int, set[int]] = {}
    for row, example in enumerate(loader.rows.scalars("example").tolist()):
        rows_of.setdefault(example, set()).add(row)
    read = {int(row) for number in range(most) for row in loader.load(plan, number).rows}
    return [example for example, rows in rows_of.items() if rows <= read]
