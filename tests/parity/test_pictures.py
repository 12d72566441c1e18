"""Models of pictures of transformers: the same scores of the same pictures, and given back whole."""

import json

import numpy as np
import pytest
import tokenizers
import torch
from PIL import Image
from transformers import (
    AutoImageProcessor,
    CLIPConfig,
    CLIPModel,
    ViTConfig,
    ViTForImageClassification,
    ViTModel,
)

import attnlab as lab
from attnlab.config.files import load
from attnlab.config.values import Choice, ConfigError
from attnlab.data.images.picture import Picture
from attnlab.interop.exchange import import_model
from attnlab.interop.foreign import load_model
from attnlab.interop.names import CLASS_TOKEN, CLASS_VECTOR, ONE_MORE, PATCHES
from attnlab.interop.picture_models import picture_scores
from attnlab.session.convert import convert
from attnlab.session.embedding import Embedder
from attnlab.session.session import Session
from attnlab.session.training import train

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 16,
    "patch_size": 4,
}


def shaken(model, seed=0):
    """No bias is zero and no scale one, so that nothing can be left out unnoticed."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.data.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def vit(folder, kind=ViTForImageClassification, processor=None, **changes):
    model = shaken(kind(ViTConfig(**SIZES | {"num_labels": 3, "layer_norm_eps": 1e-6} | changes)))
    model.save_pretrained(folder)
    if processor is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return model


def pictures_in(folder, count=3, size=16):
    random = np.random.default_rng(0)
    files = [folder / f"{number}.png" for number in range(count)]
    for file in files:
        Image.fromarray(random.integers(0, 256, (size, size, 3), np.uint8)).save(file)
    return files


def pixels_of(files, mean, deviation):
    """(B,3,S,S) as another project's processor makes them."""
    arrays = [np.asarray(Image.open(file), np.float32) / 255 for file in files]
    stacked = (np.stack(arrays) - np.array(mean, np.float32)) / np.array(deviation, np.float32)
    return torch.from_numpy(stacked.astype(np.float32)).permute(0, 3, 1, 2)


@pytest.mark.parametrize("form", [PATCHES, ONE_MORE, CLASS_TOKEN, CLASS_VECTOR])
def test_forms_are_given_back(form):
    shape = {id(PATCHES): (5, 12), id(ONE_MORE): (7, 5)}.get(id(form), (2, 5))
    own = torch.randn(shape)
    if form in (CLASS_TOKEN, CLASS_VECTOR):
        own[1] = 0
    theirs = form.outward(own)
    assert tuple(theirs.shape) == form.shape(shape) and torch.equal(form.inward(theirs), own)


@pytest.mark.parametrize(
    "processor",
    [None, {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4]}, {"do_normalize": False}],
)
def test_vit_scores_pictures_as_transformers_does(tmp_path, processor):
    theirs = vit(tmp_path, processor=processor)
    files = pictures_in(tmp_path)
    said = processor or {}
    mean, deviation = said.get("image_mean", [0.5] * 3), said.get("image_std", [0.5] * 3)
    if said.get("do_normalize") is False:
        mean, deviation = [0.0] * 3, [1.0] * 3
    with torch.no_grad():
        wanted = theirs(pixel_values=pixels_of(files, mean, deviation)).logits.softmax(-1)
    opened = lab.open(tmp_path)
    for row, prediction in enumerate(opened.predict(files)):
        own = [prediction.scores[f"LABEL_{n}"] for n in range(3)]
        assert own == pytest.approx(wanted[row].tolist(), abs=2e-6)


def test_vit_without_a_head_and_gradients(tmp_path):
    theirs = vit(tmp_path, ViTModel, pooler_act="tanh")
    ours = load_model(tmp_path)
    pixels = torch.rand(2, 3, 16, 16) * 2 - 1
    grid = ours.config.picture
    wanted = theirs(pixel_values=pixels).pooler_output
    assert torch.allclose(picture_scores(ours.model, grid, pixels), wanted, atol=2e-6)


def test_vit_is_converted_both_ways(tmp_path):
    theirs = vit(tmp_path / "theirs", id2label={0: "a", 1: "b", 2: "c"}, label2id={"a": 0, "b": 1, "c": 2})
    convert(tmp_path / "theirs", tmp_path / "run")
    convert(tmp_path / "run", tmp_path / "back")
    again = ViTForImageClassification.from_pretrained(tmp_path / "back").eval()
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert again.config.id2label == {0: "a", 1: "b", 2: "c"}
    processor = AutoImageProcessor.from_pretrained(tmp_path / "back")
    assert list(processor.image_mean) == [0.5] * 3 and processor.size["height"] == 16


def test_a_model_of_pictures_that_was_trained_here_is_a_vit(tmp_path):
    """Its positions by row and column, its scale and the vector that all patches share are folded."""
    changes = {
        "data.tokenizer": "patches",
        "data.corpus.examples": 64,
        "data.length": 17,
        "model.length": 17,
        "model.inputs": ["image(size=16, patch=4)"],
        "model.width": 16,
        "model.layers": 2,
        "model.output": "classification(pooling=first)",
        "training.budget": {"steps": 3},
        "training.evaluate_every": 3,
    }
    run = train(Session(load("image-classifier-mini", set=changes)), tmp_path / "run", allow=["overfit"])
    convert(run.folder, tmp_path / "theirs")
    theirs = ViTForImageClassification.from_pretrained(tmp_path / "theirs").eval()
    files = pictures_in(tmp_path)
    with torch.no_grad():
        wanted = theirs(pixel_values=pixels_of(files, [0.5] * 3, [0.5] * 3)).logits.softmax(-1)
    names = theirs.config.id2label
    for row, prediction in enumerate(lab.open(run.folder).predict(files)):
        own = [prediction.scores[names[n]] for n in range(len(names))]
        assert own == pytest.approx(wanted[row].tolist(), abs=2e-5)


def test_what_does_not_fit_is_named(tmp_path):
    vit(tmp_path / "a", num_channels=1)
    with pytest.raises(ConfigError, match="num_channels = 1: pictures are read in red, green and blue"):
        load_model(tmp_path / "a")
    vit(tmp_path / "b", processor={"image_mean": [0.5]})
    with pytest.raises(ConfigError, match=r"image_mean = .*three numbers, one a colour"):
        load_model(tmp_path / "b")
    settings = json.loads((tmp_path / "b" / "config.json").read_text()) | {"image_size": [16, 32]}
    (tmp_path / "b" / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ConfigError, match=r"image_size = \[16, 32\]; pictures and patches are square"):
        load_model(tmp_path / "b")
    with pytest.raises(ConfigError, match="tokenizer"):
        import_model(tmp_path / "a", tmp_path / "out", tokenizer=tmp_path / "none.json")


# ---------------------------------------------------------------- pictures and texts
COLOURS = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])
WORDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3} | {f"w{n}": n for n in range(4, 40)}


def clip(folder):
    """Two encoders of other sizes and depths, with a tokenizer that ends each text."""
    text = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 40,
        "max_position_embeddings": 12,
        "projection_dim": 24,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "pad_token_id": 0,
    }
    vision = SIZES | {"hidden_size": 24, "num_hidden_layers": 3, "projection_dim": 24}
    model = shaken(CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)))
    model.save_pretrained(folder)
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.save(str(folder / "tokenizer.json"))
    return model


TEXTS = ["w5 w6 w7", "w9", "w4 w11 w30 w8 w12"]


def their_vectors(model, files):
    ids = [[2, *(int(word[1:]) for word in text.split()), 3] for text in TEXTS]
    longest = max(map(len, ids))
    given = torch.tensor([row + [0] * (longest - len(row)) for row in ids])
    real = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in ids])
    with torch.no_grad():
        return model(input_ids=given, attention_mask=real, pixel_values=pixels_of(files, *COLOURS))


def test_clip_gives_the_vectors_and_scores_of_transformers(tmp_path):
    theirs, files = clip(tmp_path), pictures_in(tmp_path)
    wanted = their_vectors(theirs, files)
    opened = lab.open(tmp_path)
    texts = opened.embed(TEXTS)
    pictures = Embedder.of(opened).picture_vectors([Picture(file) for file in files])
    assert torch.allclose(texts, wanted.text_embeds, atol=2e-6)
    assert np.allclose(pictures, wanted.image_embeds.numpy(), atol=2e-6)
    scale = opened.model.head.log_scale.exp().item()
    assert np.allclose(scale * pictures @ texts.numpy().T, wanted.logits_per_image.numpy(), atol=2e-5)
    assert opened.search(TEXTS[0], inside=tmp_path, index=tmp_path / "index")[0].file == str(
        files[int(wanted.logits_per_text[0].argmax())]
    )


def test_clip_is_converted_both_ways(tmp_path):
    theirs, files = clip(tmp_path / "theirs"), pictures_in(tmp_path)
    convert(tmp_path / "theirs", tmp_path / "run")
    certificate = convert(tmp_path / "run", tmp_path / "back")
    assert certificate.architecture == "CLIPModel" and "Read again" in f"R{certificate.notes[-1][1:]}"
    again = CLIPModel.from_pretrained(tmp_path / "back").eval()
    processor = AutoImageProcessor.from_pretrained(tmp_path / "back")
    mean, deviation = list(processor.image_mean), list(processor.image_std)
    assert (mean, deviation) == ([0.5] * 3, [0.5] * 3)  # what theirs were is in the weights
    wanted = their_vectors(theirs, files).image_embeds
    with torch.no_grad():
        features = again.get_image_features(pixel_values=pixels_of(files, mean, deviation))
    own = torch.nn.functional.normalize(getattr(features, "pooler_output", features), dim=-1)
    assert torch.allclose(own, wanted, atol=2e-6)
    for name, tensor in theirs.state_dict().items():
        if "patch_embedding" not in name and "vision_model.embeddings.position" not in name:
            assert torch.equal(again.state_dict()[name], tensor), name


def test_two_encoders_that_were_trained_here_are_a_clip(tmp_path):
    tower = {"projection": 8, "image_width": 12, "image_layers": 1, "image_heads": 2}
    changes = {
        "task": "similarity(objective=symmetric, temperature=1)",
        "data.corpus.examples": 64,
        "model.inputs": ["image(size=16, patch=8)", "text"],
        "model.trunk": Choice("two_encoders", tower),
        "model.output": "contrast",
        "model.mask": "causal",
        "model.positions": "learned(patches=order)",
        "model.embedding_scale": 1.0,
        "model.width": 16,
        "model.layers": 2,
        "training.budget": {"steps": 3},
        "training.evaluate_every": 3,
    }
    run = train(Session(load("image-search-mini", set=changes)), tmp_path / "run", allow=["overfit"])
    findings = json.loads((run.folder / "checks.json").read_text())["findings"]
    outcomes = {finding["check"]: finding["outcome"] for finding in findings}
    assert outcomes["recomputed_loss"] == outcomes["dependency"] == "pass"
    certificate = convert(run.folder, tmp_path / "theirs")
    assert certificate.architecture == "CLIPModel"
    parameters = sum(p.numel() for p in lab.open(run.folder).model.parameters())
    again = lab.open(tmp_path / "theirs")
    assert sum(p.numel() for p in again.model.parameters()) == parameters
    texts = ["a red circle left of a blue square", "a red circle"]
    assert torch.allclose(again.embed(texts), lab.open(run.folder).embed(texts), atol=1e-5)
