import gc
import os
import shutil
import tempfile
from multiprocessing.util import get_temp_dir
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # tests run side by side, one worker a core

import hypothesis
import pytest
import torch

from tests.crash.commands import Commands
from tests.unchecked import checked_by


def folder_of_all() -> str:
    """Where every file of the tests stands: in memory where there is room, since a run waits for the disk
    again and again until what it wrote is safe there."""
    memory = Path("/dev/shm")
    room = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 * 2**30
    inside = "TMPDIR" in os.environ or not room  # a person's choice, or that of the process above this one
    return tempfile.mkdtemp(prefix="attnlab-tests-", dir=None if inside else memory)


get_temp_dir()  # of multiprocessing, which removes it last of all: not inside a folder that is gone by then
FOLDER = os.environ["TMPDIR"] = tempfile.tempdir = folder_of_all()
os.environ["XDG_CACHE_HOME"] = f"{FOLDER}/cache"  # not a person's own

hypothesis.settings.register_profile("attnlab", deadline=None)  # a busy machine is no fault
hypothesis.settings.load_profile("attnlab")


def pytest_collection_finish():
    gc.freeze()  # libraries and collected tests stay: looking through them for garbage is a waste


def pytest_sessionfinish(exitstatus):
    if not exitstatus:  # the files of failed tests stay to be looked at
        shutil.rmtree(FOLDER, ignore_errors=True)


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
