"""The alignment of source and target in a study's report, against the model itself."""

import re
from dataclasses import replace
from html import unescape

import pytest
import torch

from attnlab.documents.descriptions import description
from attnlab.documents.html import canvas
from attnlab.documents.nodes import Figure, Heat, Table
from attnlab.documents.plotly_figures import heatmap
from attnlab.documents.print_maps import map_drawing
from attnlab.model.capture import capture, patch
from attnlab.session.trained import Trained
from attnlab.studies.report.sections.alignment import alignment
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from attnlab.studies.spec import Study
from tests.conftest import checked_by
from tests.evaluation.copying_run import PREFIXED, copying
from tests.studies.here import here
from tests.studies.test_report_figures import study as shown_study

ARMS = {
    "transformer": {},
    "gru-attention": {"model.trunk": "gru(attention=additive)", "model.heads": 4},
    "gru": {"model.trunk": "gru", "model.heads": 4},
    "decoder": PREFIXED,
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    place = tmp_path_factory.mktemp("aligned")
    asked = Study(
        name="aligned",
        question="Where do they look?",
        base=copying(place),
        arms=ARMS,
        seeds=1,
        probes=(),
        budget={"steps": 60},
        about=("settings",),
    )
    with checked_by(), here():
        return run_study(resolve(asked), place / "study", jobs=1)


def test_weights_and_effects_are_those_of_the_model(ended):
    """By a forward of the sentence and what was written for it, with one head's output set to nothing."""
    recorded = ended.results["alignment"]
    assert {*recorded} == {"transformer", "gru-attention"}, "others have no attention to a source"
    for arm, drawn in recorded.items():
        trained = Trained.at(ended.folder / "runs" / arm / "seed-0", which="last")
        assert drawn["sentence"] in [one.text for one in trained.dataset.first("dev", 20)]
        tokenizer = trained.tokenizer
        source = torch.tensor([tokenizer.form.single(tokenizer.encode(drawn["sentence"]))])
        target = tokenizer.encode(str(trained.translate(drawn["sentence"])))
        ids = torch.tensor([[tokenizer.specials.start, *target]])
        assert (len(drawn["written"]), len(drawn["source"])) == (ids.shape[1], source.shape[1])
        effects = [head["effect"] for head in drawn["heads"]]
        assert effects == sorted(effects, reverse=True)
        model = trained.model.eval()
        with torch.no_grad():
            usual = model(ids, source=source).double().log_softmax(-1)
        for head in drawn["heads"]:
            layer, number = map(int, re.findall(r"\d+", head["name"]))
            place = f"decoder.layers.{layer}.cross_"
            with torch.no_grad(), capture(model, f"{place}attention.weights") as seen:
                model(ids, source=source)
            (weights,) = seen.values()
            assert torch.allclose(weights[0, number], torch.tensor(head["weights"]), atol=6e-5)
            with torch.no_grad(), patch(model, {f"{place}heads.{number}": torch.zeros_like}):
                without = model(ids, source=source).double().log_softmax(-1)
            moved = (usual.exp() * (usual - without)).sum(-1).mean()
            assert head["effect"] == pytest.approx(float(moved), rel=1e-4, abs=1e-7)


def test_the_report_draws_written_tokens_against_the_source(ended):
    _, figure, table = alignment(shown_study(ended.results))
    recorded = ended.results["alignment"]["transformer"]
    assert isinstance(figure, Figure) and isinstance(table, Table)
    chart = figure.views["0"][0]
    drawn = heatmap(chart)["data"][0]
    assert [unescape(name).split(" ", 1)[1] for name in drawn["x"]] == recorded["source"]
    assert [unescape(name).split(" ", 1)[1] for name in drawn["y"]] == recorded["written"]
    assert drawn["z"] == [[round(w, 3) for w in row] for row in recorded["heads"][0]["weights"]]
    assert figure.views["1"][0].weights and not figure.views["1"][1].weights, "it has one head"
    told = [(arm.text, rank, name, without.value) for arm, rank, name, without in table.rows]
    assert ("transformer", 1, recorded["heads"][0]["name"], recorded["heads"][0]["effect"]) in told
    report = (ended.folder / "report.md").read_text()
    assert "Alignment of source and target" in report and recorded["sentence"] in report


def test_a_map_of_other_columns_than_rows_is_drawn_as_such():
    weights = [[0.1, 0.2, 0.7], [0.9, 0.1, 0.0]]
    chart = Heat(["x", "y"], weights, 1.0, "written", "source", keys=["a", "b", "c"])
    assert description(chart) == "2 written by 3 source; the largest: y attends to a, 0.9."
    letters = [mark.text for mark in map_drawing([chart], ["arm"]).marks if hasattr(mark, "text")]
    assert "0 a  1 b  2 c" in letters and "x 0" in letters and "2" in letters
    assert "aspect-ratio: 1.50" in canvas(Figure({"": [chart]}, square=True))
    of_itself = Heat(["x", "y"], [[0.1, 0.9], [0.8, 0.2]], 1.0)
    assert "aspect-ratio" not in canvas(Figure({"": [of_itself]}, square=True))
    same = map_drawing([replace(chart, keys=())], ["arm"])
    assert same.height < map_drawing([chart], ["arm"]).height
