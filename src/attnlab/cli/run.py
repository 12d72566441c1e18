"""`attnlab run`: a study, from its question to its verdict and report."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import MOST, JsonOption, SetOption, emit, err, fail, out
from attnlab.config.imports import IMPORTED, import_words
from attnlab.config.values import Choice, ConfigError
from attnlab.documents.nodes import (
    SIGNS,
    Below,
    Heading,
    Inline,
    Node,
    Number,
    Sentence,
    Table,
    TableColumn,
    Tone,
    strong,
    toned,
)
from attnlab.documents.numbers import duration
from attnlab.metrics.measures import form_of, title_of
from attnlab.runs.faults import reading
from attnlab.studies.wording import chance, difference_number, more_than_compared, places_of

if TYPE_CHECKING:
    from attnlab.evaluation.comparison import Comparison
    from attnlab.studies.outcome import ArmOutcome, StudyOutcome
    from attnlab.studies.plan import StudyPlan
    from attnlab.studies.resolved import Resolved
    from attnlab.studies.runner import EndedStudy
    from attnlab.studies.spec import Study


def run(
    study: Annotated[
        str | None,
        typer.Argument(
            help="A study (attnlab list studies), a TOML or Python file, a published .zip, a study's folder."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A smaller version: fewer tokens and seeds; the report says so.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.", min=1, max=MOST)] = None,
    jobs: Annotated[
        int,
        typer.Option(
            help="Runs at once; changes nothing but the time. 0: as many as there is room for.",
            min=0,
            max=1024,
        ),
    ] = 0,
    set: SetOption = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ARM", help="Only this arm and the baseline. Repeatable."),
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:KEY=VALUE", help="A further arm, or one more setting of it. Repeatable."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the study: finished runs are kept, others resume.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The study's folder. Default: runs/NAME-HASH.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only estimate time and minimum detectable effect; trains nothing.")
    ] = False,
    on: Annotated[
        str, typer.Option(metavar="ENGINE", help="Where runs go (attnlab list engines).")
    ] = "local",
    address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="With --on ray: a cluster that is there already.")
    ] = "",
    json: JsonOption = False,
) -> None:
    """Run a study: train every arm with every seed, compare, and write a report."""
    from attnlab.studies.engines import engine_choice

    engine = engine_choice(on, address)
    asked = StudyChanges(
        quick=quick, seeds=seeds, set=tuple(set or ()), only=tuple(only or ()), arms=tuple(arm or ())
    )
    chosen = study_of(study, folder, asked, resume=resume)
    from attnlab.studies.resolved import resolve

    resolved = resolve(chosen)
    if plan:
        resumed = folder_of(resolved, folder, resume)
        return show_plan(resolved, jobs=jobs, on=engine, resumed=resumed, json=json)
    from attnlab.runs.summary import STUDY_FILE
    from attnlab.studies.live_view import live
    from attnlab.studies.runner import default_folder, run_study

    place = folder or default_folder(resolved)
    again = command(study, asked) if study else ""
    if resume and not (place / STUDY_FILE).is_file():
        tell(f"There is nothing to resume: the study begins in {place}.")
    with live(err) as view:
        ended = run_study(
            resolved, place, jobs=jobs, resume=resume, on=engine, view=view, again=again, tell=tell
        )
    return finish_study(ended, json=json)


def finish_study(ended: EndedStudy, *, json: bool, shown: Callable[[EndedStudy], None] | None = None) -> None:
    """Show what came of a study; the exit code says whether it is what was asked for."""
    emit(ended.results) if json else (shown or show)(ended)
    if ended.signal:
        raise typer.Exit(128 + ended.signal)
    for fault in ended.faults:
        fail(str(fault))
    if ended.faults:
        raise typer.Exit(1)


def tell(message: str) -> None:
    err.say(message)


@dataclass(frozen=True)
class StudyChanges:
    """How the study is to be other than it was written."""

    quick: bool = False
    seeds: int | None = None
    set: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()


def study_of(source: str | None, folder: Path | None, asked: StudyChanges, *, resume: bool) -> Study:
    """The study that was named, or the one that a folder holds."""
    from attnlab.studies.study_files import adjusted

    changes: dict[str, Any] = {"seeds": asked.seeds, "set": asked.set, "only": asked.only, "more": asked.arms}
    if source is not None:
        from attnlab.studies.publishing import open_study

        return adjusted(open_study(source), quick=asked.quick, **changes)
    if not (resume and folder):
        raise ConfigError(
            "Give a study: a name (attnlab list studies), a TOML or Python file, or --resume with its --out."
        )
    if asked.quick:
        raise ConfigError("--quick cannot be given with --resume --out: a quick study is another one.")
    from attnlab.runs.summary import STUDY_FILE
    from attnlab.studies.resolved import from_record
    from attnlab.studies.runner import read_study_record

    record = read_study_record(folder)
    if not record:
        raise ConfigError(f"{folder} holds no study: there is no study.json in it.")
    with reading(folder / STUDY_FILE):
        stored = from_record(record)
    return adjusted(stored, **changes)


def command(study: str, asked: StudyChanges) -> str:
    """The command that runs the same again."""
    words = ["attnlab", "run", study]
    words += ["--quick"] if asked.quick else []
    words += ["--seeds", str(asked.seeds)] if asked.seeds is not None else []
    words += [word for change in asked.set for word in ("--set", change)]
    words += [word for arm in asked.only for word in ("--only", arm)]
    words += [word for arm in asked.arms for word in ("--arm", arm)]
    return shlex.join([*words, *import_words(IMPORTED.values())])


def show(ended: EndedStudy) -> None:
    """The answer, a row an arm, and where the rest is."""
    outcome = ended.outcome
    study = outcome.study
    verdict = Sentence((strong("Verdict:"), f" {outcome.headline}"))
    out.show(Heading(study.question), arms_table(outcome), verdict)
    main = [one for one in outcome.comparisons if one.metric == study.metric]
    out.show(*map(Sentence, more_than_compared(main)))
    if study.quick:
        out.show(Sentence(toned(Tone.WARNING, "This was a quick run: too few tokens and seeds to rely on.")))
    out.show(*(Sentence(f"Note: {note}") for note in outcome.notes))
    for reason in ended.failed:
        out.say(toned(Tone.WRONG, "Failed:"), f" {reason}")
    if ended.signal:
        words = ["attnlab", "run", "--resume", "--out", str(ended.folder), *engine_words(ended.on)]
        words += import_words(IMPORTED.values())
        out.say(f"Stopped as requested; every run is saved. Continue with: {shlex.join(words)}")
    report = ended.folder / "report.html"
    out.say(f"Report: {report if report.is_file() else ended.folder / 'results.json'}")


def engine_words(on: Choice) -> list[str]:
    """The options that choose an engine; none for the usual one."""
    from attnlab.studies.engines import ENGINES

    usual = ENGINES.resolve(on.kind).options
    own = [
        word for name, value in on.options.items() if value != usual[name] for word in (f"--{name}", value)
    ]
    return [*(("--on", on.kind) if on.kind != ENGINES.default else ()), *own]


COLUMNS = ("loss", "token_by_token_loss", "tokens_per_second", "bits_per_byte", "train_loss")
ROOM = 100
"""Characters from which on a line has room for all columns; a narrower one shows the first."""
TONES = {"better": Tone.GOOD, "worse": Tone.WARNING, "invalid": Tone.WRONG, "failed": Tone.WRONG}


def arms_table(outcome: StudyOutcome) -> Table:
    """A row an arm: what it came to, by how much, and its numbers."""
    measured = [name for name in COLUMNS if any(name in arm.scores for arm in outcome.arms)]
    names = [*dict.fromkeys([outcome.study.metric, *measured])][: None if out.width >= ROOM else 1]
    main = {one.arm: one for one in outcome.comparisons if one.metric == outcome.study.metric}
    places = places_of(main.values())
    rows: list[tuple[Inline, ...]] = []
    for arm in outcome.all_arms:
        compared, scores = main.get(arm.name), [arm.scores.get(name) for name in names]
        numbers = [
            Number(None) if s is None else replace(Number.within(s.value, s.interval), form=form_of(name))
            for name, s in zip(names, scores, strict=True)
        ]
        difference = Number(None)
        if compared is not None:
            difference = replace(difference_number(compared), decimals=places)
        cells = [
            replace(one, n=None, sound=arm.sound or one.value is None, without_interval="")
            for one in (difference, *numbers)
        ]
        rows.append((arm.name, verdict_cell(arm, compared, outcome.study.baselines), *cells))
    columns = [
        *(
            TableColumn("arm", whole=True),
            TableColumn("verdict", whole=True),
            TableColumn("difference", right=True),
        ),
        *(TableColumn(title_of(name), right=True) for name in names),
    ]
    counts = sorted({score.n for arm in outcome.arms for score in arm.scores.values() if score.interval})
    seeds = " or ".join(map(str, counts))
    sizes = {arm.parameters for arm in outcome.arms if arm.parameters}
    alike = f"{sizes.pop():,} parameters each." if len(sizes) == 1 else ""
    intervals = f"Below each number: its 95% interval over {seeds} seeds." if counts else ""
    return Table(columns, rows, note=" ".join(filter(None, [alike, intervals])))


def verdict_cell(arm: ArmOutcome, comparison: Comparison | None, baselines: Sequence[str]) -> Inline:
    """What an arm came to, in a word or two; p stands below it."""
    word = str(comparison.verdict) if comparison and arm.sound else arm.state.value
    if arm.name in baselines and arm.state == "finished":
        return "baseline"
    claimed = comparison is not None and comparison.claims and arm.sound
    if comparison is None or not claimed or math.isnan(comparison.p_corrected):
        return toned(TONES.get(word, Tone.MUTED), f"{SIGNS.get(word, '')} {word}".strip())
    return toned(TONES.get(word, Tone.MUTED), f"{SIGNS[word]} {word}"), Below(chance(comparison.p_corrected))


# ---------------------------------------------------------------- before anything is trained
def folder_of(resolved: Resolved, folder: Path | None, resume: bool) -> Path | None:
    """The folder of the study that is resumed; None where there is none yet."""
    from attnlab.runs.summary import STUDY_FILE
    from attnlab.studies.runner import default_folder

    place = folder or default_folder(resolved) if resume else None
    return place if place is not None and (place / STUDY_FILE).is_file() else None


def show_plan(resolved: Resolved, *, jobs: int, on: Choice, resumed: Path | None, json: bool) -> None:
    """How long each arm and the whole study take here, and the minimum detectable effect; of a study that is
    resumed, what is left."""
    from attnlab.studies.live_view import live
    from attnlab.studies.plan import plan

    with live(err) as view:
        made = plan(resolved, jobs=jobs, on=on, view=view, resumed=resumed)
    if json:
        return emit({name: known(value) for name, value in asdict(made).items()})
    out.show(*plan_nodes(made, resolved))
    return None


def plan_nodes(made: StudyPlan, resolved: Resolved) -> Iterator[Node]:
    """The time of every arm and of the whole, and what could be found."""
    rows: list[tuple[Inline, ...]] = [
        (f"{name} (trained first, once)", duration(seconds, 0) if math.isfinite(seconds) else "")
        for name, seconds in made.starts.items()
    ]
    for arm, seconds in made.runs.items():
        rows.append((arm, duration(seconds, 0) if math.isfinite(seconds) else made.reasons.get(arm, "")))
    yield Table(("arm", "one run"), rows, title=f"{resolved.study.name}, {made.seeds} seeds")
    tuning = f" (and {made.tuning_runs} runs to choose learning rates)" if made.tuning_runs else ""
    left, every = sum(made.left[arm] for arm in resolved.configs), len(resolved.configs) * made.seeds
    whole = "The whole study" if left == every else f"What is left of the study, {left} of {every} runs"
    yield Sentence((f"{whole}{tuning}: about ", strong(duration(made.seconds, 0)), "."))
    runs = left + made.tuning_runs
    yield Sentence(made.capacity.sentence(runs))
    yield detectable_sentence(made, resolved)
    yield Sentence("Nothing was trained: times are extrapolated from a few steps of each arm.", "fine")


def detectable_sentence(made: StudyPlan, resolved: Resolved) -> Sentence:
    """What the study could find."""
    if len(resolved.study.arms) == 1:
        return Sentence(
            "With one arm there is nothing to compare: it gets intervals over seeds, and no verdict."
        )
    if math.isnan(made.smallest):
        return Sentence(
            "With one seed no difference can be shown: seed noise is unknown. Use at least two (--seeds 2)."
        )
    effect = f"Minimum detectable effect on {resolved.study.metric} at 80% power: "
    if made.told_by:
        return Sentence((effect, strong(f"{made.smallest:.3g}"), f" (spread taken from {made.told_by})."))
    follows = " of the paired differences between seeds; a first run (--quick) estimates that SD."
    return Sentence((effect, strong(f"{made.smallest:.1f} × SD"), follows))


def known(value: object) -> object:
    """JSON knows no nan."""
    if isinstance(value, dict):
        return {name: known(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
