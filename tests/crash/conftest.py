from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.commands import Commands


@pytest.fixture(scope="module")
def attnlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    commands = Commands(tmp_path_factory.mktemp("commands"))
    yield commands
    commands.close()
