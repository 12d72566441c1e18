"""What is exported is used by the other side: it generates, fills in, classifies, embeds and translates
there, with the same answers as here."""

from __future__ import annotations

import warnings

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    pipeline,
)

from attnlab.data.example import words_in
from attnlab.generation.request import Request
from attnlab.metrics.tags import entities
from attnlab.session import soundness
from attnlab.session.convert import convert
from attnlab.session.trained import Trained
from attnlab.session.writing import text_of, write
from tests.parity.folders import published
from tests.training.small_run import config, for_task, merged, sentences, train

SMALL = {"width": 16, "layers": 2, "heads": 2, "length": 24, "dropout": 0.0, "vocabulary": "tokenizer"}
BYTES = {"data": {"tokenizer": {"kind": "bpe", "vocabulary": 300}}}
PROMPTS = ["the cat", "my sister likes the old"]


@pytest.fixture(autouse=True)
def unchecked(monkeypatch):
    """Runs without checks, which take longer than the training."""
    monkeypatch.setattr(soundness, "run_checks", lambda case, names=(): [])


def exported(folder, task, model, **changes):
    """A run of ours, trained for some steps, as a folder of theirs."""
    steps = {"training": {"budget": {"steps": 12}, "evaluate_every": 12, "checkpoint_every": 12}}
    given = merged(merged(for_task(task, folder), {"model": SMALL | model}), merged(steps, changes))
    train(config(folder, **given), folder / "run")
    convert(folder / "run", folder / "theirs")
    return Trained.at(folder / "run"), folder / "theirs"


def asked(task, folder, **options):
    """Their pipeline of this name, which loads model and tokenizer by itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pipeline(task, model=str(folder), device="cpu", **options)


DECODERS = {
    "our own default: sinusoidal positions, scaled and tied": {},
    "gpt2": {"preset": "gpt2"},
    "llama": {"preset": "llama", "projections": "separate"},
}


@pytest.mark.parametrize("name", DECODERS)
def test_an_exported_decoder_continues_a_prompt_in_their_pipeline(name, tmp_path):
    ours, folder = exported(tmp_path, "causal", DECODERS[name], **BYTES)
    expected = [text_of(ours, one) for one in write(ours, PROMPTS, Request(rule="greedy", length=9))]
    generate = asked("text-generation", folder)
    assert generate.model.generation_config.eos_token_id == ours.tokenizer.specials.stop
    for several in (1, len(PROMPTS)):  # alone, and padded beside the others
        found = generate(PROMPTS, max_new_tokens=9, do_sample=False, batch_size=several)
        assert [one[0]["generated_text"] for one in found] == [
            prompt + text for prompt, text in zip(PROMPTS, expected, strict=True)
        ]
    # a tied table stays tied: the export has not one number more
    count = sum(p.numel() for p in ours.model.parameters())
    positions = 0 if "own" not in name else 24 * 16  # a formula here, a table there
    assert sum(p.numel() for p in generate.model.parameters()) == count + positions


def test_an_imported_export_ends_its_texts_as_it_did_in_training(tmp_path):
    ours, folder = exported(tmp_path, "causal", {}, **BYTES)
    theirs = AutoTokenizer.from_pretrained(folder)
    stop = ours.tokenizer.specials.stop
    assert theirs("the cat")["input_ids"] == ours.prompt("the cat")
    assert theirs("the cat")["input_ids"][-1] != stop
    theirs.save_pretrained(tmp_path / "saved")  # by them: it is still known
    convert(folder, tmp_path / "back")
    again = Trained.at(tmp_path / "back").tokenizer
    assert again.fingerprint == ours.tokenizer.fingerprint and again.form.end == (stop,)


def test_an_exported_encoder_fills_in_the_same_words(tmp_path):
    ours, folder = exported(tmp_path, "masked", {"preset": "bert"})
    text = "the cat <MASK> a dog ."
    expected = ours.fill(text, top=3)[0]
    found = asked("fill-mask", folder, top_k=3)(text)
    assert [one["token_str"] for one in found] == [word for word, _ in expected]
    assert [one["score"] for one in found] == pytest.approx([chance for _, chance in expected], rel=1e-4)


def test_an_exported_classifier_names_the_same_classes(tmp_path):
    output = {"kind": "classification", "pooling": "first", "transform": "tanh"}
    ours, folder = exported(tmp_path, "classification", {"preset": "bert", "output": output})
    texts = sentences(6, seed=3)
    expected = ours.predict(texts)
    found = asked("text-classification", folder)(texts)
    assert [one["label"] for one in found] == [one.answer for one in expected]
    assert [one["score"] for one in found] == pytest.approx([one.confidence for one in expected], rel=1e-4)


@pytest.mark.parametrize("task", ["multilabel", "regression"])
def test_exported_heads_for_sets_and_numbers_answer_the_same(task, tmp_path):
    output = {"kind": "classification", "pooling": "first", "transform": "tanh"}
    ours, folder = exported(tmp_path, task, {"preset": "bert", "output": output})
    texts = sentences(4, seed=3)
    expected = ours.predict(texts)
    classify = asked("text-classification", folder, top_k=None)
    for found, one in zip(classify(texts), expected, strict=True):
        if task == "regression":
            assert found[0]["score"] == pytest.approx(one.answer, rel=1e-4)
        else:
            assert {said["label"]: said["score"] for said in found} == pytest.approx(one.scores, rel=1e-4)


def test_an_exported_tagger_finds_the_same_entities_and_comes_back(tmp_path):
    ours, folder = exported(tmp_path, "tagging", {"preset": "bert"})
    texts = sentences(4, seed=3)
    expected = [one.spans for one in ours.predict(texts)]
    assert any(expected)
    tag = asked("token-classification", folder, ignore_labels=[])
    for text, spans in zip(texts, expected, strict=True):
        found = tag(text)  # a word is a token here
        assert [(one["start"], one["end"]) for one in found] == [(w.start, w.end) for w in words_in(text)]
        assert [(span.label, span.start, span.end) for span in spans] == [
            (label, found[first]["start"], found[after - 1]["end"])
            for label, first, after in entities([one["entity"] for one in found])
        ]
    theirs = AutoModelForTokenClassification.from_pretrained(folder).eval()
    assert tuple(theirs.config.id2label.values()) == ours.labels.names
    ids = torch.tensor([ours.tokenizer.encode(texts[0])])
    with torch.no_grad():
        torch.testing.assert_close(theirs(input_ids=ids).logits, ours.model.eval()(ids), rtol=1e-4, atol=1e-5)
    convert(folder, tmp_path / "back")
    back = Trained.at(tmp_path / "back")
    assert back.labels.names == ours.labels.names and back.labels.kind == "tags"
    assert [one.spans for one in back.predict(texts)] == expected


def test_an_exported_model_answers_questions_the_same_and_keeps_its_threshold(tmp_path):
    ours, folder = exported(tmp_path, "answering", {"preset": "bert", "length": 96})
    theirs = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    read = AutoTokenizer.from_pretrained(folder)
    question, passage = "who sees a dog ?", "the cat sees a dog . my sister hears the bird ."
    given = read(question, passage, return_tensors="pt", return_offsets_mapping=True)
    offsets, inside = given.pop("offset_mapping")[0], given["token_type_ids"][0].bool()
    with torch.no_grad():
        found = theirs(**given)
        mine = ours.model.eval()(given["input_ids"], types=given["token_type_ids"])[0]
    start, end = found.start_logits[0], found.end_logits[0]
    torch.testing.assert_close(torch.stack([start, end], -1), mine, rtol=1e-4, atol=1e-5)
    inside[-1] = False  # the separator
    places = inside.nonzero()[:, 0].tolist()
    score, first, last = max(
        (float(start[i] + end[j]), i, j) for i in places for j in places if i <= j < i + 30
    )
    (said,) = ours.predict([(question, passage)])
    threshold = -theirs.config.null_score_diff_threshold
    assert passage[offsets[first][0] : offsets[last][1]] == said.span
    assert score - float(start[0] + end[0]) - threshold == pytest.approx(said.margin, abs=1e-4)
    convert(folder, tmp_path / "back")
    (again,) = Trained.at(tmp_path / "back").predict([(question, passage)])
    assert (again.span, again.answer) == (said.span, said.answer)
    assert again.margin == pytest.approx(said.margin, abs=1e-4)


def test_an_exported_encoder_decoder_writes_the_same_targets(tmp_path):
    ours, folder = exported(tmp_path, "seq2seq", {"preset": "t5", "head_width": 8, "feedforward": "relu"})
    written = write(ours, PROMPTS, Request(rule="greedy", length=9))
    expected = [ours.tokenizer.written(one.new) for one in written]
    theirs, read = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    given = read(PROMPTS, return_tensors="pt", padding=True)
    found = theirs.eval().generate(**given, max_new_tokens=9, do_sample=False)
    assert read.batch_decode(found, skip_special_tokens=True) == expected


TEXT = "w3 w14 w15 w9 w26"


@pytest.mark.parametrize("name", ["bert, bare", "roberta, bare", "distilbert, bare"])
def test_vectors_of_an_imported_encoder_are_given_back(name, tmp_path):
    published(tmp_path / "theirs", name)
    convert(tmp_path / "theirs", tmp_path / "run")
    convert(tmp_path / "run", tmp_path / "again")
    ours = Trained.at(tmp_path / "run")
    found = torch.tensor(asked("feature-extraction", tmp_path / "again")(TEXT))[0]
    ids = torch.tensor([ours.tokenizer.form.single(ours.tokenizer.encode(TEXT))])
    with torch.no_grad():
        torch.testing.assert_close(found, ours.model.trunk(ids)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2"])
def test_imported_decoders_generate_after_the_round_trip(name, tmp_path):
    theirs = published(tmp_path / "theirs", name)
    convert(tmp_path / "theirs", tmp_path / "run")
    convert(tmp_path / "run", tmp_path / "again")
    told = {"max_new_tokens": 6, "do_sample": False}
    expected, found = (
        asked("text-generation", tmp_path / place)(TEXT, **told)[0]["generated_text"]
        for place in ("theirs", "again")
    )
    assert expected == found
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "again")
    assert again.config.eos_token_id == theirs.config.eos_token_id == again.generation_config.eos_token_id


@pytest.mark.parametrize("name", ["bert, classes", "roberta, classes", "distilbert, classes"])
def test_imported_classifiers_answer_after_the_round_trip(name, tmp_path):
    published(tmp_path / "theirs", name)
    convert(tmp_path / "theirs", tmp_path / "run")
    convert(tmp_path / "run", tmp_path / "again")
    ours = Trained.at(tmp_path / "run").predict([TEXT])[0]
    for place in ("theirs", "again"):
        found = asked("text-classification", tmp_path / place)(TEXT)[0]
        assert found["label"] == ours.answer and found["score"] == pytest.approx(ours.confidence, rel=1e-4)
    classes = AutoModelForSequenceClassification.from_pretrained(tmp_path / "again").config.id2label
    assert set(classes.values()) == set(ours.scores)
