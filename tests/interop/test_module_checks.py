"""Modules of other projects, asked as they are run there: sound ones pass, each fault is found and named."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import torch
import transformers
from torch import nn
from transformers.models.gpt2 import modeling_gpt2
from typer.testing import CliRunner

import attnlab as lab
from attnlab import testing
from attnlab.checks import module_subject
from attnlab.checks.paths import spread_over
from attnlab.cli import app
from attnlab.config.values import ConfigError
from tests.checks.faults import Leaky, leaking, small
from tests.parity.folders import published, tokenizer
from tests.parity.theirs import ALL, BERT


def outcomes(model, **settings):
    return {one.check: one.outcome for one in lab.check(model, whole=24, **settings)}


SOUND = ["gpt2", "llama", "bert", "roberta", "distilbert, answers", "t5", "bert, bare"]


@pytest.mark.parametrize("name", SOUND)
def test_sound_models_of_transformers_pass(name):
    found = outcomes(ALL[name].make())
    assert found["dependency"] == found["invariance"] == "pass", found
    assert found["decoding"] == ("pass" if name in ("gpt2", "llama", "t5") else "not applicable")


def everything(inputs_embeds, **_):
    """A mask that shows all of the text."""
    rows, length = inputs_embeds.shape[:2]
    return inputs_embeds.new_zeros(rows, 1, length, length)


def test_a_gpt2_without_its_mask_is_found_though_ours_is_sound(tmp_path, monkeypatch):
    published(tmp_path / "theirs", "gpt2")
    sound = CliRunner().invoke(app, ["check", str(tmp_path / "theirs"), "--all"])
    assert sound.exit_code == 0, sound.output
    for words in ("run by transformers", "run by attnlab", "run by both", "mask causal", "random token"):
        assert words in " ".join(sound.output.replace("│", " ").split()), words
    monkeypatch.setattr(modeling_gpt2, "create_causal_mask", everything)
    found = CliRunner().invoke(app, ["check", str(tmp_path / "theirs"), "--json"])
    assert found.exit_code == 1
    rows = {(one["implementation"].split()[0], one["check"]): one for one in json.loads(found.stdout)}
    assert rows["transformers", "dependency"]["outcome"] == "fail"
    assert rows["attnlab", "dependency"]["outcome"] == "pass"
    assert rows["both", "implementations"]["outcome"] == "fail"


def test_a_folder_whose_config_takes_the_mask_away_is_found(tmp_path):
    config = transformers.BertConfig(**BERT, is_decoder=False)
    transformers.BertLMHeadModel(config).save_pretrained(tmp_path / "theirs")
    found = CliRunner().invoke(app, ["check", str(tmp_path / "theirs"), "--json"])
    rows = {(one["implementation"].split()[0], one["check"]): one for one in json.loads(found.stdout)}
    assert found.exit_code == 1 and rows["transformers", "dependency"]["outcome"] == "fail"
    assert "attnlab cannot load this folder" in rows["attnlab", "dependency"]["found"]


def test_code_in_a_folder_is_not_run_and_lost_tensors_are_told(tmp_path):
    published(tmp_path / "theirs", "gpt2")
    file = tmp_path / "theirs" / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | {"auto_map": {"AutoModelForCausalLM": "mine.Mine"}}))
    (tmp_path / "theirs" / "mine.py").write_text("raise SystemExit('run')")
    found = CliRunner().invoke(app, ["check", str(tmp_path / "theirs")])
    assert "which is not executed" in " ".join(found.output.replace("│", " ").split())
    file.write_text(json.dumps(config | {"n_layer": 3}))
    found = CliRunner().invoke(app, ["check", str(tmp_path / "theirs"), "--json"])
    lost = next(one for one in json.loads(found.stdout) if one["check"] == "tensors")
    assert found.exit_code == 1 and "12 tensors are in no file and were drawn at random" in lost["found"]


def test_a_tokenizer_of_another_model_is_found():
    model = ALL["bert"].make()
    own = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer("bert"), pad_token="[PAD]")
    assert outcomes(model, tokenizer=own)["tokenizer"] == "pass"
    testing.assert_tokenizer_belongs(model, own)
    other = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer("roberta"), pad_token="<pad>")
    with pytest.raises(AssertionError, match="pad_token_id 0, and its <pad> is 1"):
        testing.assert_tokenizer_belongs(model, other)


class Mine(nn.Module):
    """Someone's own model: a running mean, or a mean over all of the row."""

    def __init__(self, leaks=False, padding=True):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.out = nn.Embedding(20, 8), nn.Linear(8, 20)
        self.leaks, self.padding = leaks, padding

    def forward(self, ids, attention_mask=None):
        x = self.table(ids)
        if self.leaks:
            x = x + x.mean(1, keepdim=True)
        steps = torch.arange(1, ids.shape[1] + 1, device=ids.device)[:, None]
        return self.out(x.cumsum(1) / steps)


def test_the_module_in_which_a_leak_begins_is_named(monkeypatch):
    """The hooks are on the copy that is asked: in transformers' own code as in ours."""
    monkeypatch.setattr(modeling_gpt2, "create_causal_mask", everything)
    (found, *_) = lab.check(ALL["gpt2"].make(), whole=24)
    assert found.outcome == "fail" and "first in transformer.h.0.attn" in found.found, found.found
    later = {(i, j) for i in range(12) for j in range(i + 1, 12)}  # all pairs of 12, in both modes
    later |= {(i, j) for j in spread_over(24) for i in range(j)}
    assert found.values["cause"] == "scores" and found.values["pairs"] == len(later)
    (found, *_) = lab.check(leaking(), whole=24)
    assert "first in trunk.decoder.blocks.0.residuals.1.inner (Leaky)" in found.found
    assert found.values["cause"] == "other"


class Attends(nn.Module):
    """Someone's own attention, in the forward of a model with no part of such a name; `diagonal` 1 is the
    mistake that people make."""

    def __init__(self, diagonal=0, layers=1):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.places, self.out = nn.Embedding(20, 8), nn.Embedding(512, 8), nn.Linear(8, 20)
        self.maps, self.diagonal = nn.ModuleList(nn.Linear(8, 24) for _ in range(layers)), diagonal

    def forward(self, ids, labels=None):
        length = ids.shape[1]
        x = self.table(ids) + self.places(torch.arange(length, device=ids.device))
        allowed = torch.ones(length, length, dtype=torch.bool, device=ids.device).tril(self.diagonal)
        for mapped in self.maps:
            q, k, v = mapped(x).chunk(3, -1)
            scores = (q @ k.mT / 8**0.5).masked_fill(~allowed, -torch.inf)
            x = x + scores.softmax(-1) @ v
        return {"logits": self.out(x)}


def forward_of(model, ids):
    return model(ids)


@pytest.mark.parametrize("forward", [None, forward_of])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_mask_that_is_off_by_one_is_not_acquitted(forward, layers):
    """It was answered "The mask is not at fault", which nobody had looked at."""
    assert lab.check(Attends(layers=layers), forward=forward, whole=24)[0].outcome == "pass"
    (found, *_) = lab.check(Attends(1, layers), forward=forward, whole=24)
    assert found.outcome == "fail" and found.values["cause"] == "between"
    assert found.values["ahead"] == layers and "in the code of Attends" in found.fix
    assert "not at fault" not in found.fix and "tril(diagonal=1)" in found.fix
    padded = lab.check(Attends(1, layers), forward=forward, whole=24)[1]
    assert padded.outcome == "fail" and "Mend what dependency names first" in padded.fix
    every = [(i, j) for i in range(12) for j in range(i + 1, min(i + layers, 11) + 1)]
    long = {(j - n, j) for j in spread_over(24) for n in range(1, layers + 1) if j - n >= 0}
    assert found.values["pairs"] == len({*every, *long}), "one pair on two paths is one pair"


class Shifted(nn.Module):
    """A layer of torch's own, or someone's own part, that looks ahead."""

    def __init__(self, own):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.out = nn.Embedding(20, 8), nn.Linear(8, 20)
        self.mixed = LooksAhead() if own else nn.GRU(8, 4, bidirectional=True, batch_first=True)

    def forward(self, ids):
        mixed = self.mixed(self.table(ids))
        return self.out(mixed[0] if isinstance(mixed, tuple) else mixed)


class LooksAhead(nn.Module):
    def forward(self, x):
        return x + x.roll(-1, 1)


def test_a_mask_is_acquitted_only_where_the_part_is_known_not_to_attend():
    (known, *_), (open_, *_) = (lab.check(Shifted(own), vocabulary=20, whole=24) for own in (False, True))
    assert known.values["cause"] == "other" and "mask is not at fault" in known.fix
    assert open_.values["cause"] == "joined" and "first in mixed (LooksAhead)" in open_.found
    assert open_.fix.startswith("This module joins positions. Where it attends, compare its mask")


class Transposed(nn.Module):
    """Attention along the batch, as layers of torch read it unless they are told otherwise."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.out = nn.Embedding(20, 8), nn.Linear(8, 20)
        self.attention = nn.MultiheadAttention(8, 2)

    def forward(self, ids):
        x = self.table(ids)
        return self.out(x + self.attention(x, x, x, need_weights=False)[0])


def test_attention_along_the_batch_is_not_blamed_on_a_norm():
    (found, *_) = lab.check(Transposed(), vocabulary=20, whole=24)
    assert "another text of the batch" in found.found and "batch_first=True" in found.fix
    assert "BatchNorm" not in found.fix


class OverBatch(Mine):
    """Statistics are taken over all texts of a batch, in one mode."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def forward(self, ids, attention_mask=None):
        scores = super().forward(ids)
        return scores - scores.mean(0, keepdim=True) / 2 * (self.training == (self.mode == "training"))


@pytest.mark.parametrize("mode", ["training", "evaluation"])
def test_texts_of_a_batch_that_see_each_other_are_found_in_any_module(mode):
    (found, *_) = lab.check(OverBatch(mode), vocabulary=20, whole=24)
    assert found.outcome == "fail" and f"in {mode}, output" in found.found
    assert "depends on another text of the batch" in found.found and "BatchNorm" in found.fix
    probed = lab.probe(OverBatch(mode), vocabulary=20, whole=24)
    assert not probed.sound and "another text of the batch" in probed.found


def test_a_model_of_ours_is_asked_in_all_of_its_own_ways():
    """It looks back by one place, whatever stands there: causal, but for padding and packed documents."""
    model = small()
    assert outcomes(model)["dependency"] == "pass"
    residual = model.trunk.decoder.blocks[0].residuals[1]
    residual.inner = Leaky(residual.inner, lambda y: torch.cat([torch.zeros_like(y[:, :1]), y[:, :-1]], 1))
    (found, *_) = lab.check(model, whole=24)
    assert found.outcome == "fail" and found.values["paths"] == ["padded on the left", "packed documents"]


def test_a_model_of_ours_is_held_to_the_mask_that_is_claimed_of_it():
    encoder = small(family="encoder")
    assert outcomes(encoder)["dependency"] == "pass"
    assert outcomes(encoder, mask="causal")["dependency"] == "fail"
    with pytest.raises(AssertionError, match="The check dependency failed"):
        testing.assert_causal(encoder)


def test_assertions_fail_with_the_words_of_the_finding(soundness):
    soundness.assert_causal(Mine(), vocabulary=20)
    soundness.assert_padding_invariant(Mine(), vocabulary=20, mask="causal")
    with pytest.raises(AssertionError, match=r"dependency failed: output \d+ .* joined in the code of Mine"):
        soundness.assert_causal(Mine(leaks=True), vocabulary=20)
    with pytest.raises(AssertionError, match=r"texts padded on the right differ by up to"):
        soundness.assert_padding_invariant(Mine(leaks=True), vocabulary=20)
    with pytest.raises(AssertionError, match="decoding could not be made: the model has no cache"):
        soundness.assert_cache_equal(Mine(), vocabulary=20)
    same = [f"a text of some words, number {n} of many" for n in range(30)]
    with pytest.raises(AssertionError, match="The check contamination failed: dev in train: 30 of 30 texts"):
        soundness.assert_not_contaminated({"train": same, "dev": same})


def test_a_cache_that_forgets_is_found(monkeypatch):
    model = ALL["gpt2"].make()
    testing.assert_cache_equal(model)
    plain = model.forward

    def forgets(input_ids=None, past_key_values=None, use_cache=None, **given):
        return plain(input_ids=input_ids, use_cache=use_cache, **given)

    model.forward = forgets
    with pytest.raises(AssertionError, match="scores for one text differ by"):
        testing.assert_cache_equal(model)


def test_a_trunk_without_a_head_has_its_cache_checked():
    model = ALL["llama, bare"].make()
    testing.assert_cache_equal(model)
    plain = model.forward

    def late(input_ids=None, past_key_values=None, use_cache=None, **given):
        """Goes wrong from the ninth token on."""
        behind = 0 if past_key_values is None else past_key_values.get_seq_length()
        output = plain(input_ids, past_key_values=past_key_values, use_cache=use_cache, **given)
        output.last_hidden_state = output.last_hidden_state * (1 + (behind == 8))
        return output

    model.forward = late
    with pytest.raises(AssertionError, match="scores for one text differ by"):
        testing.assert_cache_equal(model)


def test_a_model_that_is_too_large_to_copy_is_said_to_be_unchecked(monkeypatch):
    monkeypatch.setattr(module_subject, "COPIED", 10)
    (first, *_) = lab.check(ALL["gpt2"].make())
    assert first.outcome == "not applicable" and "parameters" in first.found
    with pytest.raises(ConfigError, match="parameters"):
        testing.assert_causal(ALL["gpt2"].make())


def test_the_plugin_loads_no_torch():
    code = "import sys, attnlab.pytest_plugin; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_what_passed_is_told_for_each_implementation_and_adds_up(tmp_path):
    """One line each; their numbers are those of the headline."""
    published(tmp_path / "theirs", "gpt2")
    lines = CliRunner().invoke(app, ["check", str(tmp_path / "theirs")]).output.splitlines()
    told = [re.match(r"✓ (\d+) pass, run by (\w+)", line) for line in lines if line.startswith("✓")]
    assert {one.group(2) for one in told} >= {"transformers", "attnlab"}
    whole = re.search(r"(\d+)(?: checks)? pass", lines[0])
    assert sum(int(one.group(1)) for one in told) == int(whole.group(1))
