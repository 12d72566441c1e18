"""`attnlab runs`: state, curve, score and time of each run, as its files have them."""

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.documents.nodes import Sparkline
from attnlab.documents.terminal_text import inline
from attnlab.runs.listing import value_spans
from attnlab.runs.metrics_file import RunCurve, curve_of


def stepped(step, of, loss=2.0):
    return {"event": "stepped", "step": step, "loss": loss, "gradient": 1.0, "tokens": 9, "seconds": 0.1,
            "progress": step / of}  # fmt: skip


def evaluated(step, loss, **scores):
    return {"event": "evaluated", "step": step, "loss": loss, "seconds": 0.1, "scores": scores}


@pytest.fixture
def metrics(tmp_path):
    def write(*events):
        file = tmp_path / "metrics.jsonl"
        file.write_text("".join(json.dumps(event) + "\n" for event in events))
        return file

    return write


def test_the_curve_is_the_headline_metric_of_each_evaluation_at_its_share_of_the_budget(metrics):
    events = [stepped(10, 40), evaluated(10, 3.0, accuracy=0.25), stepped(20, 40), stepped(30, 40)]
    file = metrics(*events, evaluated(30, 2.5, accuracy=0.5))
    assert curve_of(file, "accuracy") == RunCurve("dev accuracy", (0.25, 0.75), (0.25, 0.5))
    assert curve_of(file, "loss").values == (3.0, 2.5)


def test_with_one_evaluation_it_is_the_training_loss_and_damaged_lines_are_left_out(metrics):
    file = metrics(stepped(1, 2, 4.0), evaluated(1, 3.0), stepped(2, 2, 1.0))
    assert curve_of(file, "loss") == RunCurve("training loss", (0.5, 1.0), (4.0, 1.0))
    file.write_text(file.read_text() + '{"event": "evaluated", "step"\n' * 2)
    assert curve_of(file, "loss").name == "training loss"
    assert curve_of(file.with_name("none"), "loss") == RunCurve()


def test_of_many_steps_every_so_manieth_is_read(metrics):
    file = metrics(*(stepped(step, 1000, float(step)) for step in range(1, 1001)))
    assert curve_of(file, "loss").values == tuple(map(float, range(1, 1001, 1000 // 64)))


def test_a_sparkline_leaves_out_what_was_not_measured_and_shares_its_scale():
    drawn = inline(Sparkline((0.05, 0.5, 1.0), (4.0, None, 2.0), scale=(2.0, 6.0))).plain
    assert drawn == "▅        ▁"
    assert inline(Sparkline((0.1,), (1.0,), broken=True)).plain.endswith("✗")


def test_curves_share_a_scale_where_they_were_measured_on_the_same_text():
    def run(data, *values):
        result = SimpleNamespace(fingerprints={"data": data})
        return SimpleNamespace(curve=RunCurve("dev loss", (0.5, 1.0), values), result=result)

    spans = value_spans([run("a", 1.0, 2.0), run("a", 3.0, 4.0), run("b", 9.0, 8.0)])
    assert [*spans.values()] == [(1.0, 4.0), (8.0, 9.0)]


def test_names_are_never_broken(tmp_path):
    """A table where there is room, else a list: a name is there to be copied."""
    place = tmp_path / ("long-" * 20) / "run"
    place.mkdir(parents=True)
    record = {
        "config": {"training": {"evaluate_batches": "all"}, "task": {"kind": "causal"}},
        "seed": 0,
        "status": "interrupted",
        "seconds": 1.0,
        "versions": {},
    }
    (place / "run.json").write_text(json.dumps(record))
    shown = CliRunner().invoke(app, ["runs", str(tmp_path)]).output
    assert str(place) in shown and "‖ interrupted" in shown
