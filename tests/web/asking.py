"""Small runs of every kind in one folder, and questions to them as a worker answers them."""

from __future__ import annotations

import json

import pytest

from attnlab.session import soundness
from attnlab.session.trained import Trained
from attnlab.web import model_worker
from tests.training.small_run import config, for_task, merged, train

KINDS = ("causal", "masked", "seq2seq", "classification", "regression", "tagging", "answering", "similarity")
LONGER = {"training": {"budget": {"steps": 40}, "optimizer": {"kind": "adamw", "learning_rate": 1e-2}}}


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """A folder as it would be served: a run of each kind, under the kind's name."""
    folder = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(soundness, "run_checks", lambda case, names=(): [])
        for kind in KINDS:
            place = tmp_path_factory.mktemp(kind)
            train(config(place, **merged(LONGER, for_task(kind, place))), folder / kind)
    return folder


class Questions:
    """Asks a worker's own code in this process; what it says goes through JSON, as on the way to a page."""

    def __init__(self, root):
        self.root, self.models = root, model_worker.OpenModel(root)

    def __call__(self, action, run=None, **values):
        """The parts, and the last message."""
        messages = []
        request = {"id": 1, "action": action, "folder": run and str(self.root / run), "values": values}
        model_worker.answer(
            request, self.root, self.models, lambda line: messages.append(model_worker.line_of(line))
        )
        *parts, last = map(json.loads, messages)
        return [part["part"] for part in parts], last

    def done(self, action, run=None, **values):
        _, last = self(action, run, **values)
        assert "done" in last, last
        return last["done"]

    def error(self, action, run=None, **values):
        parts, last = self(action, run, **values)
        assert not parts and "error" in last and "fault" not in last, last
        assert len(last["error"].split()) > 4, last
        return last["error"]


@pytest.fixture(scope="session")
def ask(served):
    return Questions(served)


@pytest.fixture(scope="session")
def opened(served):
    """The same models as Python opens them."""
    return {kind: Trained.at(served / kind) for kind in KINDS}
