"""The dependency probe: every fault put in is found and named; what is sound passes."""

from dataclasses import replace

import pytest
import torch
import transformers
from torch import nn

from attnlab.checks.measure import Measured, measure_model
from attnlab.checks.paths import paths_of
from attnlab.checks.probing import probe
from attnlab.checks.subject import EQUAL, OwnSubject
from attnlab.config.values import ConfigError
from attnlab.model.attention.linear import Linear
from attnlab.model.masks import Documents, Padding
from tests.checks.faults import VOCABULARY, Leaky, block_mean, leaking, small
from tests.contracts.grid import pairwise


def leaks(model):
    """The paths on which something leaks."""
    model = model.double()
    paths = paths_of(model, None, VOCABULARY, length=8, whole=48)
    return [found.path.name for found in (measure_model(model, p, VOCABULARY) for p in paths) if found.worst]


CASES = [case for case in pairwise(seed=3) if case.masking == "-inf"][:40]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_sound_combination_passes(case):
    model = case.model(length=48)
    assert leaks(model) == []


KINDS = ["dot", "additive", "argmax", "linear", "group(groups=2)", "window(size=3)"]


@pytest.mark.parametrize("attention", KINDS)
@pytest.mark.parametrize(
    ("dropout", "modes"), [(0.0, {"training and evaluation"}), (0.1, {"training", "evaluation"})]
)
def test_zeroing_after_the_softmax_leaks_on_every_path(attention, dropout, modes):
    found = leaks(small(attention=attention, masking="zero", dropout=dropout))
    assert modes | {"packed documents", "a whole row"} <= set(found)


@pytest.mark.parametrize("size", [1e-2, 1e-9])
def test_a_leak_is_found_however_small(size):
    found = probe(leaking(size=size))
    assert not found.sound
    worst = max(found.leaks, key=lambda leak: leak.size)
    assert worst.key > worst.query
    assert worst.size < 20 * size


def test_the_layer_that_introduces_a_leak_is_named():
    for layer in (0, 1):
        assert (
            f"decoder.blocks.{layer}.residuals.1.inner (Leaky)"
            in probe(leaking(layer)).leaks[0].origin.module
        )


@pytest.mark.parametrize("mode", ["training", "evaluation"])
def test_a_leak_in_one_mode_only_is_found_there(mode):
    model = leaking(only_in=mode, size=1e-9)
    found = probe(model).leaks
    assert found[0].path == mode and {leak.path for leak in found} & {"training", "evaluation"} == {mode}
    assert {"training", "evaluation"} & set(leaks(model)) == {mode}


def test_a_leak_inside_long_blocks_is_found_where_short_rows_show_none():
    model = small()
    residual = model.trunk.decoder.blocks[0].residuals[1]
    residual.inner = Leaky(residual.inner, block_mean(16))
    assert leaks(model) == ["a whole row"]


@pytest.mark.parametrize(
    ("mask", "path"), [(Documents, "packed documents"), (Padding, "padded on the left")], ids=str
)
def test_documents_and_padding_that_are_seen_are_found(mask, path, monkeypatch):
    """The mask is applied as if everything were allowed; the declaration stays as it was."""
    model = small(attention="additive").double()
    paths = [p for p in paths_of(model, None, VOCABULARY, length=8, whole=8) if p.name == path]
    assert measure_model(model, paths[0], VOCABULARY).worst is None
    monkeypatch.setattr(mask, "__call__", lambda self, q, k: torch.ones(1, q.length, k.length).bool())
    assert measure_model(model, paths[0], VOCABULARY).worst is not None


def test_a_source_that_is_padding_must_not_be_seen(monkeypatch):
    model = small(family="encoder_decoder").double()
    paths = {p.name: p for p in paths_of(model, None, VOCABULARY, length=8, whole=8)}
    sound = measure_model(model, paths["padded on the right, source"], VOCABULARY)
    assert sound.worst is None and sound.dependence[:, 0].min() > 0
    monkeypatch.setattr(Padding, "__call__", lambda self, q, k: torch.ones(1, q.length, k.length).bool())
    found = measure_model(model, paths["padded on the right, source"], VOCABULARY)
    assert found.worst is not None and found.worst[2] >= 6


def test_a_permitted_pair_that_nothing_joins_is_dead():
    narrow = small(mask="causal & window(size=3)", layers=1)
    found = probe(narrow, mask="causal", length=8)
    assert found.sound
    assert set(found.dead) == {(i, j) for i in range(8) for j in range(i - 2)}
    assert probe(narrow, mask="causal & window(size=3)", length=8).dead == ()
    near = probe(small(family="encoder", mask="window(size=3)", layers=1), mask="bidirectional", length=8)
    assert set(near.dead) == {(i, j) for i in range(8) for j in range(8) if abs(i - j) > 2}


def test_where_all_may_be_seen_a_long_row_is_read_once(monkeypatch):
    """Nothing can leak there; that it can be read at all is still asked."""
    model = small(family="encoder").double()
    (whole,) = [p for p in paths_of(model, None, VOCABULARY, length=8, whole=16) if p.name == "a whole row"]
    read = []
    forward = whole.forward
    found = measure_model(
        model, replace(whole, forward=lambda ids: read.append(ids) or forward(ids)), VOCABULARY
    )
    assert len(read) == 1 and read[0].shape == (1, 16)
    assert found.pairs == 0 and found.worst is None and not found.dead
    monkeypatch.setattr(model.trunk, "forward", broken)
    with pytest.raises(ValueError, match="no such row"):
        measure_model(model, whole, VOCABULARY)


def broken(*args, **given):
    raise ValueError("no such row")


def test_the_probe_disturbs_neither_the_model_nor_the_random_numbers():
    model = small(dropout=0.3)
    before = {name: p.clone() for name, p in model.named_parameters()}
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    probe(model)
    assert torch.equal(torch.rand(3), expected)
    assert model.training and all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert all(p.grad is None for p in model.parameters())


SMALL_GPT2 = {"vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32}
SMALL_GPT2 |= {"bos_token_id": 0, "eos_token_id": 0}
SMALL_LLAMA = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}


def test_untouched_models_of_transformers_pass():
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL_GPT2))
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL_LLAMA))
    for model in (gpt2, llama):
        found = probe(model, vocabulary=50)
        assert found.sound and not found.dead, found.found


def test_a_finite_mask_value_in_transformers_gpt2_is_found(monkeypatch):
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL_GPT2, attn_implementation="eager"))

    def weak(*, inputs_embeds, **rest):
        T = inputs_embeds.shape[1]
        return torch.full((T, T), -10.0, dtype=inputs_embeds.dtype).triu(1)[None, None]

    monkeypatch.setattr(transformers.models.gpt2.modeling_gpt2, "create_causal_mask", weak)
    found = probe(model, vocabulary=50)
    assert not found.sound
    assert "transformer.h.0.attn" in found.leaks[0].origin.module
    assert 1e-8 < found.leaks[0].size < 1e-2


def test_a_model_that_counts_its_row_is_found_by_its_prefixes():
    class Counting(torch.nn.Module):
        """Scores that depend on how long the row is: no token, but the future all the same."""

        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(20, 8)

        def forward(self, ids):
            return self.table(ids).cumsum(1) / ids.shape[1]

    found = probe(Counting(), vocabulary=20)
    assert not found.leaks and not found.sound
    assert "length of the row" in found.found


def test_what_cannot_be_probed_says_why():
    with pytest.raises(ConfigError, match="how many tokens"):
        probe(torch.nn.Linear(2, 2))
    with pytest.raises(ConfigError, match="No embedding of 50 tokens"):
        probe(torch.nn.Embedding(20, 8), vocabulary=50)


class Mixed(nn.Module):
    """One layer: each output is the mean of the inputs that `seen` (T,T) joins it with."""

    def __init__(self, seen, vocabulary=50):
        super().__init__()
        self.table, self.seen = nn.Embedding(vocabulary, 8), seen
        self.out = nn.Linear(8, vocabulary)

    def forward(self, ids):
        joined = self.seen(ids.shape[1]).double()
        return self.out(joined / joined.sum(-1, keepdim=True) @ self.table(ids))


def test_a_window_that_is_ignored_shows_when_the_layers_are_said():
    model = Mixed(lambda length: torch.ones(length, length).tril())
    assert not probe(model, 50, mask="causal & window(size=3)", layers=1).sound
    narrow = Mixed(lambda length: torch.ones(length, length).tril().triu(-2))
    assert probe(narrow, 50, mask="causal & window(size=3)", layers=1).sound


def test_a_prefix_is_probed_with_its_source():
    def prefix(length):
        return torch.ones(length, length).tril().logical_or(torch.arange(length) < 5)

    assert probe(Mixed(prefix), 50, mask="prefix", source=5).sound
    assert not probe(Mixed(prefix), 50, mask="prefix", source=4).sound


def test_scores_that_are_no_numbers_are_no_proof_of_soundness():
    model = Mixed(lambda length: torch.ones(length, length).tril())
    forward = model.forward
    model.forward = lambda ids: forward(ids).index_fill(1, torch.tensor([3]), torch.nan)
    with pytest.raises(ConfigError, match=r"no numbers \(nan\) from position 3"):
        probe(model, 50, forward=lambda copied, ids: model.double().forward(ids))
    path = next(iter(paths_of(small().double(), None, VOCABULARY, length=4, whole=8)))
    nothing = torch.full((4, 4), torch.nan)
    assert Measured(path, nothing, nothing).worst is not None
    closed = Mixed(lambda length: torch.ones(length, length).tril())
    closed.out.bias.data[7] = -torch.inf  # a token that is never said
    assert probe(closed, 50).sound


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"vocabulary": 1}, "no input can be changed"),
        ({"vocabulary": -3}, "no input can be changed"),
        ({"length": 1}, "every pair of 2 to 512 positions"),
        ({"length": 5000}, "every pair of 2 to 512 positions"),
        ({"vocabulary": 80, "length": 64}, "No embedding of 80 tokens|cannot read 64 tokens below 80"),
        ({"source": 13}, "source is 13"),
    ],
)
def test_impossible_arguments_are_answered(arguments, sentence):
    with pytest.raises(ConfigError, match=sentence):
        probe(Mixed(lambda length: torch.ones(length, length).tril()), **{"vocabulary": 50} | arguments)
    with pytest.raises(ConfigError, match=r"takes a torch\.nn\.Module, and this is str"):
        probe("model", 50)


def test_linear_attention_with_its_pads_in_the_denominator_fails_invariance():
    from attnlab.checks.invariance import Scored

    rows = [torch.tensor(row) for row in ([1, 2, 3, 4], [5, 6, 7, 8, 9, 10, 11], [3, 1, 2])]
    subject = OwnSubject(small(attention="linear"))
    alone = Scored(subject, [[row] for row in rows], "right")
    assert Scored(subject, [rows], "left").gap(alone) < EQUAL
    seen = Linear.forward

    def unmasked(self, q, k, v, pairs):
        from attnlab.model.pairs import Pairs
        from attnlab.model.tokens import Tokens

        plain = Tokens.of(q.shape[2])
        return seen(self, q, k, v, Pairs(plain, plain, pairs.pattern))

    Linear.forward = unmasked
    try:
        together = Scored(subject, [rows], "left")
    finally:
        Linear.forward = seen
    assert together.gap(alone) > 1e-3
