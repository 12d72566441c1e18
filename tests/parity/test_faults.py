"""Faults injected on purpose: each is named, and nothing is loaded in spite of it."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.interop.foreign import load_model, save_model
from attnlab.session.convert import convert
from tests.parity.folders import WORDS, published, tokenizer
from tests.parity.theirs import V

BIAS, SQUARE, WIDE = (
    "transformer.h.1.attn.c_attn.bias",
    "transformer.h.0.attn.c_proj.weight",
    "transformer.h.0.mlp.c_fc.weight",
)


def changed(folder, change):
    """The folder with its tensors changed."""
    file = folder / "model.safetensors"
    with safe_open(file, "pt") as opened:
        tensors, metadata = {name: opened.get_tensor(name) for name in opened.keys()}, opened.metadata()  # noqa: SIM118
    change(tensors)
    save_file({name: t.contiguous() for name, t in tensors.items()}, file, metadata=metadata)


def test_a_dropped_tensor_is_named_and_can_be_accepted(folder):
    changed(folder, lambda t: t.pop(BIAS))
    with pytest.raises(ConfigError, match=f"{BIAS} is missing"):
        load_model(folder)
    found = load_model(folder, accept=[BIAS])
    assert len(found.certificate.new) == 3  # queries, keys and values
    first = found.model.trunk.decoder.blocks[1].residuals[0].inner.projections
    assert float(first.query.bias.detach().abs().sum()) == 0.0  # as a bias begins here


def test_a_renamed_tensor_is_named_twice_with_the_likeness(folder):
    changed(folder, lambda t: t.update({"transformer.h.1.attn.c_atn.bias": t.pop(BIAS)}))
    with pytest.raises(ConfigError, match=r"c_attn.bias is missing \(\S+c_atn.bias has its shape"):
        load_model(folder)
    with pytest.raises(ConfigError, match=r"c_atn.bias is unused"):
        load_model(folder)


def test_a_tensor_too_many_is_named_and_can_be_accepted(folder):
    changed(folder, lambda t: t.update({"adapter.weight": torch.ones(3)}))
    with pytest.raises(ConfigError, match=r"adapter.weight is unused"):
        load_model(folder)
    assert load_model(folder, accept=["adapter.*"]).certificate.unused == ("adapter.weight",)


def test_a_transposed_tensor_is_named(folder):
    changed(folder, lambda t: t.update({WIDE: t[WIDE].T}))
    with pytest.raises(ConfigError, match=rf"{WIDE} has shape \[96, 24\].*\[24, 96\] \(it is transposed\)"):
        load_model(folder)


def test_a_transposed_square_shows_in_the_answer_of_files_written_here(folder, tmp_path):
    found = load_model(folder)
    save_model(tmp_path / "ours", found.model, found.config, facts={})
    assert load_model(tmp_path / "ours").certificate.loaded
    changed(tmp_path / "ours", lambda t: t.update({SQUARE: t[SQUARE].T}))
    with pytest.raises(ConfigError, match="does not hold the model that was saved: to the fixed input"):
        load_model(tmp_path / "ours")


def test_a_model_with_an_adapter_is_not_written_as_if_it_had_none(folder, tmp_path):
    found = load_model(folder)
    adapter = lab.attach(found.model, lab.Lora(rank=2))
    with pytest.raises(ConfigError, match=r"take an adapter off first: adapter.merge"):
        save_model(tmp_path / "ours", found.model, found.config, facts={})
    assert not (tmp_path / "ours").exists()
    adapter.merge()
    assert save_model(tmp_path / "ours", found.model, found.config, facts={}).loaded


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_a_tensor_of_another_type_is_named(folder, dtype):
    changed(folder, lambda t: t.update({WIDE: t[WIDE].to(dtype)}))
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(ConfigError, match=rf"{WIDE} is ({name}|I64)"):
        load_model(folder)


def test_a_whole_file_in_half_precision_is_read_as_what_it_is(folder, sound):
    changed(folder, lambda t: t.update({name: tensor.half() for name, tensor in t.items()}))
    found, exact = load_model(folder), load_model(sound)
    assert found.certificate.dtype == "float16"
    for mine, theirs in zip(found.model.parameters(), exact.model.parameters(), strict=True):
        assert mine.dtype == torch.float32 and torch.equal(mine, theirs.half().float())


def test_tied_tensors_that_differ_are_named(folder):
    table = "transformer.wte.weight"
    changed(folder, lambda t: t.update({"lm_head.weight": t[table].clone()}))
    assert load_model(folder).certificate.tied == ("lm_head.weight",)
    changed(folder, lambda t: t["lm_head.weight"].add_(1))
    with pytest.raises(
        ConfigError, match=f"lm_head.weight differs from {table}, and config.json ties the two"
    ):
        load_model(folder)


def test_old_names_are_understood(folder, tmp_path):
    """The published GPT-2 has no prefix and holds its masks; the published BERT says gamma and beta."""
    from attnlab.interop.foreign import load_model

    expected = load_model(folder).model.state_dict()

    def old(t):
        for name in list(t):
            t[name.removeprefix("transformer.")] = t.pop(name)
        t["h.0.attn.bias"] = torch.ones(1, 1, 4, 4).tril()

    changed(folder, old)
    found = load_model(folder)
    assert found.certificate.unused == ("h.0.attn.bias",)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in found.model.state_dict().items())
    theirs = tmp_path / "bert"
    published(theirs, "bert, pretraining")
    expected = load_model(theirs).model.state_dict()

    def older(t):
        for name in [n for n in t if "LayerNorm" in n]:
            t[name.replace("weight", "gamma").replace("bias", "beta")] = t.pop(name)

    changed(theirs, older)
    found = load_model(theirs).model.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in found.items())


def settings(folder, **changes):
    file = folder / "config.json"
    held = json.loads(file.read_text())
    file.write_text(json.dumps(held | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gtp2"}, r'there is no "gtp2". Did you mean "gpt2"'),
        ({"model_type": None}, 'there is no "None"'),
        ({"architectures": ["GPT2Tagger"]}, 'there is no "GPT2Tagger"'),
        ({"activation_function": "selu"}, "activation_function = 'selu', which is not known here"),
        ({"scale_attn_by_inverse_layer_idx": True}, "all layers have one scale here"),
        ({"n_layer": 3}, r"transformer.h.2.ln_1.weight is missing"),
        ({"n_layer": 1}, r"transformer.h.1.attn.c_attn.bias is unused"),
        ({"n_head": 5}, "not divisible by model.heads 5"),
        ({"n_embd": "wide"}, "n_inner|model.width takes a whole number"),
        ({"n_positions": 41}, r"wpe.weight has shape \[40, 24\], and config.json asks for \[41, 24\]"),
        ({"vocab_size": 66}, r"wte.weight has shape \[67, 24\]"),
    ],
)
def test_settings_that_do_not_fit_are_named(folder, changes, message):
    settings(folder, **changes)
    with pytest.raises(ConfigError, match=message):
        load_model(folder)


def test_a_foreign_tokenizer_is_refused(folder, tmp_path):
    def refused(made, message, **files):
        made.save(str(folder / "tokenizer.json"))
        for name, content in files.items():
            (folder / f"{name}.json").write_text(json.dumps(content))
        with pytest.raises(ConfigError, match=f"does not belong to this model: .*{message}"):
            convert(folder, tmp_path / "ours")
        assert not (tmp_path / "ours").exists()

    refused(tokenizer("gpt2", [*WORDS, "more"], size=V + 1), "it has 68 tokens, and the model 67")
    named = {"special_tokens_map": {"eos_token": {"content": "<|endoftext|>"}}}
    refused(
        tokenizer("gpt2"),
        r"the folder's eos token is <\|endoftext\|>, which it does not have",
        **named,
    )
    (folder / "special_tokens_map.json").unlink()
    refused(
        tokenizer("t5"),
        "config.json has bos_token_id 1|eos_token_id 2",
        tokenizer_config={"bos_token": "<unk>"},
    )
    (folder / "tokenizer_config.json").unlink()
    plain = tokenizer("gpt2")
    held = json.loads(plain.to_str())
    vocabulary = held["model"]["vocab"]
    vocabulary["</s>"], vocabulary["w9"] = vocabulary["w9"], 2
    for added in held["added_tokens"]:
        added["id"] = vocabulary[added["content"]]
    refused(type(plain).from_str(json.dumps(held)), "eos_token_id 2, which is its ordinary token 'w9'")
    found = convert(folder, tmp_path / "ours", accept=["tokenizer"])
    assert any(note.startswith("accepted: config.json has eos_token_id 2") for note in found.notes)


def test_another_tokenizer_of_the_same_size_is_found_by_its_fingerprint(folder, tmp_path):
    convert(folder, tmp_path / "ours")
    convert(tmp_path / "ours", tmp_path / "theirs again")
    tokenizer("gpt2", [*reversed(WORDS)]).save(str(tmp_path / "theirs again" / "tokenizer.json"))
    with pytest.raises(ConfigError, match="the folder's fingerprint is"):
        convert(tmp_path / "theirs again", tmp_path / "back")


def test_a_folder_without_a_tokenizer_asks_for_one(folder, tmp_path):
    (folder / "tokenizer.json").rename(tmp_path / "mine.json")
    with pytest.raises(ConfigError, match="Give the model's tokenizer with --tokenizer"):
        convert(folder, tmp_path / "ours")
    convert(folder, tmp_path / "ours", tokenizer=tmp_path / "mine.json")
