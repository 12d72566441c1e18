"""`attnlab average`: the mean of a run's last checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnlab.cli.console import MOST, JsonOption, RunArgument, emit, out
from attnlab.config.wording import in_words
from attnlab.documents.nodes import strong


def average(
    run: RunArgument,
    to: Annotated[Path, typer.Option("--out", help="The folder to write.")],
    last: Annotated[int, typer.Option(help="How many of the last checkpoints.", min=2, max=MOST)] = 5,
    json: JsonOption = False,
) -> None:
    """Average the weights of a run's last checkpoints into a run of its own, which other commands open.

    It takes the last ones whatever they scored on dev; train with training.keep=5 to have five.
    """
    from attnlab.session.averaging import average as write_average

    steps = write_average(run, to, last=last)
    if json:
        return emit({"run": str(run), "steps": steps, "out": str(to)})
    out.say(f"The mean of steps {in_words(steps)} is in ", strong(str(to)), ".")
    return None
