"""Heads, removed heads and patched texts: the numbers of the library, and what must be so."""

from __future__ import annotations

from base64 import b64decode

import numpy as np
import pytest
import torch

from attnlab.explain.ablation import divergences
from attnlab.explain.text_patching import patch_texts
from attnlab.model.capture import capture, patch
from attnlab.model.isolation import undisturbed
from attnlab.web.actions import example_texts

FIRST = "the cat sees a dog in the garden ."
SECOND = "the bird sees a dog in the garden ."


@pytest.mark.parametrize("kind", ["causal", "masked", "seq2seq", "classification"])
def test_a_pages_weights_are_the_maps(kind, ask, opened):
    done = ask.done("attention", kind, text=FIRST)
    pair = done["pair"]
    maps = opened[kind].attention(FIRST, pair)
    packed = np.frombuffer(b64decode(done["weights"]), np.uint8)
    at = 0
    for layer, said in zip(maps.layers, done["maps"]["layers"], strict=True):
        weights = layer.weights.numpy()
        assert (said["heads"], len(said["queries"]), len(said["keys"])) == weights.shape
        part = packed[at : at + weights.size].reshape(weights.shape)
        at += weights.size
        allowed = np.broadcast_to(np.array(layer.allowed_pairs), weights.shape)
        assert ((part == 255) == ~allowed).all()
        assert np.abs((part[allowed] / 254) ** 2 - weights[allowed]).max() < 0.004
    assert at == len(packed)
    assert [h["effect"] for h in done["maps"]["heads"]] == pytest.approx(
        [h.effect for h in maps.heads], rel=1e-4
    )


@pytest.mark.parametrize("kind", ["causal", "masked", "seq2seq"])
def test_the_change_without_a_head_is_its_effect(kind, ask, opened):
    pair = "garden the in" if kind == "seq2seq" else ""
    effects = {(h.layer, h.name.number): h.effect for h in opened[kind].attention(FIRST, pair).heads}
    for (layer, head), effect in effects.items():
        done = ask.done("without_heads", kind, text=FIRST, pair=pair, heads=[[layer, head]])
        assert done["mean"] == pytest.approx(effect, rel=1e-3, abs=1e-9)
    assert max(effects.values()) > 1e-4


def test_all_heads_removed_are_a_model_that_reads_nothing_elsewhere(ask, opened):
    """Without any head each place says what its own token says, whatever stands before it."""
    every = [[layer, head] for layer in range(2) for head in range(2)]
    done = ask.done("without_heads", "causal", text="the cat sees the cat .", heads=every)
    words = [token["text"] for token in done["tokens"]]
    twice = [n for n, word in enumerate(words) if word == "cat"]
    trained = opened["causal"]
    row = trained.reading.row("the cat sees the cat .")
    with torch.no_grad(), patch(trained.model, {"layers.*.heads": 0}):
        own = trained.model(row.inputs["ids"])[0].softmax(-1)
    for n, token in enumerate(done["tokens"]):
        best = own[n].topk(5).values.tolist()
        assert [a["probability"] for a in token["after"]] == pytest.approx(best, rel=1e-4)
    assert len(twice) == 2
    none = ask.done("without_heads", "causal", text="the cat", heads=[])
    assert none["mean"] == 0 and none["tokens"][0]["before"] == none["tokens"][0]["after"]


def test_labels_without_heads_are_a_prediction_of_the_patched_model(ask, opened):
    trained = opened["classification"]
    done = ask.done("without_heads", "classification", text=FIRST, heads=[[0, 1], [1, 0], [0, 1]])
    assert done["heads"] == ["layer 0, head 1", "layer 1, head 0"]
    assert done["before"]["scores"] == pytest.approx(dict(trained.predict([FIRST])[0].scores))
    with patch(trained.model, {"layers.0.heads.1": 0, "layers.1.heads.0": 0}):
        expected = trained.predict([FIRST])[0].scores
    assert done["after"]["scores"] == pytest.approx(dict(expected))
    assert done["after"]["scores"] != pytest.approx(done["before"]["scores"])


def test_an_answer_without_heads_is_that_of_the_patched_model(ask, opened):
    trained, question, passage = opened["answering"], "where is Ann ?", "Ann is in Rome . Bob is in Paris ."
    done = ask.done("without_heads", "answering", text=question, pair=passage, heads=[[0, 1]])
    (usual,) = trained.predict([(question, passage)])
    with patch(trained.model, {"layers.0.heads.1": 0}):
        (without,) = trained.predict([(question, passage)])
    assert done["kind"] == "answer" and usual.margin != pytest.approx(without.margin, rel=1e-4)
    for side, right in (("before", usual), ("after", without)):
        assert done[side]["span"] == right.span and done[side]["answer"] == right.answer
        assert done[side]["margin"] == pytest.approx(right.margin, rel=1e-4)


def test_tags_without_heads_are_those_of_each_word_with_their_probability(ask, opened):
    trained = opened["tagging"]
    done = ask.done("without_heads", "tagging", text=FIRST, heads=[[0, 0], [1, 1]])
    (usual,) = trained.predict([FIRST])
    with patch(trained.model, {"layers.0.heads.0": 0, "layers.1.heads.1": 0}):
        (without,) = trained.predict([FIRST])
    assert done["kind"] == "words" and [word["text"] for word in done["before"]["words"]] == FIRST.split()
    for side, right in (("before", usual), ("after", without)):
        words = done[side]["words"]
        assert [word["tag"] for word in words] == [word.tag for word in right.words]
        chances = [word["probability"] for word in words]
        assert chances == pytest.approx([word.probability for word in right.words], rel=1e-4)
        assert min(chances) == pytest.approx(right.confidence, rel=1e-4)
    assert done["before"]["words"] != done["after"]["words"]


def test_a_model_of_two_texts_is_not_drawn_with_one(ask):
    for action, values in (("attention", {}), ("without_heads", {"heads": [[0, 0]]})):
        for pair in ("", "  "):
            told = ask.error(action, "answering", text="where is Ann ?", pair=pair, **values)
            assert told.startswith("The passage is empty")


@pytest.mark.parametrize("kind", ["causal", "masked", "seq2seq", "classification", "tagging"])
def test_the_prefilled_texts_can_be_patched_and_are_known(kind, ask, opened):
    examples = ask.done("facts", kind)["examples"]
    assert ask.done("patch_texts", kind, first=examples["first"], second=examples["second"])["hidden"]
    known = opened[kind].tokenizer
    assert not any(known.unknown_parts(examples[name]) for name in ("text", "first", "second"))
    assert ask.done("attention", kind, text=examples["text"])["headline"]


def test_prefilled_texts_have_as_many_tokens_whatever_the_tokenizer(opened, monkeypatch):
    trained = opened["causal"]
    letters = lambda _, texts: [len(text) for text in texts]  # noqa: E731 - a tokenizer of letters
    monkeypatch.setattr(example_texts, "token_counts", letters)
    first, second = example_texts.equal_pair(trained, [])
    assert len(first) == len(second) and first != second
    first, second = example_texts.equal_pair(trained, ["the cat sees a dog", "a bird and the man"])
    assert (len(first), first) == (len(second), "the cat sees a dog")


def test_heads_that_are_not_there_are_a_sentence(ask):
    for wrong in ([9, 0], [0, 9], [0], [0, -1]):
        assert "a head from 0 to 1" in ask.error("without_heads", "causal", text=FIRST, heads=[wrong])
    assert "heads" in ask.error("without_heads", "causal", text=FIRST, heads=[["a", 1]])
    assert "at most 24" in ask.error("attention", "causal", text=" ".join(["cat"] * 30))


# ---------------------------------------------------------------- texts patched into one another
@pytest.mark.parametrize("kind", ["causal", "masked", "classification", "regression", "tagging"])
def test_patched_places_say_what_a_forward_by_hand_says(kind, ask, opened):
    trained = opened[kind]
    done = ask.done("patch_texts", kind, first=FIRST, second=SECOND, at=-1)
    rows = [trained.reading.row(text) for text in (FIRST, SECOND)]
    with undisturbed(trained.model):
        with capture(trained.model, "layers.0.output", "layers.0.heads") as seen:
            wanted = trained.model(**rows[0].inputs)
        usual = trained.model(**rows[1].inputs)

        def share(change):
            with patch(trained.model, change):
                return way(trained.model(**rows[1].inputs))

        def way(output):
            if trained.model.head.scores_words:
                far = [float(divergences(wanted[0], other[0])[-1]) for other in (output, usual)]
            else:
                far = [float((wanted - other).double().norm()) for other in (output, usual)]
            return 1 - far[0] / far[1]

        def at_place(place):
            def change(value):
                value[:, place] = seen["layers.0.output"][:, place]
                return value

            return change

        for place in range(len(rows[0].words)):
            assert done["hidden"][1][place] == pytest.approx(
                share({"layers.0.output": at_place(place)}), abs=1e-4
            )
        for head in range(2):
            own = seen["layers.0.heads"][:, head]
            assert done["heads"][0][head] == pytest.approx(share({f"layers.0.heads.{head}": own}), abs=1e-4)
        everywhere = share({"layers.0.output": seen["layers.0.output"]})
    assert everywhere == pytest.approx(1, abs=1e-6)


def test_in_a_decoder_the_last_place_after_the_last_layer_decides(ask):
    done = ask.done("patch_texts", "causal", first=FIRST, second=SECOND, at=-1)
    *others, last = done["hidden"][-1]
    assert last == pytest.approx(1, abs=1e-4) and others == pytest.approx([0] * len(others), abs=1e-4)
    differs = [n for n, (a, b) in enumerate(zip(done["first"], done["second"], strict=True)) if a != b]
    entering = done["hidden"][0]
    assert [n for n, share in enumerate(entering) if abs(share) > 1e-4] == differs
    assert entering[differs[0]] == pytest.approx(1, abs=1e-4)
    early = ask.done("patch_texts", "causal", first=FIRST, second=SECOND, at=2)
    assert all(abs(share) < 1e-4 for share in early["hidden"][1][3:])


def test_texts_that_cannot_be_patched_are_a_sentence(ask):
    refused = ask.error("patch_texts", "causal", first=FIRST, second="the cat .")
    assert "the same number" in refused and "11 tokens" in refused
    assert "same output at this token" in ask.error("patch_texts", "causal", first=FIRST, second=FIRST)
    assert "no token 99" in ask.error("patch_texts", "causal", first=FIRST, second=SECOND, at=99)


def test_sources_are_patched_under_one_target(ask, opened):
    trained, target = opened["seq2seq"], "garden the in"
    done = ask.done("patch_texts", "seq2seq", first=FIRST, second=SECOND, target=target)
    first, second = (trained.reading.row(text, target) for text in (FIRST, SECOND))
    assert done["first"] == list(first.source_words) and done["target"] == list(first.words)
    with undisturbed(trained.model):
        with capture(trained.model, "encoder.layers.0.output", "encoder.layers.1.heads") as seen:
            wanted = trained.model(**first.inputs)[0]
        usual = trained.model(**second.inputs)[0]
        far = divergences(wanted, usual)
        at = int(far.argmax())
        assert done["at"] == at and done["apart"] == pytest.approx(float(far[at]), rel=1e-4)

        def share(change):
            with patch(trained.model, change):
                output = trained.model(**second.inputs)[0]
            return 1 - float(divergences(wanted, output)[at] / far[at])

        for place in range(len(first.source_words)):
            state = seen["encoder.layers.0.output"][:, place]

            def change(value, place=place, state=state):
                value[:, place] = state
                return value

            assert done["hidden"][1][place] == pytest.approx(
                share({"encoder.layers.0.output": change}), abs=1e-4
            )
        for head in range(2):
            own = {f"encoder.layers.1.heads.{head}": seen["encoder.layers.1.heads"][:, head]}
            assert done["heads"][1][head] == pytest.approx(share(own), abs=1e-4)
    differs = [n for n, (a, b) in enumerate(zip(done["first"], done["second"], strict=True)) if a != b]
    assert [n for n, entering in enumerate(done["hidden"][0]) if abs(entering) > 1e-4] == differs
    chosen = ask.done("patch_texts", "seq2seq", first=FIRST, second=SECOND, target=target, at=1)
    assert chosen["at"] == 1 and "after token 1 of the target" in chosen["measure"]
    written = ask.done("patch_texts", "seq2seq", first=FIRST, second=SECOND)["target"]
    assert written == list(trained.reading.row(FIRST, str(trained.translate(FIRST))).words)


def test_a_model_is_left_as_it_was(opened):
    trained = opened["causal"]
    rows = [trained.reading.row(text) for text in (FIRST, SECOND)]
    before = trained.model(**rows[0].inputs)
    patch_texts(trained.model, *rows)
    assert trained.model.taps is None and torch.equal(before, trained.model(**rows[0].inputs))
