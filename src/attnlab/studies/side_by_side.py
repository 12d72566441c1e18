"""Single runs side by side: which of their numbers may be compared, and what a reader must know of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.config.schema import SECTIONS
from attnlab.config.values import ConfigError
from attnlab.runs.summary import RunSummary, read_summary
from attnlab.studies.evidence import fed_apart
from attnlab.studies.guards import SURVIVES, dev, judged_apart, trained_apart, unspelt

MEASURES = ("loss", "perplexity", "bits_per_byte", "train_loss", "incremental_loss", "seconds")
JUDGED = ("loss", "perplexity")
"""Measures that count tokens, and so are withheld where tokenizers differ."""


@dataclass(frozen=True)
class SideBySide:
    """Runs, the measures in which they may be compared, and what a reader must know of them."""

    runs: list[RunSummary]
    measures: list[str]
    notes: list[str]

    def as_json(self) -> dict[str, Any]:
        runs = [run.as_json() for run in self.runs]
        return {"runs": runs, "measures": self.measures, "notes": self.notes}


def side_by_side(folders: Sequence[Path]) -> SideBySide:
    """Runs side by side under a study's guards: what may not be set beside the first is withheld.

    Runs that were not judged on the same text are refused altogether. Where tokenizers differ, bits per
    byte is left; where training data or order differ, every number stands, but not as equals.
    """
    runs = [read_summary(folder) for folder in folders]
    for run in runs:
        if dev(run.result.fingerprints) is None:
            raise ConfigError(
                f"{run.result.folder} has no dev split, so that there is nothing to compare it by."
            )
    notes, withheld = list[str](), set[str]()
    for run in runs[1:]:
        said, kept_back = beside(run, runs[0])
        notes += said
        withheld |= kept_back
    notes += list(remarks(runs))
    shown = [m for m in MEASURES if m not in withheld and any(m in run.result.metrics for run in runs)]
    return SideBySide(runs, shown, list(dict.fromkeys(notes)))


def beside(run: RunSummary, first: RunSummary) -> tuple[list[str], set[str]]:
    """What to say of a run beside the first, and the measures that this withholds."""
    one, other = run.result, first.result
    pair, notes, withheld = f"{one.folder} beside {other.folder}", list[str](), set[str]()
    reasons = judged_apart(one.fingerprints, other.fingerprints, metric=SURVIVES)
    if reasons:
        raise ConfigError(f"{pair}: {'; '.join(reasons)}. Their numbers do not mean the same.")
    by_tokens = judged_apart(one.fingerprints, other.fingerprints, metric="loss")
    if by_tokens:
        withheld.update(JUDGED, ("train_loss", "incremental_loss"))
        unpaid = unspelt(one.metrics, other.metrics)
        withheld.update([SURVIVES] if unpaid else [])
        notes.append(f"{pair}: {'; '.join([*by_tokens, *unpaid])}.")
    trained = trained_apart(one.fingerprints, other.fingerprints)
    if not trained and one.seed == other.seed:
        trained = fed_apart(one, other, changed=changed_settings(run.config, first.config))
    return [*notes, *(f"Not equals: {pair}: {reason}." for reason in trained)], withheld


def changed_settings(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The settings in which two recorded configs differ: "model.attention"."""
    found = []
    for name in dict.fromkeys([*one, *other]):
        mine, theirs = one.get(name), other.get(name)
        if name in SECTIONS and isinstance(mine, dict) and isinstance(theirs, dict):
            found += [f"{name}.{key}" for key in {*mine, *theirs} if mine.get(key) != theirs.get(key)]
        elif mine != theirs:
            found.append(name)
    return found


def remarks(runs: Sequence[RunSummary]) -> Iterator[str]:
    for run, found in ((run, run.result) for run in runs):
        if not found.sound:
            checks = " and ".join(found.failures)
            yield f"{found.folder} is not sound: it failed the check {checks}, so its loss is not real."
        if found.status != "finished":
            yield f"{found.folder} is {found.status} at step {found.steps}."
        if not run.whole:
            yield f"{found.folder} was evaluated on a part of dev only (training.evaluate_batches)."
    if len(runs) > 1:
        yield "Single runs: how much is the luck of a seed, only a study with several seeds tells."
