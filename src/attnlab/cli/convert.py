"""`attnlab convert`: checkpoints of other projects, in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.console import MOST, JsonOption, emit, out
from attnlab.config.values import ConfigError
from attnlab.documents.nodes import strong


def convert(
    source: Annotated[
        str, typer.Argument(help="A folder in transformers' layout, a hub's owner/name, or a run.")
    ],
    target: Annotated[Path, typer.Argument(help="The folder to write, or a run's model.onnx.")],
    head: Annotated[
        str,
        typer.Option(help="Replace the head with a new, untrained one: classification(classes=3), span, …"),
    ] = "",
    tokenizer: Annotated[
        Path | None, typer.Option(help="The model's tokenizer, if the folder has none.")
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(help="A tensor that may be missing, unused or of another type; or `tokenizer`."),
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(
            help="Resize the vocabulary to this many tokens; new rows start near the mean.", min=1, max=MOST
        ),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            help="Resize to this many positions; learned ones are repeated or cut.", min=1, max=MOST
        ),
    ] = None,
    adapter: Annotated[
        bool, typer.Option("--adapter", help="Of an adapted run, write the adapter alone, in peft's files.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Import or export a model (transformers, ONNX), with every tensor accounted for."""
    from attnlab.session.convert import convert as run
    from attnlab.session.convert import is_run, loading_lines

    choices: dict[str, Any] = {"tokenizer": tokenizer, "vocabulary": vocabulary, "length": length}
    choices |= {"output": head or None, "accept": tuple(accept or ())}
    if adapter:
        return convert_adapter(source, target, choices, json=json)
    certificate = run(source, target, **choices)
    if json:
        return emit(certificate.as_json())
    for line in certificate.lines():
        out.say(line)
    out.say("Written to ", strong(str(target)), ".")
    if is_run(source):
        for line in loading_lines(certificate, target):
            out.say(line)
    return None


def convert_adapter(source: str, target: Path, choices: dict[str, Any], *, json: bool) -> None:
    """What a run tuned, as peft's files, and how they are loaded."""
    from attnlab.session.convert import export_adapter

    if any(choices.values()):
        raise ConfigError("--adapter writes what a run tuned as it is; leave the other options out.")
    exported = export_adapter(source, target)
    if json:
        facts = {"architecture": exported.architecture, "tensors": exported.tensors, "folder": str(target)}
        return emit(facts | {"notes": exported.notes})
    for line in exported.lines(target):
        out.say(line)
    return None
