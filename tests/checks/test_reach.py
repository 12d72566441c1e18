"""The reach of the dependency probe: long rows, rows of one token, many ids, other texts; and its advice."""

import pytest
import torch
from torch import nn

from attnlab.checks.batch_leaks import ids_leak, spread_ids
from attnlab.checks.measure import measure_model
from attnlab.checks.paths import paths_of
from attnlab.checks.probing import probe
from attnlab.checks.subject import OwnSubject
from attnlab.config.values import ConfigError
from attnlab.model.norms import NORMS
from tests.checks.cases import case, config, found, of
from tests.checks.faults import Leaky, next_token, small
from tests.training.small_run import set_up


class Sometimes(nn.Module):
    """Wraps an embedding: some of its outputs get a little of the next one's, where `when(ids)` says so."""

    def __init__(self, inner, when):
        super().__init__()
        self.inner, self.when = inner, when

    def forward(self, ids, *rest):
        y = self.inner(ids, *rest)
        return torch.where(self.when(ids)[..., None], y + 1e-3 * next_token(y), y)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._modules["inner"], name)


def leaks_when(when, **changes):
    about = of(set_up(config(**changes)))
    stack = about.model.trunk.decoder
    stack.embedding = Sometimes(stack.embedding, when)
    return found("dependency", about)


def beyond(position):
    return lambda ids: (torch.arange(ids.shape[1]) >= position).expand(ids.shape)


LONG = {"model": {"length": 400, "layers": 1}, "data": {"length": 24}}


@pytest.mark.parametrize("position", [20, 256, 300])
def test_a_leak_that_begins_far_into_a_row_is_found(position):
    finding = leaks_when(beyond(position), **LONG)
    assert finding.outcome == "fail" and "a whole row" in finding.found


def test_long_rows_are_quiet_without_one():
    finding = found("dependency", of(set_up(config(**LONG))))
    assert finding.outcome == "pass", finding.found


@pytest.mark.parametrize("ids", [[0], [3, 4], [17], list(range(30, 36))])
def test_a_leak_of_some_token_ids_is_found(ids):
    finding = leaks_when(lambda given: torch.isin(given, torch.tensor(ids)))
    assert finding.outcome == "fail", finding.found


@pytest.mark.parametrize("token", [0, 1, 2, 3, 1999])
def test_a_special_token_of_a_large_vocabulary_leaks_where_random_rows_show_nothing(token):
    model = small(vocabulary=2000)
    stack = model.trunk.decoder
    stack.embedding = Sometimes(stack.embedding, lambda ids: ids == token)
    model = model.double()
    paths = list(paths_of(model, None, 2000, length=12, whole=48))
    assert [path.name for path in paths if measure_model(model, path, 2000).worst] == []
    leak = ids_leak(OwnSubject(model))
    assert leak is not None and leak.key == leak.query + 1 and "embedding" in leak.origin.module
    assert ids_leak(OwnSubject(small(vocabulary=2000))) is None


def test_every_id_of_a_small_vocabulary_is_tried_and_the_special_ones_of_a_large_one():
    assert set(spread_ids(50).flatten().tolist()) == set(range(50))
    tried = set(spread_ids(50_000).flatten().tolist())
    assert {0, 1, 2, 3, 49_999} < tried and len(tried) == 320


class After(nn.Module):
    """Wraps a module: its output is changed."""

    def __init__(self, inner, change):
        super().__init__()
        self.inner, self.change = inner, change

    def forward(self, x):
        return self.change(self.inner(x))


def test_a_model_that_treats_a_single_token_otherwise_is_found():
    about = case()
    stack = about.model.trunk.decoder
    stack.final = After(stack.final, lambda x: x * (1 + 1e-3 * (x.shape[1] == 1)))
    finding = found("dependency", about)
    assert (
        finding.outcome == "fail"
        and "later tokens are removed" in finding.found
        and "length of the row" in finding.fix
    )


def test_a_model_that_cannot_read_a_single_token_is_answered_in_a_sentence():
    about = case()

    def narrow(x):
        if x.shape[1] == 1:
            raise RuntimeError("kernel size can't be greater than actual input size")
        return x

    about.model.trunk.decoder.final = After(about.model.trunk.decoder.final, narrow)
    finding = found("dependency", about)
    assert finding.outcome == "fail" and "kernel size" in finding.found


class OverBatch(nn.Module):
    """Normalises each feature over all tokens of the batch, as BatchNorm does."""

    def __init__(self, inner=None):
        super().__init__()
        self.norm = nn.BatchNorm1d(16, track_running_stats=False)

    def forward(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class OverRows(OverBatch):
    """Normalises each position over the rows of the batch."""

    def forward(self, x):
        return (x - x.mean(0, keepdim=True)) / (x.var(0, keepdim=True, correction=0) + 1e-5).sqrt()


@pytest.mark.parametrize("norm", [OverBatch, OverRows, lambda: nn.Sequential(OverBatch())])
def test_statistics_over_the_batch_are_named_and_the_mask_is_not(norm):
    about = case()
    about.model.trunk.decoder.blocks[0].residuals[1].norm = norm()
    finding = found("dependency", about)
    assert finding.outcome == "fail" and "another text of the batch" in finding.found
    assert "BatchNorm" in finding.fix and "scores" not in finding.fix


def test_statistics_over_the_batch_in_training_alone_are_named():
    about = case()
    norm = OverBatch()
    norm.norm = nn.BatchNorm1d(16)
    about.model.trunk.decoder.blocks[0].residuals[1].norm = norm
    finding = found("dependency", about)
    assert finding.outcome == "fail" and "in training" in finding.found and "BatchNorm" in finding.fix


def mean_over_the_sequence(y):
    return y.mean(1, keepdim=True).expand_as(y)


def largest_of_the_sequence(y):
    return y.amax((1, 2), keepdim=True).expand_as(y)


@pytest.mark.parametrize("peek", [mean_over_the_sequence, largest_of_the_sequence, next_token])
@pytest.mark.parametrize("part", ["norm", "feedforward"])
def test_statistics_over_the_sequence_are_named_and_the_mask_is_not(peek, part):
    about = case()
    residual = about.model.trunk.decoder.blocks[0].residuals[1]
    name = "norm" if part == "norm" else "inner"
    setattr(residual, name, Leaky(getattr(residual, name), peek))
    finding = found("dependency", about)
    assert finding.outcome == "fail" and f"residuals.1.{name}" in finding.found
    assert "mask is not at fault" in finding.fix and "softmax" not in finding.fix


def test_an_embedding_that_looks_ahead_is_named():
    finding = leaks_when(lambda ids: torch.ones_like(ids, dtype=torch.bool))
    assert finding.outcome == "fail" and "embedding" in finding.found
    assert finding.fix.startswith("Let an embedding depend on its own token")


def test_a_leak_through_scores_is_still_told_to_mask_them():
    about = case()
    attention = about.model.trunk.decoder.blocks[0].residuals[0].inner
    attention.rule.forward = lambda q, k, v, pairs: (q @ k.transpose(-1, -2)).softmax(-1) @ v
    finding = found("dependency", about)
    assert finding.outcome == "fail" and "before the softmax" in finding.fix


def test_a_batch_that_the_model_cannot_read_is_answered_in_a_sentence(tmp_path):
    (tmp_path / "asked.csv").write_text(
        "question,passage\n" + "".join(f"who is {n},he is {n}\n" for n in range(60))
    )
    pairs = {"corpus": str(tmp_path / "asked.csv"), "encoding": "pair"}
    about = of(set_up(config(data=pairs, model={"token_types": 2})))
    about.model.trunk.decoder.embedding.types = None
    finding = found("dependency", about)
    assert finding.outcome == "fail" and "no token types" in finding.found


# probe: any module


class Plain(nn.Module):
    def __init__(self, when=lambda ids: torch.zeros_like(ids, dtype=torch.bool), longest=10_000):
        super().__init__()
        self.table, self.out = nn.Embedding(50, 8), nn.Linear(8, 50)
        self.when, self.longest = when, longest

    def forward(self, ids):
        if ids.shape[1] > self.longest:
            raise ValueError(f"at most {self.longest} tokens")
        x = self.table(ids)
        y = x.cumsum(1) / torch.arange(1, ids.shape[1] + 1)[:, None]
        return self.out(torch.where(self.when(ids)[..., None], y + next_token(x), y))


def test_probe_looks_at_long_rows_as_far_as_the_model_reads():
    assert not probe(Plain(beyond(256)), 50).sound
    assert not probe(Plain(beyond(20), longest=60), 50).sound
    found = probe(Plain(longest=60), 50)
    assert found.sound and "a row of 60 tokens" in found.paths


@pytest.mark.parametrize("ids", [[7], [48, 49]])
def test_probe_tries_many_ids(ids):
    assert not probe(Plain(lambda given: torch.isin(given, torch.tensor(ids))), 50).sound


@pytest.mark.parametrize("error", [ValueError, TypeError, KeyError, AssertionError])
def test_a_model_that_raises_is_answered_in_a_sentence(error):
    model = Plain()

    def refuse(ids):
        raise error("no such input")

    with pytest.raises(ConfigError, match="cannot read 12 tokens below 50"):
        probe(model, 50, forward=lambda copied, ids: refuse(ids))


def test_a_model_that_raises_in_training_alone_is_answered_in_a_sentence():
    class Fussy(Plain):
        def forward(self, ids):
            if self.training:
                raise ValueError("Expected more than 1 value per channel when training")
            return super().forward(ids)

    with pytest.raises(ConfigError, match="in training"):
        probe(Fussy(), 50)


def test_norms_here_are_not_over_the_batch():
    for name in NORMS:
        about = of(set_up(config(model={"norm": name})))
        assert found("dependency", about).outcome == "pass", name
