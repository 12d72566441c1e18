"""Models of transformers, loaded here: the same answers, losses, gradients, texts; and given back whole."""

from __future__ import annotations

import pytest
import torch

from attnlab.config.files import plain, section_of
from attnlab.config.untrusted import read_json
from attnlab.config.values import ConfigError
from attnlab.data.batch import Batch
from attnlab.generation.generate import generate
from attnlab.interop.families import FAMILIES
from attnlab.interop.families.qwen2 import QWEN2
from attnlab.interop.foreign import layout_of, load_model, save_model
from attnlab.model.presets import PRESETS
from attnlab.model.tokens import Tokens
from attnlab.targets import TARGETS
from attnlab.tasks import TASKS
from attnlab.tasks.vocabulary import Vocabulary
from tests.parity.theirs import ALL, CAUSAL, MASKED, OTHERS, SEQ2SEQ, V, scores

CLOSE = {"rtol": 1e-4, "atol": 2e-5}
TYPED = ("bert",)
"""Families with token types that differ."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """(theirs, ours, folder) of a case, loaded once."""
    held = {}

    def of(name):
        if name not in held:
            folder = tmp_path_factory.mktemp("theirs")
            theirs = ALL[name].make()
            theirs.save_pretrained(folder)
            held[name] = theirs, load_model(folder), folder
        theirs, ours, folder = held[name]
        theirs.zero_grad(), ours.model.zero_grad()
        return theirs.eval(), ours, folder

    return of


def ids_of(rows=3, length=11, seed=1):
    return torch.randint(3, V, (rows, length), generator=torch.Generator().manual_seed(seed))


def padding(side):
    """Two of three rows are shorter."""
    real = torch.ones(3, 11, dtype=torch.bool)
    real[0, 7:] = real[1, 9:] = False
    return real.flip(1) if side == "left" else real


def our_inputs(name, ids, real=None, types=None):
    inputs = {} if types is None or not name.startswith(TYPED) else {"types": types}
    return {"ids": ids, "tokens": Tokens.of(ids.shape[1], real=real), **inputs}


def their_inputs(name, ids, real=None, types=None):
    inputs = {"input_ids": ids}
    if real is not None:
        inputs["attention_mask"] = real.long()
        if name.startswith(("gpt2", "bert")):  # they number padding too, unless told otherwise
            inputs["position_ids"] = (real.long().cumsum(1) - 1).clamp(min=0)
    if types is not None and name.startswith(TYPED):
        inputs["token_type_ids"] = types
    return inputs


def at_real(values, real):
    """What was said of real tokens; a whole text's scores as they are."""
    return values[real] if values.ndim == 3 else values


@pytest.mark.parametrize("side", ["none", "right", "left"])
@pytest.mark.parametrize("name", [*CAUSAL, *MASKED, *OTHERS])
def test_answers_are_theirs(pair, name, side):
    theirs, ours, _ = pair(name)
    if name.startswith("distilbert") and side == "left":
        pytest.skip("their positions count padding and cannot be given")
    if (
        side == "left"
        and ALL[name].output != "last_hidden_state"
        and ALL[name].architecture.endswith(("Classification", "Prediction", "Model"))
    ):
        pytest.skip("they pool the first place, be it padding; we the first token")
    real = torch.ones(3, 11, dtype=torch.bool) if side == "none" else padding(side)
    ids = ids_of().masked_fill(~real, theirs.config.pad_token_id or 0)
    types = (torch.arange(11) > 5).long().expand(3, -1)
    given = None if side == "none" else real
    with torch.no_grad():
        found = ours.model(**our_inputs(name, ids, given, types))
        expected = scores(ALL[name], theirs(**their_inputs(name, ids, given, types)))
    assert found.shape == expected.shape
    torch.testing.assert_close(at_real(found, real), at_real(expected, real), **CLOSE)


def sequence_inputs(real=None):
    source, target = ids_of(), ids_of(length=8, seed=2)
    ours = {"ids": target, "source": source, "source_tokens": Tokens.of(11, real=real)}
    theirs = {"input_ids": source, "decoder_input_ids": target}
    return ours, theirs if real is None else theirs | {"attention_mask": real.long()}


@pytest.mark.parametrize("side", ["none", "right"])
@pytest.mark.parametrize("name", SEQ2SEQ)
def test_answers_of_encoder_decoders_are_theirs(pair, name, side):
    theirs, ours, _ = pair(name)
    mine, yours = sequence_inputs(None if side == "none" else padding(side))
    with torch.no_grad():
        torch.testing.assert_close(ours.model(**mine), theirs(**yours).logits, **CLOSE)


def gradients_compared(theirs, ours):
    """Every parameter's gradient, through the same table that carries the weights."""
    family = FAMILIES[ours.certificate.family]
    head = family.head(ours.certificate.architecture)
    mine = dict(ours.model.named_parameters(remove_duplicate=False))
    yours = dict(theirs.named_parameters(remove_duplicate=False))
    seen = set()
    for link in family.links(head, ours.config.layers, mine):
        if link.theirs not in yours or yours[link.theirs].grad is None:
            continue
        found = link.outward([mine[name].grad for name in link.ours])
        expected = yours[link.theirs].grad
        scale = max(float(expected.abs().max()), 1e-3)
        torch.testing.assert_close(found / scale, expected / scale, rtol=1e-3, atol=1e-4, msg=link.theirs)
        seen.add(id(yours[link.theirs]))
    assert seen == {id(p) for p in theirs.parameters() if p.grad is not None}


@pytest.mark.parametrize("name", [*CAUSAL, *MASKED])
def test_losses_and_gradients_in_training_are_theirs(pair, name):
    theirs, ours, _ = pair(name)
    ids = ids_of()
    labels = ids.clone()
    labels[:, ::3] = -100
    theirs.train(), ours.model.train()
    extra = {"next_sentence_label": torch.tensor([0, 1, 1])} if "pretraining" in name else {}
    loss = theirs(input_ids=ids, labels=labels, **extra).loss
    loss.backward()
    hidden = ours.model.trunk(ids)
    causal = name in CAUSAL
    found = ours.model.head.loss(*((hidden[:, :-1], labels[:, 1:]) if causal else (hidden, labels))).mean
    if extra:
        judged = ours.model.head.pair(hidden, Tokens.of(ids.shape[1]))
        found = found + torch.nn.functional.cross_entropy(judged, extra["next_sentence_label"])
    found.backward()
    torch.testing.assert_close(found, loss, rtol=1e-5, atol=1e-6)
    gradients_compared(theirs, ours)


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_losses_and_gradients_of_encoder_decoders_are_theirs(pair, name):
    theirs, ours, _ = pair(name)
    mine, yours = sequence_inputs(padding("right"))
    labels = ids_of(length=8, seed=3)
    labels[:, -2:] = -100
    theirs.train(), ours.model.train()
    loss = theirs(**yours, labels=labels).loss
    loss.backward()
    ids = mine.pop("ids")
    found = ours.model.head.loss(ours.model.trunk(ids, **mine), labels).mean
    found.backward()
    torch.testing.assert_close(found, loss, rtol=1e-5, atol=1e-6)
    gradients_compared(theirs, ours)


@pytest.mark.parametrize("name", OTHERS)
def test_gradients_of_other_heads_are_theirs(pair, name):
    theirs, ours, _ = pair(name)
    theirs.train(), ours.model.train()
    expected = scores(ALL[name], theirs(input_ids=ids_of()))
    found = ours.model(ids_of())
    weight = torch.randn(expected.shape, generator=torch.Generator().manual_seed(0))
    (expected * weight).sum().backward()
    (found * weight).sum().backward()
    gradients_compared(theirs, ours)


@pytest.mark.parametrize("name", [name for name in OTHERS if OTHERS[name].output == "span"])
def test_losses_and_gradients_of_answers_are_theirs(pair, name):
    """They let an answer begin at any token, and take the mean of its two ends, which here are added."""
    theirs, ours, _ = pair(name)
    theirs.train(), ours.model.train()
    ids, place = ids_of(), torch.tensor([[0, 4, 10], [0, 6, 10]])
    everywhere = torch.arange(11).expand(3, 11)
    rows = Batch(
        ids=ids,
        real=torch.ones_like(ids, dtype=torch.bool),
        rows=torch.arange(3),
        sizes=torch.ones_like(ids),
        start=place[0],
        end=place[1],
        char_start=everywhere,
        char_end=everywhere + 1,
    )
    task = TASKS.build("answering", vocabulary=Vocabulary.draft(V), labels=TARGETS["answer"].draft())
    expected = 2 * theirs(input_ids=ids, start_positions=place[0], end_positions=place[1]).loss
    found = task.loss(ours.model, task.prepare(rows, 0)).mean
    expected.backward(), found.backward()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    gradients_compared(theirs, ours)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("name", [*CAUSAL, *SEQ2SEQ])
def test_greedy_texts_are_theirs(pair, name, cached):
    theirs, ours, _ = pair(name)
    prompt = ids_of(rows=1, length=6)
    told = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    expected = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), use_cache=cached, **told)[0]
    begin, source = (prompt, None) if name in CAUSAL else (torch.tensor([[0]]), prompt)
    if cached:
        sources = None if source is None else source.tolist()
        found = begin[0].tolist() + generate(ours.model, begin.tolist(), length=12, sources=sources)[0].new
    else:
        found = begin[0].tolist()
        for _ in range(12):
            given = {} if source is None else {"source": source}
            found.append(int(ours.model(torch.tensor([found]), **given)[0, -1].argmax()))
    assert found == expected.tolist()


@pytest.mark.parametrize("name", ALL)
def test_what_goes_in_comes_out_bit_for_bit(pair, name, tmp_path):
    theirs, ours, _ = pair(name)
    save_model(tmp_path, ours.model, ours.config, base=ours.theirs, facts={})
    again = ALL[name].kind.from_pretrained(tmp_path)
    before, after = theirs.state_dict(), again.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    held, given = theirs.config.to_dict(), again.config.to_dict()
    spelled_out = {"n_inner", "rope_theta", "rope_parameters", "position_embedding_type", "_name_or_path"}
    changed = {k for k in held.keys() | given.keys() if held.get(k) != given.get(k)}
    assert changed <= spelled_out, {k: (held.get(k), given.get(k)) for k in changed}
    with torch.no_grad():
        inputs = sequence_inputs()[1] if name in SEQ2SEQ else {"input_ids": ids_of()}
        assert torch.equal(scores(ALL[name], again.eval()(**inputs)), scores(ALL[name], theirs(**inputs)))


@pytest.mark.parametrize("name", ALL)
def test_settings_are_read_back_as_written(pair, name):
    _, ours, _ = pair(name)
    family, head, written = layout_of(ours.config, ours.certificate.architecture)
    assert head.architecture == ours.certificate.architecture
    untied = plain(ours.config)["output"].get("tied") is False
    assert family.read(written, head, untied=untied) == plain(ours.config)


def test_a_layer_with_a_window_is_refused(pair):
    *_, folder = pair("qwen2")
    theirs = read_json(folder / "config.json")
    assert theirs["use_sliding_window"] is False
    with pytest.raises(ConfigError, match="use_sliding_window = True: a window in some layers"):
        QWEN2.read(theirs | {"use_sliding_window": True}, QWEN2.heads[0])


def test_a_layout_without_such_biases_says_which():
    """Biases of queries, keys and values are Qwen2's; with those of the output alone there is no family."""
    settings = PRESETS["qwen2"] | {"width": 64, "heads": 4, "layers": 1, "vocabulary": 50, "length": 16}
    assert layout_of(section_of("model", settings))[0] is QWEN2
    with pytest.raises(ConfigError, match=r"model\.bias\.attention_output is True, there False"):
        layout_of(section_of("model", settings | {"bias": ["attention_output"]}))
