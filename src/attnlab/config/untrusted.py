"""JSON from files that someone else wrote: read without surprise, or refused with the reason."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

from attnlab.config.values import ConfigError

MEBIBYTE = 1 << 20


def refuse_device(file: Path) -> None:
    """An OSError where a pipe, whose content may never come, or a device without an end stands for a file."""
    if file.exists() and not file.is_file() and not file.is_dir():
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(file))


def read_json(file: Path, *, most: int = 16 * MEBIBYTE) -> dict[str, Any]:
    """The object in a JSON file of at most `most` bytes; a ConfigError names whatever is wrong with it."""
    try:
        refuse_device(file)
        size = file.stat().st_size
        if size > most:
            raise ConfigError(
                f"{file} has {size:,} bytes, and more than {most:,} are not read: that is no such file."
            )
        held = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{file} does not exist.") from None
    except RecursionError:
        raise ConfigError(f"{file} is nested too deep; it is not a file of this kind.") from None
    except ConfigError:
        raise
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise ConfigError(f"{file} is not JSON: {error}.") from error
    if not isinstance(held, dict):
        raise ConfigError(f"{file} must hold a JSON object, not a {type(held).__name__}.")
    return held
