"""Single runs side by side: which of their numbers may be compared, and what a reader must know of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.config.schema import SECTIONS
from attnlab.config.values import ConfigError
from attnlab.evaluation.comparability import SURVIVES, Basis, Comparability, comparability
from attnlab.metrics import METRICS
from attnlab.metrics.measures import measures
from attnlab.metrics.metric import Estimate, difference_records, is_of_texts
from attnlab.runs.findings import Finding, unlearned_of
from attnlab.runs.reason import reasons_phrase
from attnlab.runs.result import RunState
from attnlab.runs.summary import BaselineRecord, RunSummary, read_baselines, read_summary
from attnlab.runs.typed import Value
from attnlab.studies.evidence import input_differences
from attnlab.studies.outcome import Note, NoteKind
from attnlab.studies.wording import pair_phrase

BESIDE = ("train_loss", "token_by_token_loss", "seconds")
"""What is shown of a run beside its metrics."""


@dataclass(frozen=True)
class SideBySide:
    """Runs, the measures in which they may be compared, and what a reader must know of them."""

    runs: list[RunSummary]
    measures: list[str]
    notes: list[Note]
    baselines: list[list[BaselineRecord]]
    """Of each run, those in the measures that are compared."""
    texts: int = 0
    """How many written texts of dev are compared one by one."""
    differences: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    """By run and metric of written texts: a run minus the first, paired by text."""

    @property
    def of_texts(self) -> list[str]:
        """The measures that written texts have."""
        return [name for name in self.measures if name in METRICS and is_of_texts(METRICS[name])]

    def as_json(self) -> dict[str, Any]:
        runs = [run.as_json() for run in self.runs]
        notes = [str(note) for note in self.notes]
        values = {"runs": runs, "measures": self.measures, "notes": notes, "baselines": self.baselines}
        first = self.runs[0].result.folder
        paired = difference_records(self.differences, first)
        return values | ({"texts": self.texts, "differences": paired} if paired else {})


def side_by_side(folders: Sequence[Path]) -> SideBySide:
    """Runs side by side under a study's guards: what may not be set beside the first is withheld.

    Runs that were not judged on the same text are refused altogether. Where tokenizers differ, bits per
    byte is left; where training data or order differ, every number stands, but not as equals.
    """
    runs = [read_summary(folder) for folder in folders]
    for run in runs:
        if basis_of(run).dev is None:
            raise ConfigError(f"{run.result.folder} has no dev split, so there is nothing to compare it by.")
    notes, withheld = list[Note](), set[str]()
    for run in runs[1:]:
        own_notes, kept_back = beside(run, runs[0])
        notes += own_notes
        withheld |= kept_back
    notes += list(remarks(runs))
    measured = [m for m in (*METRICS, *BESIDE) if any(m in run.result.metrics for run in runs)]
    shown = [measure for measure in measured if measure not in withheld]
    baselines = [[one for one in read_baselines(f) if one["metric"] not in withheld] for f in folders]
    return SideBySide(runs, shown, list(dict.fromkeys(notes)), baselines)


def beside(run: RunSummary, first: RunSummary) -> tuple[list[Note], set[str]]:
    """What to say of a run beside the first, and the measures that this withholds."""
    one, other = run.result, first.result
    pair = {"run": one.folder, "other": other.folder}
    bases = basis_of(run), basis_of(first)
    of_task = [name for name, measure in measures().items() if measure.of_task]
    changed = changed_settings(run.config, first.config)
    same_text = bases[0].text is not None and bases[0].text == bases[1].text
    meant = [
        key for key in changed if key in ("data.tokenizer", "data.target_tokenizer") and same_text
    ]  # the same texts, as other tokens
    by_measure = {name: comparability(*bases, metric=name, changed=meant) for name in of_task}
    refuse_other_questions(pair, by_measure["loss"])
    apart = {
        name: comparability.reasons for name, comparability in by_measure.items() if comparability.reasons
    }
    reasons = [reason for name in ("loss", SURVIVES) for reason in apart.get(name, ())]
    why = [reason.as_json() for reason in reasons]
    notes = [Note(NoteKind.OTHER_MEANING, {**pair, "reasons": why})] if reasons else []
    trained = by_measure["loss"].doubts
    if not trained and one.seed == other.seed:
        trained = input_differences(one, other, changed=changed)
    unfair = [Note(NoteKind.UNFAIR, {**pair, "why": reason.as_json()}) for reason in trained]
    return [*notes, *unfair], {*apart}


def refuse_other_questions(pair: Mapping[str, str], comparability: Comparability) -> None:
    """Stop where no number of the two means the same: other texts, or another task."""
    reasons = [
        difference.reason
        for difference in comparability.judged
        if difference.aspect in ("metric", "evaluation set")
    ]
    if reasons:
        raise ConfigError(
            f"{pair_phrase(pair)}: {reasons_phrase(reasons)}. Their numbers are not comparable."
        )


def basis_of(run: RunSummary) -> Basis:
    """What a run's numbers rest on: those of its last evaluation may be of a part of dev."""
    return Basis.of(run.result, part="all" if run.whole else run.config["training"]["evaluate_batches"])


def changed_settings(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The settings in which two recorded configs differ: "model.attention"."""
    changed = []
    for name in dict.fromkeys([*one, *other]):
        mine, theirs = one.get(name), other.get(name)
        if name in SECTIONS and isinstance(mine, dict) and isinstance(theirs, dict):
            changed += [f"{name}.{key}" for key in {*mine, *theirs} if mine.get(key) != theirs.get(key)]
        elif mine != theirs:
            changed.append(name)
    return changed


def remarks(runs: Sequence[RunSummary]) -> Iterator[Note]:
    """What a reader must know of runs, each thing once of all that it is true of, and of all of them."""
    short, invalid = dict[str, list[tuple[str, Finding]]](), dict[tuple[str, ...], list[str]]()
    for run in runs:
        unlearned = unlearned_of(reversed(run.result.checks))  # the last that was found
        if unlearned is not None:
            known = f"{unlearned.values['unigram']:.3f}"
            short.setdefault(known, []).append((run.result.folder, unlearned))
        if run.result.sound is False:
            invalid.setdefault(tuple(run.result.failures), []).append(run.result.folder)
    for own in short.values():
        losses = [finding.values["loss"] for _, finding in own]
        values: dict[str, Value] = {"folders": [folder for folder, _ in own], "losses": losses}
        yield Note(NoteKind.UNLEARNED_RUNS, values | {"unigram": own[0][1].values["unigram"]})
    for failures, folders in invalid.items():
        yield Note(NoteKind.UNSOUND_RUNS, {"folders": folders, "failures": failures})
    for run in runs:
        if run.result.status is not RunState.FINISHED:
            values = {"folder": run.result.folder, "status": run.result.status.value}
            yield Note(NoteKind.UNFINISHED_RUN, values | {"step": run.result.steps})
        if (rows := Note.of_rows(run.result.folder, run.result)) is not None:
            yield rows
    if parts := [run.result.folder for run in runs if not run.whole]:
        yield Note(NoteKind.PART_OF_DEV, {"folders": parts})
    seeds = dict.fromkeys(str(run.result.seed) for run in runs)
    if len(seeds) > 1:
        yield Note(NoteKind.OTHER_SEEDS, {"seeds": list(seeds)})
    if len(runs) > 1:
        yield Note(NoteKind.SINGLE_RUNS)
