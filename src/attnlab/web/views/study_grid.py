"""The runs of a study as a grid: a row an arm, a column a seed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from attnlab.config.wording import count_of
from attnlab.documents.html import inline
from attnlab.documents.markup import element
from attnlab.documents.nodes import Inline, Name, state
from attnlab.documents.numbers import duration
from attnlab.documents.palette import Ink
from attnlab.runs.listing import comparable, sparkline, value_spans
from attnlab.runs.result import RunState
from attnlab.web.arm_inks import inks_of_study
from attnlab.web.indexed import IndexedRun, IndexedStudy
from attnlab.web.views.rows import Span, page_of, progress_bar, score_of, state_of

MOST_CELLS = 2000
"""Of a grid: more than anybody can look at."""


@dataclass(frozen=True)
class StudyProgress:
    """How many of its runs a study has done, and the seconds until it has done all, where that is known."""

    done: int
    wanted: int
    seconds_left: float | None
    share: float
    """Of all budgets."""

    @classmethod
    def of(cls, study: IndexedStudy, runs: Sequence[IndexedRun]) -> StudyProgress:
        own = [run for run in runs if run.arm]
        done, going = sum(run.ended for run in own), [run for run in runs if run.grows]
        planned = (len(study.arms) - len(study.refused)) * len(study.seeds)
        wanted = max(planned, len(own))
        took = [run.took for run in own if run.ended and run.took]
        usual = statistics.median(took) if took else None
        left = [usual if run.seconds_left is None else run.seconds_left for run in going]
        left += [usual] * (wanted - done - len(going))
        known = [seconds for seconds in left if seconds is not None]
        whole = sum(known) / max(1, len(going)) if len(known) == len(left) else None
        share = (done + sum(run.share for run in own if run.grows)) / wanted if wanted else 0.0
        return cls(done, wanted, whole if study.process else None, share)

    @property
    def count(self) -> str:
        return f"{self.done:,} of {count_of(self.wanted, 'run')}"

    @property
    def left(self) -> str:
        return f"about {duration(self.seconds_left, 0)} left" if self.seconds_left else ""


def grid(study: IndexedStudy, runs: Sequence[IndexedRun]) -> Markup:
    """Runs that are trained first stand above."""
    by_place = {(run.arm, run.folder.name): run for run in runs if run.arm}
    spans = value_spans([run.summary for run in runs])
    inks = inks_of_study(study, runs)
    seeds = study.seeds or sorted({run.summary.result.seed for run in runs})
    arms = (study.arms or sorted({run.arm for run in runs if run.arm}))[:MOST_CELLS]
    hidden = len(arms) * len(seeds) > MOST_CELLS or len(study.arms) > len(arms)
    seeds = seeds[: max(1, MOST_CELLS // max(1, len(arms)))]
    rows = []
    for run in runs:
        if not run.arm:
            cell = element(
                "td", run_cell(run, spans.get(comparable(run.summary))), colspan=max(1, len(seeds))
            )
            rows.append(element("tr", element("th", f"first: {run.folder.name}", scope="row"), cell))
    for arm in arms:
        own = [by_place.get((arm, f"seed-{seed}")) for seed in seeds]
        rows.append(
            element("tr", arm_head(study, arm, own, inks), *(arm_cell(run, spans, inks) for run in own))
        )
    heads = [
        element("th", "arm", scope="col"),
        *(element("th", f"seed {seed}", scope="col") for seed in seeds),
    ]
    table = element(
        "table",
        element("caption", "Runs of this study", class_="hidden"),
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        class_="grid-of-seeds",
    )
    label = "Runs of this study"
    shown = element("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)
    note = f"Shown: {len(arms):,} arms and {count_of(len(seeds), 'seed')}, of all that there are."
    return shown + (element("p", note, class_="fine") if hidden else Markup(""))


def arm_head(
    study: IndexedStudy, arm: str, runs: Sequence[IndexedRun | None], inks: Mapping[str, Ink]
) -> Markup:
    """Its name with the stroke of its curves."""
    baseline = (("baseline", ""),) if arm == study.baseline else ()
    refused = (("refused", "invalid"),) if arm in study.refused else ()
    sound = all(run is None or run.state is not RunState.INVALID for run in runs)
    return element("th", inline(Name(arm, inks.get(arm), sound, (*baseline, *refused))), scope="row")


def arm_cell(
    run: IndexedRun | None, spans: Mapping[tuple[str, str], tuple[float, float]], inks: Mapping[str, Ink]
) -> Markup:
    if run is None:
        return element("td", inline(state("waiting")))
    return element("td", run_cell(run, spans.get(comparable(run.summary)), inks.get(run.arm)))


def run_cell(run: IndexedRun, span: Span, own: Ink | None = None) -> Markup:
    """A run in a cell: its state over its curve, beside its score."""
    curve: Inline = sparkline(run.summary, span, own) if len(run.summary.curve.values) > 1 else ""
    bar = progress_bar(run.share) if run.grows else Markup("")
    whose = element("span", f"{run.folder.parent.name}, {run.folder.name}: ", class_="hidden")
    link = element("a", whose, inline(score_of(run)), href=page_of(run.address))
    parts = [element("span", inline(state_of(run))), link, element("span", inline(curve) + bar)]
    return element("div", *parts, class_="seed-run")
