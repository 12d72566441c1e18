"""What a worker answers is what the library gives: the same numbers by another way."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from attnlab.config.files import load, parse_override
from attnlab.session.sentence_probes import evaluate_probes
from attnlab.web.actions import losses
from attnlab.web.actions.write import HALF
from tests.web.asking import KINDS

SENTENCE = "the cat sees a dog in the garden ."
OTHER = "the cat likes a dog in the garden ."
CAN = {
    "causal": {"write", "losses", "attention", "without_heads", "patch_texts"},
    "masked": {"fill", "losses", "attention", "without_heads", "patch_texts"},
    "seq2seq": {"translate", "attention", "without_heads", "patch_texts"},
    "classification": {"classify", "attention", "without_heads", "patch_texts"},
    "regression": {"classify", "attention", "without_heads", "patch_texts"},
    "tagging": {"tag", "attention", "without_heads", "patch_texts"},
    "answering": {"answer", "attention", "without_heads"},
    "similarity": {"search", "attention", "without_heads"},
}
ASKED = {
    "write": {"prompt": "the cat", "length": 3},
    "fill": {"text": "the [MASK] sees a dog ."},
    "classify": {"text": SENTENCE},
    "tag": {"text": SENTENCE},
    "answer": {"question": "where is Ann ?", "passage": "Ann is in Rome . Bob is in Paris ."},
    "translate": {"text": "the cat sees"},
    "search": {"query": "the cat", "texts": ["the cat sees .\n\nthe old man hears the bird at home ."]},
    "losses": {"text": SENTENCE},
    "attention": {"text": SENTENCE},
    "without_heads": {"text": SENTENCE, "heads": [[0, 0]]},
    "patch_texts": {"first": SENTENCE, "second": OTHER},
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_run_says_it_can_is_what_it_answers(kind, ask):
    facts = ask.done("facts", kind)
    assert {name for name, can in facts["can"].items() if can} == CAN[kind]
    for action, values in ASKED.items():
        reads_two = kind == "answering" and action in ("attention", "without_heads")
        pair = {"pair": "Ann is in Rome ."} if reads_two else {}
        _, last = ask(action, kind, **values, **pair)
        assert "fault" not in last, last
        if facts["can"][action]:
            assert "done" in last, (action, last)


@pytest.mark.parametrize("action", ["facts", "query", "card", "mask", "positions", "feature_map", *ASKED])
def test_values_that_nobody_asked_for_are_a_sentence(action, ask):
    assert "wrong" in ask.error(action, "causal", wrong=1) or action == "facts"


def test_greedy_text_is_that_of_generate_and_sampled_text_too(ask, opened):
    parts, last = ask("write", "causal", prompt="the cat", length=8, rule="greedy")
    assert last["done"]["text"] == opened["causal"].generate("the cat", length=8, rule="greedy")
    assert "".join(part["text"] for part in parts) == last["done"]["text"]
    assert last["done"]["tokens"] == len(parts)
    asked = {"temperature": 1.5, "top_p": 0.9, "top_k": 20, "seed": 3}
    _, last = ask("write", "causal", prompt="the cat", length=8, **asked)
    rule = "sample(temperature=1.5, top_p=0.9, top_k=20)"
    assert last["done"]["text"] == opened["causal"].generate("the cat", length=8, rule=rule, seed=3)


def test_probabilities_are_the_models_own_whatever_the_temperature(ask, opened):
    parts, last = ask("write", "causal", prompt="the cat", length=6, temperature=3.0, seed=1)
    trained = opened["causal"]
    ids = [*trained.prompt("the cat"), *(part["token"] for part in parts)]
    with torch.inference_mode():
        chances = trained.model(torch.tensor([ids]))[0].softmax(-1)
    first = len(trained.prompt("the cat"))
    for number, part in enumerate(parts):
        own = chances[first + number - 1]
        assert part["probability"] == pytest.approx(float(own[part["token"]]), rel=1e-4)
        best = own.topk(5)
        assert [a["token"] for a in part["alternatives"]] == best.indices.tolist()
        assert [a["probability"] for a in part["alternatives"]] == pytest.approx(
            best.values.tolist(), rel=1e-4
        )
    assert "before temperature" in last["done"]["note"]


def test_half_a_character_waits_for_its_other_half(ask, opened, monkeypatch):
    """A byte-level tokenizer: a token may end within a character, whose text comes with the next."""
    whole = ["the cat", "the cat \ufffd", "the cat é", "the cat éa"]
    written = iter(whole)
    monkeypatch.setattr(
        "attnlab.web.actions.write.text_of",
        lambda trained, text: next(written, whole[-1]).removeprefix("the cat"),
    )
    parts, _ = ask("write", "causal", prompt="the cat", length=4, rule="greedy")
    assert [part["text"] for part in parts] == ["", "", " é", "a"][: len(parts)]
    assert HALF not in "".join(part["text"] for part in parts)


def test_gaps_labels_tags_and_answers_are_the_librarys(ask, opened):
    filled = ask.done("fill", "masked", text="the [MASK] sees a [MASK] .", top=3)
    expected = opened["masked"].fill("the [MASK] sees a [MASK] .", top=3)
    assert [[(p["piece"], p["probability"]) for p in place] for place in filled["places"]] == [
        [(piece, pytest.approx(p, rel=1e-5)) for piece, p in place] for place in expected
    ]
    classes = ask.done("classify", "classification", text=SENTENCE)
    (prediction,) = opened["classification"].predict([SENTENCE])
    assert {s["label"]: s["probability"] for s in classes["scores"]} == pytest.approx(dict(prediction.scores))
    assert classes["answer"] == prediction.answer == classes["scores"][0]["label"]
    assert ask.done("classify", "regression", text=SENTENCE)["answer"] == pytest.approx(
        opened["regression"].predict([SENTENCE])[0].answer
    )
    tags = ask.done("tag", "tagging", text=SENTENCE)
    spans = opened["tagging"].predict([SENTENCE])[0].spans
    assert [(s["start"], s["end"], s["label"]) for s in tags["spans"]] == [
        (s.start, s.end, s.label) for s in spans
    ]
    for word in tags["words"]:
        inside = [s.label for s in spans if s.start <= word["start"] < s.end]
        assert word["label"] == (inside[0] if inside else "")
        assert SENTENCE[word["start"] : word["end"]] == word["text"]


def test_an_answer_is_marked_in_its_passage(ask, opened):
    passage = ASKED["answer"]["passage"]
    answer = ask.done("answer", "answering", **ASKED["answer"])
    best = opened["answering"].ask(ASKED["answer"]["question"], passage).best
    assert passage[answer["start"] : answer["end"]] == answer["span"] == best.found.span
    assert answer["answer"] == (best.answer or None)
    assert answer["margin"] == pytest.approx(best.found.margin, rel=1e-4)


def test_pasted_texts_and_a_served_file_are_searched_alike(ask, served):
    text = (
        "the cat sees the dog .\n\nthe old man hears the bird near the river and finds my sister at home .\n"
    )
    (served / "notes.txt").write_text(text)
    (served.parent / "secret.txt").write_text(text)
    (served / "link.txt").symlink_to(served.parent / "secret.txt")
    pasted = ask.done("search", "similarity", query="the cat", texts=[text])["hits"]
    of_file = ask.done("search", "similarity", query="the cat", file="notes.txt")["hits"]
    assert [(h["text"], pytest.approx(h["score"], abs=1e-4)) for h in pasted] == [
        (h["text"], h["score"]) for h in of_file
    ]
    for outside in ("../secret.txt", str(served.parent / "secret.txt"), "link.txt", "nothing.txt"):
        assert "folder that is served" in ask.error("search", "similarity", query="the", file=outside)


def test_translations_come_with_the_head_that_aligns_them(ask, opened):
    done = ask.done("translate", "seq2seq", text="the cat sees", best=2, beam=3)
    candidates = opened["seq2seq"].candidates("the cat sees", best=2, beam=3)[0]
    assert [c["text"] for c in done["candidates"]] == [c.text for c in candidates]
    assert [c["score"] for c in done["candidates"]] == pytest.approx([c.score for c in candidates], rel=1e-4)
    maps = opened["seq2seq"].attention("the cat sees", candidates[0].text)
    crossing = max((h for h in maps.heads if h.name.crosses), key=lambda head: head.effect)
    assert done["alignment"]["head"] == str(crossing.name)
    weights = maps.layers[crossing.layer].weights[crossing.name.number]
    assert np.allclose(done["alignment"]["weights"], weights, atol=1e-5)
    assert np.allclose(np.sum(done["alignment"]["weights"], 1), 1, atol=1e-4)


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_losses_are_those_of_an_evaluation(kind, ask, opened):
    done = ask.done("losses", kind, text=SENTENCE)
    (probe,) = evaluate_probes(opened[kind], [SENTENCE])
    assert done["loss"] == pytest.approx(probe.loss, rel=1e-5)
    assert done["perplexity"] == pytest.approx(probe.perplexity, rel=1e-5)
    nats = [token["loss"] for token in done["tokens"] if token["loss"] is not None]
    assert done["scored"] == probe.tokens == len(nats)
    assert done["bits_per_byte"] == pytest.approx(
        math.fsum(nats) / math.log(2) / len(SENTENCE.encode()), rel=1e-5
    )
    shown = [SENTENCE[token["start"] : token["end"]] for token in done["tokens"]]
    assert "".join(shown) == SENTENCE.replace(" ", "")
    for token in done["tokens"]:
        assert token["probability"] == pytest.approx(math.exp(-token["loss"]))


def test_the_bytes_of_a_character_are_tokens_of_one_piece():
    places = [(0, 2), (2, 4), (3, 4), (3, 4), (4, 5), (5, 5), (5, 5)]
    assert losses.pieces(places) == [0, 1, 1, 1, 2, 3, 4]
    assert losses.pieces([(0, 1)] * 4) == [0] * 4 and losses.pieces([]) == []


def test_bad_values_are_refused_in_a_sentence(ask):
    assert "at most 500" in ask.error("write", "causal", prompt="a", length=501)
    assert "above 0" in ask.error("write", "causal", prompt="a", temperature=0)
    assert "finite" in ask.error("write", "causal", prompt="a", temperature=math.inf)
    assert "text" in ask.error("write", "causal", prompt=["a"])
    assert "greedy, sampled" in ask.error("write", "causal", prompt="a", rule="best")
    assert "half of a character" in ask.error("losses", "causal", text="a \ud800")
    assert "NUL" in ask.error("losses", "causal", text="a \0")
    assert "characters" in ask.error("losses", "causal", text="a " * 60_000)
    assert "missing" in ask.error("losses", "causal")
    for action, values in {"losses": {"text": "a"}, "run_to_resume": {}, "study_to_run": {}}.items():
        assert "No run was named" in ask.error(action, **values)
    assert "trained on 24" in ask.error("write", "causal", prompt="the cat", length=100)
    assert "[MASK]" in ask.error("fill", "masked", text="the cat")
    assert "predicts labels" in ask.error("write", "classification", prompt="a")
    assert "no tokens" in ask.error("losses", "causal", text="  ")
    assert "worker's actions" in ask.error("delete", "causal")


def test_errors_are_in_the_words_of_the_page(ask):
    long = "the cat " * 100
    told = [
        ask.error("write", "causal", prompt="the cat", length=100),
        ask.error("write", "causal", prompt=long),
        ask.error("translate", "seq2seq", text=long),
        ask.error("fill", "masked", text=long),
        ask.error("mask", text=long),
        ask.error("mask", text="|"),
        ask.error("mask", text="a b c", documents="1,x"),
        ask.error("query", target=[0.25] * 4, scale=0.0005),
    ]
    assert not [sentence for sentence in told if "--" in sentence or "1e-" in sentence or long in sentence]
    assert "may forget the beginning" in told[0] and "shorten the text" in told[1]
    assert "sentence by sentence" in told[2] and "at least 0.001" in told[-1]
    assert "The text is empty" in ask.error("translate", "seq2seq", text=" ")


def test_the_unknown_parts_of_a_text_are_those_of_its_tokenizer(ask, opened):
    prompt = "the \U0001f600 cat"
    _, last = ask("write", "causal", prompt=prompt, length=1)
    assert last["done"]["unknown"] == opened["causal"].tokenizer.unknown_parts(prompt) == ["\U0001f600"]
    done = ask.done("translate", "seq2seq", text="the \u00e6 cat")
    assert done["unseen"] == opened["seq2seq"].tokenizer.text.unseen("the \u00e6 cat")


NASTY = [None, -1, 10**30, 1e308, math.nan, True, "x" * 2000, "\ud800", "\0", "", [], {}, [[]], [None]]
NASTY += [[[1e9, 2]]]
RUNS = dict.fromkeys(("write", "losses", "attention", "without_heads", "patch_texts"), "causal")
RUNS |= {"fill": "masked", "classify": "classification", "tag": "tagging", "answer": "answering"}
RUNS |= {"search": "similarity", "translate": "seq2seq"}
RUNS |= dict.fromkeys(("query", "mask", "positions", "config"))
OTHERS = {
    "write": ("rule", "temperature", "top_p", "top_k", "seed", "beyond"),
    "without_heads": ("pair",),
    "attention": ("pair",),
    "patch_texts": ("at", "target"),
    "search": ("file", "top"),
    "translate": ("beam", "best", "penalty", "cut"),
    "query": ("keys", "target", "scale", "tolerance", "text", "layer", "head"),
    "mask": ("config", "set", "text", "documents", "padding", "masks"),
    "positions": ("config", "set", "length"),
    "config": ("config", "settings", "set"),
}


@pytest.mark.parametrize("action", RUNS)
def test_no_value_makes_a_fault(action, ask):
    """Whatever stands in a request is answered, or refused in a sentence."""
    usual = ASKED.get(action, {"target": [0.25] * 4} if action == "query" else {})
    for field in {*usual, *OTHERS.get(action, ())}:
        for value in NASTY:
            _, last = ask(action, RUNS[action], **{**usual, field: value})
            assert "fault" not in last, (field, value, last)
            assert "done" in last or len(last["error"].split()) > 3, (field, value, last)


# ---------------------------------------------------------------- without a model
def test_a_query_reaches_the_weights_that_were_asked(ask):
    keys = [[2.0, 0.0], [0.0, 2.0], [-2.0, -2.0]]
    found = ask.done("query", keys=keys, target=[0.5, 0.3, 0.2])
    scores = np.array(keys) @ np.array(found["query"])
    weights = np.exp(scores) / np.exp(scores).sum()
    assert found["how"] == "exact" and np.allclose(weights, [0.5, 0.3, 0.2], atol=1e-6)
    inside = ask.done("query", keys=[[1.0], [-1.0], [0.0]], target=[0.0, 0.0, 1.0])
    assert inside["how"] == "closest" and inside["reason"]
    assert len(ask.done("query", target=[0.25] * 4)["keys"]) == 4
    assert "as many numbers" in ask.error("query", keys=[[1.0], [1.0, 2.0]], target=[0.5, 0.5])
    assert ask.error("query", keys=[[1.0], [2.0]], target=[0.5, 0.7])


def test_masks_follow_their_options(ask):
    grid = ask.done("mask", set=["model.mask=causal & window(size=2)"], text="a b c d")["masks"]
    (pairs,) = grid.values()
    assert pairs == [[j <= i and i - j < 2 for j in range(4)] for i in range(4)]
    three = ask.done("mask", masks="unilm", text="a b | c")["masks"]
    assert three["causal"] == [[j <= i for j in range(3)] for i in range(3)]
    assert three["bidirectional"] == [[True] * 3] * 3
    assert three["prefix"] == [[j < 2 or j <= i for j in range(3)] for i in range(3)]
    assert "words" in ask.error("mask", text="a " * 41)
    assert "config" in ask.error("mask", config="/etc/passwd")


def test_positions_are_the_schemes_own(ask):
    rotary = ask.done("positions", set=["model.positions=rotary(base=100)", "model.width=32"], length=6)
    width = 2 * len(rotary["angles"][0])
    assert rotary["angles"] == [
        pytest.approx([t * 100 ** (-2 * i / width) for i in range(width // 2)], rel=1e-5) for t in range(6)
    ]
    grid = np.array(rotary["grids"][0]["values"])
    assert np.allclose(
        grid[2, 0], np.cos([2 * 100 ** (-2 * i / width) for i in range(width // 2)]).mean(), atol=1e-5
    )
    alibi = ask.done("positions", set=["model.positions=alibi", "model.heads=4"], length=5)
    places = np.arange(5)
    slopes = [2 ** (-8 * (h + 1) / 4) for h in range(4)]
    for head, slope in zip(alibi["grids"], slopes, strict=True):
        assert np.allclose(head["values"], -slope * np.abs(places[:, None] - places))
    vectors = ask.done("positions", set=["model.positions=sinusoidal"], length=4)
    own = np.array(vectors["vectors"])
    assert np.allclose(own @ own.T, vectors["grids"][0]["values"], atol=1e-3)
    assert "no position" in ask.error("positions", set=["model.positions=none"])


def test_feature_maps_are_never_negative(ask):
    for feature in ("elu", "relu"):
        drawn = ask.done("feature_map", feature=feature)
        x, y = np.array(drawn["x"]), np.array(drawn["y"])
        right = np.where(x > 0, x + 1, np.exp(x)) if feature == "elu" else np.maximum(x, 0)
        assert np.allclose(y, right, atol=1e-6)


def test_a_card_is_that_of_show(ask):
    linear = ask.done("card", table="attention", name="linear")
    assert "O(n·K²)" in linear["sections"]["Cost"] and "φ = elu" in linear["sections"]["Formula"]
    assert linear["options"]["feature"]["default"] == "elu"
    assert "no" in ask.error("card", table="attention", name="linar")
    assert "Tables" in ask.error("card", table="attentions", name="linear")


def test_every_variant_of_every_table_has_a_card(ask):
    from attnlab.config.registry import TABLES, table

    for name in TABLES:
        for variant in table(name):
            assert ask.done("card", table=name, name=variant)["summary"]


# ---------------------------------------------------------------- configs
def test_a_config_comes_to_its_sizes_and_its_command_gives_the_same(ask):
    settings = {
        "model": {"width": 64, "layers": 2, "attention": {"kind": "group", "groups": 4, "inner": "dot"}},
        "training": {"budget": {"steps": 10}},
        "data": {
            "corpus": {"kind": "files", "path": "my texts/a.txt"},
            "batching": {"kind": "packed", "batch_size": 3},
        },
    }
    made = ask.done("config", config="mini-gpt", settings=settings, set=["model.heads=8"])
    assert made["errors"] == []
    _, _, name, *words = __import__("shlex").split(made["command"])
    again = load(name, set=[parse_override(word)[0] + "=" + word.partition("=")[2] for word in words[1::2]])
    from attnlab.config.files import identity, to_json

    assert identity(again) == made["identity"] and to_json(again) == made["config"]
    assert (
        made["expected_tokens"]
        == 10 * made["step_tokens"]
        == 10 * 3 * again.data.length * again.training.accumulate
    )
    assert made["parameters"]["total"] == made["parameters"]["closed_form"]
    assert made["memory"]["total"] > 4 * made["parameters"]["total"] * 4 - 1


def test_every_error_of_a_config_names_its_setting_in_the_words_of_the_command_line(ask):
    overrides = ["model.widht=3", "model.attention=dott", "model.layers=2"]
    errors = ask.done("config", set=overrides)["errors"]
    assert [error["setting"] for error in errors] == ["model.widht", "model.attention"]
    for error, text in zip(errors, overrides, strict=False):
        with pytest.raises(ValueError) as raised:
            load(None, set=[text])
        assert error["message"] == str(raised.value)
    (together,) = ask.done("config", set=["model.width=60", "model.heads=7"])["errors"]
    assert "heads" in together["message"]
    (misfit,) = ask.done("config", set=["model.positions=relative", "model.attention=linear"])["errors"]
    assert misfit["setting"] is None and "linear" in misfit["message"]


def test_a_config_reads_nothing_outside_and_runs_no_code(ask, served, tmp_path):
    (tmp_path / "evil.py").write_text("raise SystemExit('it ran')")
    for settings in (
        {"imports": [str(tmp_path / "evil.py")]},
        {"start": str(tmp_path)},
        {"data": {"tokenizer": {"kind": "file", "path": "/etc/passwd"}}},
    ):
        (error,) = ask.done("config", settings=settings)["errors"]
        assert "command line" in error["message"]
    (error,) = ask.done("config", config=str(tmp_path / "evil.py"))["errors"]
    assert "config" in error["message"]
