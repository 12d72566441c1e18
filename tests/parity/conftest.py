import os
import shutil

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"  # tests need no network


@pytest.fixture(autouse=True)
def quiet():
    """No progress bars of theirs; the random state is put back, since they draw from the global one."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A sound GPT-2 as transformers writes it."""
    from tests.parity.folders import published  # which loads transformers

    folder = tmp_path_factory.mktemp("sound") / "gpt2"
    published(folder, "gpt2")
    return folder


@pytest.fixture
def folder(sound, tmp_path):
    """A copy of it, to be spoilt."""
    shutil.copytree(sound, tmp_path / "theirs")
    return tmp_path / "theirs"
