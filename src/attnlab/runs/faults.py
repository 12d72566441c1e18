"""Files of a run that were cut, edited or written by something else: one sentence that names the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnlab.config.imports import MissingCodeError
from attnlab.config.untrusted import refuse_device
from attnlab.config.values import ConfigError, shortened
from attnlab.runs.typed import check_record

FAULTS = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError)
"""What reading a file raises whose content is not what was written: other types, names or bytes."""


class FileConfigError(ConfigError):
    """A setting that cannot be used, with the file that it is in."""


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """While a file's content is read and used. A file that is not there is not damaged."""
    try:
        refuse_device(file)
        yield
    except (RunError, MissingCodeError):
        raise  # it says already what is wrong
    except FileConfigError:
        raise  # it names the file
    except ConfigError as error:
        raise FileConfigError(f"{file}: {error}") from error
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise RunError(f"{error.filename or file} cannot be read: {error.strerror or error}.") from error
    except FAULTS as error:
        raise RunError(
            f"{file} is damaged, or not a file of attnlab: {fault_phrase(error)}. Restore it from a copy, or "
            "remove its folder."
        ) from error


LARGEST = 16 << 20
"""Bytes of a record: of a study of a thousand arms as many as each of their configs takes."""


def read_object(file: Path, record: Any) -> dict[str, Any]:
    """The object in a file, whose fields are of the types that a dataclass or TypedDict declares."""
    with reading(file):
        if (size := file.stat().st_size) > LARGEST:
            raise RunError(f"{file} is too large: {size:,} bytes, limit {LARGEST:,} bytes.")
        value = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise TypeError(f"it holds a {type(value).__name__}, not an object")
        check_record(value, record)
        return value


def fault_phrase(error: BaseException) -> str:
    """An error in a few words of its own."""
    if isinstance(error, KeyError):
        return f"there is no {error}"
    return shortened(" ".join(str(error).split()))[:200].rstrip(".") or type(error).__name__


class RunError(RuntimeError):
    """A failed run, in words for the person who started it: what happened, what is safe, what to do."""


class UnsoundError(RunError):
    """A check failed before the first step."""


class EndedElsewhereError(RunError):
    """Another process of the same run failed, and says why: this one ends without a word."""
