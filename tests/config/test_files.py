import json
import re

import pytest

from attnlab.config.files import config_of, identity, load, to_json
from attnlab.config.values import Choice, ConfigError
from attnlab.model.assemble import build_model
from attnlab.session.session import draft_settings

TOML = """
seed = 3
[model]
width = 96
attention = { kind = "group", groups = 2, inner = "linear" }
mask = "causal"
"""


def test_a_file_with_overrides_is_complete(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(TOML)
    config = load(file, set=["model.attention.groups=3", "model.heads=6", "model.norm=rms"])
    assert (config.seed, config.model.width, config.model.heads) == (3, 96, 6)
    assert str(config.model.attention) == "group(inner=linear(feature=elu), groups=3, by=position)"
    assert config.model.norm.options == {"eps": 1e-6}


def test_the_resolved_json_reads_back_to_the_same_config():
    config = load(set=["model.attention=group(inner=linear)", "model.mask=causal & window(size=8) | source"])
    again = config_of(json.loads(json.dumps(to_json(config))))
    assert to_json(again) == to_json(config) and identity(again) == identity(config)


def test_identity_is_of_meaning_not_of_spelling():
    plain = identity(load())
    assert identity(load(set=["model.attention=dot"])) == plain
    assert identity(load(set=['model.attention={kind="dot", scale="root"}'])) == plain
    assert identity(load(set={"model.attention": "dot(softcap=0.0)"})) == plain
    assert identity(load(set=["model.attention=dot(softcap=1.0)"])) != plain
    assert identity(load(set=["seed=1"])) != plain


def test_settings_that_came_later_are_not_in_the_record_at_their_defaults():
    """Folders, hashes and records of before stay equal: these are of the version without model.trunk."""
    before = {
        "mini-gpt": "17c8e39b15748774",
        "bert-mini": "61b4d0767b01b486",
        "seq2seq-mini": "9c77b1c2039691db",
    }
    assert {name: identity(load(name)) for name in before} == before
    assert "trunk" not in to_json(load())["model"]
    assert identity(load(set=["model.trunk=transformer"])) == identity(load())


LAYERED = ["group(groups=4)", "group(groups=4)", "dot", "dot"]


def test_attention_for_each_layer_is_the_same_however_written(tmp_path):
    (file := tmp_path / "run.toml").write_text(f"[model]\nattention = {json.dumps(LAYERED)}\n")
    config = load(file)
    assert [choice.kind for choice in config.model.attention] == ["group", "group", "dot", "dot"]
    assert config.model.attention[0].options["groups"] == 4
    for written in (json.dumps(LAYERED), "[group(groups=4), group(groups=4), dot, dot]"):
        assert load(set=[f"model.attention={written}"]) == config
    tables = [{"kind": "group", "groups": 4}, Choice("group", {"groups": 4}), "dot", Choice("dot")]
    assert load(set={"model.attention": tables}) == config
    again = config_of(json.loads(json.dumps(to_json(config))))
    assert again == config and identity(again) == identity(config) != identity(load())


def test_equal_attention_for_each_layer_is_one_choice():
    config = load(set=["model.attention=[dot, dot(scale=root), dot, dot]"])
    assert config == load() and identity(config) == identity(load())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["model.attention=[dot, linear]"],
            "model.attention has 2 entries, and model.layers is 4; give one entry for each layer, or a "
            "single choice for all, or set model.layers to 2",
        ),
        (["model.attention=[]"], "model.attention has 0 entries"),
        (["model.attention=[dot, liner, dot, dot]"], 'model.attention[1]: there is no "liner". Did you mean'),
        (
            ["model.attention=[dot, dot, linear, dot(scales=1)]"],
            'model.attention[3]: options of dot: there is no "scales"',
        ),
        (["model.attention=[dot, linear, dot(, dot]"], "cannot be read"),
        (
            ["model.layers=2", "model.attention=[dot, linear]", "model.attention.scale=1.0"],
            "--set model.attention.scale: model.attention is a list with one entry for each layer",
        ),
        (["model.cross_attention=[dot, linear]"], "model.cross_attention"),
    ],
)
def test_wrong_attention_for_each_layer_is_refused(settings, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        load(set=settings)


def test_each_layer_is_refused_by_its_own_parts():
    """Linear forms no scores to add a bias to; it is the last layer alone that has it."""
    settings = {"model.layers": 2, "model.attention": ["dot", "linear"], "model.positions": "alibi"}
    with pytest.raises(ConfigError, match=r"model\.attention\[1\]: An attention that forms no scores"):
        build_model(draft_settings(load(set=settings)), device="meta")


def test_families_bring_their_mask_unless_one_is_given():
    assert load(set=["model.family=encoder"]).model.mask.kind == "bidirectional"
    assert load(set=["model.family=encoder", "model.mask=prefix"]).model.mask.kind == "prefix"
    assert load().model.mask.kind == "causal"


def test_presets_can_be_changed(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text('[model]\npreset = "bert"\nlayers = 2\n')
    config = load(file)
    assert (config.model.layers, config.model.width, config.model.family) == (2, 768, "encoder")
    assert config.model.norm.options["eps"] == 1e-12
    assert "preset" not in to_json(config)["model"]


def test_an_option_is_set_on_the_choice_that_the_preset_made():
    llama = load("llama", set={"model.norm.eps": 1e-5, "model.feedforward.expand": 2.0}).model
    assert str(llama.norm) == "rms(eps=1e-05)" and llama.feedforward.kind == "swiglu"
    t5 = load(set=["model.positions.buckets=16", "model.preset=t5"]).model
    assert t5.positions.kind == "bucketed" and t5.positions.options["buckets"] == 16
    with pytest.raises(ConfigError, match="options of bidirectional"):
        load(set=["model.family=encoder", "model.mask.size=3"])


def test_minus_infinity_is_a_word_here():
    assert load(set=["model.masking=-inf"]).model.masking == "-inf"


def test_a_json_file_must_hold_a_table(tmp_path):
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(ConfigError, match="must hold a table of settings"):
        load(tmp_path / "list.json")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("model.atention=dot", ['"atention"', 'Did you mean "attention"?']),
        ("modle.width=3", ['"modle"', 'Did you mean "model"?']),
        ("model.attention=dott", ['"dott"', 'Did you mean "dot"?', "linear"]),
        ("model.attention=group(grops=3)", ['"grops"', 'Did you mean "groups"?']),
        ("model.attention.hidden=3", ['options of dot: there is no "hidden"']),
        ("model.heads=5", ["width 128", "heads 5", "125 or 130", "1, 2, 4, 8"]),
        ("model.width=wide", ["model.width takes a whole number", "'wide'"]),
        ("model.masking=infinity", ["-inf, zero"]),
        ("model.dropout=1", ["below 1"]),
        ("model.layers=0", ["at least 1"]),
        ("model.preset=gpt3", ['Did you mean "gpt2"?']),
        ("model.preset=[1]", ["model.preset"]),
        ("model.mask=true & causal", ["cannot be read"]),
        ("model", ["key=value"]),
        ("model=3", ["table of settings"]),
        ("seed=x", ["seed takes a whole number"]),
    ],
)
def test_mistakes_are_named_with_the_nearest_right_word(setting, words):
    with pytest.raises(ConfigError) as error:
        load(set=[setting])
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("content", ["[model", "model = ", "\x00"])
def test_a_broken_file_is_named(tmp_path, content):
    file = tmp_path / "broken.toml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"broken\.toml is not valid TOML"):
        load(file)


def test_a_missing_file_suggests_a_preset(tmp_path):
    with pytest.raises(ConfigError, match='Did you mean "roberta"'):
        load("robert")
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "latin.toml")
