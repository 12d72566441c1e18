"""Every rule that can look back learns, within seconds, to repeat the token before the last."""

import pytest
import torch

import attnlab as lab

RULES = ["dot", "additive", "linear", "group(groups=1)", "window(size=4)", "argmax(straight_through=true)"]


@pytest.mark.parametrize("attention", RULES)
def test_it_learns_to_look_one_token_back(attention):
    V, T = 12, 12
    model = lab.decoder(
        vocabulary=V, width=32, heads=2, layers=1, length=T, attention=attention, positions="learned"
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(250):
        ids = torch.randint(0, V, (32, T), generator=generator)
        loss = model.head.loss(model.trunk(ids)[:, 1:], ids[:, :-1]).mean
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ids = torch.randint(0, V, (64, T), generator=generator)
    right = (model(ids)[:, 1:].argmax(-1) == ids[:, :-1]).float().mean()
    assert right > 0.95, f"{right:.2f} right, where a guess gets {1 / V:.2f}"
