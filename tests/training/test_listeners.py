"""Tracking services get a run's numbers; what is not installed is named before any work."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from attnlab.config.values import ConfigError
from tests.training.small_run import config, train

pytestmark = pytest.mark.usefixtures("unchecked")


class Service:
    """Stands for a tracking package: remembers what it was told."""

    def __init__(self):
        self.numbers: dict[int, dict[str, float]] = {}
        self.ended = False

    def take(self, step, numbers):
        self.numbers.setdefault(step, {}).update(numbers)

    def end(self, *_):
        self.ended = True


def module(monkeypatch, name, **members):
    made = ModuleType(name)
    for member, value in members.items():
        setattr(made, member, value)
    monkeypatch.setitem(sys.modules, name, made)


@pytest.fixture
def services(monkeypatch):
    found = {name: Service() for name in ("tensorboard", "wandb", "mlflow")}

    class Writer:
        def __init__(self, log_dir):
            assert log_dir.endswith("tensorboard")

        def add_scalar(self, name, number, step):
            found["tensorboard"].take(step, {name: number})

        close = found["tensorboard"].end

    module(monkeypatch, "tensorboard")
    module(monkeypatch, "torch.utils.tensorboard", SummaryWriter=Writer)
    record = SimpleNamespace(
        log=lambda numbers, step: found["wandb"].take(step, numbers), finish=found["wandb"].end
    )
    module(monkeypatch, "wandb", init=lambda **settings: record)
    module(
        monkeypatch,
        "mlflow",
        start_run=lambda run_name: None,
        log_params=lambda params: params["model.width"] == "16" or pytest.fail("settings by their names"),
        log_metrics=lambda numbers, step: found["mlflow"].take(step, numbers),
        end_run=found["mlflow"].end,
    )
    return found


def test_every_service_gets_the_same_numbers(tmp_path, services):
    settings = config(tmp_path, training={"listeners": ["tensorboard", "wandb", "mlflow"]})
    run = train(settings, tmp_path / "run")
    for service in services.values():
        assert sorted(service.numbers) == list(range(1, 13)) and service.ended
        assert {"train/loss", "train/learning_rate", "train/tokens_per_second"} <= set(service.numbers[1])
        assert service.numbers[run.state.best_step]["dev/loss"] == run.state.best_score
        assert service.numbers == services["wandb"].numbers


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow"])
def test_a_service_that_is_not_installed_is_named(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=f"pip install {name}"):
        train(config(tmp_path, training={"listeners": [name]}), tmp_path / "run")
