"""A checkpoint of the hub by its name, fetched once by the hub's own library."""

from __future__ import annotations

import re
from pathlib import Path

from attnlab.config.values import ConfigError

FILES = ("*.json", "*.safetensors", "pytorch_model*.bin", "*.txt", "*.model")


def fetch(name: str) -> Path:
    """The local folder of owner/name, or a sentence on why it cannot be had."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) or name.startswith("."):
        raise ConfigError(f"{name} is neither a folder nor a name of the hub (owner/name).")
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import (
            HfHubHTTPError,
            LocalEntryNotFoundError,
            OfflineModeIsEnabled,
            RepositoryNotFoundError,
        )
    except ImportError as error:
        raise ConfigError(
            f"There is no folder {name}, and fetching it needs huggingface_hub: pip install huggingface_hub"
        ) from error
    try:
        return Path(snapshot_download(name, allow_patterns=list(FILES)))
    except RepositoryNotFoundError as error:
        raise ConfigError(f'There is no folder {name}, and the hub has no model "{name}" either.') from error
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HfHubHTTPError, OSError) as error:
        raise ConfigError(
            f"There is no folder {name}, and the hub cannot be reached from here. Connect, or download the "
            "model elsewhere and give its folder."
        ) from error
