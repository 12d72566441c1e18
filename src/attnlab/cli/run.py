"""`attnlab run`: a study, from its question to its verdict and report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from attnlab.cli.console import MOST, JsonOption, SetOption, emit, err, fail, out
from attnlab.config.imports import IMPORTED, import_words
from attnlab.config.values import ConfigError
from attnlab.config.visible_text import visible
from attnlab.runs.damage import reading
from attnlab.runs.display import escape

if TYPE_CHECKING:
    from attnlab.studies.runner import EndedStudy
    from attnlab.studies.spec import Study


def run(
    study: Annotated[
        str | None, typer.Argument(help="A study (attnlab list studies), or a TOML or Python file.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A smaller version: fewer tokens and seeds; the report says so.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.", min=1, max=MOST)] = None,
    jobs: Annotated[
        int,
        typer.Option(
            help="Runs at once; changes nothing but the time. 0: as many as cores.", min=0, max=1024
        ),
    ] = 0,
    set: SetOption = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ARM", help="Only this arm and the baseline. Repeatable."),
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
    engine: Annotated[str, typer.Option(help="Where runs are executed (attnlab list engines).")] = "local",
    json: JsonOption = False,
) -> None:
    """Run a study: train every arm with every seed, compare, and write a report."""
    refuse_engine(engine)
    chosen = study_of(study, folder, resume=resume, quick=quick, seeds=seeds, set=set or [], only=only or [])
    from attnlab.studies.resolved import resolve

    resolved = resolve(chosen)
    if plan:
        from attnlab.cli.plan_view import show_plan

        return show_plan(resolved, jobs=jobs, engine=engine, json=json)
    from attnlab.runs.summary import STUDY_FILE
    from attnlab.studies.live_view import live
    from attnlab.studies.runner import default_folder, run_study

    place = folder or default_folder(resolved)
    again = command(study, quick=quick, seeds=seeds, set=set or [], only=only or []) if study else ""
    if resume and not (place / STUDY_FILE).is_file():
        tell(f"There is nothing to resume: the study begins in {place}.")
    with live(err) as view:
        ended = run_study(
            resolved, place, jobs=jobs, resume=resume, engine=engine, view=view, again=again, tell=tell
        )
    emit(ended.results) if json else show(ended)
    if ended.signal:
        raise typer.Exit(128 + ended.signal)
    for fault in ended.faults:
        fail(fault)
    if ended.faults:
        raise typer.Exit(1)
    return None


def tell(message: str) -> None:
    err.print(message, highlight=False, markup=False, soft_wrap=True)


def refuse_engine(engine: str) -> None:
    from attnlab.studies.engines import ENGINES

    if engine == "ray":
        raise ConfigError("--engine ray is not available yet; use --engine local.")
    if engine not in ENGINES:
        raise ConfigError(f'--engine takes {" or ".join(ENGINES)}, not "{engine}".')


def study_of(
    source: str | None,
    folder: Path | None,
    *,
    resume: bool,
    quick: bool,
    seeds: int | None,
    set: list[str],
    only: list[str],
) -> Study:
    """The study that was named, or the one that a folder holds."""
    from attnlab.studies.study_files import adjusted, load_study

    if source is not None:
        return adjusted(load_study(source), quick=quick, seeds=seeds, set=set, only=only)
    if not (resume and folder):
        raise ConfigError(
            "Give a study: a name (attnlab list studies), a TOML or Python file, or --resume with its --out."
        )
    if quick:
        raise ConfigError("--quick cannot be given with --resume --out: a quick study is another one.")
    from attnlab.runs.summary import STUDY_FILE
    from attnlab.studies.resolved import from_record
    from attnlab.studies.runner import read_study_record

    record = read_study_record(folder)
    if not record:
        raise ConfigError(f"{folder} holds no study: there is no study.json in it.")
    with reading(folder / STUDY_FILE):
        held = from_record(record)
    return adjusted(held, seeds=seeds, set=set, only=only)


def command(study: str, *, quick: bool, seeds: int | None, set: list[str], only: list[str]) -> str:
    """The command that runs the same again."""
    words = ["attnlab", "run", study]
    words += ["--quick"] if quick else []
    words += ["--seeds", str(seeds)] if seeds is not None else []
    words += [word for change in set for word in ("--set", change)]
    words += [word for arm in only for word in ("--only", arm)]
    return shlex.join([*words, *import_words(IMPORTED.values())])


def show(ended: EndedStudy) -> None:
    """The verdict, the arms, and where the rest is."""
    results = ended.results
    study = results["study"]
    out.print(f"\n[bold]{escape(study['question'])}[/]", highlight=False)
    out.print(arms_table(results))
    out.print(f"[bold]Verdict:[/] {escape(results['verdict'])}", highlight=False)
    if study["quick"]:
        out.print("This was a quick run: too few tokens and seeds to rely on.", style="yellow")
    for note in study["notes"]:
        out.print(f"Note: {escape(note)}", highlight=False)
    for reason in ended.failed:
        out.print(f"[bold red]Failed:[/] {escape(reason)}", highlight=False, soft_wrap=True)
    if ended.signal:
        words = ["attnlab", "run", "--resume", "--out", str(ended.folder), *import_words(IMPORTED.values())]
        out.print(
            f"Stopped as requested; every run is saved. Continue with: {escape(shlex.join(words))}",
            highlight=False,
            soft_wrap=True,
        )
    report = ended.folder / "report.html"
    place = report if report.is_file() else ended.folder / "results.json"
    out.print(f"Report: {escape(visible(str(place)))}", highlight=False, soft_wrap=True)


COLUMNS = ("loss", "token_by_token_loss", "tokens_per_second", "bits_per_byte", "train_loss")
ROOM = 100
"""Characters from which on a line has room for all columns; a narrower one shows the first three."""


def arms_table(results: dict[str, Any]) -> Table:
    wanted = COLUMNS if out.width >= ROOM else COLUMNS[:3]
    found = [name for name in wanted if any(name in arm["metrics"] for arm in results["arms"])]
    names = dict.fromkeys([results["study"]["metric"], *found])
    sizes = {arm["parameters"] for arm in results["arms"]}
    alike = f"{sizes.pop():,} parameters each" if len(sizes) == 1 else None
    table = Table(
        Column("arm", no_wrap=True),
        "state",
        *([] if alike else [Column("parameters", justify="right")]),
        *(Column(escape(name.replace("_", " ")), justify="right") for name in names),
        caption=alike,
        caption_justify="left",
    )
    for arm in results["arms"]:
        colour = {"finished": "green", "invalid": "bold red", "failed": "red"}.get(arm["status"], "yellow")
        values = [interval(arm["metrics"].get(name)) for name in names]
        size = [] if alike else [f"{arm['parameters']:,}"]
        table.add_row(escape(arm["name"]), f"[{colour}]{arm['status']}[/]", *size, *values)
    for arm in results.get("refused", ()):
        table.add_row(escape(arm["name"]), "[red]refused[/]")
    return table


def interval(estimate: dict[str, Any] | None) -> str:
    """A value with half of its interval, in as many digits as that supports."""
    from attnlab.studies.report.number_text import decimals

    if estimate is None or estimate["value"] is None:
        return "–"
    value, places = estimate["value"], decimals([estimate])
    if estimate["low"] is None:
        return f"{value:,.{places}f}"
    return f"{value:,.{places}f} ± {(estimate['high'] - estimate['low']) / 2:,.{places}f}"
