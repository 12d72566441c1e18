"""What the study of recurrent models measures, against cases made by hand."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from attnlab.config.files import section_of
from attnlab.data.dataset import Dataset
from attnlab.explain import gradient_flow
from attnlab.explain.gradient_flow import gradient_at_token
from attnlab.model.assemble import build_model
from attnlab.session.session import draft_settings
from attnlab.studies.builtin import builtin, recurrent
from attnlab.studies.matching import parameters
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from attnlab.studies.study_files import adjusted, load_study
from attnlab.studies.wording import note_sentence
from tests.studies.here import here


def test_letters_count_at_their_place_and_surplus_ones_against_a_text():
    target = [1, 5, 6, 7, 2]
    texts = {
        (5, 6, 7, 2): (3, 3),
        (5, 7, 6, 2): (1, 3),
        (5, 2): (1, 3),
        (5, 6, 7, 8, 8): (3, 5),
        (2,): (0, 3),
    }
    for text, wanted in texts.items():
        assert recurrent.counted([list(text)], [target]) == {3: wanted}
    both = recurrent.counted([[5, 2], [6, 2], [8, 2]], [[1, 5, 2], [1, 5, 2], [1, 8, 9, 2]])
    assert both == {1: (1, 2), 2: (1, 2)} and recurrent.share(both.values()) == 0.5


def test_rows_have_the_form_that_is_counted_and_made_ones_have_theirs():
    asked = adjusted(load_study("recurrent"), set=["data.corpus.examples=60", "data.dev_share=0.5"])
    stored = Dataset(asked.config("gru").data).rows("dev")
    rows = [(stored.ragged("ids", n).tolist(), stored.ragged("target", n).tolist()) for n in range(4)]
    for source, target in rows:
        assert target[1:-1] == source[1:-1][::-1]
    source, text = recurrent.made_rows(rows, 5, 2)
    assert source.shape == (2, 7) and text.shape == (2, 5)
    for own, said in zip(source.tolist(), text.tolist(), strict=True):
        assert [own[0], own[-1], said[0]] == [rows[0][0][0], rows[0][0][-1], rows[0][1][0]]
        assert said[1:] == own[1:-1][:0:-1], "what is left to say is the first letter"


def test_arms_have_equally_many_parameters_by_their_widths():
    for asked in (builtin("recurrent"), builtin("recurrent").quickly()):
        resolved = resolve(asked)
        sizes = {arm: parameters(draft_settings(config)) for arm, config in resolved.configs.items()}
        assert max(sizes.values()) / min(sizes.values()) < 1.01, sizes
    widths = {arm: config.model.width for arm, config in resolved.configs.items()}
    assert widths["transformer"] == 64 < widths["gru-attention"] < widths["lstm"] < widths["gru"]
    sentences = [note_sentence(note.kind, note.values) for note in resolved.notes]
    (told,) = [sentence for sentence in sentences if sentence.startswith("lstm ")]
    assert "its width went from 64 to 90, " in told and "feed-forward" not in told


def test_differences_are_paired_by_seed_and_judged_by_their_interval():
    def runs(*values):
        return [SimpleNamespace(seed=n, metrics={"letters_right": v}) for n, v in enumerate(values)]

    arms = {"base": runs(0.1, 0.5, 0.9), "up": runs(0.2, 0.61, 0.99), "same": runs(0.2, 0.4, 0.9)}
    arms["one"] = runs(0.3)
    rows = {row[1]: row[2:] for row in recurrent.compared(arms, "base") if row[0] == "letters right"}
    mean, low, _, *difference, verdict = rows["up"]
    assert (mean, difference[0], verdict) == (0.6, 0.1, "higher") and low < 0 < difference[1] < 0.1
    half = 4.302653 * 0.01 / 3**0.5  # t of two degrees of freedom, by hand
    assert difference[1:] == pytest.approx([0.1 - half, 0.1 + half], abs=1e-4)
    assert rows["same"][-1] == "inconclusive" and rows["one"][-1] == "one seed"
    assert rows["base"][3:] == [None, None, None, ""]


@pytest.mark.parametrize("trunk", ["gru(attention=dot)", "lstm", "transformer"])
def test_the_gradient_is_that_of_small_changes(trunk, monkeypatch):
    """By moving the vector of the token a little along each of its axes."""
    monkeypatch.setattr(gradient_flow, "DRAWS", 1)
    sizes = {"family": "encoder_decoder", "width": 8, "layers": 1, "vocabulary": 9}
    model = build_model(section_of("model", {"trunk": trunk} | sizes)).double().eval()
    ids, source = torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([[1, 7, 8, 2], [3, 3, 4, 4]])
    sizes = gradient_at_token(model, 1, ids=ids, source=source)
    drawn = torch.randn(1, 8, generator=torch.Generator().manual_seed(0)).double()
    projection = (drawn / drawn.norm())[0]

    def projected(move):
        hook = model.trunk.entrances()[1].register_forward_hook(
            lambda module, inputs, output: output + torch.nn.functional.pad(move[None, None], (0, 0, 1, 2))
        )
        with torch.no_grad():
            hidden = model.trunk(ids, source=source)
        hook.remove()
        return hidden[:, -1] @ projection

    step = 1e-5
    slopes = [(projected(axis) - projected(-axis)) / (2 * step) for axis in step * torch.eye(8).double()]
    assert torch.allclose(sizes, torch.stack(slopes).norm(dim=0), rtol=1e-6)


def test_a_gradient_does_not_reach_a_token_that_no_output_sees():
    model = build_model(section_of("model", {"trunk": "gru", "width": 8, "vocabulary": 9, "layers": 1}))
    ids = torch.tensor([[1, 2, 3, 4]])
    near, far = (float(gradient_at_token(model, place, ids=ids)) for place in (3, 0))
    assert 0 < far < near and model.training


def test_the_study_ends_with_three_figures_and_their_numbers(tmp_path, monkeypatch, unchecked):
    whole = builtin("recurrent").only(["gru"])
    few = {**whole.set, "data.corpus.examples": 200, "data.dev_share": 0.1}
    given = replace(whole, seeds=1, budget={"steps": 2}, set=few, match="", about=("speed", "size"))
    monkeypatch.setattr(recurrent, "TIMED", (2, 4, 8))
    monkeypatch.setattr(recurrent, "DISTANCES", (2, 4))
    with here():
        results = run_study(resolve(given), tmp_path / "study").results
    assert [run["status"] for run in results["runs"]] == ["finished"] * 2
    quality, gradients, seconds = results["figures"]
    assert {series["name"] for series in quality["series"]} == {"transformer", "gru"}
    assert gradients["series"][1]["x"] == [2, 4] and min(gradients["series"][1]["y"]) > 0
    assert seconds["series"][0]["x"] == [2, 4, 8]
    (table,) = results["tables"]
    metrics = results["runs"][1]["metrics"]
    told = {row[0]: row[2] for row in table["rows"] if row[1] == "gru"}
    wanted = {title: metrics[name] for name, title in recurrent.MEASURES.items() if name in metrics}
    assert {title: told[title] for title in wanted} == pytest.approx(wanted, abs=1e-4)
    assert 0 <= metrics["letters_right"] < 0.5, "after two steps"
