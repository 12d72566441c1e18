"""`attnlab adapt`: a trained model, adapted to a person's labelled texts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import (
    JsonOption,
    SetOption,
    emit,
    err,
    exit_unsound,
    invalid_sentence,
    out,
    say_first,
)
from attnlab.cli.corpus_options import (
    AnswersOption,
    DevOption,
    EncodingOption,
    LabelOption,
    PairOption,
    SeparatorOption,
    SkipOption,
    TemplateOption,
    TestOption,
    TextOption,
    WordsOption,
)
from attnlab.cli.train import ShowBatchOption, finish, say_baselines, saying_how_to_resume
from attnlab.runs.display import Display

if TYPE_CHECKING:
    from attnlab.session.adapting import Adapted


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
    show_batch: ShowBatchOption = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Train although this check fails; its numbers are marked invalid. Repeatable."),
    ] = None,
    encoding: EncodingOption = "",
    separator: SeparatorOption = "",
    skip_bad: SkipOption = False,
    json: JsonOption = False,
) -> None:
    """Adapt a trained model to your own labelled texts: fine-tune it, or train a small part on it."""
    from attnlab.session.adapting import adapt as adapt_start
    from attnlab.session.adapting import adapting_config, run_folder
    from attnlab.session.baselines import wording_from
    from attnlab.session.rates import rates_of

    reading: dict[str, Any] = {"text": text, "pair": pair, "label": label, "dev": dev, "test": test}
    reading |= {"answers": answers, "encoding": encoding, "skip_bad": skip_bad, "separator": separator}
    config = adapting_config(start, data=data, adapter=adapter, task=task, reading=reading, set=set or ())
    if show_batch:
        from attnlab.cli.batches import show

        return show(config, json=json)
    place = folder or run_folder(config, data)
    if rates:
        named = ", ".join(f"{rate:g}" for rate in rates_of(rates, config))
        err.say(f"Learning rates: {named}; a run each.")
    with saying_how_to_resume(place):
        ended = adapt_start(
            config,
            place,
            display=lambda: Display(err),
            tell=lambda plan: err.print(plan, soft_wrap=True),
            rates=rates,
            wording=wording_from(template, label_words),
            resume=resume,
            allow=allow or (),
        )
    if ended.run is not None:
        return finish(ended.run, place, allow=allow or (), json=json, baselines=ended.baselines)
    return finish_rates(ended, allow=allow or (), json=json)


def finish_rates(ended: Adapted, *, allow: Collection[str], json: bool) -> None:
    """Say what became of several learning rates."""
    from attnlab.runs.findings import unsound_of

    tried, place, baselines = ended.rates, ended.folder, ended.baselines
    assert tried is not None
    if tried.signal:
        out.say(f"Stopped, as asked; continue with --resume. What was tried is in {tried.folder}.")
        raise typer.Exit(128 + tried.signal)
    unsound = unsound_of(place)
    if json:
        result: dict[str, Any] = {"folder": str(place), "rates": tried.as_json()}
        result |= {
            "collapsed": tried.best.collapsed,
            "baselines": [asdict(baseline) for baseline in baselines],
        }
        emit(result | {"sound": not unsound, "unsound": unsound})
    else:
        say_first(tried.best.collapsed)
        out.print(str(tried), soft_wrap=True)
        out.say(f"The run of rate {tried.best.rate:g} is in {place}.")
        say_baselines(baselines)
        if unsound:
            out.say(invalid_sentence(unsound))
    exit_unsound(unsound, allow)
