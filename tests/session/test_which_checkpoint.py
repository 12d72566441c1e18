"""One rule for what is opened: the checkpoint that was best on dev, and it is said."""

from attnlab.runs.record import read_record
from attnlab.session.trained import Trained
from tests.session.adapted import asked
from tests.session.commands import answer, command
from tests.training.small_run import train


def test_the_best_is_opened_scored_and_named(home, tmp_path, unchecked):
    """At so high a rate the last epoch is not the best one."""
    changes = ["training.optimizer.learning_rate=0.5", "training.budget.epochs=8"]
    changes += ["training.patience=2", "training.schedule=constant", "training.clip=off"]
    train(asked(home, adapter="head", set=changes), tmp_path / "run")
    record = read_record(tmp_path / "run")
    best, last = record["best"]["step"], record["step"]
    assert best < last, "patience ends a run that no longer gets better"
    assert (
        Trained.at(tmp_path / "run").step == best and Trained.at(tmp_path / "run", which="last").step == last
    )
    told = answer("evaluate", tmp_path / "run")
    assert told["step"] == best and told["checkpoint"] == f"step {best}, the best on dev"
    assert told["split"]["measures"]["accuracy"]["value"] == record["best"]["value"]
    assert f"The model of step {best}, the best on dev." in command("evaluate", tmp_path / "run").output
    place = tmp_path / "run" / "checkpoints" / f"step-{last}"
    assert answer("evaluate", place)["checkpoint"] == f"step {last}", "a checkpoint that is named is that one"
