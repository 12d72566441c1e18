"""Libraries that an engine needs and attnlab does not."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

from attnlab.config.values import ConfigError


def library(name: str, extra: str = "") -> ModuleType:
    """A library that comes with an extra, or how to install it."""
    extra = extra or name
    # submitit would configure the process's logging anew, which closes the handlers of others and what they
    # write to: of absl even a standard error that was put in another's place
    os.environ.setdefault("SUBMITIT_LOG_LEVEL", "NOCONFIG")
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f'--on {extra} needs {name}, which is not installed: pip install "attnlab[{extra}]"'
        ) from error
