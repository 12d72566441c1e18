"""What every command shares: the terminal, JSON for machines, and the options that repeat."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.checks import CHECKS
from attnlab.cli.encoding import is_utf8
from attnlab.config.values import unknown_name
from attnlab.config.visible_text import visible_json
from attnlab.documents.nodes import Inline, Sentence, Tone, toned
from attnlab.documents.terminal import PlainConsole

if TYPE_CHECKING:
    from attnlab.explain.explanation import Explanation

MOST = 2**31 - 1
"""The largest number that an option takes whose command has no smaller limit: a range that is told, and that
every library underneath can count to."""

out = PlainConsole()
err = PlainConsole(stderr=True)

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change one setting, e.g. --set model.width=256. Repeatable."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run's folder, or one of its checkpoints.")
]
AllowOption = Annotated[
    list[str] | None,
    typer.Option(help="Exit with 0 although this check failed; it is still told. Repeatable."),
]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", help="Write a page of one file, which needs no network.")
]


OF_LEARNING = frozenset({"majority", "collapse"})
"""Checks that doubt what a model has learned, not how it was measured."""


def emit(value: Any) -> None:
    """JSON on stdout, and nothing else."""
    typer.echo(visible_json(json.dumps(value, ensure_ascii=not is_utf8(sys.stdout), indent=2)))


def fail(message: str) -> None:
    """An error, for a person. Its lines are ours; what else it quotes may be anything."""
    first, *rest = message.split("\n")
    err.say(toned(Tone.WRONG, "Error:"), f" {first}")
    for line in rest:
        err.say(line)


def warn(message: str) -> None:
    """Something that a person should know, which stops nothing."""
    err.say(toned(Tone.WARNING, "Warning:"), f" {message}")


def invalid_sentence(unsound: Iterable[str]) -> Inline:
    """What stands with every number of a run that failed checks: "majority", or "majority (step 8)"."""
    failed = list(unsound)
    measured = all(check.split()[0] in OF_LEARNING for check in failed)
    follows = "it is not shown to be better than a baseline" if measured else "its numbers cannot be trusted"
    return toned(Tone.WRONG, "Invalid:"), f" failed {', '.join(failed)}; {follows}."


def exit_unsound(unsound: Iterable[str], allow: Collection[str] | None) -> None:
    """Exit code 1 where a check failed that was not allowed to."""
    allowed = {*(allow or ())}
    for name in allowed - {*CHECKS}:
        raise unknown_name("--allow", name, CHECKS)
    # a leak that is allowed shows in the honest loss, too
    follows = {"honesty"} if "dependency" in allowed else set[str]()
    if {*unsound} - allowed - follows:
        raise typer.Exit(1)


def say_first(collapsed: str) -> None:
    """A collapse, before any number; nothing where there is none."""
    if collapsed:
        out.say(toned(Tone.WRONG, collapsed))


def present(explained: Explanation, *, json: bool, html: Path | None) -> None:
    """An explanation to the terminal or as JSON, and as a page where one is asked for."""
    if html is not None:
        explained.save(html)
        err.say(f"Page: {html}")
    if json:
        return emit(explained.as_json())
    out.show(Sentence(explained.summary))
    for part in explained.parts():
        out.print()
        out.show(part)
    return None
