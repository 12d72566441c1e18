"""What `attnlab adapt` tuned, given to peft: the same predictions there, head and all."""

import json
import random
import warnings

import pytest
import torch
import transformers
from peft import PeftModel

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.session.adapting import adapting_config
from attnlab.session.trained import Trained
from tests.parity.folders import published
from tests.session.commands import answer, command
from tests.training.small_run import train

TEXTS = ["w1 w2 w3", "w9 w4", "w5 w6 w7 w8 w2 w1"]
TANH, RELU = (
    "classification(pooling=first, transform=tanh)",
    "classification(pooling=first, transform=relu)",
)
MEAN = "classification(pooling=mean)"


@pytest.fixture(autouse=True)
def quietly():
    """Their warnings are theirs: of a head that is new until the adapter brings it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    pick = random.Random(1)
    texts = [" ".join(f"w{pick.randrange(40)}" for _ in range(pick.randint(3, 9))) for _ in range(80)]
    file = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    held = ({"text": t, "label": "even" if int(t.split()[0][1:]) % 2 == 0 else "odd"} for t in texts)
    file.write_text("".join(json.dumps(row) + "\n" for row in held))
    return file


def adapted(folder, rows, name, adapter, output):
    published(folder / "theirs", name)
    quick = {"training.budget.epochs": 2.0, "training.optimizer.learning_rate": 0.02, "model.output": output}
    train(adapting_config(folder / "theirs", data=rows, adapter=adapter, set=quick), folder / "run")
    return folder / "run"


def their_chances(folder, architecture):
    """Probabilities of peft's model with the files that were written, in the order of its outputs."""
    base = getattr(transformers, architecture).from_pretrained(folder / "theirs", num_labels=2)
    model = PeftModel.from_pretrained(base, folder / "given").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "theirs")
    with torch.no_grad():
        logits = [model(input_ids=torch.tensor([tokenizer(text)["input_ids"]])).logits for text in TEXTS]
    return torch.cat(logits).softmax(-1)


@pytest.mark.parametrize(
    ("name", "adapter", "output"),
    [
        ("bert", "lora(rank=2)", TANH),
        ("bert", "prefix(tokens=3)", TANH),
        ("roberta", "lora(rank=2, targets=[query, key, down])", TANH),
        ("distilbert", "lora(rank=2)", RELU),
    ],
)
def test_peft_predicts_the_same(tmp_path, unchecked, rows, name, adapter, output):
    run = adapted(tmp_path, rows, name, adapter, output)
    said = answer("convert", run, tmp_path / "given", "--adapter")
    found = their_chances(tmp_path, said["architecture"])
    ours = [one.scores for one in Trained.at(run, which="best").predict(TEXTS)]
    expected = torch.tensor([[one["even"], one["odd"]] for one in ours])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-5)
    assert (expected.amax(0) - expected.amin(0)).max() > 1e-3, "texts differ in what is said of them"


def test_the_command_says_how_it_is_loaded(tmp_path, unchecked, rows):
    run = adapted(tmp_path, rows, "bert", "lora(rank=2)", TANH)
    said = " ".join(command("convert", run, tmp_path / "given", "--adapter").output.split())
    assert "for BertForSequenceClassification. Classes, in order: even, odd." in said
    base = f'transformers.BertForSequenceClassification.from_pretrained("{tmp_path}/theirs", num_labels=2)'
    assert f"base = {base}" in said and f'PeftModel.from_pretrained(base, "{tmp_path}/given")' in said
    lab.convert(run, tmp_path / "merged")
    merged = json.loads((tmp_path / "merged" / "config.json").read_text())
    assert merged["architectures"] == ["BertForSequenceClassification"], "merged, it is the same class"
    lab.convert(run, tmp_path / "again", adapter=True)
    files = ("adapter_config.json", "adapter_model.safetensors")
    assert all((tmp_path / "given" / f).read_bytes() == (tmp_path / "again" / f).read_bytes() for f in files)


@pytest.mark.parametrize(
    ("adapter", "output", "said"),
    [
        (
            "lora(rank=2)",
            MEAN,
            "trained with --set model.output.pooling=first --set model.output.transform=tanh",
        ),
        ("prompt(tokens=3)", TANH, "looks at the first virtual token"),
        ("bitfit", TANH, "no form for a bitfit adapter"),
    ],
)
def test_what_their_files_cannot_hold_is_refused_with_the_fix(
    tmp_path, unchecked, rows, adapter, output, said
):
    run = adapted(tmp_path, rows, "bert", adapter, output)
    with pytest.raises(ConfigError, match=said):
        lab.convert(run, tmp_path / "given", adapter=True)
    assert not (tmp_path / "given").exists(), "nothing is written"


def test_a_prompt_has_no_plain_weights_and_the_other_way_is_named(tmp_path, unchecked, rows):
    run = adapted(tmp_path, rows, "bert", "prefix(tokens=3)", TANH)
    with pytest.raises(ConfigError, match=r"peft's files hold it: attnlab convert .* DIR --adapter"):
        lab.convert(run, tmp_path / "plain")
