"""`attnlab ask`: a question, answered from a person's own text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from attnlab.cli.console import (
    AllowOption,
    JsonOption,
    RunArgument,
    emit,
    err,
    exit_unsound,
    invalid_sentence,
    out,
    warn,
)
from attnlab.cli.corpus_options import EncodingOption
from attnlab.config.values import ConfigError
from attnlab.documents.nodes import Marked, MarkedSpan, Node, Sentence, Table, Tone, muted, strong, toned
from attnlab.runs.display import Display

if TYPE_CHECKING:
    from attnlab.session.questions import PassageAnswer, RankedAnswers
    from attnlab.session.trained import Trained

OTHERS = 10
"""Further passages that are listed."""


def ask(
    run: RunArgument,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question, in quotes.")],
    passage: Annotated[
        list[str],
        typer.Option(help="A text file, folder or quoted glob to find the answer in. Repeatable."),
    ],
    batch_size: Annotated[int, typer.Option(help="Batch size.", min=1, max=65_536)] = 64,
    encoding: EncodingOption = "",
    allow: AllowOption = None,
    json: JsonOption = False,
) -> None:
    """Answer a question from your own texts: the answer in its place, or that there is none.

    Several texts are ranked by one score, the margin: how far the best span is above "no answer" and the
    threshold that was chosen on dev, in nats. Exits 1 where the run failed a check.
    """
    from attnlab.data.corpora.own_files import passages_in

    texts, empty = passages_in(passage, encoding or "utf-8")
    for file in empty if texts else ():
        warn(f"{file} has no text in it, and is left out.")
    if not texts:
        raise ConfigError(
            f"{' and '.join(passage)}: there is no text to find an answer in; give another file."
        )
    with Display(err, shown=not json) as display:
        display.work("Opening the run")
        from attnlab.session.trained import Trained

        trained = Trained.at(run)
        size = sum(map(len, texts.values()))
        display.work(f"Reading {size:,} characters")
        answers = trained.ask(question, texts, batch_size=batch_size)
    if json:
        emit([answer.as_json() for answer in answers.ranked])
    else:
        show(answers, trained)
    exit_unsound(trained.unsound, allow)


def show(answers: RankedAnswers, trained: Trained) -> None:
    out.show(*answer_in_place(answers.best, several=len(answers.ranked) > 1))
    if len(answers.ranked) > 1:
        out.show(others(answers))
    for answer in answers.ranked:
        unfamiliar(answer)
    if trained.decision.get("threshold") is None and trained.config.task.options.get("threshold") == "dev":
        out.show(Sentence(toned(Tone.WARNING, "The threshold is 0: none was chosen on dev for this model.")))
    if trained.unsound:
        out.say(invalid_sentence(trained.unsound))


def answer_in_place(best: PassageAnswer, *, several: bool) -> Iterator[Node]:
    """The answer in its place, or that there is none."""
    where = f"{best.name} line {best.line}, characters {best.found.start:,} to {best.found.end:,}"
    if not best.answer:
        yield Sentence(strong("no answer in these texts" if several else "no answer in this text"))
        if best.found.span:
            below = f"is {-best.found.margin:.2f} nats below the threshold."
            yield Sentence(f"The best span, “{best.found.span}” ({where}), {below}", "fine")
        return
    beside = muted(f"  margin {best.found.margin:+.2f} nats, {where}")
    yield Sentence((toned(Tone.CHOSEN, best.answer), beside))
    before, span, after = best.context
    spans = (
        MarkedSpan(before.lstrip("\n")),
        MarkedSpan(span, tone=Tone.CHOSEN),
        MarkedSpan(after.rstrip("\n")),
    )
    yield Marked(spans)


def others(answers: RankedAnswers) -> Table:
    from attnlab.session.questions import margin_number

    rows = [
        (
            margin_number(answer),
            toned(Tone.GOOD, answer.answer) if answer.answer else muted("no answer"),
            answer.name,
        )
        for answer in answers.ranked[: OTHERS + 1]
    ]
    return Table(("margin", "answer", "passage"), rows, title="All passages, by margin")


def unfamiliar(answer: PassageAnswer) -> None:
    from attnlab.session.questions import UNKNOWN

    if answer.unknown >= UNKNOWN:
        message = (
            f"{answer.unknown:.0%} of the tokens of {answer.name} are unknown to the model's tokenizer: it "
            "cannot read this text."
        )
        out.show(Sentence(toned(Tone.WARNING, message)))
