"""Recurrent models as runs: checks are quiet on them and loud on a fault, and resuming changes no bit."""

import pytest
import torch

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.explain.attention_maps import RowOfText, attention_maps
from attnlab.explain.head_losses import heads_in
from attnlab.model import recurrence
from attnlab.model.recurrence import RecurrentLayer, RecurrentState
from attnlab.model.tokens import Tokens
from attnlab.runs.findings import read_findings
from attnlab.session.trained import Trained
from attnlab.studies.evidence import drawn_at_random
from attnlab.training.trace import initial_weights
from tests.checks.cases import config as case_config
from tests.checks.cases import found, of
from tests.training.small_run import config, for_task, merged, set_up, train

RUNS = {
    "causal": "gru",
    "masked": "lstm",
    "seq2seq": "gru(attention=additive)",
}
STEPS = {"training": {"optimizer": {"kind": "adamw", "learning_rate": 1e-2}, "budget": {"steps": 12}}}


def of_task(task, folder, trunk, **changes):
    """A small run of a task; settings of a transformer back at their defaults."""
    own = {"model": {"trunk": trunk, "heads": 4}}
    return config(folder, **merged(merged(for_task(task, folder), own), changes))


@pytest.mark.parametrize(("task", "trunk"), RUNS.items())
def test_every_check_is_quiet_on_it(task, trunk, tmp_path):
    run = train(of_task(task, tmp_path, trunk, **STEPS), tmp_path / "run")
    findings = {(one.check, one.when): one for one in read_findings(tmp_path / "run")}
    young = ("learned", "inputs_matter")  # of a run of 12 steps
    loud = [f for (check, _), f in findings.items() if f.outcome in ("fail", "warn") and check not in young]
    assert not loud, loud
    assert findings["dependency", "after"].outcome == findings["overfit", "before"].outcome == "pass"
    trained = Trained.at(tmp_path / "run")
    theirs = dict(run.model.named_parameters())
    assert all(torch.equal(p, theirs[name]) for name, p in trained.model.named_parameters())
    assert trained.evaluate(rows=4)["measures"]


FAULTS = {
    "future": ("dependency", "causal", "depends on future token"),
    "documents": ("dependency", "causal", "packed documents"),
    "padding": ("invariance", "causal", "padded"),
    "state": ("decoding", "causal", ""),
    "source": ("invariance", "seq2seq", "padded"),
    "batch": ("dependency", "causal", "another text"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_inside_it_is_found(fault, monkeypatch):
    check, task, words = FAULTS[fault]
    trunk = "gru" if task == "causal" else "gru(attention=dot)"
    setup = set_up(case_config(task, model={"trunk": trunk, "heads": 4, "dropout": 0.0}))
    about = of(setup)
    assert found(check, about).outcome == "pass"
    forward, texts_of = RecurrentLayer.forward, recurrence.texts_of

    def leaking(layer, x, texts=None, state=None):
        y = forward(layer, x, texts, state)
        return y + 1e-6 * (y.roll(-1, 1) if fault == "future" else y.mean(0, keepdim=True))

    def plain(tokens, rows):
        kept = {"real": tokens.real} if fault == "documents" else {"document": tokens.document}
        return texts_of(Tokens.of(tokens.length, **kept, device=tokens.index.device), rows)

    if fault in ("future", "batch"):
        monkeypatch.setattr(RecurrentLayer, "forward", leaking)
    elif fault in ("documents", "padding"):
        monkeypatch.setattr("attnlab.model.trunks.recurrent.texts_of", plain)
    elif fault == "state":
        monkeypatch.setattr(RecurrentState, "keep", lambda *given: None)
    else:
        monkeypatch.setattr(
            "attnlab.model.trunks.recurrent.fixed_vector", lambda encoded, *given: encoded.mean(1)
        )
    finding = found(check, about)
    assert finding.outcome == "fail" and words in finding.found, finding


@pytest.mark.parametrize(("task", "trunk"), [("causal", "lstm"), ("seq2seq", "gru(attention=additive)")])
def test_it_resumes_to_the_bit(task, trunk, tmp_path, unchecked):
    """With dropout, whose numbers go on where they were."""
    longer, shorter = (
        of_task(task, tmp_path, trunk, training={"budget": {"steps": steps}, "schedule": "constant"})
        for steps in (9, 5)
    )
    assert longer.model.dropout > 0
    train(longer, tmp_path / "whole")
    train(shorter, tmp_path / "parted")
    train(longer, tmp_path / "parted", resume=True)
    whole, parted = (Trained.at(tmp_path / name, which="last").model for name in ("whole", "parted"))
    for p, q in zip(whole.parameters(), parted.parameters(), strict=True):
        assert torch.equal(p, q)


def test_first_biases_are_not_taken_for_random_numbers():
    """Every seed has the same: 0, and 1 at the gate that keeps the state."""
    first = initial_weights(lab.decoder(vocabulary=9, width=8, trunk="lstm", layers=1))
    drawn = {name.rpartition(".")[2] for name, summary in first.items() if drawn_at_random(summary)}
    assert drawn == {"weight", "weight_ih_l0", "weight_hh_l0"}
    assert "= 0.0 and 1.0" in first["trunk.decoder.layers.0.kernel.bias_ih_l0"]


# ---------------------------------------------------------------- looking inside
def translator(attention):
    return lab.encoder_decoder(vocabulary=11, width=16, layers=2, trunk=f"gru(attention={attention})").eval()


def row_of(source, target):
    ids = {"ids": torch.tensor([target]), "source": torch.tensor([source])}
    words = [str(token) for token in target]
    return RowOfText(ids, words, [False] * len(words), [str(token) for token in source])


@torch.no_grad()
def test_its_attention_is_looked_into_and_removed_as_any_other():
    model = translator("additive")
    maps = attention_maps(model, row_of([4, 5, 6, 7], [1, 2, 3]))
    (layer,) = maps.layers
    assert layer.name == "cross-attention layer 1" and layer.weights.shape == (1, 3, 4)
    assert torch.allclose(layer.weights.sum(-1), torch.ones(1, 3))
    ids, source = torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5, 6, 7]])
    with lab.patch(model, {"decoder.layers.1.cross_heads.0": 0}):
        without = model(ids, source=source)
    attention = model.trunk.output.attention
    kept, attention.output.weight.data = attention.output.weight.data.clone(), attention.output.weight * 0
    assert torch.allclose(without, model(ids, source=source), atol=1e-6)
    attention.output.weight.data = kept
    assert maps.heads[0].effect > 0 and maps.headline.startswith("Removing the model's only head changes")
    with lab.capture(model, "decoder.layers.0.output", "encoder.layers.1.output", "decoder.final") as seen:
        model(ids, source=source)
    assert {name: tuple(value.shape) for name, value in seen.items()} == {
        "encoder.layers.1.output": (1, 4, 16),
        "decoder.layers.0.output": (1, 3, 16),
        "decoder.final": (1, 3, 16),
    }


def test_what_needs_attention_or_a_transformer_says_so():
    model = translator("none")
    with pytest.raises(ConfigError, match=r"trunk is a Gru and has no attention.*gru\(attention=additive\)"):
        attention_maps(model, row_of([4, 5], [1, 2]))
    with pytest.raises(ConfigError, match="has no attention"):
        heads_in(model)
    with pytest.raises(ConfigError, match="This is for transformers, and the model's trunk is a Gru"):
        lab.attach(model, "prefix")
