"""`attnlab evaluate`: scores of a trained model, each with its definition."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import (
    MOST,
    AllowOption,
    HtmlOption,
    JsonOption,
    RunArgument,
    emit,
    err,
    exit_unsound,
    invalid_sentence,
    out,
    say_first,
)
from attnlab.cli.corpus_options import (
    AnswersOption,
    EncodingOption,
    LabelOption,
    PairOption,
    SeparatorOption,
    SkipOption,
    TemplateOption,
    TextOption,
    WordsOption,
)
from attnlab.config.values import ConfigError
from attnlab.documents.nodes import Figure, Sentence
from attnlab.runs.display import Display

if TYPE_CHECKING:
    from attnlab.evaluation.evaluation_result import EvaluationResult
    from attnlab.session.trained import Trained


def evaluate(
    run: RunArgument,
    split: Annotated[str, typer.Option(help="The split to score: dev, test or train.")] = "dev",
    on: Annotated[
        Path | None,
        typer.Option(help="Other files to score: plain text (long texts in windows) or rows with labels."),
    ] = None,
    probe: Annotated[
        list[str] | None, typer.Option(help="A sentence to score by itself, or source => target. Repeatable.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Texts for the token-by-token loss.", min=2, max=MOST)] = 32,
    text: TextOption = "",
    pair: PairOption = "",
    label: LabelOption = "",
    answers: AnswersOption = "",
    encoding: EncodingOption = "",
    separator: SeparatorOption = "",
    skip_bad: SkipOption = False,
    template: TemplateOption = "",
    label_words: WordsOption = "",
    allow: AllowOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Score a trained model: its task's metrics, each with its n, its interval and its definition.

    Exits 1 where a number is not confirmed by a second computation, or the run failed a check.
    """
    reading: dict[str, Any] = {"text": text, "pair": pair, "label": label, "answers": answers}
    reading |= {"encoding": encoding, "skip_bad": skip_bad, "separator": separator}
    options = {name: value for name, value in reading.items() if value}
    if options and on is None:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in options)
        raise ConfigError(f"{named} says how the files of --on are read; give --on FILE, or leave it out.")
    with Display(err) as display:
        display.work("Opening the run")
        from attnlab.session.baselines import wording_from
        from attnlab.session.evaluating import evaluate as evaluate_model
        from attnlab.session.trained import Trained

        trained = Trained.at(run)
        wording = wording_from(template, label_words) if template or label_words else None
        display.work("Scoring")
        probes = probe or ()
        result = evaluate_model(trained, split, on=on, probes=probes, rows=rows, wording=wording, **options)
    if html is not None:
        from attnlab.documents.html import page
        from attnlab.runs.atomic import replace_bytes

        replace_bytes(html, page(result.document()).encode())
        err.say(f"Page: {html}")
    if json:
        emit(as_json(trained, result, "split" if on is None else "text"))
    else:
        if result.scores:
            say_first(result.collapse or result.shortfall)
            out.show(Sentence(f"The model of {trained.checkpoint}."))
        out.show(*(node for node in result.document().nodes if not isinstance(node, Figure)))
        if trained.unsound:
            out.say(invalid_sentence(trained.unsound))
    exit_unsound([*trained.unsound, *result.failed], allow)


def as_json(trained: Trained, result: EvaluationResult, scored: str) -> dict[str, Any]:
    """Which model it is, what was `scored`, and the probe sentences beside it."""
    scores = result.as_json()
    probes = scores.pop("probes", None)
    return {
        "run": str(trained.folder),
        "step": trained.step,
        "checkpoint": trained.checkpoint,
        "sound": not trained.unsound,
        "unsound": trained.unsound,
        **({scored: scores} if scores else {}),
        **({} if probes is None else {"probes": probes}),
    }
