"""A model adapted by default is loaded by sentence-transformers in two lines, and says the same there."""

import json
import warnings

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from attnlab.config.files import plain, section_of
from attnlab.config.values import ConfigError
from attnlab.interop import read_back, sentence_layout
from attnlab.interop.exchange import export_plan
from attnlab.interop.foreign import NoLayoutError, class_layout_of, layout_of, load_model, read_settings
from attnlab.runs.faults import UnsoundError
from attnlab.session.adapting import adapting_config
from attnlab.session.adapting_plan import export_sentence
from attnlab.session.convert import convert
from attnlab.session.trained import Trained
from tests.parity.folders import published
from tests.parity.test_given_adapters import MEAN, TANH, TEXTS, adapted, rows  # noqa: F401 - a fixture
from tests.session.commands import command
from tests.training.small_run import set_up, train

QUICK = {"training.budget.epochs": 2.0, "training.optimizer.learning_rate": 0.02}


@pytest.fixture(autouse=True)
def quietly():
    """Their warnings are theirs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def adapted_run(folder, rows, name, *, adapter="full", **asked):  # noqa: F811
    published(folder / "theirs", name)
    wanted = adapting_config(folder / "theirs", data=rows, adapter=adapter, **{"set": QUICK} | asked)
    train(wanted, folder / "run")
    return folder / "run"


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "gpt2", "llama", "t5"])
def test_sentence_transformers_scores_texts_as_the_run_does(tmp_path, unchecked, rows, name):  # noqa: F811
    """In one padded batch there, and in a folder that attnlab opens again."""
    run = adapted_run(tmp_path, rows, name)
    certificate = convert(run, tmp_path / "given")
    assert certificate.library == "sentence-transformers"
    assert any("sentence-transformers" in note and "agree" in note for note in certificate.notes)
    theirs = SentenceTransformer(str(tmp_path / "given"), device="cpu")
    chances = torch.tensor(theirs.encode(TEXTS, batch_size=len(TEXTS))).softmax(-1)
    predicted = Trained.at(run).predict(TEXTS)
    names = list(json.loads((tmp_path / "given" / "config.json").read_text())["id2label"].values())
    expected = torch.tensor([[each.scores[name] for name in names] for each in predicted])
    torch.testing.assert_close(chances, expected, rtol=1e-4, atol=2e-5)
    assert (expected.amax(0) - expected.amin(0)).max() > 1e-3, "texts differ in what is said of them"
    again = Trained.at(tmp_path / "given")
    for each, here in zip(again.predict(TEXTS), predicted, strict=True):
        assert each.scores == pytest.approx(here.scores, rel=1e-4, abs=2e-5)


def test_numbers_are_in_their_own_unit_and_a_head_with_an_activation_has_two_layers(
    tmp_path,
    unchecked,
    rows,  # noqa: F811
):
    file = tmp_path / "sizes.jsonl"
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    file.write_text("".join(json.dumps(r | {"label": 40 + 7 * len(r["text"])}) + "\n" for r in lines))
    output = {"model.output": "classification(pooling=mean, transform=relu)"}
    run = adapted_run(tmp_path, file, "bert", task="regression", set=QUICK | output)
    convert(run, tmp_path / "given")
    numbers = SentenceTransformer(str(tmp_path / "given"), device="cpu").encode(TEXTS)[:, 0]
    expected = [each.answer for each in Trained.at(run).predict(TEXTS)]
    assert numbers.tolist() == pytest.approx(expected, rel=1e-4) and min(expected) > 20
    assert (tmp_path / "given" / "3_Dense").is_dir()


def test_a_model_of_similarity_gives_the_same_vectors(tmp_path, unchecked):
    file = tmp_path / "pairs.jsonl"
    pairs = [{"a": f"w{n} w{n + 1} w7", "b": f"w{n + 1} w{n}"} for n in range(40)]
    file.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    last = {"model.output": "sentence(pooling=last)"}
    reading = {"text": "a", "pair": "b"}
    run = adapted_run(tmp_path, file, "bert", task="similarity", reading=reading, set=QUICK | last)
    convert(run, tmp_path / "given")
    vectors = torch.tensor(SentenceTransformer(str(tmp_path / "given"), device="cpu").encode(TEXTS))
    torch.testing.assert_close(vectors, Trained.at(run).embed(TEXTS), rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def run(tmp_path_factory, rows):  # noqa: F811
    folder = tmp_path_factory.mktemp("mean")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnlab.session.soundness.run_checks", lambda case, names=(): [])
        yield adapted(folder, rows, "bert", "full", MEAN)


@pytest.mark.parametrize("by", ["sentence-transformers", "transformers", "attnlab"])
def test_a_module_that_is_written_otherwise_is_found_and_deleted(tmp_path, monkeypatch, run, by):
    """Whoever reads it back: with sentence-transformers, with transformers alone, and with neither."""
    if by != "sentence-transformers":
        monkeypatch.setattr(read_back, "find_spec", lambda name: None)
    if by == "attnlab":
        monkeypatch.setattr(read_back, "ByModules", not_installed)
    notes = convert(run, tmp_path / "sound").notes
    assert any(note.startswith(f"read again by {by}") for note in notes), notes
    written = sentence_layout.POOLINGS | {"mean": "cls_token"}
    with monkeypatch.context() as patch:
        patch.setattr(sentence_layout, "POOLINGS", written)
        with pytest.raises(UnsoundError, match="what was written is not what was trained"):
            convert(run, tmp_path / "given")
    assert not (tmp_path / "given").exists()


def not_installed(folder):
    raise read_back.NotLoadedError("transformers", "transformers is not installed")


def test_a_folder_that_was_changed_is_not_believed(tmp_path, run):
    convert(run, tmp_path / "given")
    dense = tmp_path / "given" / "2_Dense" / "model.safetensors"
    sound = load_file(dense)
    save_file({"linear.weight": sound["linear.weight"].flip(0), "linear.bias": sound["linear.bias"]}, dense)
    with pytest.raises(ConfigError, match="does not hold the model that was saved"):
        load_model(tmp_path / "given")
    dense.unlink()
    with pytest.raises(ConfigError, match=r"lacks 2_Dense/model.safetensors, which modules.json names"):
        load_model(tmp_path / "given")


def test_other_modules_are_left_to_those_who_know_them(tmp_path, run):
    """A folder with an activation that is not ours is read as a trunk, as before."""
    convert(run, tmp_path / "given")
    file = tmp_path / "given" / "2_Dense" / "config.json"
    file.write_text(file.read_text().replace("linear.Identity", "activation.GELU"))
    assert read_settings(tmp_path / "given").output.kind == "features"


# ---------------------------------------------------------------- said beforehand
def test_it_is_said_before_training_what_a_run_will_be_exported_to(tmp_path, rows):  # noqa: F811
    published(tmp_path / "theirs", "bert")
    said = {}
    for adapter, output in (
        ("full", MEAN),
        ("lora", TANH),
        ("prompt(tokens=2)", TANH),
        ("prompt(tokens=2)", MEAN),
    ):
        wanted = {"model.output": output}
        session = set_up(adapting_config(tmp_path / "theirs", data=rows, adapter=adapter, set=wanted))
        plan = export_plan(session.model, session.config.model, session.labels)
        said[adapter, output] = plan.library, plan.architecture, plan.class_settings
        assert export_sentence(plan).startswith("attnlab convert will")
    tanh = "--set model.output.pooling=first --set model.output.transform=tanh"
    assert said["full", MEAN] == ("sentence-transformers", "BertModel", tanh)
    assert said["lora", TANH] == ("transformers", "BertForSequenceClassification", "")
    assert said["prompt(tokens=2)", TANH] == ("peft", "BertForSequenceClassification", "")
    assert said["prompt(tokens=2)", MEAN] == ("", "", "")
    ended = command(
        "adapt",
        tmp_path / "theirs",
        "--data",
        rows,
        "--out",
        tmp_path / "x",
        "--set",
        "training.budget.steps=1",
    )
    said_first = " ".join(ended.output.split())
    assert f"(BertModel, mean pooling, dense layer); for one class of transformers: {tanh}." in said_first


def test_a_refusal_names_settings_that_can_be_exported(tmp_path):
    changes = {"positions": "rotary", "feedforward": "swiglu", "bias": [], "attention": "linear"}
    refused = section_of("model", plain(layout_settings(tmp_path)) | changes)
    with pytest.raises(NoLayoutError) as error:
        layout_of(refused)
    settings = {misfit.setting for misfit in error.value.misfits}
    assert "model.attention=dot" in settings and all(
        f"--set {s}" in str(error.value) for s in settings if "[" not in s
    )
    mended = plain(refused)
    for setting in settings:
        name, _, value = setting.removeprefix("model.").partition("=")
        mended = put_in(mended, name.split("."), value)
    assert layout_of(section_of("model", mended))
    with pytest.raises(NoLayoutError):
        class_layout_of(section_of("model", plain(layout_settings(tmp_path))))


def layout_settings(folder):
    published(folder / "theirs", "bert, bare")
    return section_of(
        "model",
        plain(read_settings(folder / "theirs")) | {"output": "classification(pooling=mean, classes=2)"},
    )


def put_in(settings, path, value):
    """The settings with this one, written as --set takes it."""
    if len(path) > 1:
        return settings | {path[0]: put_in(settings[path[0]], path[1:], value)}
    try:
        return settings | {path[0]: json.loads(value)}
    except ValueError:
        return settings | {path[0]: value}
