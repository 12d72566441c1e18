"""The options by which commands name a person's text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.config.values import ConfigError, coerce

if TYPE_CHECKING:
    from attnlab.config.schema import DataSettings

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A file, folder or glob, hub:owner/name, or an embedded corpus.")
]
TextOption = Annotated[str, typer.Option("--text", metavar="COLUMN", help="The column with the text.")]
ImageOption = Annotated[str, typer.Option("--image", metavar="COLUMN", help="The column with the picture.")]
PairOption = Annotated[
    str, typer.Option("--pair", metavar="COLUMN", help="The column with the second text or passage.")
]
TargetOption = Annotated[
    str, typer.Option("--target", metavar="COLUMN", help="The column with the target text.")
]
LabelOption = Annotated[str, typer.Option("--label", metavar="COLUMN", help="The column with the class.")]
AnswersOption = Annotated[
    str,
    typer.Option("--answers", metavar="COLUMN", help="The column with the answers (see docs/answering.md)."),
]
DevOption = Annotated[str, typer.Option("--dev", metavar="FILE", help="A separate file for dev.")]
TestOption = Annotated[str, typer.Option("--test", metavar="FILE", help="A separate file for test.")]
UnitOption = Annotated[
    str, typer.Option("--unit", metavar="UNIT", help="Unit of text: document, paragraph, line or sentence.")
]
EncodingOption = Annotated[
    str, typer.Option("--encoding", metavar="NAME", help="The files' character encoding, if not UTF-8.")
]
SeparatorOption = Annotated[
    str,
    typer.Option(
        "--separator",
        metavar="SIGN",
        help='What separates columns: ",", ";", "|" or tab. Default: as the first rows of a .csv show.',
    ),
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

    config: dict[str, Any] = {"data": settings}
    for text in overrides or ():
        key, value = parse_override(text)
        if not key.startswith("data."):
            raise ConfigError(
                f"--set {key}: this command takes settings of [data] only, such as data.length."
            )
        override(config, key, value)
    made: DataSettings = section_of("data", config["data"])
    return made
