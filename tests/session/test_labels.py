"""Labels from a file to a prediction: trained, evaluated, predicted, on the command line and in Python."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import time

import numpy as np
import pytest
from sklearn import metrics as sk

from attnlab.config.values import ConfigError
from attnlab.data.errors import DataError
from attnlab.metrics.metric import wilson
from attnlab.session.trained import Trained
from tests.session.commands import answer, command
from tests.training.small_run import config, for_task, labelled, merged, train

LONGER = {
    "training": {"budget": {"steps": 30}, "evaluate_every": 10, "optimizer": "adamw(learning_rate=1e-2)"},
    "data": {"dev_share": 0.3},
}
UNCHECKED = "attnlab.session.soundness.run_checks"


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A run of each task, trained when it is first asked for."""
    made = {}

    def of(name, **changes):
        key = name, json.dumps(changes)
        if key not in made:
            folder = tmp_path_factory.mktemp(name)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(UNCHECKED, lambda case, names=(): [])
                chosen = merged(merged(LONGER, for_task(name, folder)), changes)
                train(config(folder, **chosen), folder / "run")
            made[key] = folder / "run"
        return made[key]

    return of


@pytest.fixture
def classifier(runs):
    return runs("classification")


def rows_of(run):
    """The labelled sentences that a run was trained on, as rows."""
    return [json.loads(line) for line in labelled(run.parent).read_text().splitlines()]


def split_of(run, split="dev"):
    """The texts of a split with their labels, read again."""
    return list(Trained.at(run).dataset.splits.read(split))


def table(file, rows, delimiter=","):
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return file


def read_table(file, delimiter=","):
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream, delimiter=delimiter))


# ---------------------------------------------------------------- evaluate


def test_evaluate_says_what_scikit_learn_says(classifier):
    told = Trained.at(classifier).evaluate("dev")
    examples = split_of(classifier)
    right = [one.label for one in examples]
    said = [one.answer for one in Trained.at(classifier).predict([one.text for one in examples])]
    measures = {name: one["value"] for name, one in told["measures"].items()}
    assert measures["accuracy"] == pytest.approx(sk.accuracy_score(right, said))
    assert measures["macro_f1"] == pytest.approx(sk.f1_score(right, said, average="macro"))
    assert measures["matthews"] == pytest.approx(sk.matthews_corrcoef(right, said))
    assert measures["accuracy"] > 0.4, "it has learned something, or this shows little"
    names = told["confusion"]["names"]
    assert names == sorted(set(right))
    assert told["confusion"]["counts"] == sk.confusion_matrix(right, said, labels=names).tolist()
    columns = sk.precision_recall_fscore_support(right, said, labels=names, zero_division=np.nan)
    for one, precision, recall, f1, count in zip(told["classes"], *columns, strict=True):
        assert one["examples"] == count and one["f1"] == pytest.approx(f1)
        assert one["recall"] == pytest.approx(recall)
        assert (
            one["precision"] is None if np.isnan(precision) else one["precision"] == pytest.approx(precision)
        )


def test_accuracy_has_its_n_its_interval_and_the_majority_beside_it(classifier):
    told = Trained.at(classifier).evaluate("dev")
    right = [one.label for one in split_of(classifier)]
    most = max(set(right), key=right.count)
    accuracy, n = told["measures"]["accuracy"], told["measures"]["texts"]["value"]
    assert n == len(right) == told["measures"]["targets"]["value"]
    assert accuracy["interval"] == pytest.approx(wilson(round(accuracy["value"] * n), n))
    assert told["majority"]["share"] == pytest.approx(right.count(told["majority"]["label"]) / n)
    assert told["majority"]["share"] == pytest.approx(right.count(most) / n)
    assert next(iter(told["measures"])) == "accuracy" and "calibration_error" in told["measures"]
    assert told["recomputed"]["outcome"] == "pass"


def test_the_most_confidently_wrong_are_wrong_and_in_order(classifier):
    told = Trained.at(classifier).evaluate("dev")["mistakes"]
    labels = {one.text: one.label for one in split_of(classifier)}
    assert told and all(labels[one["text"]] == one["label"] != one["prediction"] for one in told)
    sure = [one["confidence"] for one in told]
    assert sure == sorted(sure, reverse=True)
    by_text = dict(
        zip((o["text"] for o in told), Trained.at(classifier).predict([o["text"] for o in told]), strict=True)
    )
    for one in told:
        assert by_text[one["text"]].confidence == pytest.approx(one["confidence"], rel=1e-4)
        assert one["place"].endswith(tuple("0123456789")), "the file and line"


def test_the_command_shows_all_of_it(classifier):
    told = command("evaluate", classifier)
    assert told.exit_code == 0
    for part in (
        "accuracy",
        "95% interval",
        "macro F1",
        "matthews",
        "calibration error",
        "Always predicting",
        "Classes",
    ):
        assert part in told.output, part
    for part in ("Confusion", "Most confidently wrong", "precision", "texts", "majority", "collapse"):
        assert part in told.output, part


def test_a_split_that_was_cut_short_is_evaluated(runs):
    """data.tokens takes only a part of train."""
    run = runs("classification", data={"tokens": 900})
    told = Trained.at(run).evaluate("train")
    assert 0 < told["measures"]["texts"]["value"] < len(split_of(run, "train"))


# ---------------------------------------------------------------- predict


def test_predictions_are_those_of_evaluate_in_order_and_batches_do_not_matter(classifier):
    opened = Trained.at(classifier)
    texts = [one.text for one in split_of(classifier)]
    usual = opened.predict(texts)
    for size in (1, 7, 1000):
        for a, b in zip(usual, opened.predict(texts, batch_size=size), strict=True):
            assert a.answer == b.answer and list(a.scores.values()) == pytest.approx(
                list(b.scores.values()), abs=1e-5
            )
    backwards = opened.predict(texts[::-1])[::-1]
    assert [one.answer for one in backwards] == [one.answer for one in usual]
    assert all(sum(one.scores.values()) == pytest.approx(1) for one in usual)
    assert opened.predict([]) == []


def test_a_reloaded_run_predicts_bit_for_bit_the_same(classifier):
    texts = [one.text for one in split_of(classifier)][:20]
    assert Trained.at(classifier).predict(texts) == Trained.at(classifier).predict(texts)


def test_class_names_travel_with_the_checkpoint(classifier, tmp_path):
    """The corpus is gone, the folder has moved."""
    usual = Trained.at(classifier).predict(["the cat sees a dog ."])
    moved = shutil.copytree(classifier, tmp_path / "elsewhere")
    record = json.loads((moved / "run.json").read_text())
    record["config"]["data"]["corpus"]["path"] = "/nowhere/at/all.jsonl"
    (moved / "run.json").write_text(json.dumps(record))
    assert Trained.at(moved).predict(["the cat sees a dog ."]) == usual
    last = max((moved / "checkpoints").glob("step-*"), key=lambda one: int(one.name.split("-")[1]))
    assert Trained.at(last).predict(["the cat sees a dog ."]) == usual
    told = answer("predict", moved, "the cat sees a dog .")
    assert told[0]["answer"] == usual[0].answer and told[0]["scores"] == dict(usual[0].scores)


def test_one_text_is_answered(classifier):
    told = command("predict", classifier, "the cat sees a dog .", "a dog likes the bird .")
    assert told.exit_code == 0 and told.output.count("probability") == 2
    with pytest.warns(UserWarning, match="it is empty"):
        assert Trained.at(classifier).predict(["  "])[0].answer is None
    with pytest.raises(ConfigError, match="single texts, and a pair was given"):
        Trained.at(classifier).predict([("a", "b")])


def test_a_text_that_is_cut_is_told(classifier):
    with pytest.warns(UserWarning, match="1 of 1 texts cut"):
        Trained.at(classifier).predict(["the cat " * 40])


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize("out", ["csv", "tsv", "jsonl"])
def test_a_file_is_predicted_row_by_row(classifier, tmp_path, format, out):
    rows = [
        {"id": str(n), "text": row["text"], "verb": row["verb"]}
        for n, row in enumerate(rows_of(classifier)[:70])
    ]
    data, to = tmp_path / f"new.{format}", tmp_path / f"p.{out}"
    if format == "jsonl":
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        table(data, rows, "\t" if format == "tsv" else ",")
    told = answer("predict", classifier, "--data", data, "--out", to, "--scores")
    assert told["rows"] == 70 and told["skipped"] == 0
    found = (
        [json.loads(line) for line in to.read_text().splitlines()]
        if out == "jsonl"
        else read_table(to, "\t" if out == "tsv" else ",")
    )
    assert [{k: row[k] for k in ("id", "text", "verb")} for row in found] == rows, (
        "every row as it was, in order"
    )
    usual = Trained.at(classifier).predict([row["text"] for row in rows])
    for row, one in zip(found, usual, strict=True):
        assert row["prediction"] == one.answer and float(row["confidence"]) == pytest.approx(
            one.confidence, abs=1e-5
        )
        assert float(row[f"p({one.answer})"]) == pytest.approx(one.confidence, abs=1e-5)
    assert {one.name for one in tmp_path.iterdir()} == {data.name, to.name}


def test_predictions_of_a_file_can_be_checked(classifier, tmp_path):
    rows = [{"text": one.text, "label": one.label} for one in split_of(classifier)]
    table(tmp_path / "new.csv", rows)
    command("predict", classifier, "--data", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    told = command("check", tmp_path / "p.csv")
    accuracy = Trained.at(classifier).evaluate("dev")["measures"]["accuracy"]["value"]
    assert told.exit_code == 0 and f"accuracy {accuracy:.1%}" in " ".join(told.output.split())


def test_labels_of_every_type_are_judged_as_the_names_that_were_predicted(tmp_path):
    """0 and false are labels, and the order of several says nothing."""
    kinds = [(0, "0", 1), (False, "false", True), (["a", "b"], ["b", "a"], ["c"]), ([], [], ["c"])]
    for right, said, other in kinds:
        rows = [{"label": right, "prediction": said}] * 30 + [{"label": other, "prediction": other}] * 30
        (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        told = command("check", tmp_path / "p.jsonl")
        assert told.exit_code == 0 and "accuracy 100.0%" in " ".join(told.output.split()), told.output


def test_columns_of_the_run_are_the_usual_ones_for_other_files(runs, tmp_path):
    run = runs("classification")
    examples = split_of(run)
    file = table(tmp_path / "other.csv", [{"text": one.text, "verb": one.label} for one in examples])
    told = Trained.at(run).evaluate(on=file)
    assert told["confusion"] == Trained.at(run).evaluate("dev")["confusion"]
    usual = table(tmp_path / "usual.csv", [{"text": one.text, "label": one.label} for one in examples])
    assert Trained.at(run).evaluate(on=usual)["confusion"] == told["confusion"]


def refused(*arguments):
    result = command(*arguments)
    assert isinstance(result.exception, ConfigError), result.output
    return str(result.exception)


def test_a_broken_row_stops_with_its_line_and_leaves_no_file(classifier, tmp_path):
    data, to = tmp_path / "new.csv", tmp_path / "p.csv"
    data.write_text("text\nthe cat sees a dog .\n   \na dog likes the bird .\n")
    told = refused("predict", classifier, "--data", data, "--out", to)
    assert "1 of 3 rows" in told and "new.csv line 3" in told and "--skip-bad" in told
    assert {one.name for one in tmp_path.iterdir()} == {"new.csv"}
    told = answer("predict", classifier, "--data", data, "--out", to, "--skip-bad")
    assert (told["rows"], told["skipped"]) == (2, 1)
    assert [row["text"] for row in read_table(to)] == ["the cat sees a dog .", "a dog likes the bird ."]
    q = tmp_path / "q.csv"
    told = " ".join(command("predict", classifier, "--data", data, "--out", q, "--skip-bad").output.split())
    assert "Predictions of 2 rows are in" in told and "; 1 broken left out." in told


def test_what_cannot_be_written_is_refused_before_any_work(classifier, tmp_path):
    data = table(tmp_path / "new.csv", [{"text": "the cat sees a dog ."}])
    taken = tmp_path / "p.csv"
    taken.write_text("mine")
    assert "is there already" in refused("predict", classifier, "--data", data, "--out", taken)
    assert taken.read_text() == "mine"
    assert "use .csv, .tsv, .jsonl" in refused(
        "predict", classifier, "--data", data, "--out", tmp_path / "p.xls"
    )
    assert "go together" in refused("predict", classifier, "--data", data)
    assert "one of the two" in refused(
        "predict", classifier, "a", "--data", data, "--out", tmp_path / "q.csv"
    )
    assert "one of the two" in refused("predict", classifier)
    gone = refused("predict", classifier, "--data", tmp_path / "gone.csv", "--out", tmp_path / "q.csv")
    assert "There is no file" in gone
    nowhere = refused("predict", classifier, "--data", data, "--out", tmp_path / "no" / "q.csv")
    assert "no" in nowhere and not (tmp_path / "no").exists()


def test_columns_that_predictions_would_overwrite_are_refused(classifier, tmp_path):
    data = table(tmp_path / "new.csv", [{"text": "the cat sees a dog .", "prediction": "mine"}])
    told = refused("predict", classifier, "--data", data, "--out", tmp_path / "p.csv")
    assert "has a column prediction already" in told and not (tmp_path / "p.csv").exists()


def test_a_column_is_named_or_answered_with_those_that_exist(classifier, tmp_path):
    data = table(tmp_path / "new.csv", [{"words": "the cat sees a dog .", "n": 1}])
    to = tmp_path / "p.csv"
    assert "It has: words, n" in refused("predict", classifier, "--data", data, "--out", to)
    assert answer("predict", classifier, "--data", data, "--out", to, "--text", "words")["rows"] == 1


def test_rows_of_different_columns_lose_nothing(classifier, tmp_path):
    data = tmp_path / "new.jsonl"
    rows = [{"text": "the cat sees a dog ."}, {"text": "a dog likes the bird .", "extra": "x"}]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert answer("predict", classifier, "--data", data, "--out", tmp_path / "p.jsonl")["rows"] == 2
    assert json.loads((tmp_path / "p.jsonl").read_text().splitlines()[1])["extra"] == "x"
    told = refused("predict", classifier, "--data", data, "--out", tmp_path / "p.csv")
    assert "extra" in told and ".jsonl" in told and not (tmp_path / "p.csv").exists()


def test_a_killed_prediction_leaves_no_result(classifier, attnlab, tmp_path):
    data, to, part = tmp_path / "new.csv", tmp_path / "p.csv", tmp_path / ".p.csv.part"
    table(data, [{"text": f"the cat sees a dog {n} ."} for n in range(100_000)])

    def kill(process):
        until = time.monotonic() + 120
        while not (part.exists() and part.stat().st_size) and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(process, signal.SIGKILL)

    killed = attnlab("predict", classifier, "--data", data, "--out", to, meanwhile=kill)
    assert killed.code == -signal.SIGKILL and part.stat().st_size and not to.exists()
    data.write_text("text\nthe cat sees a dog .\n")
    assert answer("predict", classifier, "--data", data, "--out", to)["rows"] == 1
    assert {one.name for one in tmp_path.iterdir()} == {"new.csv", "p.csv"}


def test_a_model_of_words_predicts_no_labels(causal):
    with pytest.raises(ConfigError, match=r"predicts words, not labels.*attnlab generate"):
        Trained.at(causal[0]).predict(["the cat"])


def test_a_classifier_writes_no_text(classifier):
    with pytest.raises(ConfigError, match="predicts labels and writes no text; ask it: attnlab predict"):
        Trained.at(classifier).generate("the cat")
    with pytest.raises(ConfigError, match="predicts labels, not words; ask it: attnlab predict"):
        Trained.at(classifier).evaluate(probes=["the cat"])


# ---------------------------------------------------------------- another labelled file


def test_another_file_is_evaluated_by_its_columns(classifier, tmp_path):
    examples = split_of(classifier)
    file = table(tmp_path / "other.csv", [{"words": one.text, "what": one.label} for one in examples])
    told = answer("evaluate", classifier, "--on", file, "--text", "words", "--label", "what")["text"]
    usual = Trained.at(classifier).evaluate("dev")
    assert told["measures"]["accuracy"]["value"] == usual["measures"]["accuracy"]["value"]
    assert told["measures"]["loss"]["value"] == pytest.approx(usual["measures"]["loss"]["value"], rel=1e-4)
    assert told["confusion"] == usual["confusion"]
    assert (
        Trained.at(classifier).evaluate(on=file, text="words", label="what")["confusion"]
        == usual["confusion"]
    )


def test_a_file_with_other_or_no_labels_is_refused(classifier, tmp_path):
    file = table(tmp_path / "other.csv", [{"text": "the cat sees a dog .", "label": "seas"}])
    with pytest.raises(DataError, match=r'"seas" at .*other.csv line 2.*Did you mean "sees"'):
        Trained.at(classifier).evaluate(on=file)
    file = table(tmp_path / "none.csv", [{"text": "the cat sees a dog ."}])
    with pytest.raises(DataError, match="has no label"):
        Trained.at(classifier).evaluate(on=file)


# ---------------------------------------------------------------- pairs, several labels, numbers


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    """Whether two sentences have the same verb."""
    folder = tmp_path_factory.mktemp("pairs")
    rows = [json.loads(line) for line in labelled(folder).read_text().splitlines()]
    held = [
        {"text": a["text"], "pair": b["text"], "same": a["verb"] == b["verb"]}
        for n, a in enumerate(rows)
        for b in (rows[(n * 7 + 3) % len(rows)], rows[(n + 1) % len(rows)])
    ]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in held))
    corpus = {"kind": "files", "path": str(folder / "pairs.jsonl"), "label": "same"}
    changes = {
        "data": {"corpus": corpus, "encoding": "pair", "length": 32},
        "model": {"token_types": 2, "length": 32},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UNCHECKED, lambda case, names=(): [])
        train(
            config(folder, **merged(merged(LONGER, for_task("classification", folder)), changes)),
            folder / "run",
        )
    return folder / "run"


def test_pairs_are_judged_together(pairs, tmp_path):
    opened = Trained.at(pairs)
    assert opened.labels.names == ("false", "true")
    asked = [
        ("the cat sees a dog .", "a dog sees the cat ."),
        ("a dog sees the cat .", "the cat likes a dog ."),
    ]
    found = opened.predict(asked)
    assert opened.predict([asked[1]])[0].scores == pytest.approx(found[1].scores, abs=1e-5)
    swapped = opened.predict([(b, a) for a, b in asked])
    assert swapped[0].scores != found[0].scores, "the order of the two is seen"
    with pytest.raises(ConfigError, match="pairs of texts; give a pair"):
        opened.predict(["alone"])
    told = answer("predict", pairs, " => ".join(asked[0]))
    assert told[0]["answer"] == found[0].answer
    assert 'write "first => second"' in refused("predict", pairs, "alone")
    data = table(tmp_path / "new.csv", [{"text": a, "pair": b} for a, b in asked])
    answer("predict", pairs, "--data", data, "--out", tmp_path / "p.csv")
    assert [row["prediction"] for row in read_table(tmp_path / "p.csv")] == [one.answer for one in found]
    assert opened.evaluate("dev")["recomputed"]["outcome"] == "pass"


def test_several_labels_end_to_end(runs, tmp_path):
    run = runs("multilabel")
    opened, examples = Trained.at(run), split_of(run)
    told = opened.evaluate("dev")
    found = opened.predict([one.text for one in examples])
    flags = [
        [[name in held for name in opened.labels.names] for held in side]
        for side in ([one.label for one in examples], [one.answer for one in found])
    ]
    measures = {name: one["value"] for name, one in told["measures"].items()}
    assert measures["micro_f1"] == pytest.approx(sk.f1_score(*flags, average="micro"))
    assert measures["exact_sets"] == pytest.approx(sk.accuracy_score(*flags))
    assert next(iter(told["measures"])) == "micro_f1" and measures["micro_f1"] > 0.3
    assert all(set(one["prediction"]) != set(one["label"]) for one in told["mistakes"])
    assert command("evaluate", run).exit_code == 0
    data = table(tmp_path / "new.csv", [{"text": one.text} for one in examples])
    answer("predict", run, "--data", data, "--out", tmp_path / "p.csv")
    said = [tuple(filter(None, row["prediction"].split(", "))) for row in read_table(tmp_path / "p.csv")]
    assert said == [one.answer for one in found]
    answer("predict", run, "--data", data, "--out", tmp_path / "p.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [tuple(line["prediction"]) for line in lines] == said


def test_numbers_end_to_end(runs, tmp_path):
    run = runs("regression")
    opened, examples = Trained.at(run), split_of(run)
    told = opened.evaluate("dev")
    right = [float(one.label) for one in examples]
    said = [one.answer for one in opened.predict([one.text for one in examples])]
    measures = {name: one["value"] for name, one in told["measures"].items()}
    assert measures["mean_squared_error"] == pytest.approx(sk.mean_squared_error(right, said), rel=1e-4)
    assert measures["mean_absolute_error"] == pytest.approx(sk.mean_absolute_error(right, said), rel=1e-4)
    assert measures["explained_variance"] == pytest.approx(sk.r2_score(right, said), rel=1e-4)
    assert measures["explained_variance"] > 0.5
    assert "standard deviations" in told["measures"]["loss"]["definition"]
    assert measures["loss"] == pytest.approx(
        measures["mean_squared_error"] / opened.labels.deviation**2, rel=1e-4
    )
    assert command("evaluate", run).exit_code == 0
    data = table(tmp_path / "new.csv", [{"text": one.text} for one in examples])
    answer("predict", run, "--data", data, "--out", tmp_path / "p.csv")
    assert [float(row["prediction"]) for row in read_table(tmp_path / "p.csv")] == pytest.approx(
        said, rel=1e-5
    )
    assert command("predict", run, "the cat sees a dog .").exit_code == 0


# ---------------------------------------------------------------- the best checkpoint


def test_the_best_checkpoint_is_that_of_the_highest_accuracy(classifier):
    record = json.loads((classifier / "run.json").read_text())
    assert record["best"]["metric"] == "accuracy"
    events = [json.loads(line) for line in (classifier / "metrics.jsonl").read_text().splitlines()]
    scores = [one["scores"]["accuracy"] for one in events if one["event"] == "evaluated"]
    assert record["best"]["value"] == max(scores)


def test_columns_of_any_shape_are_written_beside_the_predictions(classifier, tmp_path):
    """Words with commas between them, what is nested as JSON."""
    row = {
        "text": "the cat sees a dog .",
        "words": ["a", "b"],
        "pairs": [{"x": 1}],
        "numbers": [1, 2],
        "of": {"y": "é"},
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    command("predict", classifier, "--data", tmp_path / "rows.jsonl", "--out", tmp_path / "said.csv")
    (written,) = read_table(tmp_path / "said.csv")
    assert written["words"] == "a, b" and json.loads(written["pairs"]) == [{"x": 1}]
    assert written["numbers"] == "[1, 2]" and written["of"] == '{"y": "é"}'


@pytest.mark.parametrize("texts", ["the cat", b"the cat", None, 5])
def test_one_text_is_not_taken_for_a_list_of_letters(classifier, texts):
    with pytest.raises(ConfigError, match=r"texts is .*; give a list of texts, also of one"):
        Trained.at(classifier).predict(texts)


def test_more_texts_than_memory_holds_are_refused_before_the_first(home, monkeypatch):
    run = Trained.at(home / "gpt")
    for wanted in ({"copies": 10**12}, {"beam": 10**12}):
        with pytest.raises(ConfigError, match=r"Writing .* texts at once needs .* GiB .*; lower"):
            run.generate("the cat", **wanted)
    assert run.generate("the cat", beam=10**12, length=1), "a beam is never wider than there are tokens"


@pytest.mark.parametrize("wanted", [{"rows": "x"}, {"rows": None}, {"probes": 5}, {"probes": [5]}])
def test_what_cannot_be_evaluated_is_refused(home, wanted):
    with pytest.raises(ConfigError, match=r"^(rows|probes) is .*"):
        Trained.at(home / "gpt").evaluate(**wanted)
