"""Every export is read back and compared with the run that it came from: what is changed on the way is found,
named and deleted, whatever it is; what was changed in the folder later is found when it is checked."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
from safetensors.torch import load_file, save_file

from attnlab.interop import exchange, foreign, published_checks, read_back
from attnlab.interop.peft import adapter_files
from attnlab.model.adapters.lora import Lora
from attnlab.runs.faults import UnsoundError
from attnlab.session import convert as converting
from attnlab.session import export_checks
from attnlab.session.convert import convert, export_adapter
from attnlab.session.trained import Trained
from tests.parity.test_exports_run import SMALL
from tests.parity.test_given_adapters import TANH, adapted, rows  # noqa: F401 - a fixture
from tests.session.commands import answer, command
from tests.training.small_run import config, for_task, merged, train

HEAD = {"kind": "classification", "pooling": "first", "transform": "tanh"}
MODELS = {
    "causal": {},
    "classification": {"preset": "bert", "output": HEAD},
    "regression": {"preset": "bert", "output": HEAD},
    "tagging": {"preset": "bert"},
    "answering": {"preset": "bert", "length": 96},
    "seq2seq": {"preset": "t5", "head_width": 8, "feedforward": "relu"},
}


@pytest.fixture(autouse=True)
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each task, trained for some steps when it is first asked for."""
    made = {}

    def run(task):
        if task not in made:
            folder = tmp_path_factory.mktemp(task)
            steps = {"training": {"budget": {"steps": 6}, "evaluate_every": 6, "checkpoint_every": 6}}
            given = merged(merged(for_task(task, folder), {"model": SMALL | MODELS[task]}), steps)
            train(config(folder, **given), folder / "run")
            made[task] = folder / "run"
        return made[task]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnlab.session.soundness.run_checks", lambda case, names=(): [])
        yield run


@pytest.mark.parametrize("task", MODELS)
@pytest.mark.parametrize("installed", [True, False], ids=["transformers", "attnlab alone"])
def test_a_sound_export_is_confirmed_on_dev_texts(task, installed, runs, tmp_path, monkeypatch):
    if not installed:
        monkeypatch.setattr(read_back, "load_by_transformers", not_installed)
    certificate = convert(runs(task), tmp_path / "out")
    (note,) = [note for note in certificate.notes if note.startswith("read again")]
    assert ("by transformers" if installed else "by attnlab,") in note and "16 dev texts" in note
    assert ("class name" in note) == (task in ("classification", "tagging"))
    assert ("the threshold" in note) == (task == "answering")


def not_installed(folder, config):
    raise read_back.NotLoadedError("transformers", "transformers is not installed")


def changed_tensors(monkeypatch, change):
    """What is written, changed on its way to the file."""
    plain = foreign.tensors_to_export

    def tensors(*args, **given):
        return change(plain(*args, **given))

    monkeypatch.setattr(foreign, "tensors_to_export", tensors)


def lost_head(monkeypatch):
    changed_tensors(monkeypatch, lambda t: {n: v for n, v in t.items() if not n.startswith("classifier.")})


def permuted_head(monkeypatch):
    changed_tensors(monkeypatch, lambda t: {n: v.flip(0) if "classifier" in n else v for n, v in t.items()})


def rounded_weights(monkeypatch):
    changed_tensors(monkeypatch, lambda t: {n: v.bfloat16().float() for n, v in t.items()})


def swapped_layers(monkeypatch):
    def swap(tensors):
        first = {n: v for n, v in tensors.items() if ".layer.0." in n}
        other = {n: n.replace(".layer.0.", ".layer.1.") for n in first}
        return tensors | {n: tensors[other[n]] for n in first} | {other[n]: v for n, v in first.items()}

    changed_tensors(monkeypatch, swap)


def permuted_names(monkeypatch):
    plain = exchange.labels_out

    def labels_out(labels):
        fields = plain(labels)
        names = list(fields["id2label"].values())
        return fields | {"id2label": dict(zip(fields["id2label"], names[::-1], strict=True))}

    monkeypatch.setattr(exchange, "labels_out", labels_out)


def lost_names(monkeypatch):
    monkeypatch.setattr(exchange, "labels_out", lambda labels: {})


def no_specials_around_texts(monkeypatch):
    plain = exchange.save_tokenizer

    def save(tokenizer, target, model, **given):
        plain(tokenizer, target, model, **given)
        file = target / "tokenizer.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"post_processor": None}))

    monkeypatch.setattr(exchange, "save_tokenizer", save)


def unnamed_specials(monkeypatch):
    plain = exchange.save_tokenizer

    def save(tokenizer, target, model, **given):
        plain(tokenizer, target, model, **given)
        file = target / "tokenizer_config.json"
        settings = json.loads(file.read_text())
        file.write_text(json.dumps({n: v for n, v in settings.items() if n != "pad_token"}))

    monkeypatch.setattr(exchange, "save_tokenizer", save)


def moved_words(monkeypatch):
    plain = exchange.save_tokenizer

    def save(tokenizer, target, model, **given):
        plain(tokenizer, target, model, **given)
        file = target / "tokenizer.json"
        inner = json.loads(file.read_text())
        words = inner["model"]["vocab"]
        a, b = [word for word, number in words.items() if number in (10, 11)]
        words[a], words[b] = words[b], words[a]
        file.write_text(json.dumps(inner))

    monkeypatch.setattr(exchange, "save_tokenizer", save)


def lost_threshold(monkeypatch):
    plain = exchange.save_model

    def save(*args, base, **given):
        return plain(*args, base={n: v for n, v in base.items() if n != "null_score_diff_threshold"}, **given)

    monkeypatch.setattr(exchange, "save_model", save)


def turned_threshold(monkeypatch):
    plain = exchange.save_model

    def save(*args, base, **given):
        name = "null_score_diff_threshold"
        return plain(*args, base=base | {name: 1 - base[name]}, **given)

    monkeypatch.setattr(exchange, "save_model", save)


def standardised_numbers(monkeypatch):
    monkeypatch.setattr(converting, "in_unit", lambda model, labels: model)


FAULTS = [
    (lost_head, "classification", "2 tensors were lost or are not known there: classifier.bias"),
    (permuted_head, "classification", "scores of 16 texts differ by up to"),
    (swapped_layers, "classification", "scores of 16 texts differ by up to"),
    (rounded_weights, "classification", "scores of 16 texts differ by up to"),
    (rounded_weights, "causal", "scores of 16 texts differ by up to"),
    (rounded_weights, "seq2seq", "scores of 16 texts differ by up to"),
    (permuted_names, "classification", "Predictions get the names of other classes"),
    (permuted_names, "tagging", "Predictions get the names of other classes"),
    (lost_names, "classification", "its classes are LABEL_0, LABEL_1"),
    (no_specials_around_texts, "classification", "The export reads other tokens"),
    (no_specials_around_texts, "seq2seq", "The export reads other tokens"),
    (moved_words, "tagging", "The export reads other tokens"),
    (unnamed_specials, "classification", "the id of its pad token is none"),
    (lost_threshold, "answering", "its threshold of answers is none"),
    (turned_threshold, "answering", "its threshold of answers is"),
    (standardised_numbers, "regression", "scores of 16 texts differ by up to"),
]


def named(value):
    return getattr(value, "__name__", None)


@pytest.mark.parametrize(("fault", "task", "words"), FAULTS, ids=named)
def test_what_is_changed_on_the_way_is_found(fault, task, words, runs, tmp_path, monkeypatch):
    """And nothing is left of it."""
    run = runs(task)
    fault(monkeypatch)
    with pytest.raises(UnsoundError) as error:
        convert(run, tmp_path / "out")
    assert words in str(error.value) and "was not exported" in str(error.value)
    assert not (tmp_path / "out").exists()
    assert command("convert", run, tmp_path / "out").exit_code == 1


BY_US = [
    (permuted_head, "classification", "scores of 16 texts differ"),
    (permuted_names, "tagging", "names of other classes"),
    (no_specials_around_texts, "classification", "other tokens"),
    (lost_threshold, "answering", "its threshold of answers is none"),
]


@pytest.mark.parametrize(("fault", "task", "words"), BY_US, ids=named)
def test_the_same_is_found_without_transformers(fault, task, words, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(read_back, "load_by_transformers", not_installed)
    monkeypatch.setattr(foreign, "refuse_contradictions", lambda *given: None)  # each by its own mechanism
    run = runs(task)
    fault(monkeypatch)
    with pytest.raises(UnsoundError, match=words):
        convert(run, tmp_path / "out")


def test_an_onnx_file_is_compared_with_the_run(runs, tmp_path, monkeypatch):
    run = runs("classification")
    certificate = convert(run, tmp_path / "model.onnx")
    assert any("read again by onnxruntime" in note and "16 dev texts" in note for note in certificate.notes)
    plain = exchange._without_folds

    def other(trained, settings):
        """The file is faithful to a model that is not the run's."""
        model, equal = plain(trained, settings)
        model.head.scores.weight.data.neg_()
        return model, equal

    monkeypatch.setattr(exchange, "_without_folds", other)
    with pytest.raises(UnsoundError, match="scores of 16 texts differ"):
        convert(run, tmp_path / "other.onnx")
    assert not (tmp_path / "other.onnx").exists()


@pytest.fixture(scope="module")
def lora(tmp_path_factory, rows):  # noqa: F811 - the fixture
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr("attnlab.session.soundness.run_checks", lambda case, names=(): [])
        return adapted(tmp_path_factory.mktemp("lora"), rows, "bert", "lora(rank=2, alpha=6.0)", TANH)


@pytest.mark.parametrize("task", ["classification", "seq2seq"])
def test_a_model_that_is_too_large_for_float64_is_compared_as_it_is(task, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(read_back, "PRECISE", 10)
    assert any("16 dev texts agree" in note for note in convert(runs(task), tmp_path / "sound").notes)
    rounded_weights(monkeypatch)
    with pytest.raises(UnsoundError, match="scores of 16 texts differ"):
        convert(runs(task), tmp_path / "out")


@pytest.mark.parametrize("scale", [0.5, -1.0, 1.01])
def test_an_adapter_that_is_merged_with_another_scale_is_found(scale, lora, tmp_path, monkeypatch):
    assert any("dev texts agree" in note for note in convert(lora, tmp_path / "sound").notes)
    plain = Lora.merge

    def merge(self):
        for update in self.updates.values():
            update.up.weight.data.mul_(scale)
        plain(self)

    monkeypatch.setattr(Lora, "merge", merge)
    with pytest.raises(UnsoundError, match="a merged adapter's scale"):
        convert(lora, tmp_path / "other")


def changed_adapter(monkeypatch, change):
    plain = adapter_files.save_file
    monkeypatch.setattr(
        adapter_files, "save_file", lambda tensors, *rest, **given: plain(change(tensors), *rest, **given)
    )


@pytest.mark.parametrize("installed", [True, False], ids=["peft", "attnlab alone"])
def test_an_adapter_in_peft_files_is_compared_with_the_run(installed, lora, tmp_path, monkeypatch):
    if not installed:
        monkeypatch.setattr(read_back, "find_spec", lambda name: None)
    sound = answer("convert", lora, tmp_path / "sound", "--adapter")
    assert ("by peft" if installed else "by attnlab,") in sound["notes"][0]
    changed_adapter(monkeypatch, lambda t: {n: v * (1 + ("lora_B" in n)) for n, v in t.items()})
    with pytest.raises(UnsoundError, match=r"scores of \d+ texts differ"):
        export_adapter(lora, tmp_path / "other")
    assert not (tmp_path / "other").exists()


COUNTED = r"its tensors hold [\d,]+ numbers, and the run tuned [\d,]+"


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ("lora_A", COUNTED),
        ("pooler", r"there is no '.*pooler\.dense\.weight'"),
        ("classifier", r"there is no '.*classifier\.weight'"),
    ],
)
def test_tensors_of_adapter_and_head_that_are_lost_are_counted(lost, words, lora, tmp_path, monkeypatch):
    changed_adapter(monkeypatch, lambda t: {n: v for n, v in t.items() if lost not in n})
    with pytest.raises(UnsoundError, match=words):
        export_adapter(lora, tmp_path / "other")


def test_a_folder_that_contradicts_what_was_exported_is_unsound(runs, tmp_path):
    """Afterwards: other weights, classes in another order, a threshold that is gone. Exit code 1."""
    out = tmp_path / "classes"
    convert(runs("classification"), out)
    sound = command("check", out, "--json")
    assert sound.exit_code == 0 and not any(one["check"] == "export" for one in json.loads(sound.stdout))
    file = out / "config.json"
    written = file.read_text()
    theirs = json.loads(written)
    names = list(theirs["id2label"].values())
    file.write_text(json.dumps(theirs | {"id2label": dict(enumerate(names[::-1]))}))
    assert contradiction(out)["kind"] == "names_differ"
    with pytest.raises(ValueError, match="does not hold the model that was saved: its classes are"):
        Trained.at(out)
    file.write_text(json.dumps(theirs | {"id2label": {n: f"class {n}" for n in range(len(names))}}))
    assert Trained.at(out).labels.names[0] == "class 0", "other names are a person's choice"
    file.write_text(written)
    weights = load_file(out / "model.safetensors")
    metadata = {"format": "pt", "attnlab": stored_facts(out)}
    weights["classifier.weight"] = weights["classifier.weight"].flip(0).contiguous()
    save_file(weights, out / "model.safetensors", metadata=metadata)
    assert contradiction(out)["kind"] == "other_answer"


def stored_facts(folder):
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "pt") as file:
        return file.metadata()["attnlab"]


def contradiction(folder):
    checked = command("check", folder, "--json")
    assert checked.exit_code == 1, checked.output
    (found,) = [one for one in json.loads(checked.stdout) if one["check"] == "export"]
    assert found["outcome"] == "fail"
    return found


def test_a_threshold_that_is_gone_is_a_contradiction(runs, tmp_path):
    convert(runs("answering"), tmp_path / "out")
    file = tmp_path / "out" / "config.json"
    theirs = json.loads(file.read_text())
    del theirs["null_score_diff_threshold"]
    file.write_text(json.dumps(theirs))
    assert contradiction(tmp_path / "out")["kind"] == "threshold_differs"


@pytest.mark.parametrize("installed", [True, False], ids=["transformers", "attnlab alone"])
def test_a_tokenizer_that_was_replaced_later_is_found(installed, runs, tmp_path, monkeypatch):
    """Two words have changed places: sizes and special tokens are the same, the fingerprint is not."""
    convert(runs("tagging"), tmp_path / "out")
    file = tmp_path / "out" / "tokenizer.json"
    inner = json.loads(file.read_text())
    words = inner["model"]["vocab"]
    first, second = [word for word, number in words.items() if number in (10, 11)]
    words[first], words[second] = words[second], words[first]
    file.write_text(json.dumps(inner))
    if not installed:
        monkeypatch.setattr(published_checks, "load_by_transformers", not_installed)
    checked = command("check", tmp_path / "out", "--json")
    failed = [one["check"] for one in json.loads(checked.stdout) if one["outcome"] == "fail"]
    assert checked.exit_code == 1 and failed == ["tokenizer"]


def test_where_the_text_is_gone_fixed_texts_are_compared(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(export_checks.Exported, "dev", ())
    (note,) = [n for n in convert(runs("causal"), tmp_path / "out").notes if n.startswith("read again")]
    assert "fixed texts (its own cannot be read)" in note


@pytest.mark.parametrize(("task", "room"), [("causal", 4), ("classification", 5), ("answering", 7)])
def test_texts_that_are_too_long_are_cut(task, room, runs, tmp_path, monkeypatch):
    """To fewer tokens than any text has, so that none is read whole."""
    monkeypatch.setattr(export_checks.Exported, "room", room)
    exported = export_checks.Exported(Trained.at(runs(task)))
    lengths = [len(exported.read(text).ids) for text in exported.texts]
    assert len(lengths) == 16 and room // 2 <= min(lengths) and max(lengths) <= room
    assert any("16 dev texts" in note for note in convert(runs(task), tmp_path / "out").notes)


def test_scores_of_another_shape_or_that_are_no_numbers_are_no_agreement():
    gap = export_checks.score_gap
    assert gap(torch.ones(1, 3), torch.ones(1, 4)) == torch.inf
    assert gap(torch.ones(1, 3), torch.full((1, 3), torch.nan)) == torch.inf
    assert gap(torch.zeros(1, 3), torch.full((1, 3), 1e-3)) > 1
