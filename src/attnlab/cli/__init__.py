"""The command `attnlab`. Nothing here imports torch until a command needs it."""

from __future__ import annotations

import sys

import typer

from attnlab.cli import check, convert, data, evaluate, explain, generate, listing, predict, runs, tokenizer
from attnlab.cli import run as study
from attnlab.cli import train as training
from attnlab.cli.console import fail
from attnlab.runs.run_error import RunError

app = typer.Typer(
    name="attnlab",
    help="A laboratory for transformers: change one part, keep everything else equal, trust the answer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("list")(listing.list_)
app.command("show")(listing.show)
app.command("run")(study.run)
app.command("runs")(runs.runs)
app.command("compare")(runs.compare)
app.command("train")(training.train)
app.command("evaluate")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.command("generate")(generate.generate)
app.command("check")(check.check)
app.command("convert")(convert.convert)
app.add_typer(explain.app, name="explain")
app.add_typer(data.app, name="data")
app.add_typer(tokenizer.app, name="tokenizer")


def main() -> None:
    """Run the command line. A person's mistake is one sentence and exit code 2, a failed run exit code 1."""
    try:
        app()
    except RunError as error:
        fail(str(error))
        sys.exit(1)
    except ValueError as error:  # a person's mistake, ConfigError among them; ours are assertions
        fail(str(error))
        sys.exit(2)


if __name__ == "__main__":
    main()
