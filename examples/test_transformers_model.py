"""Check a model of transformers in your own tests: `pytest test_transformers_model.py`.

They take any torch module. A model that leaks, or whose answer depends on padding, fails with words
that name the place.
"""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import attnlab as lab
from attnlab.testing import assert_cache_equal, assert_causal, assert_padding_invariant


def build():
    torch.manual_seed(0)
    sizes = {"vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 16}
    return GPT2LMHeadModel(GPT2Config(**sizes)).eval()


def test_it_sees_nothing_that_comes_later():
    assert_causal(build())


def test_padding_and_the_cache_change_nothing():
    assert_padding_invariant(build())
    assert_cache_equal(build())


def test_every_check_that_a_module_can_be_asked():
    findings = lab.check(build())
    assert findings.sound, findings.verdict


class Leaking(torch.nn.Module):
    """The same, with a mean over all positions added: a mistake to see the test fail."""

    def __init__(self):
        super().__init__()
        self.model = build()

    def forward(self, ids):
        scores = self.model(ids).logits
        return scores + 0.01 * scores.mean(1, keepdim=True)


def test_a_leak_is_named():
    with pytest.raises(AssertionError, match="depends on future token"):
        assert_causal(Leaking(), vocabulary=100)
