import itertools

import pytest
import torch
from scipy.stats import chisquare

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.generation import DECODING
from attnlab.generation.beam import beam_search, beam_searches
from attnlab.generation.decoder import Decoder
from attnlab.generation.generate import Written, generate, stream
from attnlab.generation.request import ELSEWHERE, request_of
from attnlab.generation.rules import FIRST, Chance, Greedy, Sample
from attnlab.model.contracts.small_models import loosen
from attnlab.model.tokens import Tokens

PROMPTS = [[3, 1, 4], [1, 5, 9, 2, 6], [7]]


def sharpened(model):
    """Weights so large that the model has opinions: ties and near-ties would make greedy text chance."""
    loosen(model, seed=5)
    return model.double().eval()


def small(**settings):
    return sharpened(lab.decoder(vocabulary=23, width=16, heads=4, layers=2, length=40, **settings))


def uncached(model, prompt, length, source=None):
    """Greedy text with the whole text read anew for every token."""
    ids = list(prompt)
    for _ in range(length):
        marks = (
            {"source": (torch.arange(len(ids)) < len(prompt))[None]}
            if "refix" in str(model.trunk.main.mask)
            else {}
        )
        given = {"source": torch.tensor([source])} if source else {}
        scores = model(torch.tensor([ids]), Tokens.of(len(ids), **marks), **given)
        ids.append(int(scores[0, -1].argmax()))
    return ids[len(prompt) :]


RULES = ["dot", "additive", "argmax", "linear", "group", "window(size=3)", "group(inner=linear)"]
POSITIONS = ["none", "sinusoidal", "learned", "concat(part=4)", "relative", "bucketed", "alibi", "rotary"]


@pytest.mark.parametrize("attention", RULES)
@torch.no_grad()
def test_cached_text_is_uncached_text(attention, double):
    """For every position scheme, mask and family: many padded prompts at once, and each alone, uncached."""
    tried = 0
    for positions, mask in itertools.product(POSITIONS, ("causal", "prefix", "causal & window(size=4)")):
        try:
            model = small(attention=attention, positions=positions, mask=mask)
        except lab.ConfigError:
            continue
        texts = generate(model, PROMPTS, length=9)
        assert [t.new for t in texts] == [uncached(model, p, 9) for p in PROMPTS], (positions, mask)
        tried += 1
    assert tried >= 8
    cross = "dot" if attention.startswith(("group", "window")) else attention
    both = sharpened(
        lab.encoder_decoder(
            vocabulary=23, width=16, heads=4, layers=1, length=40, attention=attention, cross_attention=cross
        )
    )
    sources = [[1, 2, 3, 4], [9, 8], [5, 5, 6]]
    texts = generate(both, [[0]] * 3, sources=sources, length=7)
    assert [t.new for t in texts] == [uncached(both, [0], 7, source=s) for s in sources]


def test_greedy_text_is_transformers_text(double):
    """The same weights in GPT-2's own implementation."""
    import transformers

    config = transformers.GPT2Config(
        vocab_size=23, n_embd=16, n_layer=2, n_head=4, n_positions=40, use_cache=True
    )
    theirs = transformers.GPT2LMHeadModel(config).double().eval()
    ours = lab.preset("gpt2", vocabulary=23, width=16, layers=2, heads=4, length=40).double().eval()
    state = {name.removeprefix("transformer."): value for name, value in theirs.state_dict().items()}
    with torch.no_grad():
        for value in theirs.parameters():
            value.add_(torch.randn(value.shape, generator=torch.Generator().manual_seed(7)) * 0.3)
        copy_gpt2(state, ours)
    for prompt in PROMPTS:
        wanted = theirs.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=15,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None,
        )
        assert generate(ours, [prompt], length=15)[0].new == wanted[0, len(prompt) :].tolist()


def copy_gpt2(state, model):
    decoder = model.trunk.decoder
    decoder.embedding.tokens.weight.copy_(state["wte.weight"])
    decoder.embedding.positions.table.weight.copy_(state["wpe.weight"])
    for layer, block in enumerate(decoder.blocks):
        attention, feedforward = (r.inner for r in block.residuals)
        for kind in ("weight", "bias"):
            names = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
            part = {n: state[f"h.{layer}.{n}.{kind}"] for n in names}
            part = {n: value.T if kind == "weight" else value for n, value in part.items()}
            for name, piece in zip(("query", "key", "value"), part["attn.c_attn"].chunk(3), strict=True):
                getattr(getattr(attention.projections, name), kind).copy_(piece)
            getattr(attention.output, kind).copy_(part["attn.c_proj"])
            getattr(feedforward.part.up, kind).copy_(part["mlp.c_fc"])
            getattr(feedforward.part.down, kind).copy_(part["mlp.c_proj"])
            for residual, name in zip(block.residuals, ("ln_1", "ln_2"), strict=True):
                getattr(residual.norm, kind).copy_(state[f"h.{layer}.{name}.{kind}"])
            getattr(decoder.final, kind).copy_(state[f"ln_f.{kind}"])


def test_sampled_text_depends_on_seed_and_prompt_alone(double):
    model, rule = small(), Sample(temperature=1.5)
    together = generate(model, PROMPTS, rule=rule, length=12, seed=3)
    for prompt, text in zip(PROMPTS, together, strict=True):
        assert generate(model, [prompt], rule=rule, length=12, seed=3)[0].new == text.new
    assert generate(model, PROMPTS, rule=rule, length=12, seed=4)[0].new != together[0].new
    copies = generate(model, [PROMPTS[0]] * 3, rule=rule, length=12, seed=3)
    assert copies[0].new == together[0].new and len({tuple(c.new) for c in copies}) == 3


def test_sampled_text_of_an_encoder_decoder_depends_on_its_source(double):
    """Every text begins alike; which draws it gets must not depend on its place in the batch."""
    model = sharpened(lab.encoder_decoder(vocabulary=23, width=16, heads=4, layers=1, length=40))
    sources = [[1, 2, 3, 4], [9, 8], [5, 5, 6]]
    settings = {"rule": Sample(temperature=1.5), "length": 9, "seed": 3}
    together = generate(model, [[0]] * 3, sources=sources, **settings)
    for source, text in zip(sources, together, strict=True):
        assert generate(model, [[0]], sources=[source], **settings)[0].new == text.new


def test_draws_follow_the_distribution():
    """Chi-square over 20,000 draws, with and without each limit; what a limit cuts is never drawn."""
    logits = torch.tensor([[2.0, 1.0, 0.5, 0.0, -1.0, -3.0]])
    for rule in (Sample(), Sample(temperature=0.5), Sample(top_k=3), Sample(top_p=0.7), Sample(min_p=0.2)):
        p = rule.probabilities(logits)[0].double()
        n = 20_000
        draws = torch.cat([Chance([[7]], seed).draws(0) for seed in range(n)])
        counts = torch.bincount(rule.choose(logits.expand(n, -1), draws), minlength=6).double()
        assert (counts[p == 0] == 0).all()
        kept = p > 0
        assert chisquare(counts[kept].numpy(), (p[kept] / p[kept].sum() * n).numpy()).pvalue > 1e-3


def test_limits_keep_what_they_say():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert Sample(top_k=2).probabilities(logits)[0].gt(0).tolist() == [True, True, False, False]
    assert Sample(top_p=0.6).probabilities(logits)[0].gt(0).tolist() == [True, True, False, False]
    assert Sample(top_p=0.5).probabilities(logits)[0].gt(0).tolist() == [True, False, False, False]
    assert Sample(min_p=0.25).probabilities(logits)[0].gt(0).tolist() == [True, True, True, False]


def test_the_nucleus_is_the_same_however_it_is_found():
    """The most likely tokens are looked at first; a flat distribution needs all of them sorted."""
    draws = torch.randn(2, 3 * FIRST, generator=torch.Generator().manual_seed(0))
    for logits in (draws * 6, draws * 0.1):
        p = logits.double().softmax(-1)
        ordered, order = p.sort(descending=True)
        wanted = torch.zeros_like(p).scatter(1, order, (ordered.cumsum(1) - ordered < 0.9).double()) > 0
        kept = Sample(top_p=0.9).probabilities(logits) > 0
        assert (kept != wanted).sum() <= 2, "but for rounding at the border"
        assert torch.equal(kept[:1], Sample(top_p=0.9).probabilities(logits[:1]) > 0)
    equal = torch.tensor([[0.4, 0.2, 0.2, 0.2]]).log()
    assert Sample(top_p=0.5).probabilities(equal)[0].gt(0).all(), "equals stay together"


def test_repetition_is_made_less_likely():
    logits, said = torch.tensor([[2.0, 1.9, -1.0]]), torch.tensor([[True, False, True]])
    assert Greedy(repetition=1.2).adjusted(logits, said)[0].tolist() == pytest.approx([2 / 1.2, 1.9, -1.2])
    model = small()
    plain = generate(model, [[1, 2]], length=30)[0].new
    varied = generate(model, [[1, 2]], rule=Greedy(repetition=5.0), length=30)[0].new
    assert len(set(varied)) > len(set(plain))


@torch.no_grad()
def test_beam_is_exhaustive_search_when_it_is_wide_enough(double):
    """Over every text of up to three tokens, with a stop token, sums and means of log-probabilities."""
    model = sharpened(lab.decoder(vocabulary=4, width=16, heads=2, layers=1, length=8))
    prompt, end = [1, 2], 3

    def total(new):
        logs = model(torch.tensor([prompt + new]))[0].log_softmax(-1)
        return float(sum(logs[len(prompt) - 1 + i, token] for i, token in enumerate(new)))

    texts = [[*new, end] for n in range(3) for new in itertools.product(range(3), repeat=n)]
    texts += [list(new) for new in itertools.product(range(3), repeat=3)]
    for penalty in (0.0, 1.0):
        best = sorted(texts, key=lambda t: -total(t) / len(t) ** penalty)[:5]
        found = beam_search(model, prompt, width=64, length=3, penalty=penalty, stop={end})[:5]
        assert [h.new + [end] * h.stopped for h in found] == best
        assert found[0].total == pytest.approx(total(best[0]))
    narrow = beam_search(model, prompt, width=1, length=3)[0].new
    assert narrow == generate(model, [prompt], length=3)[0].new, "one beam is greedy"


@torch.no_grad()
@pytest.mark.parametrize("of_sources", ["shared", 9])
def test_beam_after_a_source_is_exhaustive_search(of_sources, double):
    """Over every target of up to three tokens, also where sources have a vocabulary of their own."""
    sizes = {"width": 16, "heads": 2, "layers": 1, "length": 8}
    model = sharpened(lab.encoder_decoder(vocabulary=4, source_vocabulary=of_sources, **sizes))
    source, end = [2, 3, 1] if of_sources == "shared" else [8, 5, 7, 4], 3

    def total(new):
        logs = model(torch.tensor([[0, *new]]), source=torch.tensor([source]))[0].log_softmax(-1)
        return float(sum(logs[i, token] for i, token in enumerate(new)))

    texts = [[*new, end] for n in range(3) for new in itertools.product(range(3), repeat=n)]
    texts += [list(new) for new in itertools.product(range(3), repeat=3)]
    best = sorted(texts, key=lambda t: -total(t) / len(t))[:5]
    beams = beam_search(model, [0], width=64, length=3, penalty=1.0, stop={end}, source=source)[:5]
    assert [h.new + [end] * h.stopped for h in beams] == best
    assert beams[0].total == pytest.approx(total(best[0]))


@torch.no_grad()
def test_beams_with_a_source_keep_their_own_row(double):
    model = sharpened(lab.encoder_decoder(vocabulary=11, width=16, heads=2, layers=1, length=16))
    best = beam_search(model, [0], width=3, length=5, source=[4, 5, 6])[0]
    logs = model(torch.tensor([[0, *best.new]]), source=torch.tensor([[4, 5, 6]]))[0].log_softmax(-1)
    assert best.total == pytest.approx(float(sum(logs[i, t] for i, t in enumerate(best.new))))


SELECTED = [
    [0, 0, 0, 1, 1, 1, 2, 2, 2],  # a beam each
    [0, 1, 1, 3, 4, 5, 8, 7, 6],  # inside the beams
    [0, 1, 2, 6, 7, 8],  # a search that ended
    [3, 0, 1, 2, 4, 5],  # between the beams
    [0, 0, 1, 5],
    [0, 1, 2],
    [2],
]


@pytest.mark.parametrize("trunk", ["transformer", "gru", "lstm(attention=additive)"])
@pytest.mark.parametrize("sources", [[[1, 2, 3, 4], [9, 8], [5, 5, 6]], None])
@torch.no_grad()
def test_selected_rows_go_on_as_their_own_text(trunk, sources, double):
    settings = {
        "vocabulary": 23,
        "width": 16,
        "layers": 2,
        "trunk": trunk if sources else trunk.split("(")[0],
    }
    model = sharpened((lab.encoder_decoder if sources else lab.decoder)(**settings))
    decoder = Decoder(model, PROMPTS, sources=sources)
    rows = [(list(prompt), sources and sources[row]) for row, prompt in enumerate(PROMPTS)]
    for step, kept in enumerate(SELECTED):
        new = [(3 * step + 5 * place) % 23 for place in range(len(kept))]
        decoder.select(torch.tensor(kept))
        decoder.step(torch.tensor(new))
        rows = [([*rows[row][0], token], rows[row][1]) for row, token in zip(kept, new, strict=True)]
        for scores, (text, source) in zip(decoder.next, rows, strict=True):
            given = {"source": torch.tensor([source])} if source else {}
            assert torch.allclose(scores, model(torch.tensor([text]), **given)[0, -1])


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_beams_of_many_prompts_are_those_of_each(penalty, double):
    """Prompts of unequal lengths, searches that settle at different steps; with a source and without."""
    limits = {"width": 3, "length": 7, "penalty": penalty, "stop": {4, 9}}
    model = small(positions="rotary")
    together = beam_searches(model, PROMPTS, **limits)
    sources = [[1, 2, 3, 4], [9, 8], [5, 5, 6]]
    both = sharpened(lab.encoder_decoder(vocabulary=23, width=16, heads=4, layers=1, length=40))
    translated = beam_searches(both, [[0]] * 3, sources=sources, **limits)
    assert any(len(found[0].new) < 7 for found in together), "some search must end early to show anything"
    for prompt, source, found, theirs in zip(PROMPTS, sources, together, translated, strict=True):
        for hypotheses, alone in (
            (found, beam_search(model, prompt, **limits)),
            (theirs, beam_search(both, [0], source=source, **limits)),
        ):
            assert [(h.new, h.stopped) for h in hypotheses] == [(h.new, h.stopped) for h in alone]
            assert [h.total for h in hypotheses] == pytest.approx([h.total for h in alone])


def test_beams_beyond_the_context_forget_the_beginning(double):
    """One beam is greedy, windows and all; and a full row cuts no other."""
    model = small(positions="learned")
    with pytest.raises(ValueError, match="at most 7 new tokens"):
        beam_searches(model, [[1, 2, 3]], length=20, context=10)
    limits = {"length": 30, "context": 10, "beyond": "window"}
    narrow = beam_searches(model, PROMPTS, width=1, **limits)
    assert [found[0].new for found in narrow] == [t.new for t in generate(model, PROMPTS, **limits)]


def test_stop_tokens_and_stop_rules_end_a_text(double):
    model = small()
    whole = generate(model, [PROMPTS[0]], length=12)[0].new
    token = whole[4]
    text = generate(model, [PROMPTS[0]], length=12, stop={token})[0]
    assert text.new == whole[: whole.index(token)] and text.stopped
    text = generate(model, PROMPTS, length=12, stop_when=lambda row, new: row == 0 and len(new) == 3)
    assert [len(t.new) for t in text] == [3, 12, 12] and [t.stopped for t in text] == [True, False, False]
    rule = Sample(temperature=2.0)  # rows that stopped leave the batch, and the others do not notice
    together = generate(model, PROMPTS * 2, rule=rule, length=12, stop={1, 2, 3, 4, 5})
    assert len({len(t.new) for t in together}) > 2
    for row, prompt in enumerate(PROMPTS):
        assert generate(model, [prompt] * 2, rule=rule, length=12, stop={1, 2, 3, 4, 5}) == together[row::3]


def test_text_comes_as_it_is_written(double):
    model, texts = small(), [Written([3, 1, 4])]
    seen = []
    for row, token in stream(model, texts, rule=Greedy(), length=5):
        seen.append(token)
        assert texts[row].new == seen
    assert seen == generate(model, [[3, 1, 4]], length=5)[0].new


def test_beyond_the_context_is_refused_or_windowed(double):
    model = small(positions="learned")
    with pytest.raises(ValueError, match="at most 37 new tokens"):
        generate(model, [[1, 2, 3]], length=60, context=40)
    text = generate(model, [[1, 2, 3]], length=100, context=40, beyond="window")[0].new
    assert len(text) == 100
    inside = generate(model, [[1, 2, 3]], length=37, context=40)[0].new
    assert text[:37] == inside
    together = generate(model, PROMPTS, length=100, context=40, beyond="window")
    for prompt, found in zip(PROMPTS, together, strict=True):
        assert generate(model, [prompt], length=100, context=40, beyond="window")[0].new == found.new
    long = [i % 23 for i in range(50)]
    assert generate(model, [long], length=9, context=40, beyond="window")[0].new == (
        generate(model, [long[-20:]], length=9)[0].new
    )
    again = [1, 2, 3, *text][: 3 + 38][-20:]
    assert generate(model, [again], length=20, context=40)[0].new == text[38:58]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 0.0}, "use greedy"),
        ({"top_p": 0.0}, "^top_p is 0.0; it must be above 0 and at most 1.$"),
        ({"top_p": 2}, "^top_p is 2; it must be above 0 and at most 1.$"),
        ({"top_k": -1}, "^top_k is -1; it must be at least 0"),
        ({"min_p": 1.0}, "^min_p is 1.0; it must be at least 0 and below 1.$"),
        ({"repetition": 0.0}, "repetition is 0"),
    ],
)
def test_impossible_settings_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Sample(**options)
    with pytest.raises(ValueError, match="at least one token"):
        generate(small(), [[]])
    with pytest.raises(ValueError, match="nothing to cache"):
        generate(lab.encoder(vocabulary=5, width=16, layers=1), [[1]])


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_an_argument_of_transformers_is_answered_with_ours(name):
    """And what is suggested is accepted."""
    with pytest.raises(ConfigError, match=f'there is no "{name}"; give ') as told:
        request_of({name: 1})
    for suggestion in str(told.value).partition("; give ")[2].removesuffix(".").split(" or "):
        given, _, value = suggestion.partition("=")
        if given == "rule":
            written = value.strip('"').replace("…", "0.5" if name == "min_p" else "1")
            DECODING.build(request_of({given: written}).rule)
        else:
            request_of({given: "." if given == "stop" else 1})


@pytest.mark.parametrize("penalty", [float("nan"), float("inf"), 1e308, -1e308, None, "1"])
def test_a_penalty_that_no_length_can_have_is_refused(penalty):
    with pytest.raises(ConfigError, match=r"penalty is .*; it must be a number from -10 to 10"):
        request_of({"beam": 2, "penalty": penalty})


def test_a_rule_is_a_name_or_chooses():
    with pytest.raises(ConfigError, match="rule is 5; give greedy, or sample"):
        request_of({"rule": 5})
    assert request_of({"rule": Sample()}).rule
