"""`attnlab ask`: a question, answered from a person's own text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from attnlab.cli.console import JsonOption, emit, err, not_sound, out, warn
from attnlab.cli.corpus_options import EncodingOption
from attnlab.cli.generate import RunArgument
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
    json: JsonOption = False,
) -> None:
    """Answer a question from your own texts: the answer in its place, or that there is none.

    Several texts are ranked by one score, the margin: how far the best span is above "no answer" and the
    threshold that was chosen on dev, in nats.
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
        found = trained.ask(question, texts, batch_size=batch_size)
    if json:
        return emit([one.as_json() for one in found.ranked])
    show(found, trained)
    return None


def show(found: RankedAnswers, trained: Trained) -> None:
    out.show(*answer_in_place(found.best, several=len(found.ranked) > 1))
    if len(found.ranked) > 1:
        out.show(others(found))
    for one in found.ranked:
        unfamiliar(one)
    if trained.settled.get("threshold") is None and trained.config.task.options.get("threshold") == "dev":
        out.show(Sentence(toned(Tone.WARNING, "The threshold is 0: none was chosen on dev for this model.")))
    if trained.unsound:
        out.say(not_sound(trained.unsound))


def answer_in_place(one: PassageAnswer, *, several: bool) -> Iterator[Node]:
    """The answer in its place, or that there is none."""
    where = f"{one.name} line {one.line}, characters {one.found.start:,} to {one.found.end:,}"
    if not one.answer:
        yield Sentence(strong("no answer in these texts" if several else "no answer in this text"))
        if one.found.span:
            below = f"is {-one.found.margin:.2f} nats below the threshold."
            yield Sentence(f"The best span, “{one.found.span}” ({where}), {below}", "fine")
        return
    beside = muted(f"  margin {one.found.margin:+.2f} nats, {where}")
    yield Sentence((toned(Tone.CHOSEN, one.answer), beside))
    before, span, after = one.context
    spans = (
        MarkedSpan(before.lstrip("\n")),
        MarkedSpan(span, tone=Tone.CHOSEN),
        MarkedSpan(after.rstrip("\n")),
    )
    yield Marked(spans)


def others(found: RankedAnswers) -> Table:
    from attnlab.session.questions import margin_number

    rows = [
        (margin_number(one), toned(Tone.GOOD, one.answer) if one.answer else muted("no answer"), one.name)
        for one in found.ranked[: OTHERS + 1]
    ]
    return Table(("margin", "answer", "passage"), rows, title="All passages, by margin")


def unfamiliar(one: PassageAnswer) -> None:
    from attnlab.session.questions import UNKNOWN

    if one.unknown >= UNKNOWN:
        told = (
            f"{one.unknown:.0%} of the tokens of {one.name} are unknown to the model's tokenizer: it cannot "
            "read this text."
        )
        out.show(Sentence(toned(Tone.WARNING, told)))
