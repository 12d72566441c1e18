"""The study heads-matter: what it reads off heads, against numbers made by hand, and what it concludes."""

import pytest
import torch

import attnlab as lab
from attnlab.explain.ablation import HeadName
from attnlab.explain.attention_maps import RowOfText
from attnlab.explain.head_losses import HeadLoss, HeadPicture, head_pictures, rank_correlations
from attnlab.metrics.metric import Estimate
from attnlab.model.contracts.small_models import loosen
from attnlab.runs.result import RunResult
from attnlab.studies.builtin.heads_matter import correlation_rows, verdict


def names(count):
    return [HeadName("layers.0.heads", number) for number in range(count)]


def lost(changes):
    return [
        HeadLoss(name, Estimate(change, change, change, 2, 0.95))
        for name, change in zip(names(len(changes)), changes, strict=True)
    ]


def test_correlations_are_of_ranks():
    pictures = {name: HeadPicture(n**3, -n, 1.0) for n, name in enumerate(names(5))}
    found = rank_correlations(pictures, lost([0.1, 0.2, 0.3, 0.4, 9.0]))
    assert found == {"entropy": pytest.approx(1), "distance": pytest.approx(-1)}  # equal values say nothing


@torch.no_grad()
def test_pictures_are_means_over_texts_of_what_flows():
    model = lab.decoder(vocabulary=20, width=16, heads=2, layers=1, projections="grouped(shared=1)").eval()
    loosen(model)
    texts = [torch.tensor([[1, 2, 3, 4]]), torch.tensor([[5, 6]])]
    found = head_pictures(model, [RowOfText({"ids": ids}, [], []) for ids in texts])
    lengths, apart = [], []
    for ids in texts:
        with lab.capture(model, "layers.0.attention.*") as seen:
            model(ids)
        lengths.append(float(seen["layers.0.attention.values"][0, 0].norm(dim=-1).mean()))
        weights = seen["layers.0.attention.weights"][0, 1]
        T = len(weights)
        apart.append(sum(abs(i - j) * float(weights[i, j]) for i in range(T) for j in range(T)) / T)
    one = found[HeadName("layers.0.heads", 1)]
    assert one.value_norm == pytest.approx(sum(lengths) / 2) and one.distance == pytest.approx(sum(apart) / 2)


def runs(*correlations):
    heads = [{"head": "layer 0, head 0", "change": 0.0}] * 16
    return [
        RunResult(
            metrics={"entropy_correlation": value, "distance_correlation": 0.4, "heads_to_spare": 0.5},
            extra={"heads": heads, "texts": 9},
        )
        for value in correlations
    ]


def test_an_interval_that_holds_zero_proves_nothing():
    unsure = str(verdict("heads-4", runs(-0.5, 0.1, 0.6)[:1] + runs(-0.5, 0.6)))
    assert "distance at which it looks (+0.40)" in unsure and "entropy" not in unsure
    assert "50% of its heads can be lost" in unsure
    assert "entropy of its weights (-0.50)" in str(verdict("heads-4", runs(-0.5, -0.52, -0.48)))
    rows = correlation_rows("heads-4", runs(-0.5, 0.1, 0.6))
    assert rows[0][:4] == ["heads-4", "entropy of its weights", 3, 16] and rows[0][5].startswith("-")
    assert correlation_rows("heads-4", runs(0.1))[0][5] == "one seed: unknown"
