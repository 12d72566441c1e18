"""One request to a worker: the run that it is about, and its values, checked by a record of each action."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from attnlab.config.values import ConfigError, coerce, unknown_name
from attnlab.data.errors import unusable

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

Record = TypeVar("Record")
LONGEST_TEXT = 100_000
"""Characters of a text that is asked about."""


@dataclass(frozen=True)
class NoValues:
    """The run alone is asked about."""


@dataclass(frozen=True)
class WorkerRequest:
    """`root` is the folder that is served: nothing outside it is read. `open` gives the model of a run."""

    root: Path
    folder: Path | None
    values: Mapping[str, Any]
    open: Callable[[Path], Trained]

    @property
    def trained(self) -> Trained:
        return self.open(self.named_folder)

    @property
    def named_folder(self) -> Path:
        """The folder of the run or study that is asked, which must be served."""
        if self.folder is None:
            raise ConfigError("No run was named, and this is asked of one; open a run first.")
        if not self.holds(self.folder):
            raise ConfigError(f"The run {self.folder.name} is not in the folder that is served.")
        return self.folder

    def holds(self, place: Path) -> bool:
        """Whether a path leads into the folder that is served, links followed."""
        return place.resolve().is_relative_to(self.root.resolve())

    def read(self, record: type[Record]) -> Record:
        """The values as a record; what it does not declare, or declares otherwise, is refused."""
        kinds = typing.get_type_hints(record, include_extras=True)
        for name in self.values:
            if name not in kinds:
                raise unknown_name("The request", name, kinds)
        given = {name: value for name, value in self.values.items() if value is not None}
        for field in fields(record):  # type: ignore[arg-type]  # a dataclass
            if field.default is MISSING and field.default_factory is MISSING and field.name not in given:
                raise ConfigError(f"{field.name} is missing; give it.")
        return record(**{name: checked(value, kinds[name], name) for name, value in given.items()})


def checked(value: Any, kind: Any, name: str) -> Any:
    """A value of its declared type, whose texts can be tokenised."""
    if typing.get_origin(kind) is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"{name} takes an object, not {value!r}.")
        return value
    coerced = coerce(value, kind, name)
    for text in texts_in(coerced):
        if len(text) > LONGEST_TEXT:
            raise ConfigError(
                f"{name} has {len(text):,} characters; the page takes at most {LONGEST_TEXT:,}. Use the "
                "command line for longer texts."
            )
        if reason := unusable(text):
            raise ConfigError(f"{name} cannot be read: {reason}.")
    return coerced


def texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for item in value for text in texts_in(item)] if isinstance(value, tuple) else []


def fault_sentence(error: Exception) -> str:
    return (
        f"This failed by a fault in attnlab ({type(error).__name__}). The server's log has the details; "
        "please report them."
    )
