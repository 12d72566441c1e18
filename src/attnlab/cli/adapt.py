"""`attnlab adapt`: a trained model, adapted to a person's labelled texts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
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
from attnlab.cli.corpus_options import (
    AnswersOption,
    DevOption,
    EncodingOption,
    ImageOption,
    LabelOption,
    PairOption,
    SeparatorOption,
    SkipOption,
    TemplateOption,
    TestOption,
    TextOption,
    WordsOption,
)
from attnlab.cli.train import (
    FoldsOption,
    ProcessesOption,
    RestartsOption,
    ShowBatchOption,
    finish,
    finish_folds,
    in_processes,
    say_baselines,
    saying_how_to_resume,
)
from attnlab.config.values import ConfigError
from attnlab.config.wording import count_of
from attnlab.documents.nodes import Heading, Inline, Number, Sentence, Table, TableColumn, Tone, strong, toned
from attnlab.documents.numbers import duration
from attnlab.metrics.measures import form_of, title_of
from attnlab.runs.display import Display

if TYPE_CHECKING:
    from attnlab.session.adapting import Adapted
    from attnlab.studies.runner import EndedStudy
    from attnlab.studies.spec import Study


def adapt(
    start: Annotated[
        str,
        typer.Argument(
            help="The model to start from: a run, a checkpoint, a folder in transformers' layout, or minilm."
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            help="Rows with labels or answers (.csv, .jsonl, …, SQuAD's .json), or a folder of pictures."
        ),
    ],
    text: TextOption = "",
    label: LabelOption = "",
    pair: PairOption = "",
    image: ImageOption = "",
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
        str,
        typer.Option(
            help="What is trained, e.g. lora(rank=8); see attnlab list adapters. Of several, e.g. "
            "full,lora,head, a study: one table and a recommendation."
        ),
    ] = "full",
    seeds: Annotated[
        int | None,
        typer.Option(help="Seeds of each of several methods. Default: 3.", min=1, max=MOST),
    ] = None,
    rates: Annotated[
        str,
        typer.Option(
            metavar="RATES",
            help="Learning rates to try, e.g. 1e-5,5e-5,2e-4, or usual: 0.1, 0.3, 1 and 3 times the method's "
            "own. The best on dev is kept.",
        ),
    ] = "",
    folds: FoldsOption = None,
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
    processes: ProcessesOption = 1,
    restarts: RestartsOption = 0,
    json: JsonOption = False,
) -> None:
    """Adapt a trained model to your own labelled texts: fine-tune it, or train a small part on it."""
    from attnlab.session.adapting import adapt as adapt_start
    from attnlab.session.adapting import adapting_config, run_folder
    from attnlab.session.baselines import wording_from
    from attnlab.session.rates import rates_of
    from attnlab.studies.methods import methods_of, methods_study

    reading: dict[str, Any] = {"text": text, "pair": pair, "label": label, "dev": dev, "test": test}
    reading |= {
        "image": image,
        "answers": answers,
        "encoding": encoding,
        "skip_bad": skip_bad,
        "separator": separator,
    }
    methods = methods_of(adapter)
    several = len(methods) > 1 or bool(rates or folds or template or label_words)
    refuse_processes(launched=processes > 1 or restarts > 0, several=several)
    if len(methods) > 1:
        alone = {
            "--rates": rates,
            "--folds": folds,
            "--template": template,
            "--label-words": label_words,
            "--allow": allow,
        }
        refuse_for_several(alone | {"--show-batch": show_batch})
        asked = methods_study(start, methods, data=data, task=task, reading=reading, set=set or ())
        asked = asked if seeds is None else replace(asked, seeds=seeds)
        return adapt_by_methods(asked, folder, resume=resume, json=json)
    if seeds is not None:
        raise ConfigError("--seeds is for several methods (--adapter full,lora); one run has --set seed=N.")
    config = adapting_config(start, data=data, adapter=adapter, task=task, reading=reading, set=set or ())
    if show_batch:
        from attnlab.cli.batches import show

        return show(config, json=json)
    place = folder or run_folder(config, data)
    if folds and (rates or template or label_words):
        raise ConfigError(
            "--folds scores one way of training, without label words; leave out --rates and --template."
        )
    if processes > 1 or restarts:
        from attnlab.session.launching import RunRequest, launch_run

        request = RunRequest(config, place, resume, tuple(allow or ()), json=json)
        raise typer.Exit(launch_run(request, processes=processes, restarts=restarts, tell=err.say))
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
            folds=folds or 0,
            wording=wording_from(template, label_words),
            resume=resume,
            allow=allow or (),
        )
    if ended.folds is not None:
        return finish_folds(ended.folds, allow=allow or (), json=json)
    if ended.run is not None:
        return finish(ended.run, place, allow=allow or (), json=json, baselines=ended.baselines)
    return finish_rates(ended, allow=allow or (), json=json)


def refuse_processes(*, launched: bool, several: bool) -> None:
    """Several processes train one model; torchrun starts them with `attnlab train`."""
    if in_processes():
        raise ConfigError(
            "attnlab adapt starts its processes itself: attnlab adapt … --processes N. For several machines, "
            "write its settings to a file, with start and adapter, and torchrun -m attnlab train FILE."
        )
    if launched and several:
        raise ConfigError(
            "--processes and --restarts are of one run; leave out --rates, --folds and label words, and give "
            "one --adapter."
        )


def refuse_for_several(given: Mapping[str, Any]) -> None:
    """Stop where an option of one run is given with several methods."""
    named = ", ".join(option for option, value in given.items() if value)
    if named:
        raise ConfigError(f"{named} is of one run; give one method with --adapter, or leave it out.")


def adapt_by_methods(study: Study, folder: Path | None, *, resume: bool, json: bool) -> None:
    """Train by each method with each seed; one table, and one recommendation."""
    from attnlab.cli.run import finish_study
    from attnlab.session.adapting_plan import data_plan
    from attnlab.session.session import Session, default_cache
    from attnlab.studies.live_view import live
    from attnlab.studies.resolved import resolve
    from attnlab.studies.runner import default_folder, run_study

    resolved = resolve(study)
    place = folder or default_folder(resolved)
    with Display(err) as display:
        display.work("Reading the rows")
        session = Session(resolved.config(study.baseline, study.all_seeds[0]), cache=default_cache())
        lines = data_plan(session).lines()
    err.print("\n".join(lines), soft_wrap=True)
    with live(err) as view:
        ended = run_study(resolved, place, resume=resume, view=view, tell=err.say)
    finish_study(ended, json=json, shown=show_methods)


def show_methods(ended: EndedStudy) -> None:
    """What each method reaches and takes, which one to use, and where its runs are."""
    from attnlab.studies.outcome import NoteKind
    from attnlab.studies.runner import run_folder
    from attnlab.studies.wording import recommendation_sentence, verdict_phrase

    outcome, metric = ended.outcome, ended.outcome.study.metric
    verdicts = {c.arm: verdict_phrase(c) for c in outcome.comparisons if c.metric == metric}
    rows: list[tuple[Inline, ...]] = []
    for arm in outcome.arms:
        score, seconds = arm.scores.get(metric), arm.scores.get("seconds")
        number = Number(None) if score is None else Number.within(score.value, score.interval)
        number = replace(number, form=form_of(metric), sound=arm.sound, n=None, without_interval="")
        took = duration(seconds.value, 0) if seconds else ""
        tuned = "" if arm.tuned_parameters is None else f"{arm.tuned_parameters:,}"
        state = "baseline" if arm.name == outcome.study.baseline and arm.sound else arm.state.value
        rows.append((arm.name, number, tuned, took, verdicts.get(arm.name, state)))
    right = [TableColumn(name, right=True) for name in (title_of(metric), "tuned", "training")]
    against = TableColumn(f"against {outcome.study.baseline}")
    columns = (TableColumn("method", whole=True), *right, against)
    seeds = count_of(len(outcome.study.seeds), "seed")
    note = f"Means over {seeds}, with 95% intervals over seeds; the time is that of training steps."
    out.show(Heading(outcome.study.question), Table(columns, rows, note=note))
    chosen = outcome.extra.get("recommendation", {})
    out.show(Sentence(strong(recommendation_sentence(chosen)))) if chosen else None
    out.show(*(Sentence(f"Note: {note}") for note in outcome.notes if note.kind is not NoteKind.RECOMMENDED))
    for reason in ended.failed:
        out.say(toned(Tone.WRONG, "Failed:"), f" {reason}")
    if method := chosen.get("method"):
        place = run_folder(ended.folder, method, outcome.study.seeds[0])
        out.say(f"A run of {method}: {place}; all of them: {ended.folder / 'report.html'}")


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
        emit(result | {"sound": not unsound, "unsound": unsound, "shortfall": ended.shortfall})
    else:
        say_first(tried.best.collapsed or ended.shortfall)
        out.print(str(tried), soft_wrap=True)
        out.say(f"The run of rate {tried.best.rate:g} is in {place}.")
        say_baselines(baselines)
        if unsound:
            out.say(invalid_sentence(unsound))
    exit_unsound(unsound, allow)
