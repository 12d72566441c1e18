import gc
import os
import shutil
import tempfile

os.environ["OMP_NUM_THREADS"] = "1"  # tests run side by side, one worker a core

import hypothesis
import pytest
import torch

from tests.crash.commands import Commands
from tests.unchecked import checked_by

CACHE = os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="attnlab-tests-")  # not a person's own

hypothesis.settings.register_profile("attnlab", deadline=None)  # a busy machine is no fault
hypothesis.settings.load_profile("attnlab")


def pytest_collection_finish():
    gc.freeze()  # libraries and collected tests stay: looking through them for garbage is a waste


def pytest_unconfigure():
    shutil.rmtree(CACHE, ignore_errors=True)


@pytest.fixture
def double():
    """Everything in float64, so that only real differences show."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def unchecked():
    """Runs without their checks: for tests of something else."""
    with checked_by():
        yield


@pytest.fixture(scope="session")
def attnlab(tmp_path_factory):
    """`attnlab …` in processes of their own, forked from one that has everything loaded."""
    commands = Commands(tmp_path_factory.mktemp("commands"))
    yield commands
    commands.close()
