"""Where files are kept that save time and can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def default_cache() -> Path:
    """Where tokenised text is kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "attnlab"
