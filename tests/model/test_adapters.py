"""Adapters go on, train alone, come off without a trace, and mean the same cached, padded and alone."""

import copy
import functools
import re

import pytest
import torch

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.generation.beam import beam_search
from attnlab.generation.decoder import Decoder
from attnlab.generation.generate import generate
from attnlab.model.adapters import ADAPTERS
from attnlab.model.combinations import examples
from attnlab.model.contracts import small_models as small
from attnlab.model.contracts.small_models import IDS, LEFT, SOURCE, SOURCE_IDS, T
from attnlab.model.counts import parameter_terms
from attnlab.model.frozen import is_fixed
from attnlab.model.terms import Term, gather
from attnlab.model.tokens import Tokens

KINDS = [str(choice) for choice in examples(ADAPTERS)]
LORA, LORA_SHARED = (kind for kind in KINDS if kind.startswith("lora"))
VIRTUAL = ["prompt(tokens=3)", "prefix(tokens=3)"]
HEAD = "language_model(bias=true, transform=dense)"
"""A head with weights of its own beside the table of words that it shares."""
every = pytest.mark.parametrize("kind", KINDS)

MODELS = {
    "decoder": {"family": "decoder"},
    "encoder": {"family": "encoder", "token_types": 2, "embedding_norm": True, "residual": "post"},
    "encoder_decoder": {"family": "encoder_decoder", "positions": "bucketed(buckets=4, distance=8)"},
    "rotary": {"positions": "rotary", "projections": "grouped(shared=2)"},
    "learned": {"positions": "learned"},
    "relative": {"positions": "relative"},
    "alibi": {"positions": "alibi"},
    "concat": {"positions": "concat(part=4)"},
    "additive": {"attention": "additive"},
    "linear": {"attention": "linear"},
    "linear, prefix mask": {"attention": "linear", "mask": "prefix"},
    "argmax": {"attention": "argmax(straight_through=true)"},
    "group": {"attention": "group(groups=2)"},
    "window": {"attention": "window(size=3)"},
    "group of linear": {"attention": "group(groups=2, inner=linear)"},
    "causal window": {"mask": "causal & window(size=5)"},
    "prefix mask": {"mask": "prefix"},
    "zero masking": {"masking": "zero"},
    "linear, zero masking": {"attention": "linear", "masking": "zero"},
}
LEAKS = ["zero masking", "linear, zero masking"]
"""The future is in their denominators, so what is read at once differs from what is read in steps."""
WINDOWS = ["window", "causal window", "group", "group of linear"]
every_model = pytest.mark.parametrize("name", MODELS)


def built(name="decoder", seed=0, **changes):
    return copy.deepcopy(_built(name, seed, tuple(changes.items())))


@functools.cache  # a copy takes half as long as a model built anew
def _built(name, seed, changes):
    settings = small.SIZES | {"layers": 2, "family": "decoder", "output": HEAD} | MODELS[name] | dict(changes)
    if settings["family"] == "encoder":
        settings |= {"mask": "bidirectional"}
    family = {"decoder": lab.decoder, "encoder": lab.encoder, "encoder_decoder": lab.encoder_decoder}
    model = family[settings.pop("family")](seed=seed, **settings).double().eval()
    small.loosen(model, seed)
    return model


def attached(model, kind, **options):
    """On the model, with its parameters off their initial values."""
    adapter = ADAPTERS.build(kind).attach(model, **options)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for p in adapter.parameters().values():
            p.add_(torch.randn(p.shape, generator=generator, dtype=p.dtype) * 0.5)
    return adapter


def tokens(model, **marks):
    if "prefix" in str(model.trunk.main.mask).lower():
        marks.setdefault("source", SOURCE)
    return Tokens.of(marks.pop("length", T), **marks)


def inputs(model):
    return {} if model.trunk.encoder is None or model.trunk.decoder is None else {"source": SOURCE_IDS}


def hidden(model, ids=IDS, **marks):
    return model.trunk(ids, tokens(model, **marks), **inputs(model))


def scores(model):
    return model.head(hidden(model))


# ---------------------------------------------------------------- what every adapter promises
@every
@every_model
def test_only_the_adapter_learns_and_all_of_it(kind, name):
    model = built(name)
    adapter = attached(model, kind)
    own = set(adapter.parameters())
    scores(model).pow(3).sum().backward()
    for place, p in model.named_parameters():
        assert p.requires_grad == (place in own), place
        assert (p.grad is not None) <= (place in own), f"{place} is frozen and has a gradient"
    idle = {p for p in own if p.endswith("key.bias")}  # which a softmax ignores
    for place in own - idle:
        p = adapter.parameters()[place]
        assert p.grad is not None and float(p.grad.abs().max()) > 1e-12, f"nothing reaches {place}"


@every
@every_model
def test_it_comes_off_without_a_trace(kind, name):
    model = built(name)
    names, values = list(model.state_dict()), [p.clone() for p in model.parameters()]
    frozen = model.trunk.main.embedding.tokens.weight.requires_grad_(False)  # was so before; stays so after
    before = scores(model)
    adapter = attached(model, kind)
    assert not torch.equal(scores(model), before), "the adapter does nothing"
    adapter.detach()
    assert torch.equal(scores(model), before)
    assert list(model.state_dict()) == names
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), values, strict=True))
    assert all(p.requires_grad == (p is not frozen) for p in model.parameters())
    assert model.adapter is None and not model.trunk.main._forward_hooks


@every
def test_what_came_off_goes_on_again(kind):
    model = built()
    adapter = attached(model, kind)
    with_it = scores(model)
    adapter.detach()
    adapter.attach(model)
    assert torch.equal(scores(model), with_it)
    adapter.detach()
    with pytest.raises(ValueError, match="other sizes"):
        adapter.attach(built(width=24))
    adapter.attach(copy.deepcopy(model))


@every
@every_model
def test_padding_changes_nothing(kind, name):
    """A row alone, and the same row behind padding beside another."""
    model = built(name)
    attached(model, kind)
    marks = {"source": SOURCE} if "prefix" in name else {}
    if kind in VIRTUAL and name in WINDOWS:
        with pytest.raises(ValueError, match="push them out of reach"):
            hidden(model, real=LEFT)
        hidden(model, real=LEFT.flip(1))
        return
    both = hidden(model, real=LEFT, **marks)
    short = {"source": SOURCE[:1, 2:]} if marks else {}
    given = {k: v[:1] for k, v in inputs(model).items()}
    alone = model.trunk(IDS[:1, 2:], Tokens.of(T - 2, **short), **given)
    assert (both[0, 2:] - alone[0]).abs().max() < 1e-11


@every
@pytest.mark.parametrize("name", [n for n in MODELS if n not in ("encoder", *LEAKS)])
def test_cached_equals_uncached(kind, name):
    model = built(name)
    attached(model, kind)
    shown = torch.ones_like(LEFT) if kind in VIRTUAL and name in WINDOWS else LEFT
    full = tokens(model, real=shown)
    given = inputs(model)
    with torch.no_grad():
        whole = model.trunk(IDS, full, **given)
        cache = model.trunk.cache()
        parts = [
            model.trunk(IDS[:, a:b], full.part(a, b), cache=cache, **given)
            for a, b in ((0, 4), (4, 5), (5, 7))
        ]
    assert (torch.cat(parts, 1) - whole)[shown].abs().max() < 1e-11


@every
@pytest.mark.parametrize("name", ["decoder", "rotary", "linear", "encoder_decoder", "window"])
def test_text_is_written_as_if_read_anew(kind, name):
    """Greedy text of a padded batch from the cache, against the whole text read at every step."""
    model = built(name)
    attached(model, kind)
    prompts = [[3, 5, 7, 2], [11, 4, 8, 6] if name == "window" else [11]]
    sources = SOURCE_IDS.tolist() if inputs(model) else None
    written = generate(model, prompts, length=5, sources=sources)
    for row, text in enumerate(written):
        so_far = list(text.prompt)
        for token in text.new:
            given = {k: v[row : row + 1] for k, v in inputs(model).items()}
            scores = model(torch.tensor([so_far]), **given)[0, -1]
            assert token == int(scores.argmax())
            so_far.append(token)


@pytest.mark.parametrize("kind", VIRTUAL)
def test_beams_go_on_from_the_cache(kind):
    model = built("rotary")
    attached(model, kind)
    best = beam_search(model, [3, 5], width=3, length=4)[0]
    ids = torch.tensor([[3, 5, *best.new]])
    logs = model(ids).detach().log_softmax(-1)[0, 1:-1]
    total = logs.gather(1, ids[0, 2:, None]).sum()
    assert abs(float(total) - best.total) < 1e-9


@every
@pytest.mark.parametrize("family", ["decoder", "encoder"])
def test_counts_are_closed_forms(kind, family):
    """By the formulas, written again from the sizes, and by counting."""
    plain = {"token_types": 0, "embedding_norm": False} if family == "encoder" else {}
    model = built(family, layers=3, **plain)
    adapter = ADAPTERS.build(kind).attach(model)
    n, D, L, V = 3, 16, 3, 23
    final = 2 * D if family == "decoder" else 0  # norms after each part need none at the end
    block = 4 * (D * D + D) + (D * 4 * D + 4 * D) + (4 * D * D + D) + 2 * 2 * D
    head = D * D + D + 2 * D + V
    expected = {
        "full": V * D + L * block + final + head,
        "top(layers=1)": block + final + head,
        "head": head,
        "prompt(tokens=3)": n * D,
        "prefix(tokens=3)": 2 * L * n * D,
        LORA: 2 * L * 2 * (D + D),
        LORA_SHARED: L * (2 * D + 3 * 2 * D + 2 * (D + D) + 2 * 2 * (D + 4 * D)),
        "bitfit": L * (4 * D + 4 * D + D + 2 * D) + final // 2 + D + D + V,
    }
    assert adapter.tuned == expected[kind] == sum(term.count for term in adapter.tuned_terms())
    assert sum(t.count for t in parameter_terms(model)) == sum(p.numel() for p in model.parameters())


@every
@every_model
def test_what_is_tuned_is_counted_in_closed_form_with_any_head(kind, name):
    """Whatever the parts, and with a head beside it that the start does not have."""
    adapter = ADAPTERS.build(kind).attach(built(name))
    assert adapter.tuned == sum(term.count for term in adapter.tuned_terms())
    adapter = ADAPTERS.build(kind).attach(built(name, output="classification"), train=["head"])
    assert adapter.tuned == sum(term.count for term in adapter.tuned_terms())


def value_of(formula, **sizes):
    """A closed form with its letters put in: HK is H times K."""
    spaced = re.sub(r"[A-Z](?=[A-Z])", r"\g<0>·", formula)
    return eval(spaced.replace("·", "*"), {"__builtins__": {}}, sizes)


@pytest.mark.parametrize(("kind", "n"), [("full", 0), ("top(layers=1)", 1), ("top(layers=2)", 2)])
def test_terms_gathered_by_part_are_formulas_of_the_same_value(kind, n):
    model = built("encoder", layers=3, output="classification")
    terms = ADAPTERS.build(kind).attach(model, train=["head"]).tuned_terms()
    sizes = {"V": 23, "D": 16, "N": 16, "L": 3, "H": 4, "K": 4, "E": 64, "C": 2, "types": 2, "n": n}
    found = gather(terms)
    assert len(found) < len(terms) and len({term.name for term in found}) == len(found)
    for term in found:
        assert value_of(term.formula, **sizes) == term.count, term
    assert sum(term.count for term in found) == sum(term.count for term in terms)


def test_a_sum_is_put_in_brackets_before_it_is_multiplied():
    same = [Term("part.a", "D·E + E", 20), Term("part.b", "D·E + E", 20), Term("part.c", "L·(D + E)", 5)]
    assert gather([*same, Term("own", "2·D", 6)]) == [
        Term("part", "2·(D·E + E) + L·(D + E)", 45),
        Term("own", "2·D", 6),
    ]


def test_a_trained_head_reads_a_trunk_that_drops_nothing():
    model = built(output="classification", dropout=0.3, attention_dropout=0.2).train()
    assert not torch.equal(hidden(model), hidden(model))
    adapter = ADAPTERS.build("head").attach(model)
    assert torch.equal(hidden(model), hidden(model)) and is_fixed(model.trunk)
    adapter.detach()
    assert not torch.equal(hidden(model), hidden(model)) and not is_fixed(model.trunk)


def test_a_head_beside_the_prompt_makes_130_d_and_2():
    model = lab.encoder(width=32, heads=4, layers=1, vocabulary=50, output="classification", length=200)
    adapter = ADAPTERS.build("prompt(tokens=128)").attach(model, train=["head"])
    assert adapter.tuned == 130 * 32 + 2
    model(torch.tensor([[1, 2, 3]])).square().sum().backward()
    assert {n for n, p in model.named_parameters() if p.grad is not None} == {
        "trunk.encoder.virtual.vectors",
        "head.scores.weight",
        "head.scores.bias",
    }


# ---------------------------------------------------------------- what virtual tokens are
@pytest.mark.parametrize(
    "name", ["decoder", "learned", "rotary", "encoder", "group", "linear", "zero masking"]
)
def test_a_prompt_of_words_is_those_words(name):
    """Trained vectors that are a word's own: the text then reads as if the words stood before it."""
    model = built(name)
    words = torch.tensor([4, 9, 1])
    adapter = ADAPTERS.build("prompt(tokens=3)").attach(model)
    with torch.no_grad():
        adapter.before.vectors.copy_(model.trunk.main.embedding.tokens.weight[words])
    prompted = hidden(model)
    adapter.detach()
    plain = model.trunk(torch.cat([words.expand(len(IDS), -1), IDS], 1))
    assert (plain[:, 3:] - prompted).abs().max() < 1e-12


@pytest.mark.parametrize("kind", VIRTUAL)
def test_types_are_the_texts_and_virtual_tokens_are_of_the_first(kind):
    model = built("encoder")
    adapter = attached(model, kind)
    types = torch.ones_like(IDS)
    typed = model.trunk(IDS, types=types)
    assert not torch.equal(typed, hidden(model))
    if kind.startswith("prompt"):
        with torch.no_grad():
            adapter.before.vectors.copy_(model.trunk.encoder.embedding.tokens.weight[:3])
        typed = model.trunk(IDS, types=types)
        adapter.detach()
        row, of = torch.arange(3).expand(len(IDS), -1), torch.zeros(len(IDS), 3, dtype=torch.long)
        plain = model.trunk(torch.cat([row, IDS], 1), types=torch.cat([of, types], 1))
        assert (plain[:, 3:] - typed).abs().max() < 1e-12


@pytest.mark.parametrize("name", ["decoder", "learned", "rotary", "relative", "alibi", "window", "additive"])
def test_a_prefix_of_words_keys_is_those_words(name):
    """Keys and values that a cache holds after some words, as a prefix: the text reads as if after them."""
    model = built(name)
    words = torch.tensor([[4, 9, 1]])
    cache = model.trunk.cache()
    with torch.no_grad():
        model.trunk(words, cache=cache)
        held = [(m.keys[0, :, : m.stop].clone(), m.values[0, :, : m.stop].clone()) for m in cache.layers]
        plain = model.trunk(torch.cat([words.expand(len(IDS), -1), IDS], 1))[:, 3:]
    adapter = ADAPTERS.build("prefix(tokens=3)").attach(model)
    with torch.no_grad():
        adapter.before.keys.copy_(torch.stack([h[0] for h in held]))
        adapter.before.values.copy_(torch.stack([h[1] for h in held]))
    assert (hidden(model) - plain).abs().max() < 1e-12


@pytest.mark.parametrize("kind", VIRTUAL)
def test_linear_attention_stays_linear_behind_virtual_tokens(kind, monkeypatch):
    """The pairs of all tokens are never formed, and the sums are those of the plain weights."""
    model = built("linear")
    attached(model, kind)
    with small.plainly(model):
        plain = hidden(model, real=LEFT)
    rule = type(model.trunk.main.rules()[0])
    monkeypatch.setattr(rule, "weights", lambda *_: pytest.fail("pairs were formed"))
    assert (hidden(model, real=LEFT) - plain)[LEFT].abs().max() < 1e-12


@pytest.mark.parametrize("kind", VIRTUAL)
def test_a_text_that_no_longer_fits_is_refused(kind):
    model = built("learned")
    attached(model, kind)
    model.trunk(torch.zeros(1, 13, dtype=torch.long))
    with pytest.raises(ValueError, match="positions end at 16"):
        model.trunk(torch.zeros(1, 14, dtype=torch.long))


@pytest.mark.parametrize("kind", VIRTUAL)
def test_what_has_no_place_for_virtual_tokens_is_refused(kind):
    model = built()
    attached(model, kind)
    with pytest.raises(ValueError, match="packed documents"):
        hidden(model, document=small.DOCUMENT)
    with pytest.raises(ValueError, match="group ids"):
        hidden(model, group=small.DOCUMENT)


@pytest.mark.parametrize("kind", VIRTUAL)
def test_the_source_of_a_decoder_takes_what_encode_gave(kind):
    """Encoded apart and given, or together: the same, virtual tokens before the source included."""
    model = built("encoder_decoder")
    attached(model, kind)
    row = Tokens.of(SOURCE_IDS.shape[1], real=small.SOURCE_REAL)
    together = model.trunk(IDS, source=SOURCE_IDS, source_tokens=row)
    apart = model.trunk(IDS, encoded=model.trunk.encode(SOURCE_IDS, row), source_tokens=row)
    assert torch.equal(together, apart)


# ---------------------------------------------------------------- lora
@pytest.mark.parametrize("scaling", ["rank", "root"])
@pytest.mark.parametrize("shared", [True, False])
def test_merged_equals_unmerged_and_comes_apart_bit_for_bit(scaling, shared):
    model = built("rotary")
    options = {"rank": 2, "scaling": scaling, "shared_down": shared, "targets": ("query", "value", "down")}
    values = [p.clone() for p in model.parameters()]
    adapter = attached(model, lab.Lora(**options))
    with_it = hidden(model)
    adapter.merge()
    assert (hidden(model) - with_it).abs().max() < 1e-11
    assert model.adapter is None and all(p.requires_grad for p in model.parameters())
    assert len(list(model.parameters())) == len(values), "a merged model has no parts of its adapter left"
    adapter.unmerge()
    assert torch.equal(hidden(model), with_it)
    adapter.detach()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), values, strict=True))


def test_an_update_is_what_its_formula_says():
    model = built()
    adapter = attached(model, "lora(rank=4, alpha=6.0, scaling=root, targets=[output])")
    (name, update), *_ = adapter.updates.items()
    linear = model.get_submodule(name)
    x = torch.randn(5, 16, dtype=torch.float64)
    expected = x @ (linear.weight + 6.0 / 2 * update.up.weight @ update.down.weight).T + linear.bias
    assert (linear(x) - expected).abs().max() < 1e-12


def test_a_new_lora_changes_nothing_and_shares_one_down_map_where_asked():
    model = built()
    before = hidden(model)
    adapter = ADAPTERS.build(LORA_SHARED).attach(model)
    assert torch.equal(hidden(model), before)
    downs = {name: u.down for name, u in adapter.updates.items()}
    block = "trunk.decoder.blocks.0.residuals.0.inner."
    q, k, v = (downs[f"{block}projections.{n}"] for n in ("query", "key", "value"))
    assert q is k is v and q is not downs[f"{block}output"]
    assert q is not downs[f"{block}projections.query".replace("blocks.0", "blocks.1")]


def test_a_target_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r'is named "quary".* Did you mean "query"'):
        ADAPTERS.build("lora(targets=[quary])").attach(built())
    with pytest.raises(ValueError, match="rank is 0"):
        ADAPTERS.build("lora(rank=0)")


# ---------------------------------------------------------------- one at a time
def test_wrong_use_is_refused_with_the_fix():
    model = built()
    adapter = attached(model, "lora")
    with pytest.raises(ValueError, match="carries a lora adapter already; detach it, or merge"):
        ADAPTERS.build("prompt").attach(model)
    with pytest.raises(ValueError, match="on a model already"):
        adapter.attach(built())
    adapter.detach()
    with pytest.raises(ValueError, match="on no model"):
        adapter.detach()
    with pytest.raises(ValueError, match="merge it first"):
        adapter.unmerge()
    with pytest.raises(ValueError, match="nothing to merge"):
        ADAPTERS.build("prompt").attach(model).merge()
    with pytest.raises(ValueError, match=r'there is no "haed"\. Did you mean "head"'):
        ADAPTERS.build("lora").attach(built(), train=["haed"])
    with pytest.raises(ValueError, match="tokens is 0"):
        ADAPTERS.build("prefix(tokens=0)")
    with pytest.raises(ValueError, match="no biases"):
        ADAPTERS.build("bitfit").attach(built(output="language_model", bias=False))


def test_merged_biases_stay():
    model = built()
    adapter = attached(model, "bitfit")
    with_it = hidden(model)
    adapter.merge()
    assert torch.equal(hidden(model), with_it) and model.adapter is None


def test_an_adapter_does_not_disturb_the_length_that_a_decoder_counts():
    model = built()
    attached(model, "prompt(tokens=3)")
    with torch.no_grad():
        decoder = Decoder(model, [[1, 2, 3]])
    assert decoder.cache.following(1).index.tolist() == [[3]]


@pytest.mark.parametrize(
    "chosen", [lab.Lora(rank=2**30), lab.Prompt(tokens=2**30), "prefix(tokens=1073741824)"]
)
def test_what_does_not_fit_into_memory_is_refused_before_it_is_taken(chosen, monkeypatch):
    monkeypatch.setattr("attnlab.config.memory.machine_bytes", lambda: 2**30)
    with pytest.raises(
        ConfigError, match=r"1,073,741,824.* needs .* GiB as float32, .*; lower its (rank|tokens)"
    ):
        lab.attach(lab.decoder(vocabulary=11, width=16, layers=1, heads=2), chosen)


def test_a_model_that_does_not_fit_into_memory_is_refused():
    with pytest.raises(ConfigError, match=r"This model needs .* GiB as float32, .*; make it smaller"):
        lab.encoder(width=10**7)
