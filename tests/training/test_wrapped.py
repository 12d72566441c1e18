"""A model in DDP or FSDP2 gives the losses, gradients, judgements and texts of the plain one: every step goes
through its forward."""

from contextlib import nullcontext

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from attnlab.evaluation.evaluator import Evaluator
from attnlab.generation.decoder import Decoder
from attnlab.model.draws import seed_everything
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.metrics_file import read_events
from attnlab.session.session import Session
from attnlab.session.training import train
from attnlab.tasks import TASKS
from attnlab.training.checkpoint import read_checkpoint
from attnlab.training.loop import Loop, backward
from tests.checks.cases import case
from tests.training.small_run import config

STEPS = 3
"""DDP complains of parameters without a gradient at the second."""


@pytest.fixture(scope="module", autouse=True)
def one_process():
    """A group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def plain(model):
    return model


def replicated(model, **options):
    """In DDP, with the number of gradients' buckets that it has seen."""
    wrapped = DistributedDataParallel(model, **options)
    wrapped.buckets = 0

    def average(_, bucket):
        wrapped.buckets += 1
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda all: all.value()[0])

    wrapped.register_comm_hook(None, average)
    return wrapped


def sharded(model):
    """Each block and the rest, in place."""
    mesh = init_device_mesh("cpu", (1,))
    for stack in model.trunk.stacks().values():
        for block in stack.blocks:
            fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def whole(tensor):
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def trained(about, wrap):
    """A few steps, with dropout: each one's loss and gradients, by name."""
    model = about.model
    wrapped = wrap(model)
    wrapped.train()
    loader = about.dataset.loader("train", seed=0)
    plan, steps = loader.plan(0), []
    for step in range(STEPS):
        batches = [about.task.prepare(loader.load(plan, 2 * step + n), 2 * step + n) for n in range(2)]
        loss, parts = backward(wrapped, about.task, batches, around=seeded)
        steps.append((loss, parts, {name: whole(p.grad) for name, p in model.named_parameters()}))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
        wrapped.zero_grad()
    return wrapped, steps


def seeded(number):
    seed_everything(number)
    return nullcontext()


def judged(about, wrapped):
    """What an evaluation finds of the first batches of dev."""
    loader = about.dataset.loader("dev", seed=0)
    evaluator = Evaluator(model=wrapped, task=about.task, loader=loader, seed=0, batches=2)
    return [(one.loss.total, one.loss.each, dict(one.said)) for one in evaluator.judged()]


def assert_equal(found, wanted):
    """Bit for bit."""
    assert type(found) is type(wanted)
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            assert_equal(found[name], value)
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_equal(one, other)
    else:
        assert torch.equal(found, wanted) if isinstance(wanted, torch.Tensor) else found == wanted


@pytest.mark.parametrize("wrap", [replicated, sharded], ids=["ddp", "fsdp"])
@pytest.mark.parametrize("task", TASKS)
def test_a_wrapped_model_trains_and_is_judged_as_the_plain_one(task, wrap):
    about, other = case(task), case(task)
    model, expected = trained(about, plain)
    wrapped, found = trained(other, wrap)
    assert type(wrapped) is not type(model), "it was wrapped"
    if wrap is replicated:
        assert wrapped.buckets >= 2 * STEPS, "every backward went through it"
    assert_equal(found, expected)
    assert all(gradient.abs().sum() > 0 for gradient in expected[-1][2].values())
    assert_equal(judged(other, wrapped), judged(about, model))


@pytest.mark.parametrize("task", ["causal", "prefix", "seq2seq"])
def test_a_sharded_model_decodes_as_the_plain_one(task):
    about, other = case(task), case(task)
    sources = [[7, 8, 9], [9, 8]] if task == "seq2seq" else None
    texts = []
    for model in (about.model.eval(), sharded(other.model).eval()):
        with torch.no_grad():
            decoder = Decoder(model, [[5, 6, 7], [6]], sources=sources)
            scores = [decoder.next, *(decoder.step(decoder.next.argmax(-1)) for _ in range(4))]
        texts.append(torch.stack(scores))
    assert torch.equal(*texts)


def test_parameters_that_a_task_ignores_are_found_where_ddp_is_asked_to():
    """The boundary's own layers have no gradient under masked words alone."""
    expected = trained_ignoring(plain)
    found = trained_ignoring(lambda model: replicated(model, find_unused_parameters=True))
    assert_equal(found, expected)


def trained_ignoring(wrap):
    about = case("span")
    task = case("masked").task
    wrapped, losses = wrap(about.model), []
    loader = about.dataset.loader("train", seed=0)
    for number in range(STEPS):
        batch = task.prepare(loader.load(loader.plan(0), number), number)
        losses.append(backward(wrapped, task, [batch], around=seeded)[0])
        unused = {name for name, p in about.model.named_parameters() if p.grad is None}
        assert unused and all("from_boundary" in name or "places" in name for name in unused)
        wrapped.zero_grad()
    return losses


def test_a_run_whose_steps_are_wrapped_is_that_of_the_plain_model(tmp_path, monkeypatch, unchecked):
    """Its losses and its checkpoints, which hold the plain model's names."""
    wrapped = []

    def loop(**parts):
        wrapped.append(replicated(parts["model"]))
        return Loop(**parts, wrapped=wrapped[-1])

    runs = [train(Session(config(tmp_path)), tmp_path / "plain")]
    monkeypatch.setattr("attnlab.session.training.Loop", loop)
    runs.append(train(Session(config(tmp_path)), tmp_path / "wrapped"))
    assert wrapped[0].buckets >= 12
    steps = [
        [line["loss"] for line in read_events(run.folder / "metrics.jsonl") if line["event"] == "stepped"]
        for run in runs
    ]
    assert len(steps[0]) == 12 and steps[0] == steps[1]
    states = [read_checkpoint(Checkpoints.of(run.folder), 12).model for run in runs]
    assert_equal(states[1], states[0])
