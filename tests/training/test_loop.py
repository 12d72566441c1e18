"""The loop's arithmetic: targets counted, budgets kept, checkpoints kept by rule, speed told truly."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attnlab.config.values import ConfigError
from attnlab.model.assemble import build_model
from attnlab.model.draws import Dropout, seed_everything
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.events import Stepped
from attnlab.runs.metrics_file import read_events
from attnlab.session.session import Session, draft_settings
from attnlab.training.budget import nearest
from attnlab.training.checkpoint import read_checkpoint
from attnlab.training.machine import recompute_blocks
from tests.training.small_run import config, set_up, train

pytestmark = pytest.mark.usefixtures("unchecked")

ROOT = Path(__file__).parents[2]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    checkpoints = Checkpoints.of(folder)
    return read_checkpoint(checkpoints, checkpoints.steps()[-1]).model


def losses(folder: Path) -> list[float]:
    return [line["loss"] for line in read_events(folder / "metrics.jsonl") if line["event"] == "stepped"]


@pytest.mark.parametrize("task", ["causal"])
def test_accumulation_is_one_large_batch(double, tmp_path, task):
    """Micro-batches of different lengths and target counts add up to the gradient of all of them at once."""
    data = {"batching": {"kind": "padded", "batch_size": 8}}
    setup = set_up(config(tmp_path, data=data, model={"dropout": 0.0}, task=task))
    loader = setup.dataset.loader("train", seed=0)
    plan = loader.plan(0)
    rows = plan.batch(0)
    model, count = setup.model.double(), 0

    def gradient(parts):
        model.zero_grad()
        prepared = []
        for part in parts:
            from attnlab.data.batch import collate

            batch = collate(loader.rows, part, pad=loader.pad)
            prepared.append(setup.task.prepare(batch, 0))
        total = sum(p.count for p in prepared)
        for p in prepared:
            (setup.task.loss(model, p).total / total).backward()
        return total, [p.grad.clone() for p in model.parameters() if p.grad is not None]

    count, whole = gradient([rows])
    parts = [rows[:1], rows[1:3], rows[3:]]
    again, summed = gradient(parts)
    assert count == again
    for a, b in zip(whole, summed, strict=True):
        torch.testing.assert_close(a, b)


def test_accumulated_steps_of_a_run_equal_large_batches(tmp_path):
    """Four batches of 2 rows give the losses and weights of one of 8: up to rounding."""
    small = {"data": {"batching": {"kind": "padded", "batch_size": 2}}, "training": {"accumulate": 4}}
    large = {"data": {"batching": {"kind": "padded", "batch_size": 8}}, "training": {"accumulate": 1}}
    for name, changes in (("small", small), ("large", large)):
        changes["model"] = {"dropout": 0.0}
        train(config(tmp_path, **changes), tmp_path / name)
    assert losses(tmp_path / "small") == pytest.approx(losses(tmp_path / "large"), rel=1e-5)


@pytest.mark.parametrize(
    ("budget", "ends"),
    [
        ({"steps": 5}, lambda s: s.step == 5),
        ({"tokens": 900}, lambda s: 900 <= s.tokens < 1000),
        ({"epochs": 1.0}, lambda s: s.epochs == 1.0),
        ({"flops": 1e8}, lambda s: 1e8 <= s.flops < 1.3e8),
        ({"seconds": 0.2}, lambda s: 0.2 <= s.seconds < 2),
        ({"steps": 5, "tokens": 100}, lambda s: 100 <= s.tokens < 200),
    ],
)
def test_budgets_end_a_run_where_they_say(tmp_path, budget, ends):
    run = train(config(tmp_path, training={"budget": budget}), tmp_path / "run")
    assert run.reason == "budget" and ends(run.state)
    name, limit = list(budget.items())[-1]  # of two limits the second is met
    assert nearest(run.session.config.training.budget, run.state).startswith(f"{limit:,.10g} {name[:-1]}")


def test_tokens_and_operations_are_counted_truly(tmp_path):
    seen: list[Stepped] = []
    settings = config(tmp_path, training={"budget": {"epochs": 1.0}})
    run = train(
        settings, tmp_path / "run", listeners=[lambda e: seen.append(e) if isinstance(e, Stepped) else None]
    )
    rows = run.session.dataset.rows("train")
    assert sum(e.tokens for e in seen) == run.state.tokens == int(rows.lengths.sum())
    assert sum(e.flops for e in seen) == run.state.flops
    assert sum(e.seconds for e in seen) == pytest.approx(run.state.seconds)
    assert [e.step for e in seen] == list(range(1, run.state.step + 1))


def test_best_and_last_checkpoints_are_kept(tmp_path):
    changes = {"budget": {"steps": 20}, "checkpoint_every": 3, "evaluate_every": 5, "keep": 2}
    run = train(config(tmp_path, training=changes), tmp_path / "run")
    steps = Checkpoints.of(tmp_path / "run").steps()
    assert steps[-1] == 20 and run.state.best_step in steps
    assert len(steps) == (2 if run.state.best_step in steps[-2:] else 3)


def test_patience_ends_a_run_that_no_longer_gets_better(tmp_path):
    hopeless = {
        "optimizer": {"kind": "adamw", "learning_rate": 3.0},
        "budget": {"steps": 60},
        "evaluate_every": 2,
        "patience": 2,
        "clip": "off",
    }
    run = train(config(tmp_path, training=hopeless), tmp_path / "run")
    assert run.reason == "patience" and run.state.step == run.state.best_step + 4
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["reason"] == "patience" and record["best"]["step"] == run.state.best_step


def test_evaluation_does_not_disturb_training(tmp_path):
    train(config(tmp_path, training={"evaluate_every": 1}), tmp_path / "often")
    train(config(tmp_path, training={"evaluate_every": "never"}), tmp_path / "never")
    assert losses(tmp_path / "often") == losses(tmp_path / "never")
    for name, tensor in weights(tmp_path / "often").items():
        assert torch.equal(tensor, weights(tmp_path / "never")[name])


def test_recomputing_gives_the_same_weights(tmp_path):
    train(config(tmp_path), tmp_path / "plain")
    train(config(tmp_path, training={"gradient_checkpointing": True}), tmp_path / "again")
    for name, tensor in weights(tmp_path / "plain").items():
        assert torch.equal(tensor, weights(tmp_path / "again")[name]), name


def test_recomputing_holds_less_for_the_backward(tmp_path):
    def held(recompute: bool) -> int:
        model = build_model(draft_settings(config(tmp_path)))
        if recompute:
            recompute_blocks(model)
        held: dict[int, int] = {}
        parameters = {p.data_ptr() for p in model.parameters()}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.data_ptr() not in parameters:
                held[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            hidden = model.trunk(torch.zeros(4, 24, dtype=torch.long))
        assert hidden.requires_grad
        return sum(held.values())

    assert held(True) < held(False) / 3


def test_bfloat16_trains_close_to_float32(tmp_path):
    train(config(tmp_path), tmp_path / "full")
    train(config(tmp_path, training={"precision": "bfloat16"}), tmp_path / "half")
    full, half = losses(tmp_path / "full"), losses(tmp_path / "half")
    assert half != full and half == pytest.approx(full, rel=0.02)
    assert all(tensor.dtype == torch.float32 for tensor in weights(tmp_path / "half").values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"family": "encoder"}}, "the loss would mean"),
        ({"model": {"family": "encoder_decoder"}}, "set model.family to decoder"),
        ({"model": {"mask": "prefix"}}, 'task "causal" marks none'),
        ({"model": {"output": "classification"}}, "predicts words"),
        ({"data": {"length": 40}}, r"data\.length 40 is more than model\.length 24"),
        ({"data": {"encoding": "translation"}}, 'cannot use data.encoding "translation"'),
        ({"data": {"encoding": "translation"}}, "That encoding goes with task seq2seq"),
        ({"training": {"listeners": ["tensorbord"]}}, 'Did you mean "tensorboard"'),
    ],
)
def test_what_cannot_work_is_refused_before_any_text_is_read(tmp_path, changes, message):
    settings = config(tmp_path, **changes)
    with pytest.raises(ConfigError, match=message):
        Session(settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": {"steps": 0}}, r"budget\.steps is 0"),
        ({"budget": {"stpes": 5}}, 'Did you mean "steps"'),
        ({"keep": 1}, r"training\.keep is 1"),
        ({"clip": -1.0}, r"training\.clip is -1"),
        ({"accumulate": 0}, r"training\.accumulate is 0"),
        ({"precision": "float8"}, "one of float32, bfloat16"),
    ],
)
def test_wrong_settings_are_refused_when_they_load(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, training=changes)


def test_a_run_does_not_import_torchs_compiler(tmp_path):
    """It would double the time until the first step; with dropout, Muon, checks and samples on the way."""
    code = (
        "import sys; from pathlib import Path; from tests.training.small_run import train;"
        "from tests.training.small_run import config; folder = Path(sys.argv[1]);"
        "settings = {'budget': {'steps': 2}, 'optimizer': 'muon', 'evaluate_every': 2};"
        "train(config(folder, training=settings), folder / 'run');"
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, cwd=ROOT)


def test_seeding_is_torchs_own():
    drawn = []
    for seed in (torch.manual_seed, seed_everything):
        seed(2**62 + 5)
        drawn.append((torch.rand(3), torch.nn.functional.dropout(torch.ones(50))))
    assert all(torch.equal(a, b) for a, b in zip(*drawn, strict=True))


def test_draws_where_the_config_has_no_dropout_are_warned_of_once(tmp_path, monkeypatch):
    def warnings(folder, **model):
        settings = config(tmp_path, model=model, training={"budget": {"steps": 3}})
        train(settings, tmp_path / folder)
        events = read_events(tmp_path / folder / "metrics.jsonl")
        return [line["message"] for line in events if line["event"] == "warned"]

    assert warnings("none", dropout=0.0) == [] and warnings("some", dropout=0.1) == []
    monkeypatch.setattr(Dropout, "forward", lambda self, x: x + 0 * torch.rand(()))
    (message,) = warnings("own", dropout=0.0)
    assert message.startswith("Training draws random numbers, and no dropout is set in the config")
    assert warnings("set", dropout=0.1) == []
