"""Studies, `attnlab compare`, a report's tables and the check give one answer on the same two runs."""

import json
from dataclasses import replace

import pytest

from attnlab.checks import comparable
from attnlab.cli.runs import compare
from attnlab.config.files import section_of
from attnlab.config.values import ConfigError
from attnlab.data.dataset import Dataset
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.evaluation.comparability import Basis, comparability
from attnlab.metrics.measures import measures
from attnlab.runs.result import RunResult
from attnlab.studies.judgement import comparisons
from attnlab.studies.outcome import ArmOutcome
from attnlab.studies.report.sections.arms import comparable as side_by_side_in_tables
from attnlab.studies.report.study_results import Arm
from attnlab.studies.side_by_side import side_by_side
from tests.studies.small_study import study

RECORD = {
    "text": "t",
    "data": {"train": "a", "dev": "b"},
    "tokenizer": "w",
    "order": "o",
    "seed": 0,
    "status": "finished",
    "trace": {"batches": {"1": "x"}},
    "config": {"task": {"kind": "causal"}, "training": {"evaluate_batches": "all"}, "seed": 0},
}
MASKED = {"task": {"kind": "masked"}, "training": {"evaluate_batches": "all"}, "seed": 0}
METRICS = {"loss": 3.0, "targets": 1000, "bits_per_byte": 1.5, "seconds": 1.0}

CHANGES = {
    "nothing": ({}, "", ""),
    "tokenizer": ({"tokenizer": "x", "data": {"train": "a", "dev": "d"}}, "tokenizers differ", ""),
    "dev": ({"data": {"train": "a", "dev": "d"}}, "judged on different dev examples", ""),
    "task": ({"config": MASKED}, "tasks differ", ""),
    "train": ({"data": {"train": "c", "dev": "b"}}, "", "trained on different examples"),
    "order": ({"order": "p"}, "", "in another order"),
    "batches": ({"trace": {"batches": {"1": "y"}}}, "", "not fed the same batches (batch 1"),
}


def result(arm, record):
    prints = {name: record[name] for name in ("text", "data", "tokenizer", "order")}
    return RunResult(
        arm=arm,
        status="finished",
        fingerprints=prints | {"task": record["config"]["task"]},
        trace=record["trace"],
        metrics=METRICS,
        folder=f"runs/{arm}/seed-0",
    )


@pytest.fixture(params=CHANGES)
def case(request):
    """Two records, why their losses do not mean the same, and why they are no equals."""
    changes, judged, trained = CHANGES[request.param]
    return RECORD, RECORD | changes, judged, trained


def test_the_function_itself(case):
    one, other, judged, trained = case
    found = comparability(Basis.of(result("a", one)), Basis.of(result("b", other)))
    assert judged in "; ".join(map(str, found.reasons)) and bool(judged) == bool(found.reasons)
    assert trained in "; ".join(map(str, found.doubts)) and bool(trained) == bool(found.doubts)


def test_a_study(case, tmp_path):
    one, other, judged, trained = case
    runs = [result("dot", one), result("linear", other)]
    rows, notes = comparisons(study(tmp_path), runs, tmp_path, measures())
    by_loss = [row for row in rows if row.metric == "loss"]
    assert bool(by_loss) == (not judged) and judged in " ".join(map(str, notes))
    if by_loss:
        assert (by_loss[0].verdict == "invalid") == bool(trained) and trained in by_loss[0].words


def test_compare(case, tmp_path):
    one, other, judged, trained = case
    folders = []
    for name, record in (("one", one), ("other", other)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps(record))
        event = {"event": "evaluated", "step": 5, "loss": 3.0, "scores": {"bits_per_byte": 1.5}}
        (folder / "metrics.jsonl").write_text(json.dumps(event))
        folders.append(folder)
    if judged and "tokenizers" not in judged:
        with pytest.raises(ConfigError, match=judged):
            side_by_side(folders)
        return
    found = side_by_side(folders)
    assert ("loss" in found.measures) == (not judged)
    assert judged in " ".join(map(str, found.notes)) and trained in " ".join(map(str, found.notes))
    assert any(note.startswith("Not a fair comparison") for note in map(str, found.notes)) == bool(trained)


def test_the_tables_of_a_report(case):
    one, other, judged, _ = case
    arms = [
        Arm(ArmOutcome(name=name), [result(name, record)], None, False)
        for name, record in (("a", one), ("b", other))
    ]
    assert len(side_by_side_in_tables(arms)) == (2 if judged else 1)


def test_the_check(case):
    one, other, judged, trained = case
    cost = {"parameters": 1, "flops": 1, "seconds": 1}
    found = comparable([one | cost, other | cost | {"arm": "other"}])
    failed = [finding.meaning for finding in found if finding.outcome == "fail"]
    assert bool(failed) == bool(judged or trained)
    assert judged in " ".join(failed) and trained in " ".join(failed)


def test_accuracy_survives_another_tokenizer_and_not_another_task():
    one = Basis.of(result("a", RECORD))
    assert not comparability(one, replace(one, tokenizer="x", dev="d"), metric="accuracy").reasons
    assert comparability(one, replace(one, tokenizer="x", dev="d"), metric="perplexity").reasons
    assert comparability(one, replace(one, task={"kind": "masked"}), metric="accuracy").reasons


def test_written_text_is_compared_whatever_task_encoding_and_tokens_wrote_it():
    apart, joined = Basis(task="seq2seq", tokenizer="t", text="same", dev="rows"), {"dev": "other rows"}
    for more in (joined, joined | {"task": "prefix"}, joined | {"task": "prefix", "tokenizer": "u"}):
        other = replace(apart, **more)
        assert not comparability(apart, other, metric="chrf").reasons
        assert comparability(apart, replace(other, tokenizer="t"), metric="loss").reasons
        assert comparability(apart, replace(other, text="others"), metric="chrf").reasons


def test_the_loss_of_labels_survives_another_tokenizer():
    one = replace(Basis.of(result("a", RECORD)), metrics={"loss": 1.0, "targets": 90, "accuracy": 0.5})
    assert not comparability(one, replace(one, tokenizer="x", dev="d"), metric="loss").reasons
    unscored = replace(one, tokenizer="x", dev="d", metrics={})
    assert not comparability(one, unscored, metric="loss").reasons
    spans = replace(one, metrics={"loss": 1.0, "targets": 90, "span_f1": 0.5})
    assert comparability(spans, replace(spans, tokenizer="x", dev="d"), metric="loss").reasons


def test_labels_of_the_same_rows_are_compared_whatever_columns_were_read():
    labelled = Basis(task="c", tokenizer="t", text="same", dev="d", metrics={"accuracy": 0.5, "loss": 1.0})
    other = replace(labelled, dev="the pictures of the same rows")
    for metric in ("accuracy", "loss"):
        assert not comparability(labelled, other, metric=metric).reasons
        assert comparability(labelled, replace(other, text="others"), metric=metric).reasons
        assert comparability(labelled, replace(other, part=2), metric=metric).reasons
    words = replace(labelled, metrics={"loss": 1.0})
    assert comparability(words, replace(words, dev="longer rows"), metric="loss").reasons
    tags = replace(labelled, metrics={"entity_f1": 0.5, "tag_accuracy": 0.5})
    assert comparability(tags, replace(tags, dev="longer rows"), metric="tag_accuracy").reasons


def test_a_part_of_dev_is_another_set_and_another_seed_another_order_by_itself():
    one = Basis.of(result("a", RECORD))
    assert "parts of dev" in str(comparability(one, replace(one, part=2)).reasons[0])
    assert not comparability(replace(one, part=2), replace(one, part=2)).reasons
    assert not comparability(one, replace(one, seed=1, order="p", batches={"1": "z"})).doubts


def test_starts_with_their_own_tokenizers_are_trained_on_the_same_texts():
    one = Basis(tokenizer="a", text="same", dev="d", train="x", order="o", seed=0)
    two = Basis(tokenizer="b", text="same", dev="e", train="y", order="p", seed=0)
    assert not comparability(one, two, metric="accuracy", changed=["start"]).doubts
    texts, tokens = replace(two, text="other"), replace(two, tokenizer="a")
    for basis, changed in ((two, []), (texts, ["start"]), (tokens, ["start"])):
        (doubt,) = comparability(one, basis, changed=changed).doubts
        assert str(doubt) == "they were trained on different examples"


def test_two_classifiers_with_their_own_tokenizers_are_compared_by_accuracy(tmp_path, capsys):
    """As `attnlab compare` shows them: texts are what both count."""
    task = {"task": {"kind": "classification"}, "training": {"evaluate_batches": "all"}, "seed": 0}
    for name, tokenizer, train in (("one", "w", "a"), ("other", "x", "c")):
        (tmp_path / name).mkdir()
        config = task | {"data": {"tokenizer": {"kind": tokenizer}}}
        data = {"train": train, "dev": name}
        record = RECORD | {"config": config, "tokenizer": tokenizer, "data": data, "order": name}
        (tmp_path / name / "run.json").write_text(json.dumps(record))
        scores = {"accuracy": 0.75, "targets": 80}
        event = {"event": "evaluated", "step": 5, "loss": 3.0, "scores": scores}
        (tmp_path / name / "metrics.jsonl").write_text(json.dumps(event))
    compare([tmp_path / "one", tmp_path / "other"])
    shown = capsys.readouterr().out
    assert "bits_per_byte" not in shown and "Not a fair comparison" not in shown
    assert "75.0%" in shown and "64.5% to 83.2%, n = 80" in " ".join(shown.split()) and "loss" in shown


def held_out(folder, tokenizer, **settings):
    """What decides dev, of a folder with a dev file of its own."""
    data = {"corpus": {"kind": "files", "path": str(folder)}, "tokenizer": tokenizer, "length": 16}
    dataset = Dataset(section_of("data", data | settings))
    return Basis(
        tokenizer=dataset.tokenizer.fingerprint,
        text=dataset.text_fingerprint,
        dev=dataset.fingerprint("dev"),
        given=dataset.given_fingerprints(),
    )


def test_a_share_that_is_held_out_of_train_does_not_make_a_dev_file_another(tmp_path):
    (tmp_path / "train.txt").write_text("\n".join(f"a fox of {n} red rooms" for n in range(90)))
    (tmp_path / "dev.txt").write_text("\n".join(f"the old dog sees {n}" for n in range(30)))
    own = str(
        TOKENIZERS.build("word").make(["a fox of red rooms the old dog sees"] * 3).save(tmp_path / "own")
    )
    one, other = (held_out(tmp_path, own, test_share=share) for share in (0.05, 0.2))
    assert one.dev != other.dev, "as runs have always recorded it"
    assert not comparability(one, other).judged and comparability(one, replace(other, given={})).judged
    trained = [held_out(tmp_path, "word", test_share=share) for share in (0.05, 0.2)]
    assert not comparability(*trained, metric="accuracy").judged, "other tokens of the same text"
    longer = held_out(tmp_path, own, length=8)
    assert comparability(one, longer).judged, "rows of another length"
    (tmp_path / "dev.txt").write_text("\n".join(f"the old dog hears {n}" for n in range(30)))
    assert comparability(one, held_out(tmp_path, own, test_share=0.05)).judged
