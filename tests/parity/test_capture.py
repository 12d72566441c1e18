"""What is captured in loaded models is what transformers says flows there; patches are as torch hooks."""

import pytest
import torch

import attnlab as lab
from attnlab.interop.foreign import load_model
from tests.parity.folders import published

IDS = torch.tensor([[5, 9, 31, 7, 22, 8], [6, 40, 41, 42, 43, 44]])


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama"])
@torch.no_grad()
def test_weights_and_residual_stream_are_theirs(name, tmp_path):
    theirs = published(tmp_path, name, attn_implementation="eager").eval()
    ours = load_model(tmp_path).model.eval()
    expected = theirs(IDS, output_attentions=True, output_hidden_states=True)
    with lab.capture(ours, "layers.*.attention.weights", "embedding", "layers.*.output", "final") as seen:
        ours(IDS)
    for layer, weights in enumerate(expected.attentions):
        torch.testing.assert_close(seen[f"layers.{layer}.attention.weights"], weights, rtol=1e-4, atol=1e-5)
    stream = [seen["embedding"], seen["layers.0.output"], seen["final"]]
    for own, hidden in zip(stream, expected.hidden_states, strict=True):
        torch.testing.assert_close(own, hidden, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_a_head_of_another_sentence_in_ten_lines_and_by_torch_hooks(tmp_path):
    """Head 1 of layer 1 as it is for another sentence: the logits move as with hooks on their modules."""
    theirs = published(tmp_path, "gpt2").eval()
    model = load_model(tmp_path).model.eval()
    clean, other = IDS[:1], IDS[1:]

    with lab.capture(model, "layers.*.heads.*") as seen:
        model(other)
    with lab.patch(model, {"layers.1.heads.1": seen["layers.1.heads.1"]}):
        patched = model(clean)
    moved = patched - model(clean)

    width = theirs.config.n_embd // theirs.config.n_head
    mixed = {}

    def keep(module, inputs):
        mixed["of"] = inputs[0].clone()

    def swap(module, inputs):
        changed = inputs[0].clone()
        changed[..., width : 2 * width] = mixed["of"][..., width : 2 * width]
        return (changed,)

    project = theirs.transformer.h[1].attn.c_proj
    hook = project.register_forward_pre_hook(keep)
    theirs(other)
    hook.remove()
    plain = theirs(clean).logits
    hook = project.register_forward_pre_hook(swap)
    expected = theirs(clean).logits - plain
    hook.remove()
    assert float(expected.abs().max()) > 1e-3
    torch.testing.assert_close(moved, expected, rtol=1e-3, atol=1e-4)
