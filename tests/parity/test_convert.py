"""`attnlab convert`: in, opened, asked, and out again; runs of our own given to transformers."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.config.values import ConfigError
from attnlab.generation.request import Request
from attnlab.runs.faults import RunError
from attnlab.session.convert import convert
from attnlab.session.trained import Trained
from attnlab.session.writing import write
from tests.parity.folders import published
from tests.parity.theirs import CAUSAL, MASKED, SEQ2SEQ
from tests.training.small_run import config, for_task, merged, train

TEXT = "w3 w14 w15 w9 w26"


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2", "bert", "roberta", "distilbert", "t5"])
def test_a_published_folder_is_opened_asked_and_given_back(name, tmp_path):
    theirs = published(tmp_path / "theirs", name)
    certificate = convert(tmp_path / "theirs", tmp_path / "ours")
    assert certificate.parameters == sum(p.numel() for p in theirs.parameters())
    trained = Trained.at(tmp_path / "ours")
    ids = torch.tensor([trained.tokenizer.form.single(trained.tokenizer.encode(TEXT))])
    given = AutoTokenizer.from_pretrained(tmp_path / "theirs")
    assert given(TEXT)["input_ids"] == trained.tokenizer.form.single(trained.tokenizer.encode(TEXT)) or (
        name in ("gpt2", "llama", "qwen2")  # theirs adds nothing; ours ends a text
    )
    told = {"max_new_tokens": 8, "do_sample": False, "attention_mask": torch.ones_like(ids)}
    if name in CAUSAL:
        ids = torch.tensor([trained.prompt(TEXT)])
        expected = theirs.generate(ids, **told | {"attention_mask": torch.ones_like(ids)})[0, ids.shape[1] :]
        written = write(trained, [TEXT], Request(rule="greedy", length=8))[0]
        assert [*written.new, *[2] * written.stopped] == expected.tolist()
    elif name in SEQ2SEQ:
        expected = theirs.generate(ids, **told)[0, 1:]
        written = write(trained, [TEXT], Request(rule="greedy", length=8))[0]
        assert [*written.new, *[1] * written.stopped] == expected.tolist()
    else:
        assert name in MASKED
        filled = trained.fill("w3 [MASK] w15", top=1)[0][0]
        before, after = map(trained.tokenizer.encode, ("w3", "w15"))
        marked = torch.tensor([trained.tokenizer.form.single([*before, 4, *after])])
        with torch.no_grad():
            found = theirs(marked).logits[0, 2].softmax(-1)
        assert filled[1] == pytest.approx(float(found.max()), rel=1e-4)
    convert(tmp_path / "ours", tmp_path / "again")
    back = type(theirs).from_pretrained(tmp_path / "again").state_dict()
    assert all(torch.equal(tensor, back[key]) for key, tensor in theirs.state_dict().items())
    assert AutoTokenizer.from_pretrained(tmp_path / "again")(TEXT)["input_ids"] == given(TEXT)["input_ids"]


@pytest.mark.parametrize("name", ["bert, next sentence", "roberta, classes"])
def test_pairs_are_joined_typed_and_judged_as_theirs(name, tmp_path):
    theirs = published(tmp_path / "theirs", name)
    convert(tmp_path / "theirs", tmp_path / "ours")
    trained = Trained.at(tmp_path / "ours")
    first, second = map(trained.tokenizer.encode, ("w3 w14 w15", "w9 w26"))
    ids, types = trained.tokenizer.form.pair(first, second), trained.tokenizer.form.pair_types(3, 2)
    given = AutoTokenizer.from_pretrained(tmp_path / "theirs")(
        "w3 w14 w15", "w9 w26", return_tensors="pt", return_token_type_ids=True
    )
    assert given["input_ids"][0].tolist() == ids and given["token_type_ids"][0].tolist() == types
    with torch.no_grad():
        found = trained.model(torch.tensor([ids]), types=torch.tensor([types]))
        torch.testing.assert_close(found, theirs(**given).logits, rtol=1e-4, atol=1e-5)


CHANGES = {
    "as mini-gpt: sinusoidal, scaled": {},
    "learned": {"model": {"positions": "learned"}},
    "as modern-mini": {
        "model": {"positions": "rotary", "norm": "rms", "feedforward": "swiglu", "bias": False}
    },
    "grouped": {
        "model": {
            "positions": "rotary",
            "norm": "rms",
            "feedforward": "swiglu",
            "bias": False,
            "projections": "grouped(shared=1)",
            "head_width": 6,
        }
    },
}


@pytest.mark.parametrize("name", CHANGES)
def test_runs_of_our_own_are_loaded_by_transformers(name, tmp_path):
    train(config(tmp_path, **merged({"training": {"budget": {"steps": 3}}}, CHANGES[name])), tmp_path / "run")
    convert(tmp_path / "run", tmp_path / "theirs")
    trained = Trained.at(tmp_path / "run")
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "theirs").eval()
    ids = torch.randint(0, trained.tokenizer.size, (2, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(trained.model(ids), theirs(ids).logits, rtol=1e-4, atol=1e-5)
    text = "the cat sees a dog ."
    given = AutoTokenizer.from_pretrained(tmp_path / "theirs")
    assert given(text, add_special_tokens=False)["input_ids"] == trained.tokenizer.encode(text)
    # and back again, as a model from elsewhere
    convert(tmp_path / "theirs", tmp_path / "back")
    again = Trained.at(tmp_path / "back")
    with torch.no_grad():
        torch.testing.assert_close(again.model(ids), trained.model(ids), rtol=1e-4, atol=1e-5)
    assert again.tokenizer.fingerprint == trained.tokenizer.fingerprint


def test_a_masked_run_becomes_a_bert(tmp_path):
    model = {
        "positions": "learned",
        "residual": "post",
        "embedding_norm": True,
        "token_types": 2,
        "output": {"kind": "language_model", "bias": True, "transform": "dense"},
    }
    changes = merged(for_task("masked", tmp_path), {"model": model, "training": {"budget": {"steps": 2}}})
    train(config(tmp_path, **changes), tmp_path / "run")
    convert(tmp_path / "run", tmp_path / "theirs")
    trained = Trained.at(tmp_path / "run")
    theirs = AutoModelForMaskedLM.from_pretrained(tmp_path / "theirs").eval()
    assert type(theirs).__name__ == "BertForMaskedLM"
    ids = torch.randint(0, trained.tokenizer.size, (2, 12), generator=torch.Generator().manual_seed(0))
    types = (torch.arange(12) > 5).long().expand(2, -1)
    with torch.no_grad():
        found, expected = trained.model(ids, types=types), theirs(ids, token_type_ids=types).logits
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_what_others_have_no_layout_for_is_refused_with_the_reason(tmp_path):
    changes = {
        "model": {"attention": "additive", "positions": "learned"},
        "training": {"budget": {"steps": 2}},
    }
    train(config(tmp_path, **changes), tmp_path / "run")
    with pytest.raises(
        ConfigError, match=r"nearest is GPT2\w+, but model.attention.kind is additive, there dot"
    ):
        convert(tmp_path / "run", tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_embeddings_are_means_over_real_tokens(tmp_path):
    theirs = published(tmp_path / "theirs", "bert, bare")
    convert(tmp_path / "theirs", tmp_path / "ours")
    texts = [TEXT, "w1", "w2 w3 w4 w5 w6 w7 w8", "w40 w41"]
    found = Trained.at(tmp_path / "ours").embed(texts, batch=3)
    given = AutoTokenizer.from_pretrained(tmp_path / "theirs", pad_token="[PAD]")
    inputs = given(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = theirs(**inputs).last_hidden_state
    share = inputs["attention_mask"][..., None].float()
    expected = torch.nn.functional.normalize((hidden * share).sum(1) / share.sum(1), dim=-1)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_new_head_leaves_the_trunk_as_it_was(tmp_path):
    theirs = published(tmp_path / "theirs", "bert, pretraining")
    found = convert(tmp_path / "theirs", tmp_path / "ours", output="classification(classes=3)")
    assert set(found.new) == {"head.scores.weight", "head.scores.bias"}
    assert {"cls.seq_relationship.weight", "bert.pooler.dense.bias"} <= set(found.unused)
    trained = Trained.at(tmp_path / "ours")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        torch.testing.assert_close(
            trained.model.trunk(ids), theirs.bert(ids).last_hidden_state, rtol=1e-4, atol=1e-5
        )


def test_the_command_tells_what_became_of_every_tensor(tmp_path):
    published(tmp_path / "theirs", "gpt2")
    run = CliRunner().invoke(app, ["convert", str(tmp_path / "theirs"), str(tmp_path / "ours")])
    assert run.exit_code == 0, run.output
    assert "28 tensors loaded, 0 tied, 0 new, 0 unused" in run.output
    told = CliRunner().invoke(app, ["generate", str(tmp_path / "ours"), "w3 w4", "--length", "4", "--json"])
    assert told.exit_code == 0, told.output
    scored = CliRunner().invoke(app, ["evaluate", str(tmp_path / "ours"), "--probe", "w3 w4", "--json"])
    assert json.loads(scored.stdout)["probes"][0]["tokens"] == 2, scored.output
    again = CliRunner().invoke(app, ["convert", str(tmp_path / "theirs"), str(tmp_path / "ours")])
    assert isinstance(again.exception, ConfigError) and "not empty" in str(again.exception)


def test_a_checkpoint_that_answers_otherwise_is_not_believed(tmp_path):
    """A silent mistake: the hash is right, the code is not."""
    published(tmp_path / "theirs", "gpt2")
    convert(tmp_path / "theirs", tmp_path / "ours")
    record = json.loads((tmp_path / "ours" / "run.json").read_text())
    assert Trained.at(tmp_path / "ours").step == 0
    record["config"]["model"]["norm"]["eps"] = 0.5
    (tmp_path / "ours" / "run.json").write_text(json.dumps(record))
    with pytest.raises(RunError, match="differs from the saved one: to the fixed input it answers"):
        Trained.at(tmp_path / "ours")


def test_a_converted_folder_can_be_moved_and_is_no_run(tmp_path):
    from attnlab.runs.folder import RunFolder

    published(tmp_path / "theirs", "gpt2")
    convert(tmp_path / "theirs", tmp_path / "ours")
    shutil.move(tmp_path / "ours", tmp_path / "moved")
    trained = Trained.at(tmp_path / "moved")
    assert trained.config.data.tokenizer.options["path"] == str(tmp_path / "moved" / "tokenizer.json")
    folder = RunFolder(tmp_path / "moved")
    with (
        pytest.raises(ConfigError, match="nothing to resume"),
        folder.opened(trained.config, resume=True, versions={}),
    ):
        pass


@pytest.mark.parametrize("name", ["gpt2", "bert", "t5"])
def test_a_published_folder_is_opened_as_it_stands(name, tmp_path):
    published(tmp_path / "theirs", name)
    convert(tmp_path / "theirs", tmp_path / "ours")
    before = sorted(path.name for path in (tmp_path / "theirs").iterdir())
    direct, converted = Trained.at(tmp_path / "theirs"), Trained.at(tmp_path / "ours")
    assert direct.imported and direct.checkpoint == "as it was published" and not direct.unsound
    assert direct.task.__class__ is converted.task.__class__
    weights = converted.model.state_dict()
    assert all(torch.equal(value, weights[key]) for key, value in direct.model.state_dict().items())
    asked = ["--fill", "w3 [MASK] w15"] if name == "bert" else ["w3 w14", "--rule", "greedy"]
    said = [
        CliRunner().invoke(app, ["generate", str(tmp_path / folder), *asked, "--json"])
        for folder in ("theirs", "ours")
    ]
    assert [one.exit_code for one in said] == [0, 0]
    theirs, ours = (json.loads(one.stdout) for one in said)
    assert {**theirs, "run": ""} == {**ours, "run": ""}
    lost = CliRunner().invoke(app, ["evaluate", str(tmp_path / "theirs")])  # its text is not known
    assert isinstance(lost.exception, ConfigError) and "was imported, and the text" in str(lost.exception)
    assert sorted(path.name for path in (tmp_path / "theirs").iterdir()) == before  # nothing is written there


def test_names_of_the_hub_need_the_network(tmp_path):
    with pytest.raises(ConfigError, match="the hub cannot be reached from here"):
        convert("owner/name-that-is-not-there", tmp_path / "ours")
    with pytest.raises(ConfigError, match="neither a folder nor a name of the hub"):
        convert("../not/there/at/all", tmp_path / "ours")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="neither a run"):
        convert(tmp_path / "empty", tmp_path / "ours")


def test_automodel_knows_what_was_written(tmp_path):
    published(tmp_path / "theirs", "llama")
    convert(tmp_path / "theirs", tmp_path / "ours")
    convert(tmp_path / "ours", tmp_path / "again")
    assert type(AutoModel.from_pretrained(tmp_path / "again")).__name__ == "LlamaModel"
