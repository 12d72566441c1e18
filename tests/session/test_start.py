"""Training from a start: what is taken, what is drawn, what stays frozen, and what is refused."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.config.files import config_of
from attnlab.config.values import ConfigError
from attnlab.model.adapters import ADAPTERS
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.events import Stepped
from attnlab.runs.faults import RunError
from attnlab.runs.findings import read_findings
from attnlab.runs.folder import RunFolder
from attnlab.runs.metrics_file import METRICS_FILE, read_events
from attnlab.runs.record import read_record
from attnlab.session.checking import of_run
from attnlab.session.session import Session
from attnlab.session.start import start_at, with_start
from attnlab.session.trained import Trained
from attnlab.session.training import train as train_session
from attnlab.tasks import TASKS
from attnlab.training.checkpoint import read_checkpoint
from tests.training.small_run import config, merged, sentences, set_up, settings, train
from tests.unchecked import checked_by

STEPS = 12
TUNED = {
    "full": lambda name: True,
    "bitfit": lambda name: name.endswith("bias"),
    "lora(rank=2)": lambda name: ".lora." in name,
    "prompt(tokens=2)": lambda name: name == "trunk.decoder.virtual.vectors",
    "top(layers=1)": lambda name: ".blocks.1." in name or ".final." in name or name.startswith("head."),
    "head": lambda name: name.startswith("head."),
    "prefix(tokens=2)": lambda name: name.startswith("trunk.decoder.virtual."),
}
"""Which parameters each adapter trains, said again by their names."""
HEAD = "language_model(bias=true, transform=dense)"
"""With weights of its own beside the table of words."""
every = pytest.mark.parametrize("adapter", TUNED)


def stored(folder, step=STEPS):
    return read_checkpoint(Checkpoints.of(folder), step)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with its corpus, and the runs `start` and, with another seed, `other`."""
    folder = tmp_path_factory.mktemp("home")
    with checked_by():
        for name, seed in (("start", 0), ("other", 5)):
            train(config(folder, seed=seed, model={"output": HEAD}), folder / name)
    return folder


@pytest.fixture(scope="module")
def whole(home):
    """Trains a run of each adapter once, with all its checks."""
    runs = {}

    def trained(adapter):
        if adapter not in runs:
            runs[adapter] = train(adapted(home, adapter), home / f"run-{len(runs)}")
        return runs[adapter]

    return trained


def adapted(home, adapter="full", start=None, **changes):
    """A run's config that begins from `start`: other text order and dropout, rows of one text each."""
    base = {"seed": 1, "start": str(start or home / "start"), "adapter": adapter}
    apart = {"data": {"batching": {"kind": "padded", "batch_size": 4}, "length": 20}}
    apart |= {"training": {"evaluate_every": STEPS}}
    return config(home, **merged(base | apart, changes))


# ---------------------------------------------------------------- what is taken
def settle(config):
    """The config with what its start decides."""
    return with_start(config, start_at(config.start))


def test_a_table_of_adapters_is_tried_whole():
    assert {kind.partition("(")[0] for kind in TUNED} == set(ADAPTERS)


@pytest.mark.parametrize("step", [None, 9])
def test_it_begins_with_the_weights_of_the_run_or_of_the_checkpoint(home, step):
    place = home / "start" if step is None else home / "start" / "checkpoints" / f"step-{step}"
    wanted = stored(home / "start", step or STEPS).model
    model = set_up(adapted(home, start=place)).model
    found = {name: p.detach() for name, p in model.named_parameters()}
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    final = "trunk.decoder.final.weight"
    assert not torch.equal(stored(home / "start", 9).model[final], stored(home / "start").model[final])


def test_the_start_decides_the_settings_and_dropout_may_be_set(home):
    bare = {"model": {}, "data": settings(home)["data"], "start": str(home / "start")}
    del bare["data"]["tokenizer"]
    settled = settle(adapted(home, model={"dropout": 0.3}))
    own = RunFolder(home / "start").config().model
    assert settled.model.width == own.width == 16 and settled.model.dropout == 0.3 != own.dropout
    assert settle(settled) == settled, "a resumed run settles what was settled"
    silent = settle(config_of(bare | {"model": {"length": 128}}))
    assert silent.model.dropout == own.dropout == 0.1 and silent.model.layers == own.layers
    tokenizer = set_up(config_of(bare)).dataset.tokenizer
    assert tokenizer.fingerprint == read_record(home / "start")["tokenizer"]


def test_a_head_that_the_start_lacks_is_drawn_from_the_seed(home, tmp_path, unchecked):
    """The trunk of a masked model gets the head of span boundaries."""
    encoder = {"task": "masked", "model": {"family": "encoder"}}
    train(config(home, **encoder), tmp_path / "masked")
    spans = {"task": "span", "model": {"family": "encoder", "output": "span_boundary"}}
    one, two, again = (
        set_up(adapted(home, start=tmp_path / "masked", **spans, seed=seed)) for seed in (1, 2, 1)
    )
    wanted = stored(tmp_path / "masked").model
    fresh = [name for name, _ in one.model.named_parameters() if name not in wanted]
    assert one.origin.fresh == tuple(fresh) and fresh and all(name.startswith("head.") for name in fresh)
    weights = [dict(setup.model.named_parameters()) for setup in (one, two, again)]
    assert all(torch.equal(weights[0][name], weights[2][name]) for name in fresh)
    matrices = [name for name in fresh if weights[0][name].ndim > 1]
    assert matrices and not any(torch.equal(weights[0][name], weights[1][name]) for name in matrices)
    assert all(torch.equal(w[name], wanted[name]) for w in weights for name in wanted)


def test_a_drawn_head_is_trained_beside_an_adapter(home, tmp_path, unchecked):
    train(config(home, task="masked", model={"family": "encoder"}), tmp_path / "masked")
    spans = {"task": "span", "model": {"family": "encoder", "output": "span_boundary"}}
    run = train(adapted(home, "lora(rank=2)", start=tmp_path / "masked", **spans), tmp_path / "spans")
    tuned = {name for name, p in run.model.named_parameters() if p.requires_grad}
    assert tuned == {n for n, _ in run.model.named_parameters() if ".lora." in n or n.startswith("head.")}
    assert Trained.at(tmp_path / "spans").model.adapter.parameters().keys() == tuned


def labelled(home, names):
    """Sentences by who they are about, under these names."""
    file = home / f"{'-'.join(names)}.csv"
    about = [(s, names["cat" in s]) for s in sentences() if ("cat" in s) != ("dog" in s)]
    file.write_text("text,label\n" + "".join(f"{text},{name}\n" for text, name in about))
    corpus = {"kind": "files", "path": str(file), "text": "text", "label": "label"}
    changes = {"corpus": corpus, "encoding": "single", "batching": {"kind": "bucketed", "tokens": 96}}
    return {"task": "classification", "data": changes, "model": {"output": "classification(pooling=last)"}}


def test_a_language_model_becomes_a_classifier_and_that_one_a_start(home, tmp_path, unchecked):
    run = train(adapted(home, **labelled(home, ("dog", "cat"))), tmp_path / "run")
    assert set(run.session.origin.fresh) == {"head.scores.weight", "head.scores.bias"}
    assert Trained.at(tmp_path / "run").labels.names == ("cat", "dog")

    def again(names, **changes):
        wanted = merged(labelled(home, names), {"data": {"tokenizer": "bpe"}} | changes)
        return set_up(adapted(home, start=tmp_path / "run", **wanted)).origin.fresh

    assert again(("dog", "cat")) == (), "the same classes: its head goes on"
    usual = {"output": TASKS["classification"].head}
    assert again(("dog", "cat"), model=usual) == (), "no other is asked for: its own goes on"
    assert again(("dogs", "cats")) == run.session.origin.fresh, (
        "other classes, of which it has learned nothing"
    )
    assert again(("dog", "cat"), model={"output": "classification(pooling=first)"}) != ()


# ---------------------------------------------------------------- what stays frozen
@every
def test_what_is_frozen_stays_so_bit_for_bit_and_what_is_tuned_moves(home, whole, adapter):
    run = whole(adapter)
    assert run.reason == "budget" and not run.unsound
    began, ended = stored(home / "start").model, stored(run.folder)
    tuned = {name for name in ended.model if TUNED[adapter](name)}
    assert tuned and {name for name, p in run.model.named_parameters() if p.requires_grad} == tuned
    for name, value in ended.model.items():
        if name not in tuned:
            assert torch.equal(value, began[name]), f"{name} is frozen"
        elif name in began and not name.endswith("key.bias"):  # which a softmax ignores
            assert not torch.equal(value, began[name]), f"{name} is tuned"
    held = {name for name in ended.model if any(name in key for key in ended.optimizer)}
    assert held == tuned, "the optimizer has what is tuned, and nothing else"
    judged = {one.check: one.outcome for one in read_findings(run.folder)}
    assert judged["moved"] == judged["reload"] == "pass" and judged["first_loss"] == "not applicable"


class KilledError(Exception):
    """In place of a signal: nothing of the loop gets to clean up after it."""


@every
def test_a_run_that_was_killed_goes_on_to_the_same_bits(home, tmp_path, whole, unchecked, adapter):
    def kill(event):
        if isinstance(event, Stepped) and event.step == 8:
            raise KilledError

    settings = adapted(home, adapter)
    with pytest.raises(KilledError):
        train(settings, tmp_path / "killed", listeners=[kill])
    assert Checkpoints.of(tmp_path / "killed").steps()[-1] < 8
    resumed = train(settings, tmp_path / "killed", resume=True)
    expected, killed = stored(whole(adapter).folder), stored(tmp_path / "killed")
    for one, two in ((expected.model, killed.model), (expected.optimizer, killed.optimizer)):
        assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
    tuned = {name for name, p in resumed.model.named_parameters() if p.requires_grad}
    assert tuned == {name for name in killed.model if TUNED[adapter](name)}


def test_a_frozen_weight_that_moves_is_named(home, tmp_path):
    def push(event):
        if isinstance(event, Stepped) and event.step == 5:
            with torch.no_grad():
                session.model.trunk.decoder.final.weight.add_(0.1)

    session = Session(adapted(home, "lora(rank=2)"))
    with checked_by("moved"):
        run = train_session(session, tmp_path / "run", listeners=[push])
    assert "moved" in run.unsound
    found = next(one for one in read_findings(tmp_path / "run") if one.check == "moved")
    assert found.found == "1 frozen tensor moved: trunk.decoder.final.weight"


# ---------------------------------------------------------------- what is saved
@every
def test_a_checkpoint_holds_what_is_tuned_and_the_rest_is_saved_once(whole, adapter):
    folder = whole(adapter).folder
    checkpoints, everything = Checkpoints.of(folder), stored(folder).model
    tuned = {name for name in everything if TUNED[adapter](name)}
    assert len(checkpoints.steps()) > 1
    for step in checkpoints.steps():
        assert set(load_file(checkpoints.path(step) / "model.safetensors")) == tuned
        assert stored(folder, step).model.keys() == everything.keys()
    once = checkpoints.folder / "frozen.safetensors"
    assert once.is_file() == (adapter != "full")
    if once.is_file():
        assert set(load_file(once)) == everything.keys() - tuned


def test_frozen_weights_that_are_damaged_are_told_and_mended(home, tmp_path, unchecked):
    settings = adapted(home, "lora(rank=2)")
    train(settings, tmp_path / "run")
    before = stored(tmp_path / "run").model
    once = Checkpoints.of(tmp_path / "run").folder / "frozen.safetensors"
    whole = once.read_bytes()
    once.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(RunError, match=r"frozen\.safetensors has a wrong checksum"):
        Trained.at(tmp_path / "run")
    train(settings, tmp_path / "run", resume=True)
    assert once.read_bytes() == whole
    again = stored(tmp_path / "run").model
    assert all(torch.equal(again[name], value) for name, value in before.items())


def test_a_start_that_is_gone_is_told_when_a_run_is_to_go_on(home, tmp_path, unchecked):
    shutil.copytree(home / "start", tmp_path / "start")
    settings = adapted(home, "head", start=tmp_path / "start", training={"budget": {"steps": 4}})
    train(settings, tmp_path / "run")
    shutil.rmtree(tmp_path / "start")
    with pytest.raises(ConfigError, match=r"start is .*, which holds neither a run"):
        train(settings, tmp_path / "run", resume=True)


# ---------------------------------------------------------------- opened again
@every
def test_it_is_opened_and_scored_without_its_start(home, tmp_path, unchecked, adapter):
    shutil.copytree(home / "start", tmp_path / "start")
    whole_dev = {"evaluate_batches": "all"}
    run = train(adapted(home, adapter, start=tmp_path / "start", training=whole_dev), tmp_path / "run")
    shutil.rmtree(tmp_path / "start")
    trained = Trained.at(tmp_path / "run")
    ids = torch.arange(9)[None]
    with torch.no_grad():
        assert torch.equal(trained.model(ids), run.model.eval()(ids))
    assert trained.generate("the cat", rule="greedy", length=4)
    scored = [line["loss"] for line in read_events(tmp_path / "run" / METRICS_FILE) if "loss" in line]
    assert trained.evaluate()["measures"]["loss"]["value"] == pytest.approx(scored[-1], rel=1e-6)


def test_checks_of_a_run_do_without_its_start_where_they_can(home, tmp_path, unchecked):
    shutil.copytree(home / "start", tmp_path / "start")
    settings = adapted(home, "lora(rank=2)", start=tmp_path / "start", training={"budget": {"steps": 3}})
    train(settings, tmp_path / "run")

    def outcome():
        judged = {one.check: one.outcome for one in of_run(tmp_path / "run") if one.when == "after"}
        return judged["moved"]

    assert outcome() == "pass"
    shutil.rmtree(tmp_path / "start")
    assert outcome() == "not applicable"


def test_a_lora_run_is_a_start_with_its_updates_merged(home, tmp_path, unchecked):
    tuned = train(
        adapted(home, "lora(rank=2)", training={"optimizer": "adamw(learning_rate=0.1)"}), tmp_path / "a"
    )
    model = set_up(adapted(home, "bitfit", start=tmp_path / "a", data={"tokenizer": "bpe"})).model
    ids = torch.arange(9)[None]
    plain = set_up(adapted(home)).model
    with torch.no_grad():
        found, wanted, before = (m.eval()(ids) for m in (model, tuned.model, plain))
    torch.testing.assert_close(found, wanted)
    assert not torch.allclose(found, before, atol=1e-3), "the updates say something"
    assert not any(".lora." in name for name, _ in model.named_parameters())


# ---------------------------------------------------------------- what is refused
def test_a_start_that_has_changed_is_refused(home, tmp_path, unchecked):
    shutil.copytree(home / "start", tmp_path / "start")
    settings = adapted(home, start=tmp_path / "start", training={"budget": {"steps": 4}})
    ended = train(settings, tmp_path / "run")
    assert read_record(tmp_path / "run")["start"] == ended.session.origin.start != "scratch"
    shutil.rmtree(tmp_path / "start")
    shutil.copytree(home / "other", tmp_path / "start")
    with pytest.raises(ConfigError, match=r"cannot be resumed: the start changed \(was \w+, now \w+\)"):
        train(settings, tmp_path / "run", resume=True)
    with pytest.raises(RuntimeError, match="no longer the one that this run began from"):
        ended.session.initial_model()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"model": {"width": 32}},
            "model.width is 32, and in the start .*start it is 16.* leave model.width out",
        ),
        ({"model": {"family": "encoder"}}, "model.family is encoder, and in the start"),
        ({"model": {"attention": "linear"}}, r"model.attention is linear.*, and in the start .* it is dot"),
        ({"data": {"tokenizer": "character"}}, "data.tokenizer is character.*, a foreign tokenizer"),
        ({"start": "nowhere"}, 'start is "nowhere", which holds neither a run'),
        ({"start": "scratch", "adapter": "lora"}, 'adapter lora trains a small part.* start is "scratch"'),
        ({"adapter": "prompt", "data": {"batching": "packed"}}, 'adapter "prompt" does not support packing'),
        ({"adapter": "lora(targets=[nothing])"}, "adapter lora.*nothing"),
        (
            {"adapter": "prompt(tokens=5)"},
            "data.length 20 is more than the 19 tokens of text that model.length 24",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_the_fix(home, changes, said):
    with pytest.raises(ConfigError, match=said):
        set_up(adapted(home, **changes))


def test_a_tokenizer_from_a_file_must_be_the_starts(home, tmp_path):
    own = {"kind": "file", "path": str(home / "start" / "tokenizer.json")}
    assert settle(adapted(home, data={"tokenizer": own})).data.tokenizer.options["path"] == own["path"]
    held = json.loads((home / "start" / "tokenizer.json").read_text())
    words = held["model"]["vocab"]
    one, two = (word for word in words if word in ("cat", "dog"))
    words[one], words[two] = words[two], words[one]
    (tmp_path / "tokenizer.json").write_text(json.dumps(held))
    foreign = {"kind": "file", "path": str(tmp_path / "tokenizer.json")}
    with pytest.raises(ConfigError, match="a foreign tokenizer"):
        settle(adapted(home, data={"tokenizer": foreign}))


def test_virtual_tokens_cannot_be_merged_into_a_start(home, tmp_path, unchecked):
    train(adapted(home, "prompt(tokens=2)"), tmp_path / "prompted")
    with pytest.raises(ConfigError, match=r"prompted cannot be read as plain weights\. A prompt adapter"):
        set_up(adapted(home, start=tmp_path / "prompted", data={"tokenizer": "bpe"}))


# ---------------------------------------------------------------- from the command line
def test_from_the_command_line(home, tmp_path, unchecked):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(settings(home)))
    asked = ["train", str(file), "--set", f"start={home / 'start'}", "--set", "adapter=lora(rank=2)"]
    ended = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "run")])
    assert ended.exit_code == 0, ended.output
    record = read_record(tmp_path / "run")
    assert record["config"]["adapter"]["rank"] == 2 and record["config"]["start"] == str(home / "start")
    again = CliRunner().invoke(app, ["train", "--resume", "--out", str(tmp_path / "run")])
    assert again.exit_code == 0, again.output
