"""GRU and LSTM as language model, encoder and encoder-decoder: against formulas, and by every promise."""

import itertools

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import attnlab as lab
from attnlab.config.files import load, section_of
from attnlab.config.values import Choice, ConfigError
from attnlab.generation.beam import beam_search
from attnlab.generation.generate import generate
from attnlab.model.assemble import build_model
from attnlab.model.contracts import promises
from attnlab.model.contracts.small_models import (
    DOCUMENT,
    IDS,
    LEFT,
    SOURCE_DOCUMENT,
    SOURCE_IDS,
    SOURCE_REAL,
    S,
    SmallModel,
    T,
    plainly,
)
from attnlab.model.counts import count
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.recurrent import Recurrent
from attnlab.model.trunks.trunk import Trunk
from tests.model.recurrent_reference import Reference, places_by_text

SHAPES = {
    "decoder": ("decoder", "none"),
    "encoder": ("encoder", "none"),
    "fixed vector": ("encoder_decoder", "none"),
    "additive": ("encoder_decoder", "additive"),
    "dot": ("encoder_decoder", "dot"),
}
EVERY = [(kind, shape) for kind in ("gru", "lstm") for shape in SHAPES]
LAYOUTS = (
    {},
    {"real": LEFT},
    {"real": LEFT.flip(1)},
    {"document": DOCUMENT},
    {"real": LEFT, "document": DOCUMENT},
)


def small(kind, shape, **extras):
    family, attention = SHAPES[shape]
    mask = "bidirectional" if family == "encoder" else "causal"
    return SmallModel(
        *(Choice("dot"), Choice(mask), Choice("sinusoidal"), Choice("separate"), family, "-inf"),
        extras={"trunk": f"{kind}(attention={attention})", "layers": 2} | extras,
    )


def referred(reference, case, marks, source_marks):
    """{(row, place): the output} by the reference, text by text."""
    outputs = {}
    for row in range(len(IDS)):
        real = marks.get("real", torch.ones_like(IDS).bool())[row]
        document = marks.get("document", torch.zeros_like(IDS))[row]
        sources = {}
        if case.family == "encoder_decoder":
            of = source_marks.get("document", torch.zeros_like(SOURCE_IDS))[row]
            places = places_by_text(SOURCE_REAL[row], of)
            sources = {n: reference.encode(SOURCE_IDS[row, p]) for n, p in places.items()}
        for number, places in places_by_text(real, document).items():
            ids = IDS[row, places]
            if case.family == "encoder":
                hidden = reference.normed(reference.encode(ids))
            elif case.family == "decoder":
                hidden = reference.decode(ids)
            else:
                hidden = reference.decode(ids, sources.get(number, []))
            outputs |= {(row, place): h for place, h in zip(places, hidden, strict=True)}
    return outputs


@pytest.mark.parametrize(("kind", "shape"), EVERY)
def test_outputs_and_gradients_are_those_of_the_formula_token_by_token(kind, shape):
    """Plain, padded on either side, and packed; beside a source that is padded."""
    case = small(kind, shape)
    model = case.model()
    reference = Reference(kind, SHAPES[shape][1], model.trunk)
    for marks in LAYOUTS:
        source_marks = {"document": SOURCE_DOCUMENT} if "document" in marks else {}
        given = {}
        if case.family == "encoder_decoder":
            tokens = Tokens.of(S, real=SOURCE_REAL, **source_marks)
            given = {"source": SOURCE_IDS, "source_tokens": tokens}
        hidden = model.trunk(IDS, Tokens.of(T, **marks), **given)
        wanted = referred(reference, case, marks, source_marks)
        ours = torch.stack([hidden[place] for place in wanted])
        theirs = torch.stack(list(wanted.values()))
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-12), (marks, (ours - theirs).abs().max())
        weights = torch.linspace(-1, 2, ours.numel()).double().view(ours.shape)
        parameters = list(model.trunk.parameters())
        slopes = [
            torch.autograd.grad((out * weights).sum(), parameters, allow_unused=True, materialize_grads=True)
            for out in (ours, theirs)
        ]
        for (name, _), mine, plain in zip(model.trunk.named_parameters(), *slopes, strict=True):
            assert torch.allclose(mine, plain, rtol=1e-9, atol=1e-11), (marks, name)


@pytest.mark.parametrize(("kind", "shape"), EVERY)
def test_it_keeps_every_promise_of_a_model(kind, shape):
    case = small(kind, shape)
    model = case.model()
    promises.equals_itself_with_a_cache(case, model)
    promises.is_the_same_padded_and_in_company(case, model)
    promises.depends_on_visible_tokens_alone(case, model)
    same_for_all = "it adds the same to the scores of all keys"
    promises.teaches_every_parameter(
        case, model, lambda name: same_for_all if shape == "dot" and name.endswith("key.bias") else None
    )
    promises.comes_back_from_its_saved_parameters(case, model)
    promises.begins_by_its_seed(case)
    promises.is_counted_in_closed_form(case)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("kind", "shape"), EVERY)
def test_counts_are_what_torch_counts_and_saves(kind, shape, bias):
    """Parameters, operations, and every number that is kept for the backward, N ≠ M."""
    case = small(kind, shape, bias=bias, token_types=2)
    model = build_model(case.config()).double()
    N, M = 11, 6
    ids = torch.zeros(1, N, dtype=torch.long)
    reads = case.family == "encoder_decoder"
    given = {"source": torch.zeros(1, M, dtype=torch.long)} if reads else {}
    counts = count(model, length=N, source_length=M, batch=1)
    assert counts.closed_form == counts.total == sum(p.numel() for p in model.parameters())
    with plainly(model), FlopCounterMode(display=False) as counter, torch.no_grad():
        model(ids, **given)
    adds = N * M * 16 if shape == "additive" else 0  # which torch's counter leaves out, as all sums
    assert counts.forward == counter.get_total_flops() + adds
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    saved = {}

    def keep(tensor):
        if tensor.is_floating_point() and tensor.untyped_storage().data_ptr() not in own:
            saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.trunk(ids, **given)
    measured = sum(tensor.untyped_storage().nbytes() // 8 for tensor in saved.values())
    assert sum(term.count for term in counts.activations) == measured


def test_it_is_a_trunk_and_torchs_own_kernel_is_called_once_a_layer(monkeypatch):
    named = {name for name in vars(Trunk) if not name.startswith("_")} | {"forward"}
    model = small("gru", "additive").model()
    assert not [name for name in named if not hasattr(model.trunk, name)]
    calls = []
    plain = torch.nn.GRU.forward
    monkeypatch.setattr(torch.nn.GRU, "forward", lambda *given: calls.append(1) or plain(*given))
    model.trunk(IDS, source=SOURCE_IDS)
    assert len(calls) == 4, "two layers of an encoder and two of a decoder, whatever the length"


def test_nothing_but_padding_gives_what_zeros_give():
    for shape in SHAPES:
        case = small("lstm", shape)
        model, nothing = case.model(), torch.zeros(2, T).bool()
        given = {"source": SOURCE_IDS, "source_tokens": Tokens.of(S, real=torch.zeros(2, S).bool())}
        hidden = model.trunk(IDS, Tokens.of(T, real=nothing), **(given if "_" in case.family else {}))
        assert bool(hidden.isfinite().all())
        assert SHAPES[shape][1] != "none" or not (hidden - model.trunk.final.bias).any()


def test_vectors_are_read_beside_ids():
    model = build_model(section_of("model", {"trunk": "gru", "width": 16, "vocabulary": 9, "vectors": 3}))
    ids, vectors = torch.ones(1, 4).long(), torch.randn(1, 4, 3)
    plain, seen = model.trunk(ids), model.trunk(ids, vectors=vectors)
    assert not torch.allclose(plain, seen)
    later = vectors.clone()
    later[:, 2:] += 1
    moved = (model.trunk(ids, vectors=later) - seen).abs().amax(-1)[0]
    assert moved[:2].eq(0).all() and moved[2:].gt(0).all()


# ---------------------------------------------------------------- writing
@torch.no_grad()
@pytest.mark.parametrize(("kind", "shape"), [(k, s) for k, s in EVERY if s != "encoder"])
def test_beams_are_exhaustive_search_and_greedy_is_the_uncached_argmax(kind, shape):
    family, attention = SHAPES[shape]
    sizes = {"width": 16, "layers": 2, "vocabulary": 4, "family": family}
    model = build_model(section_of("model", {"trunk": f"{kind}(attention={attention})"} | sizes))
    model = model.double().eval()
    for p in model.parameters():
        p.mul_(3)
    reads = family == "encoder_decoder"
    source = {"source": torch.tensor([[2, 1, 0]])} if reads else {}
    prompt, end = [1, 2], 3

    def total(new):
        logs = model(torch.tensor([prompt + new]), **source)[0].log_softmax(-1)
        return float(sum(logs[len(prompt) - 1 + i, token] for i, token in enumerate(new)))

    texts = [[*new, end] for n in range(3) for new in itertools.product(range(3), repeat=n)]
    texts += [list(new) for new in itertools.product(range(3), repeat=3)]
    best = sorted(texts, key=lambda text: -total(text) / len(text))[:5]
    read = {"source": [2, 1, 0]} if reads else {}
    beams = beam_search(model, prompt, width=64, length=3, penalty=1.0, stop={end}, **read)[:5]
    assert [h.new + [end] * h.stopped for h in beams] == best
    assert beams[0].total == pytest.approx(total(best[0]))
    greedy, ids = generate(model, [prompt], length=6, **({"sources": [[2, 1, 0]]} if reads else {})), prompt
    for _ in range(6):
        ids = [*ids, int(model(torch.tensor([ids]), **source)[0, -1].argmax())]
    assert greedy[0].new == ids[2:]


@torch.no_grad()
@pytest.mark.parametrize(("kind", "shape"), [(k, s) for k, s in EVERY if s != "encoder"])
def test_prompts_of_unequal_lengths_go_on_as_each_by_itself(kind, shape):
    """Four of them, so that the order of their lengths is not its own inverse."""
    model = small(kind, shape).model()
    prompts = [[3, 4], [5, 6, 7, 8, 9], [2], [9, 1, 3]]
    sources = [[4, 5], [6], [7, 8, 9], [3, 3, 2, 1]] if shape != "decoder" else None
    together = generate(model, prompts, length=5, sources=sources)
    for row, prompt in enumerate(prompts):
        alone = generate(model, [prompt], length=5, sources=sources and [sources[row]])
        assert together[row].new == alone[0].new
    lengths = torch.tensor([2, 5, 1, 3])
    real = torch.arange(5) >= 5 - lengths[:, None]
    ids = torch.arange(20).view(4, 5) % 11
    read = {"source": torch.ones(4, 2).long()} if sources else {}
    whole, cache = model.trunk(ids, Tokens.of(5, real=real), **read)[:, -1], model.trunk.cache()
    model.trunk(ids[:, :-1], Tokens.of(4, real=real[:, :-1] | (torch.arange(4) == 3)), cache=cache, **read)
    again = model.trunk(ids[:, -1:], cache=cache)[:, 0]
    assert torch.allclose(again[lengths > 1], whole[lengths > 1], rtol=0, atol=1e-12)


# ---------------------------------------------------------------- settings
def built(**settings):
    given = {f"model.{name}": value for name, value in settings.items()}
    return build_model(load(set={"model.vocabulary": 9} | given).model)


def test_it_is_chosen_as_every_part_is():
    model = built(trunk="lstm(attention=dot)", family="encoder_decoder", width=32, layers=3)
    assert isinstance(model.trunk, Recurrent) and list(model.trunk.attentions()) == ["decoder, layer 0"]
    assert isinstance(lab.decoder(vocabulary=9, trunk=lab.Gru(), width=30).trunk, Recurrent)
    assert built(trunk="gru", family="encoder").trunk.sees == "all"
    with pytest.raises(ConfigError, match=r"general.*none, additive or dot|none, additive, dot"):
        built(trunk="gru(attention=general)")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"heads": 2}, r"model\.heads is 2.*does not use it; leave model\.heads out"),
        ({"attention": "linear"}, r"model\.attention is linear.*does not use it"),
        ({"positions": "rotary"}, r"model\.positions is rotary.*does not use it"),
        ({"mask": "prefix"}, r"model\.mask is prefix"),
        ({"family": "encoder", "mask": "causal"}, r"model\.mask is causal"),
        ({"attention_dropout": 0.1}, r"model\.attention_dropout is 0\.1"),
        ({"feedforward": "swiglu"}, r"model\.feedforward is swiglu"),
        (
            {"trunk": "gru(attention=dot)"},
            r"model\.family decoder has none; use model\.family encoder_",
        ),
        ({"family": "encoder", "width": 15}, r"half of the width each, and model\.width is 15; use 14 or 16"),
        ({"bias": ["norm"]}, r"parts of a transformer's block; use true or false"),
    ],
    ids=str,
)
def test_a_setting_without_a_meaning_is_refused(settings, reason):
    with pytest.raises(ConfigError, match=reason):
        built(**{"trunk": "gru"} | settings)
