"""Models of pictures of transformers: the same scores of the same pictures, and given back whole."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoImageProcessor, ViTConfig, ViTForImageClassification, ViTModel

import attnlab as lab
from attnlab.config.files import load
from attnlab.config.values import ConfigError
from attnlab.interop.exchange import import_model
from attnlab.interop.foreign import load_model
from attnlab.interop.names import CLASS_TOKEN, CLASS_VECTOR, ONE_MORE, PATCHES
from attnlab.interop.pictures import picture_scores
from attnlab.session.convert import convert
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
