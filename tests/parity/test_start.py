"""A run that begins from a folder of transformers: its weights, its tokenizer, its certificate."""

import json
import random

import pytest
import torch
from safetensors.torch import load_file, save_file

from attnlab.config.files import config_of
from attnlab.config.values import ConfigError
from attnlab.runs.record import read_record
from attnlab.session.trained import Trained
from attnlab.session.writing import usual_length
from tests.parity.folders import published, tokenizer
from tests.parity.theirs import LENGTH, V
from tests.training.small_run import set_up, train

IDS = torch.tensor([[5, 9, 30, 41, 7, 12]])


def config(home, start, **changes):
    """Lines of words that the published tokenizers know; [model] and the tokenizer are left to the start."""
    pick = random.Random(0)
    lines = (" ".join(f"w{pick.randrange(40)}" for _ in range(12)) for _ in range(80))
    (home / "corpus.txt").write_text("\n".join(lines))
    settings = {
        "start": str(start),
        "data": {
            "corpus": {"kind": "files", "path": str(home / "corpus.txt"), "unit": "line"},
            "length": 16,
            "batching": {"kind": "padded", "batch_size": 4},
        },
        "training": {"budget": {"steps": 3}, "evaluate_every": "never", "checkpoint_every": 2},
    }
    return config_of(settings | changes)


@pytest.mark.parametrize(
    ("name", "task"),
    [("gpt2", "causal"), ("qwen2", "causal"), ("bert", "masked"), ("bert, classes", "masked")],
)
def test_it_begins_with_their_answers_and_goes_on_from_there(tmp_path, unchecked, name, task):
    """Of a model of classes the trunk is taken, and a head for words is drawn."""
    theirs = published(tmp_path / "theirs", name)
    settings = config(tmp_path, tmp_path / "theirs", task=task)
    setup = set_up(settings)
    assert setup.config.model.vocabulary == V and setup.config.model.length == LENGTH
    if name == "bert, classes":
        with torch.no_grad():
            found = setup.model.eval().trunk(IDS)
            expected = theirs.bert(IDS).last_hidden_state
        assert setup.origin.fresh == () and setup.model.head.table is not None  # tied, without a bias
    else:
        with torch.no_grad():
            found, expected = setup.model.eval()(IDS), theirs(IDS).logits
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-5)
    train(settings, tmp_path / "run")
    record = read_record(tmp_path / "run")
    assert record["certificate"]["architecture"] == type(theirs).__name__
    assert not record["certificate"]["new"]
    trained = Trained.at(tmp_path / "run")
    assert trained.step == 3 and trained.tokenizer.size <= V
    with torch.no_grad():
        assert not torch.equal(trained.model.trunk(IDS), setup.model.trunk(IDS)), "three steps have moved it"


def test_lora_on_theirs_leaves_their_weights_as_they_are(tmp_path, unchecked):
    published(tmp_path / "theirs", "gpt2")
    settings = config(tmp_path, tmp_path / "theirs", adapter="lora(rank=2)")
    before = dict(set_up(settings).model.named_parameters())
    train(settings, tmp_path / "run")
    for name, value in Trained.at(tmp_path / "run").model.named_parameters():
        assert torch.equal(value, before[name]) != (".lora.up" in name or ".lora.down" in name), name


@pytest.mark.parametrize("adapter", ["prompt(tokens=24)", "prefix(tokens=24)"])
def test_tokens_before_the_text_take_their_places_from_learned_positions(tmp_path, adapter):
    """Of 40 positions 24 are the adapter's: every check and score then asks for texts of 16."""
    published(tmp_path / "theirs", "gpt2")
    run = train(config(tmp_path, tmp_path / "theirs", adapter=adapter), tmp_path / "run")
    assert run.session.config.longest_text == LENGTH - 24 == 16
    assert not run.unsound
    trained = Trained.at(tmp_path / "run")
    assert trained.evaluate()["measures"]["loss"]["value"] > 0 and usual_length(trained, ["w3"]) < 16


def test_a_tensor_that_is_missing_is_named_before_anything_is_trained(tmp_path):
    published(tmp_path / "theirs", "gpt2")
    file = tmp_path / "theirs" / "model.safetensors"
    tensors = load_file(file)
    del tensors["transformer.h.1.mlp.c_fc.weight"]
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"h\.1\.mlp\.c_fc\.weight"):
        train(config(tmp_path, tmp_path / "theirs"), tmp_path / "run")


def test_a_foreign_tokenizer_in_the_folder_is_refused(tmp_path):
    published(tmp_path / "theirs", "gpt2")
    tokenizer("gpt2", words=[f"v{n}" for n in range(10)]).save(str(tmp_path / "theirs" / "tokenizer.json"))
    (tmp_path / "theirs" / "special_tokens_map.json").write_text(json.dumps({"eos_token": "<none>"}))
    with pytest.raises(ConfigError, match=r"does not belong to its model: .*<none>"):
        set_up(config(tmp_path, tmp_path / "theirs"))


def test_weights_that_changed_since_are_refused(tmp_path, unchecked):
    published(tmp_path / "theirs", "gpt2")
    settings = config(tmp_path, tmp_path / "theirs")
    train(settings, tmp_path / "run")
    published(tmp_path / "theirs", "gpt2", seed=1)
    with pytest.raises(ConfigError, match="cannot be resumed: the start changed"):
        train(settings, tmp_path / "run", resume=True)
