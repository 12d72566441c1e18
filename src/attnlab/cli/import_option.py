"""`--import`: code of a person's own, for every command that may meet a part of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from attnlab.runs.faults import RunError

ImportOption = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="FILE|MODULE",
        help="Run this Python file or module first: it registers parts of your own. Repeatable.",
    ),
]


def with_imports(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the option --import, whose code is run before it."""
    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter(
        "own_code", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ImportOption
    )

    @wraps(command)
    def imported(*arguments: Any, own_code: list[str] | None = None, **given: Any) -> Any:
        if not own_code:
            return command(*arguments, **given)
        from attnlab.config.imports import fault_in_own_code, import_code

        for source in own_code:
            import_code(source)
        try:
            return command(*arguments, **given)
        except Exception as error:
            if fault := fault_in_own_code(error):
                raise RunError(fault) from error
            raise

    parameters = [*signature.parameters.values(), option]
    vars(imported)["__signature__"] = signature.replace(parameters=parameters)
    imported.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
    imported.__annotations__ |= {"own_code": ImportOption}
    return imported


def group_with_imports(group: typer.Typer) -> typer.Typer:
    """A group whose commands have the option --import."""
    for entry in group.registered_commands:
        if entry.callback is not None and not hasattr(entry.callback, "__signature__"):
            entry.callback = with_imports(entry.callback)
    return group
