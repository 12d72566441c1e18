"""A plain torch loop: what is put wrong in it is found from the model's side."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab.interop.loop_checks import LoopChecks, UnsoundWarning
from attnlab.interop.observing import FedTexts, part_of
from attnlab.model.losses import IGNORE
from attnlab.runs.faults import UnsoundError

V = 20


class Mean(nn.Module):
    """A running mean of word vectors: causal, and as good as any for a loop."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.out = nn.Embedding(V, 8), nn.Linear(8, V)
        self.spare = nn.Linear(8, 8)  # nothing asks it

    def forward(self, ids):
        steps = torch.arange(1, ids.shape[1] + 1)[:, None]
        return self.out(self.table(ids).cumsum(1) / steps)


def batches(shift=1):
    """Short rows and long ones, with the token that each place is to predict."""
    drawn = torch.Generator().manual_seed(0)
    for rows, length in ((2, 5), (6, 12), (3, 9)):
        ids = torch.randint(V, (rows, length + 2), generator=drawn)
        yield ids[:, :length], ids[:, shift : length + shift]


def run(folder=None, *, shift=1, mean_of_means=False, stop=False, **settings):
    """One step of several batches, then the end; gives the checks."""
    model = Mean()
    checks = LoopChecks(folder, stop=stop, vocabulary=V, mask="causal", **settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checks.before(model)
        total = sum(targets.numel() for _, targets in batches())
        for ids, targets in batches(shift):
            loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten(), reduction="sum")
            (loss / (3 * targets.numel() if mean_of_means else total)).backward()
        checks.stepping()
        optimizer.step()
        checks.evaluated(300, labels=["a", "b"] * 40, predicted=["a"] * 80)
        checks.finish(1)
    return checks, {one.check: one for one in checks.findings}


def test_a_sound_loop_passes_and_its_unused_part_is_told(tmp_path):
    checks, found = run(tmp_path)
    for name in ("dependency", "invariance", "first_loss", "accumulation", "targets"):
        assert found[name].outcome == "pass", found[name]
    assert found["accumulation"].number < 1e-6 and "(109 targets)" in found["accumulation"].found
    assert found["moved"].outcome == "warn" and "spare" in found["moved"].found
    assert found["collapse"].outcome == "warn" and found["collapse"].meaning.startswith("So far")
    assert json.loads((tmp_path / "checks.json").read_text())["sound"] and checks.unsound == []


@pytest.mark.parametrize(("shift", "said"), [(0, "the input itself"), (2, "the token after the next")])
def test_targets_that_are_not_the_next_token_stop_the_loop(shift, said):
    assert said in run(shift=shift)[1]["targets"].found
    with pytest.raises(UnsoundError, match=said):
        run(shift=shift, stop=True)


def test_the_class_that_a_text_is_taught_is_read_off_the_gradient_of_its_scores():
    """Whatever the model says of it by then: the one class whose score is pushed up."""
    scores = torch.tensor([[3.0, -1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 1.0, -2.0]], requires_grad=True)
    taught, ids = torch.tensor([1, 2, IGNORE]), torch.tensor([[5, 6], [7, 0], [8, 9]])
    F.cross_entropy(scores, taught, ignore_index=IGNORE).backward()
    fed = FedTexts()
    fed.add(ids, {"attention_mask": torch.tensor([[1, 1], [1, 0], [1, 1]])}, scores.grad)
    assert fed.taught == {(5, 6): 1, (7,): 2} and fed.classes == 3
    part = part_of(ids, None, scores, scores.grad)
    assert part.taught.tolist() == taught.tolist() and part.weight == pytest.approx(1 / 2)


def test_a_mean_of_means_is_found():
    found = run(mean_of_means=True)[1]["accumulation"]
    assert found.outcome == "fail" and "a target of one with 10 weighs 7.2 times" in found.found


def test_a_model_that_knows_the_answer_from_the_start_is_found():
    class Copies(Mean):
        def forward(self, ids):
            return 9.0 * F.one_hot(ids.roll(-1, 1), V) + super().forward(ids)

    model, checks = Copies(), LoopChecks(vocabulary=V, mask="causal")
    ids, targets = next(batches())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        checks.before(model)
        F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), targets[:, :-1].flatten()).backward()
        checks.stepping()
    assert all(issubclass(one.category, UnsoundWarning) for one in told)
    assert {"dependency", "first_loss"} <= set(checks.unsound)
    assert any("first_loss failed: the untrained model's loss is 0." in str(one.message) for one in told)


def test_a_reloaded_model_is_called_as_the_loop_calls_it(tmp_path):
    """Its ids have no name of transformers, and what goes with them is no tensor of rows."""

    class Scaled(Mean):
        def forward(self, ids, scale):
            return super().forward(ids) * scale

    model, drawn = Scaled(), torch.Generator().manual_seed(0)
    checks = LoopChecks(tmp_path, vocabulary=V, mask="causal", forward=lambda model, ids: model(ids, 2.0))
    checks.before(model)
    ids = torch.randint(V, (3, 9), generator=drawn)
    F.cross_entropy(model(ids[:, :-1], 2.0).flatten(0, 1), ids[:, 1:].flatten()).backward()
    checks.stepping()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same, other = Scaled(), Scaled()
        torch.nn.init.ones_(other.out.bias)
        (_, kept), (_, lost) = (checks.finish(1, reload=lambda one=one: one) for one in (same, other))
    assert kept.outcome == "pass" and "bit for bit" in kept.found
    assert lost.outcome == "fail" and "scores differ" in lost.found


def test_findings_show_themselves_as_a_table():
    shown = repr(run(shift=2)[0].findings)
    words = " ".join(shown.replace("│", " ").split())
    assert words.startswith("Invalid: ") and "the token after the next" in words
    assert max(map(len, shown.splitlines())) <= 80
