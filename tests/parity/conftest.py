import os

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
