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
from attnlab.studies import step_timing
from attnlab.studies.builtin import builtin, recurrent
from attnlab.studies.matching import parameters
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from attnlab.studies.study_files import adjusted, load_study
from attnlab.studies.wording import note_sentence
from attnlab.training import machine
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


def metrics_of(results, arm):
    return next(run["metrics"] for run in results["runs"] if run["arm"] == arm)


def test_the_longest_chain_is_that_of_a_graph_made_by_hand():
    x = torch.ones(3, requires_grad=True)
    first = x * 2
    side_way = first.exp().sin().cos()
    both = first + side_way  # leaf, times, exp, sin, cos, plus
    assert step_timing.longest_chain(both) == 6
    assert step_timing.longest_chain((both + both).sum()) == 8 and step_timing.longest_chain(x.detach()) == 0


@pytest.mark.parametrize("trunk", ["transformer", "gru", "lstm", "gru(attention=additive)"])
def test_only_recurrent_trunks_have_a_chain_that_grows_with_the_text(trunk):
    sizes = {"family": "encoder_decoder", "width": 8, "layers": 1, "vocabulary": 9, "length": 70}
    model = build_model(section_of("model", {"trunk": trunk} | sizes)).eval()
    chains = []
    for length in (8, 32, 64):
        ids = torch.zeros(1, length, dtype=torch.long)
        with step_timing.unfused():
            chains.append(step_timing.longest_chain(model(ids, source=ids).sum()))
    if trunk == "transformer":
        assert max(chains) < 2 * min(chains)
    else:
        assert chains[1] - chains[0] >= 2 * 24 and chains[2] - chains[1] >= 2 * 32


def clocked_times(waited=0.0):
    """A second processor halves what the first arm takes, by a little more or less, and not the other."""
    fast = {1: [[2.0, 2.0, 2.0], [4.0, 4.0, 4.0]], 2: [[1.0, 1.0, 1.0], [2.0, 2.2, 1.9]]}
    slow = {1: [[3.0, 3.0, 3.0], [9.0, 9.0, 9.0]], 2: [[3.0, 3.0, 3.0], [9.0, 9.3, 8.8]]}
    return step_timing.StepTimes(
        lengths=[8, 16], threads=(1, 2), seconds={"fast": fast, "slow": slow}, waited=waited
    )


def test_what_processors_gain_is_judged_by_round_and_not_on_a_busy_machine():
    times = clocked_times()
    assert times.speedups("slow")[0] == [1.0] * 3
    rows = {row[0]: row[1:] for row in step_timing.speedup_table(times, "fast", "")["rows"]}
    assert rows["fast"][:2] == [4000.0, 1900.0] and rows["fast"][-1] == ""
    gains = [a / b - c / d for a, b, c, d in zip([9] * 3, [9, 9.3, 8.8], [4] * 3, [2, 2.2, 1.9], strict=True)]
    assert rows["slow"][5] == pytest.approx(sum(gains) / 3, abs=1e-4) and rows["slow"][-1] == "lower"
    (_, slow) = step_timing.speedup_figure(times, "")["series"]
    assert slow["y"] == pytest.approx([1.0, (9 / 9 + 9 / 9.3 + 9 / 8.8) / 3])
    busy = step_timing.speedup_table(clocked_times(0.3), "fast", "")
    assert busy["rows"][1][-1] == "machine busy" and "30%" in busy["note"]


def test_times_by_the_clock_are_those_of_each_arm_at_each_length(monkeypatch):
    """By a clock that only steps move: each takes its length in seconds, the second arm twice that, and
    half with two threads."""
    now = [0.0]
    monkeypatch.setattr(step_timing.time, "perf_counter", lambda: now[0])

    def step_of(factor):
        def step(length):
            now[0] += factor * length / torch.get_num_threads()
            return torch.zeros(())

        return step

    usual = torch.get_num_threads()
    arms = {"one": 1.0, "other": 2.0}
    times = step_timing.step_times(
        {arm: step_of(factor) for arm, factor in arms.items()},
        dict.fromkeys(arms, lambda loss: None),
        [3, 5],
        threads=(1, 2),
        rounds=2,
    )
    assert times.seconds["other"] == {1: [[6, 6], [10, 10]], 2: [[3, 3], [5, 5]]}
    assert times.speedups("one") == [[2, 2], [2, 2]] and times.rounds == 2
    assert torch.get_num_threads() == usual


def test_rounds_that_take_too_long_are_fewer_and_whole(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(step_timing.time, "perf_counter", lambda: now[0])

    def step(length):
        now[0] += length
        return torch.zeros(())

    def rounds():
        times = step_timing.step_times(
            {"one": step}, {"one": lambda loss: None}, [3, 5], threads=(1, 2), rounds=6
        )
        assert {len(own) for by_length in times.seconds["one"].values() for own in by_length} == {
            times.rounds
        }
        return times.rounds

    assert rounds() == 6, "16 seconds a round"
    monkeypatch.setattr(step_timing, "PATIENCE", 60.0)
    assert rounds() == 3, "the first warms up"
    monkeypatch.setattr(step_timing, "PATIENCE", 1.0)
    assert rounds() == 2


def test_the_study_ends_with_its_figures_and_their_numbers(tmp_path, monkeypatch, unchecked):
    whole = builtin("recurrent").only(["gru"])
    few = {**whole.set, "data.corpus.examples": 200, "data.dev_share": 0.1}
    given = replace(whole, seeds=1, budget={"steps": 2}, set=few, match="", about=("speed", "size"))
    monkeypatch.setattr(recurrent, "TIMED", (2, 4, 8))
    monkeypatch.setattr(recurrent, "DISTANCES", (2, 4))
    monkeypatch.setattr(recurrent, "CLOCKED", 2)
    monkeypatch.setattr(machine, "cores", lambda: 2)
    with here():
        results = run_study(resolve(given), tmp_path / "study").results
    assert [run["status"] for run in results["runs"]] == ["finished"] * 2
    quality, gradients, seconds, chains, speedups = results["figures"]
    assert {series["name"] for series in quality["series"]} == {"transformer", "gru"}
    assert gradients["series"][1]["x"] == [2, 4] and min(gradients["series"][1]["y"]) > 0
    assert seconds["series"][0]["x"] == [2, 4, 8]
    table, clocked = results["tables"]
    by_arm = {series["name"]: series["y"] for series in chains["series"]}
    assert by_arm["gru"][1] - by_arm["gru"][0] >= 2 * 2, "an operation a letter at the least, on both sides"
    assert metrics_of(results, "transformer")["chain_growth"] < 1 < metrics_of(results, "gru")["chain_growth"]
    assert [row[0] for row in clocked["rows"]] == ["transformer", "gru"]
    assert speedups["series"][0]["x"] == [2, 4, 8]
    assert len(results["step_times"]["seconds"]["gru"]["2"][0]) == 2
    metrics = results["runs"][1]["metrics"]
    told = {row[0]: row[2] for row in table["rows"] if row[1] == "gru"}
    wanted = {title: metrics[name] for name, title in recurrent.MEASURES.items() if name in metrics}
    assert {title: told[title] for title in wanted} == pytest.approx(wanted, abs=1e-4)
    assert 0 <= metrics["letters_right"] < 0.5, "after two steps"
