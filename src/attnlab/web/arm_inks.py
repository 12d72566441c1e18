"""The ink of every run on the page: that of its study's arm, or a colour that no arm beside it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from attnlab.documents.palette import DASHES, Ink, arm_inks, ink
from attnlab.runs.result import RunState
from attnlab.web.index import Index
from attnlab.web.indexed import IndexedRun, IndexedStudy


def inks_of_study(study: IndexedStudy, runs: Sequence[IndexedRun]) -> Mapping[str, Ink]:
    """As its report has them; before there is one, by what its runs came to so far."""
    settled = study.ended and not study.process
    grey = study.answer.unfinished if settled else {arm for arm in study.arms if _is_grey(study, arm, runs)}
    return arm_inks(study.arms, baseline=study.baseline, grey={*grey, *study.refused})


def _is_grey(study: IndexedStudy, arm: str, runs: Sequence[IndexedRun]) -> bool:
    states = [run.state for run in runs if run.arm == arm]
    failed = len(states) >= len(study.seeds) > 0 and all(state is RunState.FAILED for state in states)
    return RunState.INVALID in states or failed


def inks_by_study(index: Index) -> dict[str, Mapping[str, Ink]]:
    """Of every study, by its address."""
    return {
        study.address: inks_of_study(study, index.runs_of(study.address)) for study in index.studies.values()
    }


def inks_of_runs(index: Index, runs: Sequence[IndexedRun]) -> list[Ink]:
    """Runs side by side: those of studies in their arms' colours, further seeds dashed; the others in colours
    that are free."""
    studies = {run.study: index.studies.get(run.study) for run in runs}
    inks = {
        address: inks_of_study(study, index.runs_of(address)) for address, study in studies.items() if study
    }
    of_arms = [inks.get(run.study, {}).get(run.arm) for run in runs]
    taken: set[Ink] = set()
    for own in filter(None, of_arms):
        taken.add(own)
    free = (own for own in map(ink, range(len(runs) + len(taken) + 1)) if own not in taken)
    drawn: set[Ink] = set()
    chosen = []
    for run, of_arm in zip(runs, of_arms, strict=True):
        if run.summary.result.sound is False:
            own = ink(0, sound=False)
        elif of_arm is None:
            own = next(free)
        else:
            own = _undrawn(of_arm, drawn)
        drawn.add(own)
        chosen.append(own)
    return chosen


def _undrawn(own: Ink, drawn: set[Ink]) -> Ink:
    """In the same colour, the first stroke that is not drawn yet."""
    strokes = [own, *(replace(own, dash=dash) for dash in DASHES)]
    return next((stroke for stroke in strokes if stroke not in drawn), own)
