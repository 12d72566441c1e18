"""Answers from a file to `ask`: the threshold travels with the checkpoint, offsets are the text's own, and
all forms of the data are read alike."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from attnlab.config.values import ConfigError
from attnlab.data.corpora.facts import Facts
from attnlab.data.corpora.own_files import Files
from attnlab.data.errors import DataError
from attnlab.metrics.thresholds import curve
from attnlab.session.adapting import adapting_config
from attnlab.session.trained import Trained
from tests.metrics import squad_official as official
from tests.session.commands import command
from tests.training.small_run import config, for_task, merged, train

LONGER = {
    "training": {"budget": {"steps": 150}, "evaluate_every": 75, "optimizer": "adamw(learning_rate=5e-3)"},
    "data": {"dev_share": 0.2, "test_share": 0.1},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnlab.session.soundness.run_checks", lambda case, names=(): [])
        train(config(folder, **merged(for_task("answering", folder), LONGER)), folder / "run")
    return folder / "run"


def texts_of(run, split):
    return list(Trained.at(run).dataset.splits.read(split))


# ---------------------------------------------------------------- the threshold


def test_the_threshold_of_all_of_dev_travels_with_the_checkpoint(run):
    trained = Trained.at(run)
    examples = trained.evaluator("dev")().examples
    best = curve(examples["margin"], examples["span_f1"], examples["silent"]).best
    assert trained.decision == {"threshold": pytest.approx(best, abs=1e-4)}
    assert trained.deciding.threshold == trained.decision["threshold"] and trained.task.threshold == "dev"
    state = json.loads((run / "checkpoints" / f"step-{trained.step}" / "state.json").read_text())
    assert state["settled"] == trained.decision


def test_test_is_scored_by_the_kept_threshold_as_the_official_definition_says(run):
    trained, texts = Trained.at(run), texts_of(run, "test")
    told = trained.evaluate("test")
    said = trained.predict([(one.text, one.pair) for one in texts])
    right = official.scores([[a.text for a in one.answers] for one in texts], [one.answer for one in said])
    for name in ("exact_match", "span_f1", "span_f1_answerable", "exact_match_unanswerable"):
        assert told["measures"][name]["value"] == pytest.approx(right[name], abs=1e-12)
    used = told["answers"]["threshold"]
    assert used["how"] == "fixed" and used["least"] == used["most"] == trained.decision["threshold"]
    assert used["pretended_f1"] >= used["f1"] == pytest.approx(right["span_f1"])
    never, sentence = told["baselines"]
    unanswerable = np.mean([not one.answers for one in texts])
    assert (never["name"], never["value"]) == ("never answer", pytest.approx(unanswerable))
    assert sentence["metric"] == "span_f1" and 0 < sentence["value"] < 1


def test_dev_is_scored_with_thresholds_of_other_folds(run):
    told = Trained.at(run).evaluate("dev")
    used, points = told["answers"]["threshold"], told["answers"]["curve"]
    assert used["how"] == "cross-fitted" and used["folds"] == 5
    assert used["pretended_f1"] >= used["f1"] == pytest.approx(told["measures"]["span_f1"]["value"])
    assert sum(point["used"] for point in points) == 1
    assert points[0]["answered"] == told["answers"]["n"] and points[-1]["answered"] == 0
    assert [one["check"] for one in told["checks"]] == ["majority", "collapse", "threshold"]
    assert told["recomputed"]["outcome"] == "pass"


# ---------------------------------------------------------------- asking


def test_an_answer_is_where_it_says_and_passages_are_ranked_by_margin(run):
    trained = Trained.at(run)
    texts = texts_of(run, "test")[:6]
    found = trained.ask(texts[0].text, {str(n): one.pair for n, one in enumerate(texts)})
    margins = [one.found.margin for one in found.ranked]
    assert margins == sorted(margins, reverse=True) and len(margins) == 6
    for one in found.ranked:
        assert one.passage[one.found.start : one.found.end] == one.found.span
        assert bool(one.answer) == (one.found.margin > 0)
    alone = trained.ask(texts[0].text, texts[0].pair)
    same = next(one for one in found.ranked if one.name == "0")
    assert alone.best.found.margin == pytest.approx(same.found.margin, abs=1e-4)
    assert texts[0].text in repr(alone)


def test_a_passage_of_fifty_pages_is_read_to_its_end(run):
    trained = Trained.at(run)
    fact = next(one for one in texts_of(run, "train") if one.answers)
    filler = "Nothing is said here of what anybody is or has.\n" * 2200
    long = f"{filler}{fact.pair}\n{filler}"
    inside = trained.ask(fact.text, {"long": long, "short": fact.pair})
    by_name = {one.name: one for one in inside.ranked}
    assert by_name["long"].found.margin >= by_name["short"].found.margin - 10
    span = by_name["long"].found
    assert long[span.start : span.end] == span.span
    assert by_name["long"].line == long.count("\n", 0, span.start) + 1


@pytest.mark.parametrize(("question", "passage"), [("", "x"), ("who?", ""), ("who?", "  "), ("who?", [])])
def test_what_cannot_be_asked_is_refused(run, question, passage):
    with pytest.raises(ConfigError, match=r"is empty|no passage"):
        Trained.at(run).ask(question, passage)


def test_the_command_marks_the_answer_or_says_that_there_is_none(run, tmp_path):
    (tmp_path / "one.txt").write_text("Ωμέγα. Jill lives in Oslo.\nUdo owns a farm.\n", encoding="utf-8")
    (tmp_path / "two.md").write_text("Nothing at all.\n")
    (tmp_path / "empty.txt").write_text(" \n")
    shown = command("ask", run, "Where does Jill live?", "--passage", tmp_path)
    assert "All passages, by margin" in shown.stdout and "empty.txt has no text" in shown.stderr
    held = json.loads(command("ask", run, "What?", "--passage", tmp_path / "one.txt", "--json").stdout)
    text = (tmp_path / "one.txt").read_text(encoding="utf-8")
    assert text[held[0]["start"] : held[0]["end"]] == held[0]["span"]
    refused = command("ask", run, "What?", "--passage", tmp_path / "empty.txt")
    assert "no text to find an answer in" in str(refused.exception)


# ---------------------------------------------------------------- forms of the data


def rows(count=30):
    return [
        {"question": one.text, "passage": one.pair, "answers": one.answers}
        for one in (Facts(examples=count).read())
    ]


NOTHING = {"text": "", "answer_start": ""}


def written(folder, form):
    """The same questions in one of the forms."""
    held = rows()
    listed = [[{"text": a.text, "answer_start": a.start} for a in one["answers"]] for one in held]
    pairs = list(zip(held, listed, strict=True))
    file = folder / f"{form.replace(' ', '-')}.{form.split()[0]}"
    if form == "json":
        qas = [
            {
                "context": one["passage"],
                "qas": [{"id": str(n), "question": one["question"], "answers": found}],
            }
            for n, (one, found) in enumerate(pairs)
        ]
        file.write_text(json.dumps({"version": "v2.0", "data": [{"title": "t", "paragraphs": qas}]}))
    elif form == "jsonl":
        lines = [json.dumps({**one, "answers": found}) for one, found in pairs]
        file.write_text("\n".join(lines))
    elif form == "jsonl of lists":
        lists = [
            {"text": [a["text"] for a in found], "answer_start": [a["answer_start"] for a in found]}
            for found in listed
        ]
        lines = [json.dumps({**one, "answers": found}) for one, found in zip(held, lists, strict=True)]
        file = file.with_suffix(".jsonl")
        file.write_text("\n".join(lines))
    else:
        cells = {
            "csv of json": [{"answers": json.dumps(found)} for found in listed],
            "csv of text": [
                {
                    "answer": found[0]["text"] if found else "",
                    "answer_start": found[0]["answer_start"] if found else "",
                }
                for found in listed
            ],
        }[form]
        file = file.with_suffix(".csv")
        with file.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, ["question", "passage", *cells[0]])
            writer.writeheader()
            writer.writerows(
                {"question": one["question"], "passage": one["passage"], **cell}
                for one, cell in zip(held, cells, strict=True)
            )
    return file


@pytest.mark.parametrize("form", ["json", "jsonl", "jsonl of lists", "csv of json", "csv of text"])
def test_every_form_holds_the_same_questions(tmp_path, run, form):
    chosen = adapting_config(run, data=written(tmp_path, form), task="answering").data.corpus.options
    found = list(Files(**chosen).read())
    assert [(one.text, one.pair, one.answers) for one in found] == [tuple(row.values()) for row in rows()]
    assert chosen["label"] == () and all(one.label is None for one in found)


def test_questions_need_no_task_to_be_named_and_are_read_in_windows(tmp_path, run):
    settings = adapting_config(run, data=written(tmp_path, "json"))
    assert settings.task.kind == "answering" and settings.data.encoding.kind == "question"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"answer": "Oslo"}, "is 2 times in the passage; say which with a column answer_start"),
        ({"answer": "Lima"}, "is not in the passage; correct it"),
        ({"answer": "Oslo", "answer_start": "5"}, "is not at character 5 of the passage"),
        ({"answer": "Oslo", "answer_start": "five"}, "is not at character five"),
    ],
)
def test_an_answer_that_is_not_there_is_refused_with_its_row(tmp_path, row, told):
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"question": "Where?", "passage": "Oslo, Oslo.", **row}))
    with pytest.raises(DataError, match=told):
        list(Files(path=str(file), answers=("answers", "answer"), label=()).read())
