"""Faults of what is saved, counted and compared: each is named, and its healthy counterpart is not."""

import copy
import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from attnlab.checks import comparable
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.runs.checkpoints import Checkpoints
from attnlab.training.checkpoint import Checkpoint, read_checkpoint, save_checkpoint
from tests.checks.cases import found, of, shared
from tests.training import small_run
from tests.training.small_run import train


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    made = train(small_run.config(shared(), training={"accumulate": 2}), folder)
    return of(made.session, when="after", folder=folder, step=made.state.step)


@pytest.fixture
def about(run, tmp_path):
    """The run in a folder of its own, with a model of its own, both to be broken."""
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    return replace(run, folder=folder, model=copy.deepcopy(run.model))


@pytest.mark.parametrize("check", ["tokenizer", "tensors", "reload", "throughput", "moved"])
def test_a_healthy_run_passes(run, check):
    finding = found(check, run)
    assert finding.outcome == "pass", finding.found


def rewritten(about, **changes):
    """The last checkpoint saved anew, with other tensors: whole, and wrong."""
    checkpoints = Checkpoints.of(about.folder)
    held = read_checkpoint(checkpoints, about.step)
    shutil.rmtree(checkpoints.path(about.step))
    save_checkpoint(checkpoints, about.step, Checkpoint(**vars(held) | changes))


# tokenizer


def test_the_tokenizer_of_another_checkpoint_is_named(about):
    other = TOKENIZERS.build("word(vocabulary=20, minimum_count=1)").make(small_run.sentences(50))
    other.save(about.folder)
    finding = found("tokenizer", about)
    assert finding.outcome == "fail" and "vocabulary of tokenizer.json" in finding.found


@pytest.mark.parametrize("what", ["specials", "probes", "vocabulary"])
def test_a_record_that_says_otherwise_is_named(about, what):
    file = about.folder / "run.json"
    record = json.loads(file.read_text())
    held = record["tokenizer_identity"][what]
    record["tokenizer_identity"][what] = {**held, "stop": 99} if isinstance(held, dict) else held + 1
    file.write_text(json.dumps(record))
    finding = found("tokenizer", about)
    assert finding.outcome == "fail" and f"the {what} of run.json" in finding.found


def test_a_table_without_a_row_for_each_id_is_named(about):
    about.model.trunk.decoder.embedding.tokens.num_embeddings -= 1
    assert "rows for" in found("tokenizer", about).found


# tensors


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda held: {n: t for n, t in held.items() if "norm.bias" not in n}, "missing: "),
        (lambda held: held | {"head.lost": torch.ones(2)}, "left over: head.lost"),
        (lambda held: {n: t[:1] if "up.bias" in n else t for n, t in held.items()}, "of another shape"),
        (
            lambda held: {n: torch.rand_like(t) if "up" in n else t for n, t in held.items()},
            "of other values",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_named(about, change, words):
    held = read_checkpoint(Checkpoints.of(about.folder), about.step).model
    rewritten(about, model=change(held))
    finding = found("tensors", about)
    assert finding.outcome == "fail" and words in finding.found


def test_a_damaged_checkpoint_is_named(about):
    file = about.folder / "checkpoints" / f"step-{about.step}" / "model.safetensors"
    tensors = load_file(file)
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, file)
    assert "damaged" in found("tensors", about).found


# reload


def test_what_saving_loses_is_named(about):
    """A head whose shift is no parameter."""
    broken = copy.deepcopy(about.model)
    forward = broken.head.forward
    broken.head.forward = lambda hidden, tokens=None: forward(hidden, tokens) + 0.5
    finding = found("reload", replace(about, model=broken))
    assert finding.outcome == "fail" and finding.number == pytest.approx(0.5, abs=1e-3)


def test_random_weights_in_place_of_saved_ones_are_named(about):
    rewritten(about, model={name: p.detach() for name, p in about.initial().named_parameters()})
    assert found("reload", about).outcome == "fail"


def test_a_checkpoint_that_does_not_load_is_named(about):
    held = read_checkpoint(Checkpoints.of(about.folder), about.step).model
    rewritten(about, model={name: tensor for name, tensor in held.items() if "final" not in name})
    assert "missing" in found("reload", about).found


# throughput


def told(about, change):
    file = about.folder / "metrics.jsonl"
    events = [json.loads(line) for line in file.read_text().splitlines()]
    events = [change(event) if event["event"] == "stepped" else event for event in events]
    file.write_text("".join(json.dumps(event) + "\n" for event in events))


def test_tokens_that_were_not_there_are_named(about):
    told(about, lambda event: event | {"tokens": event["tokens"] + 5})
    finding = found("throughput", about)
    assert finding.outcome == "fail" and finding.number > 0


def test_time_that_did_not_pass_is_named(about):
    told(about, lambda event: event | {"seconds": event["seconds"] / 1e6})
    finding = found("throughput", about)
    assert finding.outcome == "fail" and "measured wrongly" in finding.meaning


# comparability


def record(**changes):
    base = {
        "arm": "dot",
        "seed": 0,
        "order": "a",
        "tokenizer": "t",
        "data": {"train": "x", "dev": "y"},
        "config": {"task": {"kind": "causal"}, "training": {"evaluate_batches": "all"}},
        "parameters": 100,
        "flops": 1e9,
        "seconds": 3.5,
    }
    return base | changes


def test_runs_that_differ_in_one_part_alone_may_be_compared():
    findings = comparable([record(), record(arm="linear"), record(seed=1, order="b")])
    assert {one.outcome for one in findings} == {"pass"}
    assert "linear: 100 parameters, 1,000,000,000 FLOPs, 4 s" in findings[-1].found


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"order": "b"}, "data order"),
        ({"data": {"train": "x", "dev": "z"}}, "evaluation set"),
        ({"tokenizer": "u"}, "tokenizer"),
        ({"config": {"task": {"kind": "masked"}, "training": {"evaluate_batches": "all"}}}, "metric"),
    ],
)
def test_what_keeps_runs_apart_is_named(changes, what):
    findings = comparable([record(), record(arm="linear", **changes)])
    bad = [one for one in findings if one.outcome == "fail"]
    assert [one.found for one in bad] == [f"another {what}: dot | linear"]


def fed(*marks):
    return {"trace": {"batches": {str(2**n): mark for n, mark in enumerate(marks)}}}


def test_the_batches_that_were_really_fed_decide_whatever_the_settings_say():
    """Runs of other lengths by what they have in common; the settings alone where one has no record."""
    one, longer = record(**fed("a", "b")), record(arm="linear", **fed("a", "b", "c"))
    assert {found.outcome for found in comparable([one, longer])} == {"pass"}
    other = record(arm="linear", **fed("a", "x", "c"))
    bad = [found for found in comparable([one, other]) if found.outcome == "fail"]
    assert [found.found for found in bad] == ["another data order: dot | linear"]
    assert {found.outcome for found in comparable([one, record(arm="old")])} == {"pass"}


def test_costs_that_are_not_known_are_told():
    bare = {name: value for name, value in record().items() if name not in ("flops", "order", "data")}
    findings = comparable([bare, bare])
    assert sum(one.outcome == "warn" for one in findings) == 3
    with pytest.raises(ValueError, match="two runs"):
        comparable([record()])


def test_real_records_say_what_is_needed(run):
    held = json.loads((run.folder / "run.json").read_text())
    other = held | {"arm": "b", "order": "of another batching"}
    assert {one.outcome for one in comparable([held, held])} == {"pass"}
    assert [one.outcome for one in comparable([held, other])].count("fail") == 1
