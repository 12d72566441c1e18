"""`attnlab ask`: a question, answered from a person's own text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from attnlab.cli.console import JsonOption, emit, err, not_sound, out, warn
from attnlab.cli.corpus_options import EncodingOption
from attnlab.cli.generate import RunArgument
from attnlab.config.values import ConfigError
from attnlab.config.visible_text import visible, visible_lines
from attnlab.runs.display import Display, escape

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
    out.print(told(found.best, several=len(found.ranked) > 1))
    if len(found.ranked) > 1:
        out.print(others(found))
    for one in found.ranked:
        unfamiliar(one)
    if trained.settled.get("threshold") is None and trained.config.task.options.get("threshold") == "dev":
        out.print("[yellow]The threshold is 0: none was chosen on dev for this model.[/]", highlight=False)
    if trained.unsound:
        out.print(not_sound(trained.unsound), highlight=False)


def told(one: PassageAnswer, *, several: bool) -> Text:
    """The answer in its place, or that there is none."""
    if not one.answer:
        text = Text("no answer in these texts" if several else "no answer in this text", "bold")
        if one.found.span:
            text.append(
                f"\nThe best span, “{visible(one.found.span)}” ({place(one)}), is {-one.found.margin:.2f} "
                "nats below the threshold.",
                "bright_black",
            )
        return text
    text = Text(visible(one.answer), "bold green")
    text.append(f"  margin {one.found.margin:+.2f} nats, {place(one)}\n\n", "bright_black")
    before, span, after = map(visible_lines, one.context)
    text.append(before.lstrip("\n"), "")
    text.append(f"[{span}]" if not out.is_terminal else span, "bold black on green")
    return text.append(after.rstrip("\n"), "")


def place(one: PassageAnswer) -> str:
    return f"{visible(one.name)} line {one.line}, characters {one.found.start:,} to {one.found.end:,}"


def others(found: RankedAnswers) -> Table:
    table = Table("margin", "answer", "passage", title="All passages, by margin", title_justify="left")
    table.columns[0].justify = "right"
    for one in found.ranked[: OTHERS + 1]:
        table.add_row(
            f"{one.found.margin:+.2f}",
            Text(visible(one.answer), "green") if one.answer else Text("no answer", "bright_black"),
            Text(visible(one.name)),
        )
    return table


def unfamiliar(one: PassageAnswer) -> None:
    from attnlab.session.questions import UNKNOWN

    if one.unknown >= UNKNOWN:
        out.print(
            f"[yellow]{one.unknown:.0%} of the tokens of {escape(visible(one.name))} are unknown to the "
            "model's tokenizer: it cannot read this text.[/]",
            highlight=False,
        )
