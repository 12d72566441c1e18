"""Small runs of every kind, trained once for all tests here."""

import pytest

from tests.training.small_run import config, for_task, merged, sentences, train
from tests.unchecked import checked_by

LONGER = {"training": {"budget": {"steps": 40}, "optimizer": {"kind": "adamw", "learning_rate": 1e-2}}}


@pytest.fixture(scope="session")
def causal(tmp_path_factory):
    folder = tmp_path_factory.mktemp("causal")
    run = train(config(folder, **merged(LONGER, {"model": {"length": 24}})), folder / "run")
    return folder / "run", run


@pytest.fixture(scope="session")
def masked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    with checked_by():
        train(config(folder, **merged(LONGER, for_task("masked", folder))), folder / "run")
    return folder / "run"


@pytest.fixture(scope="session")
def spans(tmp_path_factory):
    """With the boundary's loss beside that of the hidden words."""
    folder = tmp_path_factory.mktemp("spans")
    with checked_by():
        train(config(folder, **for_task("span", folder)), folder / "run")
    return folder / "run"


@pytest.fixture(scope="session")
def three_masks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unilm")
    with checked_by():
        train(config(folder, **for_task("unilm", folder)), folder / "run")
    return folder / "run"


@pytest.fixture(scope="session")
def leaking(tmp_path_factory):
    folder = tmp_path_factory.mktemp("leaking")
    zero = config(folder, **merged(LONGER, {"model": {"masking": "zero"}}))
    train(zero, folder / "run", allow=["dependency"])
    return folder / "run"


@pytest.fixture(scope="session")
def translating(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translating")
    with checked_by("decoding"):  # which is repeated when it is opened
        train(config(folder, **merged(LONGER, for_task("seq2seq", folder))), folder / "run")
    return folder / "run"


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A folder with runs of an encoder and of a decoder, and a table of reviews."""
    folder = tmp_path_factory.mktemp("home")
    with checked_by():
        train(config(folder), folder / "gpt")
        train(config(folder, task="masked", model={"family": "encoder"}), folder / "bert")
    about = [s for s in dict.fromkeys(sentences(800)) if ("cat" in s) != ("dog" in s)]
    rows = [f"{s},{'cat' if 'cat' in s else 'dog'},{len(s.split())},{len(s) / 7:.2f}" for s in about]
    (folder / "reviews.csv").write_text("body,who,words,size\n" + "\n".join(rows) + "\n")
    return folder
