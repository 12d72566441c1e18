"""`attnlab train`: pretrain a model, or go on with a run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import (
    MOST,
    JsonOption,
    SetOption,
    emit,
    err,
    exit_unsound,
    invalid_sentence,
    out,
    say_first,
)
from attnlab.config.files import config_of, identity, load, override_all, parse_override, to_json
from attnlab.config.imports import IMPORTED, import_words
from attnlab.config.schema import Config
from attnlab.config.values import ConfigError
from attnlab.documents.nodes import Inline, Sentence, muted, strong
from attnlab.runs.display import Display
from attnlab.training.strategies.launch_environment import LAUNCHED

MOST_PROCESSES = 1024
MOST_THREADS = 1024
"""With some ten thousand a library below ends the interpreter."""

if TYPE_CHECKING:
    from attnlab.session.folds import CrossValidation
    from attnlab.session.training import Run
    from attnlab.targets.report import Baseline
    from attnlab.training.budget import State

FoldsOption = Annotated[
    int | None,
    typer.Option(
        help="Cross-validation of labelled rows: train so many times, and score each fold of the rows by the "
        "model of the others.",
        min=2,
        max=MOST,
    ),
]
ProcessesOption = Annotated[
    int,
    typer.Option(
        help="Processes on this machine that train one model together (training.strategy says how); of "
        "several machines, use torchrun.",
        min=1,
        max=MOST_PROCESSES,
    ),
]
RestartsOption = Annotated[
    int,
    typer.Option(
        help="How often a run whose processes died or hung is started again, from its last checkpoint.",
        min=0,
        max=MOST,
    ),
]
ShowBatchOption = Annotated[
    bool, typer.Option("--show-batch", help="Print the first batch (inputs and targets) and stop.")
]


def train(
    config: Annotated[
        str | None, typer.Argument(help="A TOML file, a ready config (attnlab list configs), or a preset.")
    ] = None,
    set: SetOption = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The run's folder. Default: runs/NAME-HASH.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    from_run: Annotated[
        Path | None, typer.Option("--from", metavar="RUN", help="Repeat a run: its config, in a new folder.")
    ] = None,
    show_batch: ShowBatchOption = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Train although this check fails; its numbers are marked invalid. Repeatable."),
    ] = None,
    watch: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Continue this text after 1, 10, 100, … steps, and keep how it changes (watch.html).",
        ),
    ] = None,
    folds: FoldsOption = None,
    threads: Annotated[
        int,
        typer.Option(
            help="Threads to compute with. 0: as many as a step has work for.", min=0, max=MOST_THREADS
        ),
    ] = 0,
    processes: ProcessesOption = 1,
    restarts: RestartsOption = 0,
    json: JsonOption = False,
) -> None:
    """Train a model from a config. Stop with Ctrl-C at any time, and continue with --resume."""
    with together():
        if restarts and in_processes():
            raise ConfigError(
                "Processes of torchrun are started again by torchrun: give it --max-restarts, and leave out "
                "--restarts."
            )
        settings = settings_of(config, set or [], folder, resume=resume, from_run=from_run)
        place = folder or Path("runs") / f"{name_of(config, from_run)}-{identity(settings)[:8]}"
    if show_batch:
        from attnlab.cli.batches import show

        return show(settings, json=json)
    if folds and watch is not None:
        raise ConfigError("--watch is of one run; leave out --folds.")
    if folds and (processes > 1 or restarts or in_processes()):
        raise ConfigError(
            "--folds trains one model after another, each in one process; leave out --processes "
            "and --restarts."
        )
    if folds:
        return cross_validate(settings, folds, place, resume=resume, allow=allow or (), json=json)
    if (processes > 1 or restarts) and not in_processes():
        from attnlab.session.launching import RunRequest, launch_run

        request = RunRequest(settings, place, resume, tuple(allow or ()), watch, threads, json=json)
        raise typer.Exit(launch_run(request, processes=processes, restarts=restarts, tell=err.say))
    return run(settings, place, resume=resume, allow=allow or (), threads=threads, watch=watch, json=json)


def in_processes() -> bool:
    """Whether torchrun, or --processes, started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def together() -> AbstractContextManager[None]:
    """A failure inside is told once by all processes of a run."""
    if not in_processes():
        return nullcontext()
    from attnlab.training.strategies.own_processes import current

    return current().guarded()


def talks() -> bool:
    """Whether this process is the one that talks."""
    if not in_processes():
        return True
    from attnlab.training.strategies.own_processes import current

    return current().first


def settings_of(
    config: str | None, set: list[str], folder: Path | None, *, resume: bool, from_run: Path | None
) -> Config:
    """The config of a file or name, of the run that is repeated, or of the run that goes on."""
    if config is not None and from_run is not None:
        raise ConfigError("Give a config or --from RUN, not both.")
    earlier = from_run if from_run is not None else folder if resume and config is None else None
    if earlier is None:
        if config is None:
            raise ConfigError(
                "Give a config: a TOML file, a ready one (attnlab list configs), --from RUN, or --resume "
                "with the --out of a run."
            )
        return load(config, set=set)
    from attnlab.runs.folder import RunFolder
    from attnlab.runs.record import RECORD, read_record

    if (earlier / RECORD).is_file() and read_record(earlier).get("status") == "converted":
        raise ConfigError(
            f"{earlier} holds an imported model, not a run: there is nothing to repeat or to resume. Train "
            f"it on your own rows: attnlab adapt {earlier} --data FILE"
        )
    settings = to_json(RunFolder(earlier).config())
    override_all(settings, map(parse_override, set))
    return config_of(settings)


def name_of(config: str | None, from_run: Path | None) -> str:
    return Path(config).stem if config is not None else f"again-{from_run.name}" if from_run else "run"


def run(
    config: Config,
    place: Path,
    *,
    resume: bool,
    allow: Collection[str],
    threads: int,
    watch: str | None = None,
    json: bool,
) -> None:
    """Train with a progress bar, and say how it ended."""
    with together():
        ended = train_with_progress(config, place, resume=resume, allow=allow, threads=threads, watch=watch)
    if not talks():
        raise typer.Exit
    from attnlab.session.baselines import keep_baselines

    baselines = [] if ended.reason == "interrupted" else keep_baselines(ended.session, place)
    if watch is not None:
        from attnlab.session.prompt_watch import PAGE

        err.say(f"Watched prompt: {place / PAGE}")
    finish(ended, place, allow=allow, json=json, baselines=baselines)


def cross_validate(
    config: Config, folds: int, place: Path, *, resume: bool, allow: Collection[str], json: bool
) -> None:
    """Train once for each fold of the rows, and say what all of them come to."""
    from attnlab.session.folds import cross_validate as train_folds

    def train_one(config: Config, folder: Path, resume: bool) -> Run:
        return train_with_progress(config, folder, resume=resume, allow=allow)

    finish_folds(train_folds(config, folds, place, train_one, resume=resume), allow=allow, json=json)


def finish_folds(ended: CrossValidation, *, allow: Collection[str], json: bool) -> None:
    """Say what all rows together came to, and fold by fold."""
    if ended.signal:
        out.say(f"Stopped, as asked; continue with --resume. What was trained is in {ended.folder}.")
        raise typer.Exit(128 + ended.signal)
    if json:
        emit(ended.as_json())
    else:
        say_first(ended.shortfall)
        page = ended.document()
        out.show(Sentence(strong(f"{page.headline}.")), *page.nodes)
        if ended.unsound:
            out.say(invalid_sentence(ended.unsound))
    exit_unsound(ended.unsound, allow)


def finish(
    ended: Run,
    place: Path,
    *,
    allow: Collection[str],
    json: bool,
    baselines: Sequence[Baseline] = (),
) -> None:
    """Say how a run ended, a collapse first, and exit by it."""
    if json:
        result: dict[str, Any] = {"folder": str(place), "reason": ended.reason, "state": asdict(ended.state)}
        result |= {"collapsed": ended.collapsed, "baselines": [asdict(baseline) for baseline in baselines]}
        result |= {"sound": not ended.unsound, "unsound": list(ended.unsound)}
        emit(result | {"shortfall": ended.shortfall})
    else:
        say_first(ended.collapsed or ended.shortfall)
        out.say(summary(ended, place))
        say_baselines(baselines)
        if ended.not_compared:
            out.say(muted(ended.not_compared))
    if ended.reason == "interrupted":
        raise typer.Exit(128 + ended.signal)
    exit_unsound(ended.unsound, allow)


def train_with_progress(
    config: Config,
    place: Path,
    *,
    resume: bool,
    allow: Collection[str],
    threads: int = 0,
    watch: str | None = None,
) -> Run:
    """Train with a progress bar."""
    with saying_how_to_resume(place), Display(err, shown=talks()) as display:
        display.work("Starting")  # before torch is imported, which takes seconds
        from attnlab.session.run_display import displayed_session, train_displayed
        from attnlab.training.strategies.own_processes import restarted

        resume = resume or restarted()
        session = displayed_session(display, config, place, resume=resume, threads=threads)
        return train_displayed(display, session, place, resume=resume, allow=allow, watch=watch)


@contextmanager
def saying_how_to_resume(place: Path) -> Iterator[None]:
    """Ctrl-C while text is read or checks are made says how to continue: training hears it between steps."""
    try:
        yield
    except KeyboardInterrupt:
        if talks():
            err.say(f"Stopped; nothing was lost. Continue with: {resuming(place)}")
        raise typer.Exit(130) from None


def say_baselines(baselines: Sequence[Baseline]) -> None:
    from attnlab.targets.report import baselines_sentence

    if baselines:
        out.say(baselines_sentence(baselines))


def resuming(place: Path) -> str:
    """The command that continues a run."""
    own = import_words(IMPORTED.values())
    launched = os.environ.get(LAUNCHED, "1")
    several = ["--processes", launched] if launched != "1" else []
    return shlex.join(["attnlab", "train", "--resume", "--out", str(place), *several, *own])


def best_sentence(state: State, metric: str, place: Path) -> str:
    """Which checkpoint is kept, its score, and how sure the choice is."""
    if state.best_score is None:
        return ""
    folder = "" if state.best_step == state.step else f" ({place}/checkpoints/step-{state.best_step})"
    if state.best_step == state.top_step:
        return f" Best dev {metric} {state.best_score:.4f} at step {state.best_step}{folder}."
    return (
        f" Kept: step {state.best_step}{folder}, dev {metric} {state.best_score:.4f}; the best, "
        f"{state.top_score:.4f} at step {state.top_step}, is within one standard error "
        f"({state.top_error:.4f}), and of such steps the last is kept."
    )


def summary(ended: Any, place: Path) -> Inline:
    state = ended.state
    metric = ended.session.config.training.deciding(ended.session.task.metrics).replace("_", " ")
    dev = best_sentence(state, metric, place)
    if ended.reason == "interrupted":
        return (
            f"Stopped after step {state.step} as requested; everything is saved.{dev} "
            f"Continue with: {resuming(place)}"
        )
    from attnlab.training.budget import nearest

    spent = f"the budget of {nearest(ended.session.config.training.budget, state)} is spent"
    why = f"dev {metric} stopped improving (training.patience)" if ended.reason == "patience" else spent
    done = f"Done after {state.step:,} steps: {why}.{dev} The run is in {place}."
    return (done, " ", invalid_sentence(ended.failures)) if ended.failures else done
