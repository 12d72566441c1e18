"""Where heads look on a picture, and what the output is without them, against softmax and weights by hand."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnlab.config.values import ConfigError
from attnlab.data.corpora.shapes import Shapes
from attnlab.data.images.decoding import pixels_of
from attnlab.data.images.patches import patches_of, vectors_of
from attnlab.generation.decoder import PlacedPicture, placed
from attnlab.model.capture import capture
from attnlab.model.tokens import Tokens
from attnlab.session.embedding import Embedder
from tests.session.test_captions import trained_of as captioning_of
from tests.session.test_pictures_and_texts import trained_of as searching_of

TEXT = "a red circle left of a blue square"
CLIP = {
    "model.trunk": "two_encoders(projection=24)",
    "model.output": "contrast",
    "model.mask": "causal",
    "model.positions": "learned(patches=order)",
    "model.embedding_scale": 1.0,
    "task": "similarity(objective=symmetric, temperature=1)",
}


@pytest.fixture(scope="module")
def picture():
    return next(iter(Shapes(task="caption", examples=64).read("dev"))).image


def by_hand(trained, ids, picture, text):
    """What is called to read a picture and a text, put together from pixels and tokens."""
    grid = trained.config.model.picture
    vectors = torch.from_numpy(vectors_of(patches_of(pixels_of(picture, grid.size), grid.patch)))
    one = [PlacedPicture(1, vectors.double())]
    own = trained.tokenizer.encode(text)
    if trained.model.trunk.reads_source:
        source = trained.tokenizer.form.single(ids)
        patch, beside = placed([source], one, side="right")
        tokens = Tokens.of(len(source), patch=patch)
        start = trained.tokenizer.target.specials.start
        about = {"source": torch.tensor([source]), "source_tokens": tokens, "vectors": beside}
        return {"ids": torch.tensor([[start, *own]]), **about}
    form = trained.tokenizer.form
    whole = [*form.before, *ids, *form.middle, *own, *form.after]
    patch, beside = placed([whole], one, side="right")
    source = (torch.arange(len(whole)) < len(ids) + len(form.before) + len(form.middle))[None]
    tokens = Tokens.of(len(whole), patch=patch, source=source)
    return {"ids": torch.tensor([whole]), "tokens": tokens, "vectors": beside}


def softmax_of(trained, given, layer, allowed):
    """(H,T,S) weights of an attention layer from its queries and keys, in numpy."""
    with torch.no_grad(), capture(trained.model, f"{layer}.queries", f"{layer}.keys") as seen:
        trained.model(**given)
    q, k = seen[f"{layer}.queries"][0].numpy(), seen[f"{layer}.keys"][0].numpy()
    scores = np.einsum("htk,hsk->hts", q, k) / np.sqrt(q.shape[-1])
    raised = np.exp(scores - scores.max(-1, keepdims=True)) * (True if allowed is None else allowed)
    return raised / raised.sum(-1, keepdims=True)


@pytest.mark.parametrize("kind", ["two stacks", "prefix"])
def test_weights_of_written_words_on_patches_are_softmax_by_hand(kind, picture, tmp_path):
    trained = captioning_of(kind, tmp_path)
    trained.model.double()
    grid = trained.config.model.picture
    looks = trained.picture_attention(picture, TEXT)
    given = by_hand(trained, [trained.tokenizer.specials.unknown] * grid.patches, picture, TEXT)
    seen = 0
    for head in looks.ranked:
        layer = looks.maps.layers[head.layer]
        allowed = None
        if kind == "prefix":
            place = torch.arange(given["ids"].shape[1])
            allowed = ((place[None] <= place[:, None]) | given["tokens"].source[0][None]).numpy()
        weights = softmax_of(trained, given, layer.heads.replace("heads", "attention"), allowed)
        on_patches = weights[head.name.number][:, 1 : 1 + grid.patches]  # after the token of the start
        readers = looks.readers(head)
        assert np.allclose(looks.by_reader(head).numpy(), on_patches[list(readers)], atol=1e-6)
        names = [trained.tokenizer.target.decode([n], specials=True) for n in target_of(trained)]
        if head.name.crosses or kind == "prefix":
            assert list(readers.values()) == [name.strip() for name in names]
            seen += 1
    assert seen == 4
    assert all("decoder layer" not in str(head.name) for head in looks.ranked)


def target_of(trained):
    stop = trained.tokenizer.target.form.end or (trained.tokenizer.target.specials.stop,)
    return [*trained.tokenizer.target.encode(TEXT), stop[0]]


def without_head(trained, layer, number):
    """A copy of the model whose layer reads nothing from one head: its part of the way back is 0."""
    model = copy.deepcopy(trained.model)
    attention = model.trunk.get_submodule(layer)
    width = attention.output.in_features // attention.projections.heads
    with torch.no_grad():
        attention.output.weight[:, number * width : (number + 1) * width] = 0
    return model


def module_of(trained, heads):
    """The name of the module whose heads stand at this place."""
    side, stack = heads.split(".")[0], trained.model.trunk
    stacks = stack.stacks()
    prefix = f"{side}." if side in stacks else f"{next(iter(stacks))}."
    number = int(heads.split(".")[-2])
    block = stacks[prefix[:-1]].blocks[number]
    wanted = "CrossAttention" if "cross" in heads else "SelfAttention"
    (name,) = (n for n, m in block.named_modules() if type(m).__name__ == wanted)
    return f"{prefix}blocks.{number}.{name}"


@pytest.mark.parametrize("kind", ["two stacks", "prefix"])
def test_a_head_is_worth_what_the_words_lose_without_its_way_back(kind, picture, tmp_path):
    trained = captioning_of(kind, tmp_path)
    trained.model.double()
    looks = trained.picture_attention(picture, TEXT)
    grid = trained.config.model.picture
    given = by_hand(trained, [trained.tokenizer.specials.unknown] * grid.patches, picture, TEXT)
    words = len(target_of(trained))
    for head in looks.maps.heads:
        model = without_head(trained, module_of(trained, head.name.heads), head.name.number)
        with torch.no_grad():
            usual, other = (m(**given)[0].log_softmax(-1) for m in (trained.model, model))
        each = (usual.exp() * (usual - other)).sum(-1)
        each = each if kind == "two stacks" else each[-words - 1 : -1]  # where a word is written
        assert len(each) == words
        assert head.effect == pytest.approx(float(each.mean()), rel=1e-6, abs=1e-12)
    effects = [head.effect for head in looks.ranked]
    assert effects == sorted(effects, reverse=True) and effects[0] > 0


@pytest.mark.parametrize("kind", ["two stacks", "prefix"])
def test_where_nobody_gives_a_text_it_is_the_models_caption(kind, picture, tmp_path, monkeypatch):
    trained = captioning_of(kind, tmp_path)
    own = trained.candidates([picture], best=1)[0][0].text
    looks = trained.picture_attention(picture)
    shown = looks.read.text  # as much of it as stands in a row
    assert own.startswith(shown) and len(own) - len(shown) < 10 and f'"{shown}"' in looks.remark
    again = trained.picture_attention(picture, shown)
    assert [h.effect for h in again.ranked] == [h.effect for h in looks.ranked] and looks.read.by_model
    shown = looks.of_words().items
    words = "".join(str(item.title) for item in shown[:20]).replace(" ", "")
    assert len(words) > 20 and own.replace(" ", "").startswith(words)
    given = trained.picture_attention(picture, TEXT)
    assert not given.read.by_model and TEXT not in given.remark
    (candidate,) = trained.candidates([picture], best=1)[0]
    monkeypatch.setattr(trained, "candidates", lambda *_, **about: [[replace(candidate, text=TEXT)]])
    same = trained.picture_attention(picture)
    assert (
        [h.effect for h in given.ranked]
        == [h.effect for h in same.ranked]
        != [h.effect for h in looks.ranked]
    )
    with pytest.raises(ConfigError, match="longer than this model reads with a picture"):
        trained.picture_attention(picture, " ".join(["red"] * 40))


def test_two_encoders_are_looked_into_by_the_encoder_of_pictures(picture, tmp_path):
    """The class token's look, and what the picture's vector loses without a head."""
    trained = searching_of("image-search-mini", tmp_path, **CLIP)
    embedder = Embedder.of(trained)
    looks = trained.picture_attention(picture)
    assert {layer.name for layer in looks.maps.layers} == {f"image layer {n}" for n in range(3)}
    grid = trained.config.model.picture
    own = torch.from_numpy(vectors_of(patches_of(pixels_of(picture, grid.size), grid.patch)))[None]
    patch = torch.arange(grid.patches + 1)[None]
    vectors = torch.cat([own.new_zeros(1, 1, own.shape[-1]), own], 1)
    given = {"ids": (patch > 0).long(), "tokens": Tokens.of(grid.patches + 1, patch=patch)}
    usual = embedder.picture_vectors([picture])[0]
    for head in looks.maps.heads:
        layer = looks.maps.layers[head.layer].heads.replace("heads", "attention")
        weights = softmax_of(trained, {**given, "vectors": vectors}, layer, None)
        class_token = weights[head.name.number][:1, 1:]
        assert np.allclose(looks.by_reader(head).numpy(), class_token, atol=1e-5)
        model = without_head(trained, module_of(trained, head.name.heads), head.name.number)
        moved = float(np.linalg.norm(replace(embedder, model=model).picture_vectors([picture])[0] - usual))
        assert head.effect == pytest.approx(moved, rel=1e-3, abs=1e-6)
    assert "alone, whose output stands for the whole picture" in looks.html()
    assert looks.of_heads().items[0].title == str(looks.maps.ranked[0].name)


def test_the_encoder_of_texts_is_looked_into_by_a_text(tmp_path):
    trained = searching_of("image-search-mini", tmp_path, **CLIP)
    maps = trained.attention(TEXT)
    assert [layer.name for layer in maps.layers] == [f"text layer {n}" for n in range(3)]
    assert all(float(layer.weights.triu(1).abs().max()) == 0 for layer in maps.layers)  # causal


def test_all_tokens_count_where_the_output_is_their_mean(picture, tmp_path):
    trained = searching_of("image-search-mini", tmp_path)
    looks = trained.picture_attention(picture)
    head = looks.ranked[0]
    weights = looks.maps.layers[head.layer].weights[head.name.number]
    assert len(looks.readers(head)) == len(looks.patch) and "all tokens" in looks.of_heads().note
    assert looks.of_words().title.startswith("Which tokens look at which patches, by layer")
    assert looks.share(head) == pytest.approx(float(weights[:, 1:17].sum(-1).mean()), rel=1e-5)
