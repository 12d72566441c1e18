"""What someone else wrote, read without surprise, or refused with the reason."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any, BinaryIO

from attnlab.config.values import ConfigError

MEBIBYTE = 1 << 20


def refuse_device(file: Path) -> None:
    """An OSError where a pipe, whose content may never come, or a device without an end stands for a file."""
    if file.exists() and not file.is_file() and not file.is_dir():
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(file))


def open_plain(file: Path) -> BinaryIO:
    """A file to read that is nothing else: an OSError where a link, a pipe or a device stands for it."""
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a file", str(file))
    return os.fdopen(handle, "rb")


def read_json(file: Path, *, most: int = 16 * MEBIBYTE) -> dict[str, Any]:
    """The object in a JSON file of at most `most` bytes; a ConfigError names whatever is wrong with it."""
    content = _content(file, most)
    if not isinstance(content, dict):
        raise ConfigError(f"{file} must hold a JSON object, not a {type(content).__name__}.")
    return content


def read_json_list(file: Path, *, most: int = 16 * MEBIBYTE) -> list[Any]:
    """The list in a JSON file, read as `read_json` reads an object."""
    content = _content(file, most)
    if not isinstance(content, list):
        raise ConfigError(f"{file} must hold a JSON list, not a {type(content).__name__}.")
    return content


def _content(file: Path, most: int) -> Any:
    try:
        refuse_device(file)
        size = file.stat().st_size
        if size > most:
            raise ConfigError(f"{file} is too large: {size:,} bytes, limit {most:,} bytes.")
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{file} does not exist.") from None
    except ConfigError:
        raise
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}.") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not JSON: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read: it has {beyond_python(error)}.") from None


def beyond_python(error: Exception) -> str:
    """What well-formed JSON or TOML has that Python does not read."""
    if isinstance(error, RecursionError):
        return "values that are nested too deep"
    return f"a whole number of more than {sys.get_int_max_str_digits():,} digits"
