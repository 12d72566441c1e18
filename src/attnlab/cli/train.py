"""`attnlab train`: pretrain a model, or go on with a run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from attnlab.cli.console import (
    JsonOption,
    SetOption,
    checked,
    emit,
    err,
    not_sound,
    out,
    say_first,
    visible,
)
from attnlab.config.files import config_of, identity, load, override_all, parse_override, to_json
from attnlab.config.imports import IMPORTED, import_words
from attnlab.config.schema import Config
from attnlab.config.values import ConfigError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from attnlab.experiment.baselines import Baseline
    from attnlab.experiment.run import Run


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
    show_batch: Annotated[
        bool, typer.Option("--show-batch", help="Print the first batch (inputs and targets) and stop.")
    ] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Train although this check fails; its numbers are marked not sound. Repeatable."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Train a model from a config. Stop with Ctrl-C at any time, and continue with --resume."""
    settings = settings_of(config, set or [], folder, resume=resume, from_run=from_run)
    if show_batch:
        from attnlab.cli.batches import show

        return show(settings, json=json)
    place = folder or Path("runs") / f"{name_of(config, from_run)}-{identity(settings)[:8]}"
    return run(settings, place, resume=resume, allow=allow or (), json=json)


def settings_of(
    config: str | None, set: list[str], folder: Path | None, *, resume: bool, from_run: Path | None
) -> Config:
    """The config of a file or name, of the run that is repeated, or of the run that goes on."""
    if config is not None and from_run is not None:
        raise ConfigError("Give a config or --from RUN, not both.")
    held = from_run if from_run is not None else folder if resume and config is None else None
    if held is None:
        if config is None:
            raise ConfigError(
                "Give a config: a TOML file, a ready one (attnlab list configs), --from RUN, or --resume "
                "with the --out of a run."
            )
        return load(config, set=set)
    from attnlab.runs.folder import RunFolder

    settings = to_json(RunFolder(held).config())
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
    json: bool,
) -> None:
    """Train with a progress bar, and say how it ended."""
    finish(train_shown(config, place, resume=resume, allow=allow), place, allow=allow, json=json)


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
        said: dict[str, Any] = {"folder": str(place), "reason": ended.reason, "state": asdict(ended.state)}
        said |= {"collapsed": ended.collapsed, "baselines": [asdict(one) for one in baselines]}
        emit(said | {"sound": not ended.unsound, "unsound": list(ended.unsound)})
    else:
        say_first(ended.collapsed)
        out.print(summary(ended, place), highlight=False, soft_wrap=True)
        say_baselines(baselines)
    if ended.reason == "interrupted":
        raise typer.Exit(128 + ended.signal)
    exit_unsound(ended.unsound, allow)


def train_shown(
    config: Config,
    place: Path,
    *,
    resume: bool,
    allow: Collection[str],
    watchers: Callable[[Any], Iterable[Any]] = lambda setup: (),
) -> Run:
    """Train with a progress bar; `watchers` is called once the run is set up."""
    from attnlab.experiment.run import default_cache
    from attnlab.experiment.run import train as train_run

    with bar(config.training.device, resume=resume) as listener:
        return train_run(
            config,
            place,
            resume=resume,
            cache=default_cache(),
            listeners=[listener],
            watchers=watchers,
            allow=allow,
        )


def say_baselines(baselines: Sequence[Baseline]) -> None:
    from attnlab.experiment.baselines import line_of

    if baselines:
        out.print(escape(visible(line_of(baselines))), highlight=False, soft_wrap=True)


def exit_unsound(unsound: Iterable[str], allow: Collection[str]) -> None:
    """Exit code 1 where a check failed that was not allowed to."""
    follows = {"honesty"} if "dependency" in allow else set[str]()  # a leak that is allowed shows there, too
    if {*unsound} - {*allow} - follows:
        raise typer.Exit(1)


def summary(ended: Any, place: Path) -> str:
    state = ended.state
    metric = ended.setup.task.metrics[0].replace("_", " ")
    dev = ""
    if state.best_score is not None:
        kept = "" if state.best_step == state.step else f" ({place}/checkpoints/step-{state.best_step})"
        dev = f" Best dev {metric} {state.best_score:.4f} at step {state.best_step}{kept}."
    if ended.reason == "interrupted":
        own = import_words(IMPORTED.values())
        return (
            f"Stopped after step {state.step} as requested; everything is saved.{dev} "
            f"Continue with: {shlex.join(['attnlab', 'train', '--resume', '--out', str(place), *own])}"
        )
    from attnlab.training.budget import nearest

    spent = f"the budget of {nearest(ended.setup.config.training.budget, state)} is spent"
    why = f"dev {metric} stopped improving (training.patience)" if ended.reason == "patience" else spent
    doubt = f" {not_sound(ended.failures)}" if ended.failures else ""
    return f"Done after {state.step:,} steps: {why}.{dev} The run is in {place}.{doubt}"


@contextmanager
def bar(device: str, *, resume: bool) -> Iterator[Bar]:
    """A progress bar on stderr, where a terminal is; stdout stays for results."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("[bold]step {task.fields[step]}[/]"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=False, disable=not err.is_terminal) as progress:
        yield Bar(progress, device, resume=resume)


class Bar:
    """Shows a run's events: step, loss, tokens per second, share of the machine's peak, time left."""

    def __init__(self, progress: Progress, device: str, *, resume: bool):
        self.progress, self.device, self.resume = progress, device, resume
        self.task: TaskID | None = None
        self.peak = 0.0
        self.seconds = self.tokens = self.flops = 0.0

    def __call__(self, event: Any) -> None:
        from attnlab.runs.events import Checked, Evaluated, Started, Stepped, Warned

        if isinstance(event, Started):
            self.start(event)
        elif isinstance(event, Stepped):
            self.step(event)
        elif isinstance(event, Evaluated):
            scores = ", ".join(f"{name} {score:,.4g}" for name, score in event.scores.items())
            mark = " (best)" if event.best else ""
            self.say(f"step {event.step:,}: dev loss {event.loss:.4f}{mark}, {scores}")
        elif isinstance(event, Checked):
            self.say(checked(event.outcomes, event.seconds))
        elif isinstance(event, Warned):
            self.say(f"[yellow]Warning:[/] {event.message}")

    def start(self, event: Any) -> None:
        from attnlab.training.machine import device_of, peak_flops

        step = event.step
        self.say(f"{event.parameters:,} parameters. {event.ends}")
        if self.resume:
            self.say(
                f"Resuming from step {step:,}." if step else "No checkpoint was saved: starting from step 0."
            )
        if self.progress.disable:
            return
        self.peak = peak_flops(device_of(self.device))
        self.say(f"The machine's matrix-product peak is {self.peak / 1e9:,.0f} GFLOP/s.")
        self.task = self.progress.add_task("", total=1.0, step=step, loss="–", speed="")

    def step(self, event: Any) -> None:
        if self.task is None:
            return
        keep = 0.95  # of what was seen before: a few dozen steps decide the speed that is shown
        self.seconds = keep * self.seconds + event.seconds
        self.tokens = keep * self.tokens + event.tokens
        self.flops = keep * self.flops + event.flops
        rate, share = self.tokens / self.seconds, self.flops / self.seconds / self.peak
        self.progress.update(
            self.task,
            completed=event.progress,
            step=f"{event.step:,}",
            loss=f"{event.loss:.3f}",
            speed=f"{rate:,.0f} tokens/s ({share:.0%} of peak)",
        )

    def say(self, message: str) -> None:
        self.progress.console.print(message, highlight=False, soft_wrap=True)
