"""One model over several processes: the losses, evaluations, traces and checkpoints of one process."""

import atexit
import json
import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.distributed import PrefixStore
from torch.distributed import init_process_group as begin_group

from attnlab.config.files import config_of
from attnlab.config.values import Choice, ConfigError
from attnlab.runs.checkpoints import Checkpoints, DamagedError
from attnlab.runs.faults import EndedElsewhereError, RunError
from attnlab.runs.metrics_file import read_events
from attnlab.session import session as sessions
from attnlab.session.convert import convert
from attnlab.session.session import Session
from attnlab.session.trained import Trained
from attnlab.session.training import train
from attnlab.training import checkpoint as checkpoint_files
from attnlab.training.checkpoint import read_checkpoint
from attnlab.training.loop import Loop
from attnlab.training.optimizers import OPTIMIZERS, from_torch
from attnlab.training.strategies import STRATEGIES, fsdp, strategy_of
from attnlab.training.strategies.joined_processes import JoinedProcesses
from attnlab.training.strategies.own_processes import current
from attnlab.training.strategies.processes import Processes
from attnlab.training.trace import weight_hashes
from tests.training.forked import in_processes, patched
from tests.training.small_run import config, for_task, merged
from tests.unchecked import only_checks

pytestmark = pytest.mark.usefixtures("unchecked")
PARTS = 4
TIMEOUT = 45
"""Seconds after which a process that waits says for whom: less than tests wait for processes."""
STEADY = {
    "schedule": "constant",
    "accumulate": PARTS,
    "checkpoint_every": 3,
    "evaluate_every": 6,
    "process_timeout": TIMEOUT,
}


@pytest.fixture(autouse=True)
def unchecked_processes():
    with patched(only_checks):
        yield


def double_models(patch):
    begin = sessions.begin

    def in_double(*parts):
        model, origin = begin(*parts)
        return model.double(), origin

    patch.setattr(sessions, "begin", in_double)


@pytest.fixture
def exact():
    """Models in float64, so that only real differences show."""
    with patched(double_models):
        yield


def settings(folder, *, steps=6, strategy="ddp", task="causal", **changes):
    """The small run in four parts a step, at a steady rate: it can be continued to any number of steps."""
    training = STEADY | {"strategy": strategy, "budget": {"steps": steps}} | changes.pop("training", {})
    return config(folder, **merged(merged(for_task(task, folder), {"training": training}), changes))


def trained(chosen, out, **about):
    """A run; gives what its process knows of it."""
    run = train(Session(chosen), out, **about)
    return {"reason": run.reason, "state": run.state, "signal": run.signal, "rank": current().rank}


def stepped(run):
    return [event for event in read_events(run / "metrics.jsonl") if event["event"] == "stepped"]


def losses(run):
    return [event["loss"] for event in stepped(run)]


def apart(run, other):
    mine, theirs = losses(run), losses(other)
    assert len(mine) == len(theirs) > 0
    return max(abs(a - b) for a, b in zip(mine, theirs, strict=True))


def weights(run, step):
    checkpoint = read_checkpoint(Checkpoints.of(run), step)
    return checkpoint.model | checkpoint.optimizer


def assert_same_tensors(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def assert_ended(results, reason="budget"):
    for result in results:
        assert isinstance(result, dict), result
        assert result["reason"] == reason


def trained_in_a_group(chosen, out):
    """A script that has begun a group of its own, and trains twice."""
    begin_group("gloo", store=PrefixStore("own", current().store), rank=current().rank, world_size=2)
    return [trained(chosen, out / name) for name in ("first", "second")]


def test_a_script_may_have_a_group_of_its_own_and_train_twice(tmp_path):
    for results in in_processes(2, trained_in_a_group, settings(tmp_path, steps=2), tmp_path):
        assert_ended(results)
    for name in ("first", "second"):
        about = json.loads((tmp_path / name / "run.json").read_text())["processes"]
        assert about["backend"] == "gloo" and len(about["hosts"]) == 1
    assert losses(tmp_path / "first") == losses(tmp_path / "second")


# ---------------------------------------------------------------- the same numbers
def same_as_alone(folder, steps, cases):
    """Runs of so many steps by several processes against one, in float64, with dropout."""
    about = {"checkpoint_every": steps, "evaluate_every": steps // 2}
    chosen = settings(folder, steps=steps, training=about)
    assert_ended(in_processes(1, trained, chosen, folder / "one"))
    alone = json.loads((folder / "one" / "run.json").read_text())
    for world, strategy in cases:
        out = folder / f"{world}-{strategy}"
        kind = replace(chosen.training, strategy=STRATEGIES.resolve(strategy))
        results = in_processes(world, trained, replace(chosen, training=kind), out)
        assert_ended(results)
        assert apart(out, folder / "one") < 1e-9
        record = json.loads((out / "run.json").read_text())
        for name in ("trace", "tokens", "flops", "initial", "step"):
            assert record[name] == alone[name], name
        about = record["processes"]
        assert (about["processes"], about["strategy"]) == (world, strategy.split("(")[0])
        assert {result["state"].step for result in results} == {steps}
        ours, theirs = weights(out, steps), weights(folder / "one", steps)
        for name, tensor in theirs.items():
            torch.testing.assert_close(ours[name], tensor, rtol=1e-7, atol=1e-8)


def test_losses_are_those_of_one_process(tmp_path, exact):
    """Four parts a step: three processes share them unevenly."""
    same_as_alone(tmp_path, 10, [(2, "ddp"), (3, "ddp"), (2, "fsdp")])


@pytest.mark.slow
def test_losses_of_fifty_steps_are_those_of_one_process(tmp_path, exact):
    worlds = [(world, strategy) for world in (2, 3, 4) for strategy in ("ddp", "fsdp")]
    same_as_alone(tmp_path, 50, [*worlds, (4, "fsdp(replicas=2)")])


@pytest.mark.slow
def test_replicas_that_share_parts_unevenly_take_the_steps_of_one_process(tmp_path, exact):
    """Five parts: three of four processes take their last one again for nothing, and get then what the fourth
    has for them: only after that do gradients go between the groups."""
    chosen = settings(tmp_path, steps=4, training={"accumulate": 5})
    assert_ended(in_processes(1, trained, chosen, tmp_path / "one"))
    shared = replace(chosen.training, strategy=STRATEGIES.resolve("fsdp(replicas=2)"))
    assert_ended(in_processes(4, trained, replace(chosen, training=shared), tmp_path / "four"))
    assert apart(tmp_path / "four", tmp_path / "one") < 1e-9


@pytest.mark.slow
def test_losses_in_float32_differ_by_roundings_alone(tmp_path):
    chosen = settings(tmp_path, steps=20, training={"clip": 0.1})
    runs = [(1, "ddp"), (2, "ddp"), (2, "fsdp")]
    for world, strategy in runs:
        kind = replace(chosen.training, strategy=Choice(strategy))
        assert_ended(
            in_processes(world, trained, replace(chosen, training=kind), tmp_path / f"{world}{strategy}")
        )
    assert apart(tmp_path / "2ddp", tmp_path / "1ddp") < 1e-4
    assert apart(tmp_path / "2fsdp", tmp_path / "1ddp") < 1e-4
    first, other = (stepped(tmp_path / name)[0] for name in ("1ddp", "2ddp"))
    assert other["loss"] == first["loss"], "of the same weights it is the same sum"


CASES = {
    "muon": {"training": {"optimizer": "muon"}},
    "sgd": {"training": {"optimizer": "sgd(learning_rate=0.1, momentum=0.9)"}},
    "recomputed": {"training": {"gradient_checkpointing": True}},
    "unused": {"task": "span"},
    "classes": {"task": "classification"},
    "two stacks": {"task": "seq2seq"},
}


def register_optimizers(_):
    for name in ("SGD", "Adafactor"):
        OPTIMIZERS.register(name.lower(), from_torch(getattr(torch.optim, name)))


@pytest.fixture
def own_optimizers():
    register_optimizers(None)
    with patched(register_optimizers):
        yield
    for name in ("sgd", "adafactor"):
        OPTIMIZERS.unregister(name)


def each_of(chosen, folder):
    """One run after the other, in the same processes."""
    return [trained(one, folder / name.replace(" ", "-")) for name, one in chosen.items()]


def test_optimizers_tasks_and_adapters_train_as_in_one_process(tmp_path, exact, own_optimizers):
    for task in ("causal", "classification"):
        assert_ended(
            in_processes(1, trained, settings(tmp_path, steps=3, task=task), tmp_path / f"of-{task}")
        )
    lora = {"adapter": "lora", "start": str(tmp_path / "of-causal")}
    features = {"adapter": "head", "start": str(tmp_path / "of-classification"), "task": "classification"}
    cases = CASES | {"lora": lora, "features of a frozen trunk": features}
    runs = {}
    for strategy in ("one", "ddp", "fsdp"):
        chosen = {
            name: settings(tmp_path, steps=3, strategy=strategy.replace("one", "ddp"), **dict(changes))
            for name, changes in cases.items()
        }
        runs[strategy] = tmp_path / strategy
        runs[strategy].mkdir()
        world = 1 if strategy == "one" else 2
        for results in in_processes(world, each_of, chosen, runs[strategy]):
            assert isinstance(results, list), results
    for name in cases:
        folder = name.replace(" ", "-")
        assert apart(runs["ddp"] / folder, runs["one"] / folder) < 1e-9, name
        assert apart(runs["fsdp"] / folder, runs["one"] / folder) < 1e-9, name


def counting_matrices(chosen, out):
    """How many matrices this process made orthogonal."""
    made = []
    plain = fsdp.orthogonal_each
    fsdp.orthogonal_each = lambda matrices: made.extend(matrices) or plain(matrices)
    trained(chosen, out)
    return len(made)


def test_muon_divides_its_whole_matrices_among_processes(tmp_path):
    chosen = settings(tmp_path, strategy="fsdp", steps=2, training={"optimizer": "muon"})
    counts = in_processes(2, counting_matrices, chosen, tmp_path / "run")
    momenta = [name for name in weights(tmp_path / "run", 2) if name.endswith("momentum_buffer")]
    assert sum(counts) == 2 * len(momenta) and abs(counts[0] - counts[1]) <= len(momenta) / 2


@pytest.mark.slow
def test_parameters_that_a_task_ignores_stop_nothing(tmp_path):
    """A head that predicts spans has layers that masked words alone never reach."""
    changes = merged(for_task("masked", tmp_path), {"model": {"output": "span_boundary"}})
    for strategy in ("ddp", "fsdp"):
        chosen = config(tmp_path, **merged(changes, {"training": STEADY | {"strategy": strategy}}))
        assert_ended(in_processes(2, trained, chosen, tmp_path / strategy))
    assert apart(tmp_path / "fsdp", tmp_path / "ddp") < 1e-4


# ---------------------------------------------------------------- evaluation
def shared_and_alone(folder, tasks):
    """Evaluations by all processes together, and by each alone; whether their columns are equal, and what
    each process scored of the batches."""
    outcomes = {}
    for task in tasks:
        chosen = settings(
            folder, task=task, training={"generate_every": "evaluation"} if task == "seq2seq" else {}
        )
        session = Session(chosen)
        evaluator = session.evaluator("dev")
        processes = current()
        processes.connect(torch.device("cpu"), 60)
        writer = None if evaluator.writer is None else replace(evaluator.writer, sharing=processes)
        shared = replace(evaluator, sharing=processes, writer=writer)
        written = 12 if evaluator.writer else 0
        ours, alone = shared(written=written), evaluator(written=written)
        equal = ours.loss == alone.loss and ours.scores == alone.scores
        for mine, theirs in ((ours.examples, alone.examples), (ours.texts, alone.texts)):
            columns = {} if theirs is None else theirs.columns
            equal = equal and all(np.array_equal(mine[name], columns[name]) for name in columns)
        outcomes[task] = equal, len(list(shared.judged())), len(list(evaluator.judged()))
    return outcomes


def test_an_evaluation_by_two_processes_is_that_of_one_bit_for_bit(tmp_path):
    tasks = ["causal", "classification", "answering", "tagging", "seq2seq"]
    results = in_processes(2, shared_and_alone, tmp_path, tasks)
    for task in tasks:
        counts = [result[task][1] for result in results]
        assert all(result[task][0] for result in results), task
        assert sum(counts) == results[0][task][2] > 1 and max(counts) < sum(counts), "each scored its own"


# ---------------------------------------------------------------- checkpoints
def to_steps(chosen, out, steps, strategy="ddp"):
    """A run that goes on to so many steps, or begins."""
    budget = replace(chosen.training.budget, steps=steps)
    training = replace(chosen.training, budget=budget, strategy=STRATEGIES.resolve(strategy))
    return trained(replace(chosen, training=training), out, resume=(out / "run.json").exists())


@pytest.mark.parametrize("strategy", ["ddp", pytest.param("fsdp", marks=pytest.mark.slow)])
def test_a_run_that_is_resumed_by_as_many_processes_ends_bit_for_bit(tmp_path, strategy):
    """By three: a sum of two numbers has one order, whatever is laid out anew."""
    chosen = settings(tmp_path)
    assert_ended(in_processes(3, to_steps, chosen, tmp_path / "whole", 9, strategy))
    for steps in (6, 9):
        assert_ended(in_processes(3, to_steps, chosen, tmp_path / "cut", steps, strategy))
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")
    assert_same_tensors(weights(tmp_path / "cut", 9), weights(tmp_path / "whole", 9))


def files_in_other_orders(patch):
    """Each process reads a file's tensors in another order, as those of safetensors come: processes of these
    tests would have one."""
    load = checkpoint_files.load

    def in_own_order(content):
        tensors = [*load(content).items()]
        return dict(tensors if current().rank % 2 else tensors[::-1])

    patch.setattr(checkpoint_files, "load", in_own_order)


@pytest.fixture
def own_orders():
    with patched(files_in_other_orders):
        yield


def test_a_run_is_resumed_by_other_numbers_and_strategies(tmp_path, exact, own_orders):
    """Saved by two in parts, continued by three, by one, and by three in parts; it says so each time."""
    chosen = settings(tmp_path, training={"optimizer": "muon"})
    assert_ended(in_processes(1, to_steps, chosen, tmp_path / "one", 12))
    chain = [(2, "fsdp", 3), (3, "ddp", 6), (1, "ddp", 9), (3, "fsdp", 12)]
    for world, strategy, steps in chain:
        assert_ended(in_processes(world, to_steps, chosen, tmp_path / "chain", steps, strategy))
    assert apart(tmp_path / "chain", tmp_path / "one") < 1e-9
    told = [e["message"] for e in read_events(tmp_path / "chain" / "metrics.jsonl") if e["event"] == "warned"]
    changes = "processes was 2, now 3", "strategy was fsdp, now ddp", "processes was 3, now 1"
    assert all(any(change in message for message in told) for change in changes), told


def test_a_checkpoint_in_parts_is_safetensors_that_every_reader_opens(tmp_path):
    chosen = settings(tmp_path, strategy="fsdp", steps=3)
    results = in_processes(3, trained, chosen, tmp_path / "run")
    assert_ended(results)
    folder = Checkpoints.of(tmp_path / "run").path(3)
    files = sorted(file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    assert {file.suffix for file in files} == {".safetensors", ".json"}
    assert len([file for file in files if file.parent.name == "model"]) == 3, "a file a process"
    named = json.loads((folder / "manifest.json").read_text())["files"]
    assert sorted(named) == sorted(str(file) for file in files if file.name != "manifest.json")
    opened = Trained.at(tmp_path / "run", which="last")
    expected = {name: p.detach() for name, p in opened.model.named_parameters()}
    convert(tmp_path / "run", tmp_path / "theirs")
    assert (tmp_path / "theirs" / "model.safetensors").is_file()
    checkpoint = read_checkpoint(Checkpoints.of(tmp_path / "run"), 3)
    assert_same_tensors(checkpoint.model, expected)
    shard = folder / "model" / "shard-00002-model-00001-of-00001.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(DamagedError, match=shard.name):
        read_checkpoint(Checkpoints.of(tmp_path / "run"), 3)


# ---------------------------------------------------------------- a step is its parts
def parts_of_steps(chosen, out):
    """The parts of each step as every process sees them, and hashes of its weights after it."""
    seen = []
    step = Loop.step

    def watched(self):
        event = step(self)
        seen.append((self.parts, weight_hashes(self.strategy.weights(self.model))))
        return event

    Loop.step = watched
    trained(chosen, out)
    return seen


def test_every_part_is_taken_once_and_counted_by_all(tmp_path):
    chosen = settings(tmp_path, steps=3)
    (alone,) = in_processes(1, parts_of_steps, chosen, tmp_path / "one")
    seen = in_processes(3, parts_of_steps, chosen, tmp_path / "three")
    for step, (parts, _) in enumerate(alone):
        views = [one[step] for one in seen]
        assert all(view == views[0] for view in views), "the same parts, and the same weights"
        assert [part.rank for part in views[0][0]] == [0, 1, 2, 0]
        assert [replace(part, rank=0) for part in views[0][0]] == list(parts)


def test_fewer_parts_than_processes_are_refused_with_the_fix():
    class Four(Processes):
        world = 4

    chosen = config_of({"training": {"accumulate": 3, "budget": {"steps": 1}}}).training
    for strategy in ("ddp", "fsdp"):
        with pytest.raises(
            ConfigError, match=r"accumulate is 3.*4 processes.*training.accumulate = 4 or more"
        ):
            strategy_of(Choice(strategy), Four()).refuse(chosen)
    with pytest.raises(ConfigError, match="replicas is 3, which does not divide 4"):
        strategy_of(STRATEGIES.resolve("fsdp(replicas=3)"), Four()).refuse(replace(chosen, accumulate=4))
    with pytest.raises(ConfigError, match='"one", and there are 4'):
        strategy_of(Choice("one"), Four()).refuse(chosen)


def test_an_optimizer_of_whole_matrices_is_refused_in_parts_by_name(tmp_path, own_optimizers):
    chosen = settings(tmp_path, strategy="fsdp", training={"optimizer": "adafactor(learning_rate=0.01)"})
    results = in_processes(2, trained, chosen, tmp_path / "run")
    assert sorted(type(result).__name__ for result in results) == ["ConfigError", "EndedElsewhereError"]
    assert all("Adafactor may mix the numbers of a matrix" in str(result) for result in results)


# ---------------------------------------------------------------- ending together
def failing(chosen, out, rank, error):
    step = Loop.step

    def faulty(self):
        if current().rank == rank and self.state.step == 2:
            raise error
        return step(self)

    Loop.step = faulty
    return trained(chosen, out)


@pytest.mark.parametrize("strategy", ["ddp", pytest.param("fsdp", marks=pytest.mark.slow)])
def test_a_fault_of_one_process_ends_all_with_its_reason(tmp_path, strategy):
    chosen = settings(tmp_path, strategy=strategy)
    first, second, third = in_processes(3, failing, chosen, tmp_path / "run", 1, RunError("No more paper."))
    assert type(second) is RunError and str(second) == "No more paper."
    for other in (first, third):
        assert type(other) is EndedElsewhereError and str(other) == "No more paper."
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["status"] == "failed" and record["error"] == "No more paper."


def test_a_loss_that_is_not_finite_ends_all_and_keeps_every_part(tmp_path):
    chosen = settings(tmp_path, training={"optimizer": "adamw(learning_rate=1e30)", "clip": "off"})
    first, second = in_processes(2, trained, chosen, tmp_path / "run")
    assert type(first).__name__ == "DivergedError" and type(second) is EndedElsewhereError
    (file,) = (tmp_path / "run").glob("failed-step-*.safetensors")
    assert {name.split(".")[0] for name in load_file(file)} == set("0123")


def hanging(chosen, out, rank, seconds):
    """One process is late for the forward of a step, in which others gather weights from it."""
    exchanging = fsdp.FSDP.exchanging

    def late(self, wrapped, *, last):
        if self.processes.rank == rank:
            time.sleep(seconds)
        return exchanging(self, wrapped, last=last)

    fsdp.FSDP.exchanging = late
    return trained(chosen, out)


def test_weights_are_not_waited_for_longer_than_the_timeout(tmp_path):
    chosen = settings(tmp_path, strategy="fsdp", training={"process_timeout": 3})
    first, second = in_processes(2, hanging, chosen, tmp_path / "run", 1, 12)
    assert "lost each other" in str(first) and isinstance(second, EndedElsewhereError)


def threads_at_the_end():
    """Threads of this process that are left when Python ends."""
    atexit._run_exitfuncs()
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("attnlab-")]


def test_no_thread_talks_to_the_store_when_python_ends():
    """It would come back from there to a Python that is gone, and abort the process."""
    assert in_processes(2, threads_at_the_end) == [[], []]


MOMENTS = {
    "in a step": (Loop, "step"),
    "as they agree": (JoinedProcesses, "most"),
    "before the next step": (Loop, "evaluation_due"),
}


def interrupting(chosen, out, rank, moment):
    """One process hears a signal at a moment of the loop, when three steps were taken."""
    steps = 0
    step, (owner, name) = Loop.step, MOMENTS[moment]

    def counted(self):
        nonlocal steps
        steps += 1
        return step(self)

    Loop.step = counted
    called = getattr(owner, name)

    def heard(self, *given):
        result = called(self, *given)
        if current().rank == rank and steps == 3 + (name == "step"):
            os.kill(os.getpid(), signal.SIGTERM)
        return result

    setattr(owner, name, heard)
    return trained(chosen, out)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_signal_to_one_process_stops_all_at_the_same_step_with_one_checkpoint(tmp_path, moment):
    """Whenever it is heard: what one process alone knew would part it from the others, which wait for it."""
    results = in_processes(2, interrupting, settings(tmp_path), tmp_path / "run", 1, moment)
    assert_ended(results, "interrupted")
    assert [result["signal"] for result in results] == [signal.SIGTERM, signal.SIGTERM]
    assert [result["state"].step for result in results] == [4, 4]
    assert Checkpoints.of(tmp_path / "run").steps() == [3, 4]


@pytest.mark.slow
def test_a_budget_of_seconds_ends_all_at_the_same_step(tmp_path):
    chosen = settings(tmp_path, training={"budget": {"seconds": 1.5}, "schedule": "cosine"})
    results = in_processes(3, trained, chosen, tmp_path / "run")
    assert_ended(results)
    assert len({result["state"].step for result in results}) == 1
    assert len({result["state"].seconds for result in results}) == 1, "those of the first count for all"
