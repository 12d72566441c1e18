"""The answer to a fixed input: for every kind of model, and for the mistakes it is there to find."""

import pytest
import torch

import attnlab as lab
from attnlab.model.witness import answer, differs

MODELS = {
    "decoder": lambda: lab.decoder(vocabulary=50, width=16, heads=2, layers=2, dropout=0.5),
    "short": lambda: lab.decoder(vocabulary=50, width=16, heads=2, layers=2, positions="learned", length=3),
    "prefix": lambda: lab.decoder(vocabulary=50, width=16, heads=2, layers=2, mask="prefix"),
    "encoder": lambda: lab.encoder(vocabulary=50, width=16, heads=2, layers=2, token_types=2),
    "classes": lambda: lab.encoder(vocabulary=50, width=16, heads=2, layers=2, output="classification"),
    "both": lambda: lab.encoder_decoder(vocabulary=50, width=16, heads=2, layers=2),
    "group": lambda: lab.decoder(vocabulary=50, width=16, heads=2, layers=2, attention="group(groups=4)"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_answers_alike_until_a_weight_is_wrong(name):
    model = MODELS[name]().train()
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = answer(model)
    assert first == answer(model) and model.training
    assert torch.equal(state, torch.get_rng_state())  # training goes on as if nothing had been asked
    assert differs(model, first) == ""
    assert differs(model, [value * (1 + 1e-5) for value in first]) == ""  # another machine
    square = model.trunk.main.blocks[0].residuals[0].inner.output.weight
    with torch.no_grad():
        square.copy_(square.T.clone())
    assert "it answers" in differs(model, first)
    assert "numbers" in differs(model, first[:-1])
