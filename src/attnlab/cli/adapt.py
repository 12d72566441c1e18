"""`attnlab adapt`: a trained model, adapted to a person's labelled texts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import JsonOption, SetOption, emit, err, not_sound, out, say_first
from attnlab.cli.corpus_options import (
    AnswersOption,
    DevOption,
    EncodingOption,
    LabelOption,
    PairOption,
    SkipOption,
    TemplateOption,
    TestOption,
    TextOption,
    WordsOption,
)
from attnlab.cli.train import exit_unsound, finish, say_baselines, train_shown
from attnlab.config.schema import Config

if TYPE_CHECKING:
    from attnlab.session.baselines import Wording
    from attnlab.session.training import Run


def adapt(
    start: Annotated[
        str,
        typer.Argument(
            help="The model to start from: a run, a checkpoint, a folder in transformers' layout, or minilm."
        ),
    ],
    data: Annotated[str, typer.Option(help="Rows with labels or answers (.csv, .jsonl, …, SQuAD's .json).")],
    text: TextOption = "",
    label: LabelOption = "",
    pair: PairOption = "",
    answers: AnswersOption = "",
    dev: DevOption = "",
    test: TestOption = "",
    task: Annotated[
        str,
        typer.Option(
            help="classification, multilabel, regression, tagging, answering or similarity; its options with "
            "--set task.NAME=VALUE. Default: from the data."
        ),
    ] = "",
    adapter: Annotated[
        str, typer.Option(help="What is trained, e.g. lora(rank=8); see attnlab list adapters.")
    ] = "full",
    rates: Annotated[
        str,
        typer.Option(
            metavar="RATES",
            help="Learning rates to try, e.g. 1e-5,5e-5,2e-4, or usual: 0.1, 0.3, 1 and 3 times the method's "
            "own. The best on dev is kept.",
        ),
    ] = "",
    template: TemplateOption = "",
    label_words: WordsOption = "",
    set: SetOption = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The run's folder. Default: runs/DATA-ADAPTER-HASH."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume that run.")] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Train although this check fails; its numbers are marked not sound. Repeatable."),
    ] = None,
    encoding: EncodingOption = "",
    skip_bad: SkipOption = False,
    json: JsonOption = False,
) -> None:
    """Adapt a trained model to your own labelled texts: fine-tune it, or train a small part on it."""
    from attnlab.session.adapting import adapting_config, adapting_plan, run_folder
    from attnlab.session.baselines import keep_baselines, wording_from

    reading: dict[str, Any] = {"text": text, "pair": pair, "label": label, "dev": dev, "test": test}
    reading |= {"answers": answers, "encoding": encoding, "skip_bad": skip_bad}
    config = adapting_config(start, data=data, adapter=adapter, task=task, reading=reading, set=set or ())
    place, wording = folder or run_folder(config, data), wording_from(template, label_words)

    def tell(setup: Any) -> tuple[()]:
        err.print(str(adapting_plan(setup, place)), soft_wrap=True)
        return ()

    if rates:
        return run_rates(config, rates, place, tell, wording, resume=resume, allow=allow or (), json=json)
    ended = train_shown(config, place, resume=resume, allow=allow or (), watchers=tell)
    found = [] if ended.reason == "interrupted" else keep_baselines(place, wording)
    return finish(ended, place, allow=allow or (), json=json, baselines=found)


def run_rates(
    config: Config,
    wanted: str,
    place: Path,
    tell: Any,
    wording: Wording,
    *,
    resume: bool,
    allow: Collection[str],
    json: bool,
) -> None:
    """Train at each rate, say what became of them, and keep the best as the run."""
    from attnlab.runs.findings import unsound_of
    from attnlab.session.baselines import keep_baselines
    from attnlab.session.rates import rates_of, try_rates

    rates = rates_of(wanted, config)
    err.say(f"Learning rates: {', '.join(f'{rate:g}' for rate in rates)}; a run each.")
    watchers = [tell]  # what it will do is told once

    def train_one(one: Config, folder: Path, again: bool) -> Run:
        err.say(f"Rate {one.training.optimizer.options['learning_rate']:g}:")
        watcher = watchers.pop() if watchers else lambda setup: ()
        return train_shown(one, folder, resume=again, allow=allow, watchers=watcher)

    found = try_rates(config, rates, place, train_one, resume=resume)
    if found.signal:
        out.say(f"Stopped, as asked; go on with --resume. What was tried is in {found.folder}.")
        raise typer.Exit(128 + found.signal)
    unsound, baselines = unsound_of(place), keep_baselines(place, wording)
    if json:
        said: dict[str, Any] = {"folder": str(place), "rates": found.as_json()}
        said |= {"collapsed": found.best.collapsed, "baselines": [asdict(one) for one in baselines]}
        emit(said | {"sound": not unsound, "unsound": unsound})
    else:
        say_first(found.best.collapsed)
        out.print(str(found), soft_wrap=True)
        out.say(f"The run of rate {found.best.rate:g} is in {place}.")
        say_baselines(baselines)
        if unsound:
            out.say(not_sound(unsound))
    exit_unsound(unsound, allow)
