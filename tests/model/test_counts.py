import re

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import attnlab as lab
from attnlab.config.files import load
from attnlab.config.schema import BIASED
from attnlab.model.assemble import build_model
from attnlab.model.contracts.small_models import plainly
from attnlab.model.counts import count
from attnlab.model.heads import HEADS
from attnlab.session.session import draft_settings
from tests.contracts import grid


def counted(**settings):
    config = draft_settings(load(set={f"model.{k}": v for k, v in settings.items()}))
    model = build_model(config, device="meta")
    return count(model, length=config.length, source_length=config.length, batch=1)


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        ("gpt2", 124_439_808),
        ("bert", 109_514_298),
        ("roberta", 124_697_433),
        ("t5", 60_506_624),
        ("llama", 6_738_415_616),
        ("qwen2", 494_032_768),
    ],
)
def test_published_architectures_have_their_published_size(preset, parameters):
    found = counted(preset=preset)
    assert found.total == found.closed_form == parameters


def test_closed_form_is_the_models_own_count():
    """Over a pairwise covering of every part, and every head."""
    for case in (*grid.pairwise(), *grid.MIXED):
        model = build_model(case.config(), device="meta")
        found = count(model, length=16, source_length=16, batch=1)
        assert found.closed_form == found.total, case
    for kind in HEADS:
        for options in HEADS[kind].examples:
            for positions in ("learned", "concat"):
                found = counted(output=lab.Choice(kind, options), positions=positions, width=32)
                assert found.closed_form == found.total, (kind, options)
    for part in BIASED:
        found = counted(bias=(part,), family="encoder_decoder", token_types=2, embedding_norm=True)
        assert found.closed_form == found.total, part
    for norm in ("layer", "rms"):
        found = counted(projections=lab.Choice("separate", {"query_key_norm": norm}))
        assert found.closed_form == found.total


def test_layers_of_different_attention_are_counted_each():
    """Additive attention has weights of its own, and only its layers have them."""
    plain, mixed = counted(layers=3), counted(layers=3, attention=["additive", "dot", "additive"])
    one = counted(layers=1, attention="additive").total - counted(layers=1).total
    assert one > 0 and mixed.total == mixed.closed_form == plain.total + 2 * one
    formulas = {term.name: term.formula for term in mixed.parameters}
    assert formulas["decoder.attention.query map"] == "2·(H·K·A)"
    assert formulas["decoder.attention.query"] == "L·(D·HK + HK)"
    linear, dot, both = (counted(layers=3, attention=a) for a in ("linear", "dot", ["linear", "dot", "dot"]))
    assert both.forward * 3 == linear.forward + 2 * dot.forward
    kept = [found.memory["activations"] for found in (linear, dot, both)]
    assert kept[2] * 3 == kept[0] + 2 * kept[1] and kept[0] != kept[1]


def test_source_documents_formulas():
    """Document A without biases: L(6n²+2n) + 2nV untied; document B: a head of 2d + 2; document D's model."""
    n, V, L = 32, 100, 3
    shape = {"vocabulary": V, "width": n, "layers": L, "heads": 4, "bias": False, "norm": "layer"}
    untied = counted(
        **shape, feedforward="relu(expand=1.0)", output="language_model(tied=false)", residual="post"
    )
    assert untied.closed_form == L * (6 * n * n + 2 * n) + 2 * n * V
    head = [t.count for t in counted(width=96, output="classification").parameters if t.name == "head.scores"]
    assert head == [2 * 96 + 2]
    mini_gpt = counted(vocabulary=10_000, width=96, layers=4, heads=4)
    assert mini_gpt.closed_form == 1_407_552


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"family": "encoder_decoder"},
        {"projections": "grouped(shared=2)", "feedforward": "swiglu", "head_width": 12},
        {"projections": "shared_qk", "family": "encoder_decoder", "feedforward": "geglu"},
        {"projections": "shared_qkv", "output": "language_model(bias=true, transform=dense)"},
        {"output": "classification(transform=tanh)"},
    ],
    ids=str,
)
def test_operations_are_what_torch_counts(settings):
    """With plain attention, whose products torch's own counter sees, T ≠ S for cross-attention."""
    config = load(
        set={"model.vocabulary": 50, "model.width": 32} | {f"model.{k}": v for k, v in settings.items()}
    ).model
    model = build_model(config)
    T, S = 24, 17
    source = {"source": torch.zeros(1, S, dtype=torch.long)} if config.family == "encoder_decoder" else {}
    with plainly(model), FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, T, dtype=torch.long), **source)
    assert count(model, length=T, source_length=S, batch=1).forward == counter.get_total_flops()


def test_attention_terms_grow_as_they_say():
    """Self-attention with the square of its length, cross-attention with the product of both."""
    model = build_model(draft_settings(load(set=["model.family=encoder_decoder"])), device="meta")

    def terms(n, m):
        return {t.name: t.count for t in count(model, length=n, source_length=m, batch=1).flops}

    small, long_target, long_source = terms(10, 10), terms(20, 10), terms(10, 20)
    assert long_target["decoder self-attention"] == 4 * small["decoder self-attention"]
    assert long_target["cross-attention"] == long_source["cross-attention"] == 2 * small["cross-attention"]
    assert long_source["encoder self-attention"] == 4 * small["encoder self-attention"]
    assert long_target["encoder self-attention"] == small["encoder self-attention"]


GROWTH = {
    "dot": "O(L·N²·HK)",
    "argmax": "O(L·N²·HK)",
    "additive": "O(L·N²·HA)",
    "linear": "O(L·N·HK²)",
    "group(groups=8)": "O(L·N²/groups·HK)",
    "group(groups=8, inner=linear)": "O(L·N·HK²)",
    "window(size=16)": "O(L·N·size·HK)",
    "window(size=16, inner=additive)": "O(L·N·size·HA)",
}


@pytest.mark.parametrize("attention", GROWTH)
def test_what_a_rule_is_said_to_grow_as_is_how_its_operations_grow(attention):
    """Linear and group attention were said to grow as O(N²d), beside numbers that did not. The formula is
    evaluated at several sizes."""

    def term(length, heads=4, head_width=16, groups=8, size=16):
        chosen = re.sub(r"groups=\d+", f"groups={groups}", re.sub(r"size=\d+", f"size={size}", attention))
        sizes = {"length": length, "heads": heads, "head_width": head_width, "width": 64, "attention": chosen}
        model = build_model(
            draft_settings(load(set={f"model.{n}": v for n, v in sizes.items()})), device="meta"
        )
        (found,) = (
            t for t in count(model, length=length, source_length=1, batch=1).flops if "self" in t.name
        )
        letters = {"L": 4, "N": length, "H": heads, "K": head_width, "A": head_width}
        letters |= {"groups": groups, "size": size}
        written = found.formula.removeprefix("O").replace("²", "**2").replace("·", "*")
        written = written.replace("HK", "H*K").replace("HA", "H*A")
        return found.formula, found.count / eval(written, letters)

    formula, ratio = term(1024)
    assert formula == GROWTH[attention]
    for changed in ({"length": 4096}, {"heads": 8}, {"groups": 16}, {"size": 32}):
        lower = 0.2 if "inner=additive" in attention else 0.02  # maps of keys that several windows share
        assert term(**{"length": 1024} | changed)[1] == pytest.approx(ratio, rel=lower), changed
    assert term(1024, head_width=32)[1] == pytest.approx(ratio, rel=0.4)  # terms of lower order in K


def test_layers_of_several_rules_are_each_said_to_grow():
    settings = load(set=["model.layers=3", 'model.attention=["dot", "linear", "dot"]'])
    model = build_model(draft_settings(settings), device="meta")
    (found,) = (t for t in count(model, length=64, source_length=1, batch=1).flops if "self" in t.name)
    assert found.formula == "O(2·N²·HK + 1·N·HK²)"


@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [
        ({}, 0.1),
        ({"residual": "post"}, 0.1),
        ({"family": "encoder_decoder"}, 0.1),
        ({"feedforward": "swiglu", "norm": "rms", "positions": "rotary"}, 0.15),
        ({"attention": "additive"}, 0.15),
        ({"attention": "linear"}, 0.25),
        ({"attention": "group"}, 0.15),
    ],
    ids=str,
)
def test_activation_memory_is_near_what_torch_saves(settings, tolerance):
    config = load(set={"model.vocabulary": 50} | {f"model.{k}": v for k, v in settings.items()}).model
    model = build_model(config)
    B, T = 4, 128
    ids = torch.zeros(B, T, dtype=torch.long)
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    saved = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = (storage.nbytes(), tensor)  # held, so that no address is used twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        model.trunk(ids, **({"source": ids} if config.family == "encoder_decoder" else {}))
    measured = sum(size for size, _ in saved.values())
    estimate = count(model, length=T, source_length=T, batch=B).memory["activations"]
    assert abs(measured / estimate - 1) < tolerance, measured / estimate
