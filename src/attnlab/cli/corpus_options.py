"""The options by which commands name a person's text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import err
from attnlab.config.values import ConfigError, coerce

if TYPE_CHECKING:
    from rich.progress import TaskID

    from attnlab.config.schema import DataSettings
    from attnlab.data.shards import Progress

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A file, folder or glob, hub:owner/name, or an embedded corpus.")
]
TextOption = Annotated[str, typer.Option("--text", metavar="COLUMN", help="The column with the text.")]
PairOption = Annotated[
    str, typer.Option("--pair", metavar="COLUMN", help="The column with the second text or passage.")
]
TargetOption = Annotated[
    str, typer.Option("--target", metavar="COLUMN", help="The column with the target text.")
]
LabelOption = Annotated[str, typer.Option("--label", metavar="COLUMN", help="The column with the class.")]
DevOption = Annotated[str, typer.Option("--dev", metavar="FILE", help="A separate file for dev.")]
TestOption = Annotated[str, typer.Option("--test", metavar="FILE", help="A separate file for test.")]
UnitOption = Annotated[
    str, typer.Option("--unit", metavar="UNIT", help="Unit of text: document, paragraph, line or sentence.")
]
EncodingOption = Annotated[
    str, typer.Option("--encoding", metavar="NAME", help="The files' character encoding, if not UTF-8.")
]
SkipOption = Annotated[bool, typer.Option("--skip-bad", help="Skip broken rows, and count them.")]

TemplateOption = Annotated[
    str,
    typer.Option(
        metavar="TEXT", help='How label words are asked for, e.g. "{text} It was {label}"; see --label-words.'
    ),
]
WordsOption = Annotated[
    str,
    typer.Option(
        metavar="WORDS",
        help="Words of the classes for the untrained baseline of a language model, e.g. neg=bad,pos=good. "
        "Default: their names.",
    ),
]


def corpus_of(file: str, options: dict[str, Any]) -> dict[str, Any]:
    """The corpus setting for a FILE and the options that were given with it."""
    from attnlab.data.corpora import CORPORA

    choice = CORPORA.read(file, "FILE")
    given = {name: value for name, value in options.items() if value}
    known = CORPORA.options(choice.kind)
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if name not in known:
            raise ConfigError(f"{option} has no effect for {choice.kind}; leave it out.")
        coerce(value, known[name].kind, option)
    return {"kind": choice.kind, **choice.options, **given}


def data_of(settings: dict[str, Any], overrides: list[str] | None) -> DataSettings:
    """The [data] section from options, and from --set on top of them."""
    from attnlab.config.files import override, parse_override, section_of

    held: dict[str, Any] = {"data": settings}
    for text in overrides or ():
        key, value = parse_override(text)
        if not key.startswith("data."):
            raise ConfigError(
                f"--set {key}: this command takes settings of [data] only, such as data.length."
            )
        override(held, key, value)
    made: DataSettings = section_of("data", held["data"])
    return made


class Tokenising:
    """What is being done and for how long, one step after another, on stderr, so that output stays clean."""

    def __enter__(self) -> Tokenising:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self.bar = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def step(self, text: str) -> TaskID:
        """The next step takes the place of the last."""
        for task in self.bar.task_ids:
            self.bar.remove_task(task)
        return self.bar.add_task(f"{text} …", total=None)

    def __call__(self, split: str) -> Progress:
        task = self.step(f"Tokenising {split}")

        def told(rows: int, tokens: int) -> None:
            self.bar.update(task, description=f"Tokenising {split}: {rows:,} rows, {tokens:,} tokens")

        return told
