"""The command `attnlab`. Only the command that is asked for is imported, and torch only when it needs it."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from attnlab import __version__
from attnlab.cli.console import err, fail, warn
from attnlab.cli.encoding import accept_any_terminal
from attnlab.cli.import_option import group_with_imports, with_imports
from attnlab.config.registry import locate
from attnlab.config.values import shortened
from attnlab.config.visible_text import visible
from attnlab.runs.faults import EndedElsewhereError, RunError

COMMANDS = {
    "list": "attnlab.cli.listing:list_",
    "show": "attnlab.cli.listing:show",
    "run": "attnlab.cli.run:run",
    "publish": "attnlab.cli.publish:publish",
    "report": "attnlab.cli.report:report",
    "runs": "attnlab.cli.runs:runs",
    "compare": "attnlab.cli.runs:compare",
    "train": "attnlab.cli.train:train",
    "adapt": "attnlab.cli.adapt:adapt",
    "average": "attnlab.cli.average:average",
    "evaluate": "attnlab.cli.evaluate:evaluate",
    "score": "attnlab.cli.score:score",
    "predict": "attnlab.cli.predict:predict",
    "ask": "attnlab.cli.ask:ask",
    "generate": "attnlab.cli.generate:generate",
    "translate": "attnlab.cli.translate:translate",
    "summarise": "attnlab.cli.translate:summarise",
    "caption": "attnlab.cli.translate:caption",
    "search": "attnlab.cli.search:search",
    "check": "attnlab.cli.check:check",
    "convert": "attnlab.cli.convert:convert",
    "explain": "attnlab.cli.explain:app",
    "data": "attnlab.cli.data:app",
    "tokenizer": "attnlab.cli.tokenizer:app",
    "serve": "attnlab.cli.serve:serve",
}
"""Each a function, or a Typer with commands of its own."""
WITHOUT_PARTS = ("runs", "compare", "serve")
"""Commands that read records and build nothing: they meet no part of a person's own."""

KEPT_OBJECTS = 50_000
"""New objects after which Python looks for unused ones, instead of 700. Imports make some hundred thousand,
which stay: looking through them again and again is a twentieth of the start."""

STYLE: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "rich",
}


def tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"attnlab {__version__}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", help="Show the version and exit.", callback=tell_version, is_eager=True)
]


def attnlab(version: VersionOption = False) -> None:
    """A laboratory for transformers: change one part, keep everything else equal, trust the answer."""


UsageError: Any = typer.BadParameter.__base__  # of click, or of typer's own copy of it


@contextmanager
def refusing_visibly() -> Iterator[None]:
    """A command that cannot be read is quoted by typer, whatever is in it."""
    try:
        yield
    except UsageError as error:
        error.message = visible(error.message)
        raise


class Commands(TyperGroup):
    """The commands of the table, each imported when it is asked for."""

    def make_context(self, *given: Any, **options: Any) -> Any:
        with refusing_visibly():
            return super().make_context(*given, **options)

    def invoke(self, ctx: Any) -> Any:
        try:
            with refusing_visibly():
                return super().invoke(ctx)
        except KeyboardInterrupt:  # files are written whole or not at all; train and run say more themselves
            err.say("Stopped; nothing was lost.")
            raise typer.Exit(130) from None

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            near = get_close_matches(cmd_name, COMMANDS)
            ctx.fail(f"No such command '{cmd_name}'." + (f" Did you mean '{near[0]}'?" if near else ""))
        found, alone = (
            locate(COMMANDS[cmd_name]),
            typer.Typer(callback=attnlab, add_completion=False, **STYLE),
        )
        if isinstance(found, typer.Typer):
            alone.add_typer(group_with_imports(found), name=cmd_name)
        else:
            alone.command(cmd_name)(found if cmd_name in WITHOUT_PARTS else with_imports(found))
        return get_group(alone).get_command(ctx, cmd_name)


app = typer.Typer(name="attnlab", cls=Commands, callback=attnlab, no_args_is_help=True, **STYLE)


def main() -> None:
    """Run the command line. A person's mistake is one sentence and exit code 2, a failed run exit code 1."""
    warnings.showwarning = lambda message, *_, **__: warn_once(str(message))
    accept_any_terminal()
    gc.set_threshold(KEPT_OBJECTS)
    try:
        app(prog_name="attnlab")
    except EndedElsewhereError:
        sys.exit(1)
    except RunError as error:
        fail(str(error))
        sys.exit(1)
    except MemoryError as error:
        fail_for_memory(next(iter(str(error).splitlines()), "no more can be had"))
    except RuntimeError as error:  # torch has no class of its own for memory that it did not get
        if "can't allocate memory" not in str(error):
            raise
        fail_for_memory("a tensor did not fit")
    except OSError as error:
        fail(shortened(f"{error.filename or 'A file'}: {error.strerror or error}."))
        sys.exit(1)
    except ValueError as error:  # a person's mistake, ConfigError among them; ours are assertions
        fail(str(error))
        sys.exit(2)


def warn_once(message: str) -> None:
    """A warning; of several processes that train together, by the first that has it."""
    from attnlab.cli.train import in_processes

    if in_processes():
        from attnlab.training.strategies.own_processes import current

        if not current().claims(message):
            return
        message = message if current().first else f"Process {current().rank}: {message}"
    warn(message)


def fail_for_memory(message: str) -> None:
    fail(f"There is not enough memory ({message}). Use less text at once, or a smaller model.")
    sys.exit(1)
