"""Files that someone made to break the reader: a clear error each, no code run, no memory taken."""

from __future__ import annotations

import json
import pickle
import shutil
import struct

import pytest
import torch

from attnlab.config.values import ConfigError
from attnlab.interop.foreign import load_model
from attnlab.session.convert import convert
from tests.parity.folders import published, tokenizer
from tests.parity.test_faults import settings


def refused(folder, message):
    with pytest.raises(ConfigError, match=message):
        load_model(folder)


def test_a_truncated_file_at_any_length(folder):
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    for length in (0, 1, 7, 8, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        refused(folder, "is not a complete safetensors file")
    file.write_bytes(whole + b"more")
    refused(folder, "is not a complete safetensors file")


def header(entries, body=b""):
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.mark.parametrize(
    "content",
    [
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 50) + b"{" * 50,
        header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 2**62]}}),
        header({"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]}}, bytes(8)),
        header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}}, bytes(8)),
        header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}, bytes(8)),
        header({n: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for n in "ab"}, bytes(8)),
        header({"a": {"dtype": "CODE", "shape": [2], "data_offsets": [0, 8]}}, bytes(8)),
        b"\x80\x04" + bytes(100),
    ],
    ids=["huge header", "nested", "beyond", "overflow", "negative", "backwards", "overlap", "type", "pickle"],
)
def test_hostile_headers(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    refused(folder, "is not a complete safetensors file")


def test_json_of_absurd_depth_and_size(folder, monkeypatch):
    file = folder / "config.json"
    file.write_text("[" * 200_000 + "]" * 200_000)
    refused(folder, "nested too deep|is not JSON")
    file.write_text('{"model_type": ' * 100_000 + "1" + "}" * 100_000)
    refused(folder, "nested too deep|is not JSON")
    with file.open("wb") as stream:
        stream.truncate(1 << 34)  # sparse: nothing is written
    refused(folder, "too large: .* limit 16,777,216 bytes")
    file.write_text('["gpt2"]')
    refused(folder, "must hold a JSON object, not a list")
    file.write_bytes(b"\xff\xfe\x00")
    refused(folder, "is not JSON")
    file.write_text('{"model_type": "gpt2", "n_embd": ' + "9" * 5000 + "}")
    refused(folder, "it has a whole number of more than 4,300 digits")


@pytest.mark.parametrize(
    "changes",
    [
        {"vocab_size": 10**15},
        {"n_embd": 10**12, "n_head": 7},
        {"n_layer": 10**9},
        {"n_positions": 10**18},
        {"n_positions": 2**63},
        {"n_inner": 10**18},
        {"n_inner": 10**400},
        {"n_embd": 10**400, "n_inner": 8},
        {"n_head": 10**12},
        {"n_embd": 0},
        {"n_embd": -24},
        {"n_layer": 0},
        {"n_embd": True},
        {"n_embd": None},
        {"n_embd": [24]},
        {"n_inner": {"a": 1}},
        {"vocab_size": 1e308},
        {"layer_norm_epsilon": "small"},
        {"layer_norm_epsilon": -1.0},
        {"resid_pdrop": 7},
        {"architectures": [{"a": []}]},
        {"activation_function": ["gelu"]},
    ],
    ids=str,
)
def test_settings_of_absurd_size_or_type(folder, changes):
    """In a moment: nothing is built or allocated that the file does not hold."""
    settings(folder, **changes)
    refused(folder, None)


def test_more_than_the_memory_is_refused_before_it_is_taken(folder, monkeypatch):
    monkeypatch.setattr("attnlab.config.memory.machine_bytes", lambda: 10_000)
    refused(folder, r"needs .* GiB as float32, and this machine has")


@pytest.mark.parametrize(
    "name",
    ["../secret.safetensors", "/etc/passwd", "a/b.safetensors", "..", ".", "", "a\0b", 7, None, ["x"]],
    ids=repr,
)
def test_shards_stay_in_their_folder(folder, name):
    shutil.copy(folder / "model.safetensors", folder.parent / "secret.safetensors")
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"transformer.wte.weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(folder, "a shard is a file of the same folder")


@pytest.mark.parametrize(
    "held", ["[", "[1]", '{"answer": "x"}', '{"answer": [{}]}', '{"answer": [1]}', "[" * 99_999]
)
def test_metadata_that_is_no_answer_of_ours_is_left_alone(folder, held):
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt", "attnlab": held})
    assert load_model(folder).certificate.loaded


def test_shards_are_read_and_a_lost_one_is_named(tmp_path):
    theirs = published(tmp_path / "theirs", "gpt2")
    theirs.save_pretrained(tmp_path / "sharded", max_shard_size="15KB")
    files = sorted((tmp_path / "sharded").glob("model-*.safetensors"))
    assert len(files) > 2
    whole, parts = load_model(tmp_path / "theirs").model, load_model(tmp_path / "sharded").model
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), parts.parameters(), strict=True))
    shutil.copy(files[0], files[0].with_name("copy.safetensors"))
    index = tmp_path / "sharded" / "model.safetensors.index.json"
    held = json.loads(index.read_text())
    index.write_text(json.dumps(held | {"weight_map": held["weight_map"] | {"x": "copy.safetensors"}}))
    refused(tmp_path / "sharded", "is in two of the files")
    index.write_text(json.dumps(held))
    files[1].unlink()
    refused(tmp_path / "sharded", f"lacks {files[1].name}")
    index.write_text("{}")
    refused(tmp_path / "sharded", "names no tensors")


class Bomb:
    def __reduce__(self):
        import pathlib

        return pathlib.Path.touch, (pathlib.Path("pwned"),)


def as_old(folder, content):
    (folder / "model.safetensors").unlink(missing_ok=True)
    torch.save(content, folder / "pytorch_model.bin")


def test_pickles_give_tensors_and_run_nothing(folder, sound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from safetensors.torch import load_file

    tensors = load_file(folder / "model.safetensors")
    as_old(folder, tensors | {"lm_head.weight": tensors["transformer.wte.weight"]})
    found, expected = load_model(folder), load_model(sound)
    assert found.certificate.tied == ("lm_head.weight",)
    same = zip(found.model.parameters(), expected.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in same)
    as_old(folder, tensors | {"bomb": Bomb()})
    refused(folder, "needs code to be executed")
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"bomb": Bomb()}))
    refused(folder, "needs code to be executed|not a complete file")
    assert not (tmp_path / "pwned").exists()
    as_old(folder, [1, 2])
    refused(folder, "holds a list")
    as_old(folder, tensors | {"step": 3})
    refused(folder, "only tensors are read")
    as_old(folder, tensors | {"transformer.wte.weight": torch.ones(1).expand(10**12, 24)})
    refused(folder, "less data than the shape of transformer.wte.weight asks for")
    as_old(folder, tensors)
    whole = (folder / "pytorch_model.bin").read_bytes()
    for length in (0, 3, 500, len(whole) // 2):
        (folder / "pytorch_model.bin").write_bytes(whole[:length])
        refused(folder, "not a complete file of tensors|needs code")


NOWHERE = {"single": [{"SpecialToken": {"id": "zz", "type_id": 0}}], "pair": [], "special_tokens": {}}


def sound_but(part, broken):
    return json.dumps(json.loads(tokenizer("gpt2").to_str()) | {part: broken})


def test_hostile_tokenizers(folder, tmp_path):
    file = folder / "tokenizer.json"
    for content in (
        '{"model": ' * 100_000 + "1" + "}" * 100_000,
        "{}",
        '{"model": {"type": "WordLevel", "vocab": {"a": -1}, "unk_token": "a"}}',
        '{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["x", "y"]]}}',
        "\0",
        sound_but(
            "normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
        ),  # a panic in the library
        sound_but("post_processor", {"type": "TemplateProcessing", **NOWHERE}),  # a panic when it is used
    ):
        file.write_text(content)
        with pytest.raises(ConfigError):
            convert(folder, tmp_path / "ours")
    with file.open("wb") as stream:
        stream.truncate(1 << 34)
    with pytest.raises(ConfigError, match="too large"):
        convert(folder, tmp_path / "ours")
