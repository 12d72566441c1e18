"""Studies whose seeds do nothing, or whose arms were not given the same: no verdict but invalid."""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab.config.files import config_of
from attnlab.evaluation.documents import DocumentLosses
from attnlab.evaluation.paired_results import SeedResult
from attnlab.evaluation.statistics import compare
from attnlab.model import assemble, draws
from attnlab.model.assemble import build_model
from attnlab.model.attention.linear import Linear
from attnlab.runs.result import RunResult
from attnlab.session import training as session_training
from attnlab.studies.builtin import STUDIES, builtin
from attnlab.studies.equality import changed_settings
from attnlab.studies.evidence import (
    idle_seeds,
    mixed_runs,
    training_differences,
    unasked_draws,
    weight_differences,
)
from attnlab.studies.resolved import resolve
from attnlab.studies.run_measures import WrittenSamples
from attnlab.studies.runner import run_study
from attnlab.studies.wording import note_sentence
from attnlab.training import loop
from attnlab.training.loop import Loop
from attnlab.training.trace import Trace, Trail, initial_weights
from tests.studies.here import here
from tests.studies.small_study import study

QUIET = {"training.evaluate_every": "never", "training.checkpoint_every": 100}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("evidence")


@pytest.fixture
def bare(place, monkeypatch):
    """Studies run without their checks: what is wrong must show in what runs record."""
    monkeypatch.setattr("attnlab.session.soundness.run_checks", lambda case, names=(): [])
    monkeypatch.setattr("attnlab.studies.worker.default_cache", lambda: place / "cache")
    monkeypatch.setattr("attnlab.studies.runner.report.write", lambda results, folder: None)
    monkeypatch.setattr("attnlab.studies.run_measures.written_samples", lambda trained: WrittenSamples())
    monkeypatch.setattr("attnlab.studies.run_measures.HONEST_TEXTS", 2)


@pytest.fixture
def results(place, bare, request):
    """Runs the small study here."""

    def ended(arms=None, **changes):
        given = {"probes": (), "sentence": "", "set": QUIET} | ({"arms": arms} if arms else {}) | changes
        folder = place / f"{request.node.name[:60]}-{len(list(place.iterdir()))}".replace("/", "-")
        with here():
            return run_study(resolve(study(place, **given)), folder, jobs=1).results

    return ended


# ---------------------------------------------------------------- faults: seeds that do nothing
def init_ignores_the_seed(patch):
    healthy = assemble.initialise
    patch.setattr(assemble, "initialise", lambda model, seed: healthy(model, 0))


def loader_ignores_the_seed(patch):
    patch.setattr(session_training, "in_order", lambda setup: setup.dataset.loader("train", seed=0))


def shuffle_ignores_the_seed(patch):
    """The settings still say that the order differs."""
    patch.setattr(
        "attnlab.data.batching.shuffled",
        lambda count, seed, epoch, *names: np.random.default_rng(epoch).permutation(count),
    )


def dropout_ignores_the_seed(patch):
    healthy = loop.stream_seed
    patch.setattr(
        loop, "stream_seed", lambda seed, name, *rest: healthy(seed if name != "dropout" else 0, name, *rest)
    )


def dropout_seeds_itself(patch):
    """What it begins with depends on the seed, what it draws does not."""
    healthy = draws.Dropout.forward

    def forward(self, x):
        dropped = healthy(self, x)
        torch.default_generator.manual_seed(0)
        return dropped

    patch.setattr(draws.Dropout, "forward", forward)


def all_ignore_the_seed(patch):
    init_ignores_the_seed(patch)
    loader_ignores_the_seed(patch)
    dropout_ignores_the_seed(patch)


SAME = ("initial weights", "batches in the same order", "random draws in dropout")


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (init_ignores_the_seed, ["the same initial weights"]),
        (loader_ignores_the_seed, ["the same batches in the same order"]),
        (shuffle_ignores_the_seed, ["the same batches in the same order"]),
        (dropout_ignores_the_seed, ["the same random draws in dropout"]),
        (dropout_seeds_itself, ["the same random draws in dropout"]),
        (
            all_ignore_the_seed,
            list(SAME),
        ),
    ],
)
def test_seeds_that_do_nothing_make_the_verdict_invalid(results, monkeypatch, fault, named):
    fault(monkeypatch)
    found = results()
    (row,) = found["comparisons"]
    assert row["verdict"] == "invalid" and {arm["status"] for arm in found["arms"]} == {"invalid"}
    assert row["words"].endswith("is no evidence. linear had 11% fewer FLOPs.")
    assert any(note.startswith("Seeds that change nothing: look for") for note in found["study"]["notes"])
    for words in named:
        assert words in found["verdict"] and "seeds 0 and 1 of linear" in found["verdict"]
    healthy = [words for words in SAME if not any(words in one for one in named)]
    assert not any(f"the same {words}" in found["verdict"] for words in healthy)


def test_a_seed_whose_losses_were_copied_from_another_is_no_second_result(results, place, monkeypatch):
    found = results()
    assert found["comparisons"][0]["verdict"] != "invalid"
    folder = Path(found["again"].split()[-1])
    first, second = (folder / "runs" / "linear" / f"seed-{seed}" for seed in (0, 1))
    shutil.copy(first / "documents.safetensors", second / "documents.safetensors")
    held = [json.loads((one / "result.json").read_text()) for one in (first, second)]
    (second / "result.json").write_text(json.dumps(held[1] | {"metrics": held[0]["metrics"]}))
    with here():
        again = run_study(
            resolve(study(place, probes=(), sentence="", set=QUIET)), folder, jobs=1, resume=True
        ).results
    assert again["comparisons"][0]["verdict"] == "invalid"
    assert "seeds 0 and 1 of linear have the same loss for every text" in again["verdict"]


def test_copied_losses_are_no_evidence_from_python_either():
    random = np.random.default_rng(0)

    def result(seed, nats):
        held = DocumentLosses(nats, np.full(40, 10), np.full(40, 50))
        return SeedResult(seed, held.loss, held)

    base = [result(seed, random.normal(30, 1, 40)) for seed in range(4)]
    better = [result(one.seed, one.documents.nats - 5 + random.normal(0, 0.1, 40)) for one in base]
    (healthy,) = compare({"base": base, "arm": better}, "base", metric="loss")
    assert healthy.verdict == "better"
    copied = [result(seed, better[0].documents.nats) for seed in range(4)]
    (found,) = compare({"base": base, "arm": copied}, "base", metric="loss")
    assert found.verdict == "invalid" and "seeds 0, 1, 2 and 3 of arm" in found.words
    (found,) = compare(
        {"base": [*base[:3], result(3, base[0].documents.nats)], "arm": better}, "base", metric="loss"
    )
    assert found.verdict == "invalid" and "seeds 0 and 3 of base" in found.words


# ---------------------------------------------------------------- faults: arms that were not given the same
def is_linear(model):
    return any(isinstance(module, Linear) for module in model.modules())


def another_order_for_one_arm(patch):
    healthy = session_training.in_order

    def in_order(setup):
        loader = healthy(setup)
        loader.seed += is_linear(setup.model)
        return loader

    patch.setattr(session_training, "in_order", in_order)


def a_batch_dropped_for_one_arm(patch):
    """The loader's settings and fingerprint stay those of the others."""
    healthy = Loop.__init__

    def init(self, **parts):
        healthy(self, **parts)
        if is_linear(self.model):
            self.loader.take(False)

    patch.setattr(Loop, "__init__", init)


def rows_reversed_for_one_arm(patch):
    """Only within batches, and only late in the run."""
    healthy = Loop.prepared

    def changed(self, batch, step, number):
        batch, prepared = healthy(self, batch, step, number)
        if is_linear(self.model) and step >= 5:
            batch = batch._each(lambda tensor: tensor.flip(0))
        return batch, prepared

    patch.setattr(Loop, "prepared", changed)


def inputs_changed_for_one_arm(patch):
    """The batches are the same; what the task makes of them is not."""
    healthy = Loop.prepared

    def changed(self, batch, step, number):
        batch, prepared = healthy(self, batch, step, number)
        if is_linear(self.model):
            prepared.targets[0, :3] = -100
        return batch, prepared

    patch.setattr(Loop, "prepared", changed)


def other_weights_for_one_arm(patch):
    healthy = assemble.initialise
    patch.setattr(assemble, "initialise", lambda model, seed: healthy(model, seed + 10 * is_linear(model)))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (another_order_for_one_arm, "with seed 0 they were not fed the same batches (batch 1 or one"),
        (a_batch_dropped_for_one_arm, "with seed 0 they were not fed the same batches (batch 1 or one"),
        (rows_reversed_for_one_arm, "with seed 0 they were not fed the same batches (batch 8 or one"),
        (inputs_changed_for_one_arm, "the same batches became other inputs (batch 1"),
        (other_weights_for_one_arm, "parameters that both have started from other weights"),
    ],
)
def test_arms_that_were_not_given_the_same_are_not_compared_as_if_they_were(
    results, monkeypatch, fault, words
):
    fault(monkeypatch)
    found = results()
    (row,) = found["comparisons"]
    assert row["verdict"] == "invalid" and words in row["words"] and words in found["verdict"]
    assert found["verdict"].startswith("linear compared with dot (baseline): invalid: ")
    assert {arm["status"] for arm in found["arms"]} == {"finished"}, "each by itself is sound"


# ---------------------------------------------------------------- faults: what changed between two runs
def on_files(folder):
    """A base config on files of its own, with a tokenizer from a file."""
    base = study(folder).base
    lines = Path(base["data"]["corpus"]["path"]).read_text().splitlines()
    for name, part in (("train.txt", lines[20:]), ("dev.txt", lines[:20])):
        (folder / name).write_text("\n".join(part))
    corpus = {
        "kind": "files",
        "path": str(folder / "train.txt"),
        "dev": str(folder / "dev.txt"),
        "unit": "line",
    }
    return base | {"data": base["data"] | {"corpus": corpus}}


def half_of_the_training_rows_are_gone(folder):
    lines = (folder / "train.txt").read_text().splitlines()
    (folder / "train.txt").write_text("\n".join(lines[::2]))


def every_dev_text_is_replaced(folder):
    lines = (folder / "dev.txt").read_text().splitlines()
    (folder / "dev.txt").write_text("\n".join(" ".join(reversed(line.split())) for line in lines))


def one_word_is_another(folder):
    text = (folder / "train.txt").read_text()
    (folder / "train.txt").write_text(text.replace("cat", "dog", 1))


@pytest.mark.parametrize(
    "change", [half_of_the_training_rows_are_gone, every_dev_text_is_replaced, one_word_is_another]
)
@pytest.mark.parametrize("grown", ["seeds", "arms"])
def test_a_study_continued_on_other_data_is_invalid(tmp_path, bare, change, grown):
    base = on_files(tmp_path)
    arms = {"dot": {}, "linear": {"model.attention": "linear"}}
    first = {"seeds": {"seeds": 1, "arms": arms}, "arms": {"seeds": 2, "arms": {"dot": {}}}}[grown]
    quick = {"base": base, "probes": (), "sentence": "", "set": QUIET}
    with here():
        run_study(resolve(study(tmp_path, **quick | first)), tmp_path / "study", jobs=1)
        change(tmp_path)
        whole = resolve(study(tmp_path, **quick | {"seeds": 2, "arms": arms}))
        mixed = run_study(whole, tmp_path / "study", jobs=1, resume=True).results
        alone = run_study(whole, tmp_path / "alone", jobs=1).results
    assert all(row["verdict"] == "invalid" for row in mixed["comparisons"])
    assert "runs were trained and judged with different text: " in mixed["verdict"]
    assert "dot seed 0" in mixed["verdict"]
    states = {arm["name"]: arm["status"] for arm in mixed["arms"]}
    assert states == {"dot": "invalid" if grown == "seeds" else "finished", "linear": "invalid"}
    assert any("must share their data" in note for note in mixed["study"]["notes"])
    assert alone["comparisons"][0]["verdict"] != "invalid", "the data that it ends with are sound"


def test_what_follows_from_another_text_is_not_said_again():
    runs = [
        as_run(seed, arm="a", fingerprints={"text": t, "tokenizer": t, "data": {"dev": t}})
        for seed, t in ((0, "x"), (1, "x"), (2, "y"))
    ]
    (reason,) = mixed_runs("a", runs, [], changed=(), codes={})
    assert reason.values["what"] == "text"
    assert [group["runs"] for group in reason.values["versions"]] == [["a seed 0", "a seed 1"], ["a seed 2"]]
    rows = [as_run(s, arm="a", fingerprints={"text": "x", "data": {"dev": str(s)}}) for s in (0, 1)]
    assert mixed_runs("a", rows, [], changed=(), codes={})[0].values["what"] == "rows"
    apart = [
        replace(one, fingerprints={**one.fingerprints, "data": {"train": f"seed {n}", "dev": dev}})
        for n, (one, dev) in enumerate(zip(rows, "dd", strict=False))
    ]
    assert mixed_runs("a", apart, [], changed=(), codes={}) and len(apart) == 2
    assert mixed_runs("a", apart, [], changed=(), codes={}, drawn=True) == []  # data.train_rows, by seed
    baseline = [as_run(0, arm="b", fingerprints={"text": "z", "tokenizer": "z"})]
    assert mixed_runs("a", runs[:1], baseline, changed=["data.tokenizer"], codes={}) == []
    assert mixed_runs("a", runs[:1], baseline, changed=["model.layers"], codes={})


# ---------------------------------------------------------------- healthy: differences by design
BY_DESIGN = {
    "muon": {"training.optimizer": "muon(learning_rate=1e-3)"},
    "accumulate": {"training.accumulate": 2},
    "longer": {"training.budget": {"steps": 11}},
    "bucketed": {"data.batching": {"kind": "bucketed", "tokens": 96}},
    "characters": {"data.tokenizer": "character", "model.length": 64, "data.length": 64},
    "deeper": {"model.layers": 2},
    "no-dropout": {"model.dropout": 0.0},
    "parts": {"model.positions": "learned", "model.norm": "rms"},
}


def test_arms_that_differ_by_design_are_not_accused(results):
    found = results({"plain": {}} | BY_DESIGN)
    rows = {row["arm"]: row for row in found["comparisons"]}
    assert {*rows} == {*BY_DESIGN}
    assert not any(row["verdict"] == "invalid" for row in rows.values()), found["verdict"]
    assert {arm["status"] for arm in found["arms"]} == {"finished"}
    assert not any("in the same order" in note for note in found["study"]["notes"])


def test_an_order_that_cannot_depend_on_the_seed_is_said_and_not_accused(results, place):
    """Rows sorted by their lengths, all different: no seed can change their order."""
    lines = [" ".join(["cat", "dog", "bird"][i % 3] for i in range(n)) for n in range(2, 40)]
    file = place / "lengths.txt"
    file.write_text("\n".join(lines))
    base = study(place).base | {}
    base["data"] = base["data"] | {
        "corpus": {"kind": "files", "path": str(file), "unit": "line"},
        "batching": {"kind": "longest_first", "batch_size": 4},
        "length": 48,
        "dev_share": 0.3,
        "test_share": 0.0,
    }
    base["model"] = base["model"] | {"length": 48}
    found = results(base=base)
    assert found["comparisons"][0]["verdict"] != "invalid", found["verdict"]
    told = [note for note in found["study"]["notes"] if "data.batching longest_first sorts them" in note]
    assert len(told) == 2, found["study"]["notes"]


def as_run(seed, **facts):
    start = {"a.weight": f"4x4 v{seed} s{seed}", "a.bias": "4 = 0.0"}
    trail = {"1": f"x{seed}", "2": f"y{seed}"}
    trace = {"batches": trail, "inputs": trail, "draws": trail}
    return RunResult(**{"seed": seed, "initial": start, "trace": trace, "epoch_batches": 9} | facts)


def test_one_batch_of_text_leaves_no_order_to_vary():
    same = {"batches": {"1": "x"}, "inputs": {"1": "x"}, "draws": {}}
    reasons, notes = idle_seeds("a", [as_run(s, trace=same) for s in (0, 1)], batching="packed")
    assert [*map(str, reasons)] == ["seeds 0 and 1 of a have the same batches in the same order"]
    assert not notes
    runs = [as_run(s, trace=same, epoch_batches=1) for s in (0, 1)]
    reasons, notes = idle_seeds("a", runs, batching="packed")
    assert reasons == [] and "all training text is one batch" in str(notes[0])


def test_starts_with_tokenizers_of_their_own_cannot_be_fed_the_same_tokens():
    """Of one tokenizer, and where no start explains it, other batches are told as before."""
    other = {name: {"1": "z", "2": "z"} for name in ("batches", "inputs", "draws")}
    one, two = (
        as_run(0, fingerprints={"tokenizer": "a"}),
        as_run(0, trace=other, fingerprints={"tokenizer": "b"}),
    )
    same = as_run(0, trace=other, fingerprints={"tokenizer": "a"})
    assert training_differences(one, two, changed=["start"]) == []
    for run, changed in ((two, ["model.attention"]), (same, ["start"])):
        assert "they were not fed the same batches" in str(training_differences(one, run, changed=changed)[0])


def test_runs_of_before_there_was_a_trace_are_said_to_be_unknown():
    reasons, notes = idle_seeds("a", [RunResult(seed=0), RunResult(seed=1)], batching="packed")
    assert reasons == [] and len(notes) == 1 and "is not known" in str(notes[0])
    assert training_differences(RunResult(seed=0), as_run(0), changed=()) == []


def starting(seed, *, fixed):
    """A large table and four small matrices, of which some start from the same values with every seed."""
    shapes = {"table": "100x8", "a": "8x8", "b": "8x8", "c": "8x8", "d": "8x8"}
    drawn = {
        n: f"{shape} same same" if n in fixed else f"{shape} {seed} {seed}" for n, shape in shapes.items()
    }
    return as_run(seed, initial=drawn | {"norm": "8 = 1.0"})


@pytest.mark.parametrize("fixed", ["abcd", ["table"], ["table", *"abcd"]], ids=str)
def test_most_of_the_parameters_or_most_of_their_numbers_started_alike(fixed):
    runs = [starting(seed, fixed=fixed) for seed in (0, 1, 2)]
    reasons, _ = idle_seeds("arm", runs, batching="packed")
    assert [*map(str, reasons)] == ["seeds 0, 1 and 2 of arm have the same initial weights"]


def test_a_part_with_a_fixed_start_is_said_and_does_not_make_seeds_idle():
    runs = [starting(seed, fixed="a") for seed in (0, 1)]
    reasons, notes = idle_seeds("arm", runs, batching="packed")
    told = "1 of the 5 parameters of arm that are drawn at random start from the same values with every seed"
    assert reasons == [] and [*map(str, notes)] == [f"{told} (a first)."]
    assert idle_seeds("arm", [starting(seed, fixed="") for seed in (0, 1)], batching="packed") == ([], [])


@pytest.mark.parametrize("name", STUDIES)
def test_arms_of_the_studies_start_from_the_same_weights_where_they_share_parts(name):
    """With the widest differences that ship: recipes, positions, widths, families."""
    asked = builtin(name).quickly()
    starts = {}
    for arm in asked.arms:
        own = asked.config(arm).model
        layers = 2 if own.picture is None else own.layers  # fusions divide the layers that there are
        sizes = {"vocabulary": 50, "length": 32, "layers": layers}
        small = config_of({"model": vars(own) | sizes}).model
        starts[arm] = RunResult(seed=3, initial=initial_weights(build_model(small, seed=3)))
    for arm in asked.arms:
        other = asked.baseline_of(arm)
        assert weight_differences(starts[arm], starts[other], changed_settings(asked, arm)) == [], arm


# ---------------------------------------------------------------- the record itself
def test_a_trail_is_comparable_over_what_two_runs_have_in_common():
    things = [str(number).encode() for number in range(120)]
    short, long = Trail().add(*things[:60]), Trail().add(*things)
    assert list(short.record) == ["1", "2", "4", "8", "16", "32", "60"]
    assert short.record["32"] == long.record["32"] and short.record["60"] != long.record["64"]
    assert Trail().add(*things[:7]).add(*things[7:60]) == short, "wherever a run was cut"
    swapped = Trail().add(*things[:40], things[41], things[40], *things[42:60])
    assert swapped.record["32"] == short.record["32"] and swapped.record["60"] != short.record["60"]


def test_a_checkpoint_of_before_there_was_a_trace_gives_an_unknown_one():
    old = Trace.of(None)
    went_on = Trace(old.batches.add(b"x"), old.inputs, old.draws, old.drawn)
    assert went_on.record == dict.fromkeys(("batches", "inputs", "draws", "drawn"))


def test_a_checkpoint_of_before_draws_were_followed_to_their_end_has_the_others():
    """Its run goes on, and is compared by what it has."""
    now = asdict(Trace(*(Trail().add(b"x") for _ in range(4))))
    before = {name: trail for name, trail in now.items() if name != "drawn"}
    resumed = Trace.of(json.loads(json.dumps(before)))
    assert resumed.record["draws"] == {"1": Trail().add(b"x").last} and resumed.record["drawn"] is None
    assert resumed.drawn.add(b"y").record is None  # a trail from the middle is none


def test_the_hash_of_initial_weights_tells_values_and_signs_apart():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3))
    before = initial_weights(model)
    assert before["1.weight"] == "3 = 1.0" and before["0.weight"].startswith("3x4 ")
    with torch.no_grad():
        model[0].weight.mul_(0.5)
    after = initial_weights(model)
    assert after["0.weight"].split()[1] != before["0.weight"].split()[1]
    assert after["0.weight"].split()[2] == before["0.weight"].split()[2]
    with torch.no_grad():
        model[0].weight[2, 3] *= -1
    assert initial_weights(model)["0.weight"].split()[2] != before["0.weight"].split()[2]


# ---------------------------------------------------------------- what was drawn
def as_drawn(drawn, seed=0):
    same = {"1": "x"}
    trace = {"batches": same, "inputs": same, "draws": same, "drawn": drawn}
    return RunResult(seed=seed, trace=trace)


def test_arms_that_drew_other_numbers_from_the_same_seed_are_told():
    one, other = as_drawn({"1": "a"}), as_drawn({"1": "b"})
    (reason,) = training_differences(one, other, changed=["training.optimizer"])
    assert reason.kind == "other_draws"
    assert training_differences(one, other, changed=["model.attention"]) == []
    assert training_differences(one, as_drawn(None), changed=[]) == []  # from before it was recorded


def test_draws_without_dropout_are_named(tmp_path):
    plain = config_of({"model": {"dropout": 0.0}})
    (note,) = unasked_draws("arm", [as_drawn({"1": "a"})], plain)
    assert note.kind == "unasked_draws" and "arm drew random numbers" in note_sentence(note.kind, note.values)
    for model in ({"dropout": 0.1}, {"feedforward": "gelu(dropout=0.1)"}, {"attention_dropout": 0.2}):
        settings = config_of({"model": {"dropout": 0.0} | model})
        assert unasked_draws("arm", [as_drawn({"1": "a"})], settings) == []
    undrawn = replace(as_drawn({}), trace={"batches": {"1": "x"}, "inputs": {}, "draws": {}, "drawn": {}})
    assert unasked_draws("arm", [undrawn], plain) == []
