"""Cross-validation: every row is scored once, by a model that was trained on others."""

import json

import pytest

import attnlab as lab
from attnlab.config.files import to_json
from attnlab.config.values import ConfigError
from attnlab.data.example import Example, tagged_words
from attnlab.metrics.metric import wilson
from attnlab.session.folds import divided, spans_of
from attnlab.session.session import Session
from attnlab.session.trained import Trained
from tests.session.adapted import RATE, adapt, asked
from tests.session.commands import command
from tests.training.small_run import config, for_task, merged
from tests.unchecked import checked_by

QUICK = ("--set", RATE, "--set", "training.budget.epochs=3")


@pytest.fixture(scope="module")
def ended(home, tmp_path_factory):
    folder = tmp_path_factory.mktemp("folds") / "run"
    with checked_by("majority"):
        return folder, adapt(home, "--folds", "3", "--out", str(folder), "--json", *QUICK)


def rows_of(folder, number, split):
    lines = (folder / f"rows-{number}-{split}.jsonl").read_text().splitlines()
    return [tuple(json.loads(line).values()) for line in lines]


def test_every_row_is_scored_once_by_a_model_that_did_not_see_it(ended, home):
    folder, said = ended
    assert said.exit_code in (0, 1), said.output  # 1 where a fold came to the majority
    told = json.loads(said.stdout)
    dataset = Session(asked(home)).dataset
    every = sorted((row.text, row.label) for split in ("train", "dev") for row in dataset.texts(split))
    assert sorted(row for n in (1, 2, 3) for row in rows_of(folder, n, "dev")) == every
    for number in (1, 2, 3):
        train, dev = (rows_of(folder, number, split) for split in ("train", "dev"))
        assert sorted(train + dev) == every and not {text for text, _ in train} & {text for text, _ in dev}
        record = json.loads((folder / f"fold-{number}" / "run.json").read_text())
        assert record["config"]["training"]["patience"] == "unlimited"
    assert [fold["n"] for fold in told["folds"]] == [len(rows_of(folder, n, "dev")) for n in (1, 2, 3)]
    assert json.loads((folder / "folds.json").read_text()) == told


def test_the_score_is_that_of_all_rows_together_with_its_interval(ended):
    told = json.loads(ended[1].stdout)
    n = sum(fold["n"] for fold in told["folds"])
    right = sum(round(fold["value"] * fold["n"]) for fold in told["folds"])
    score = told["score"]
    assert told["metric"] == "accuracy" and score["n"] == n
    assert score["value"] == pytest.approx(right / n)
    low, high = wilson(right, n)
    assert (score["low"], score["high"]) == pytest.approx((low, high), abs=0.05)
    assert {one["name"] for one in told["baselines"]} >= {"majority", "bag of words"}
    assert all(one["n"] == n for one in told["baselines"] if one["name"] != "label words")


def test_classes_have_their_share_in_every_fold_and_equal_texts_stay_together(home):
    session = Session(asked(home))
    parts = divided(session, 4)
    for name in session.labels.names:
        counts = [sum(row.label == name for row in part) for part in parts]
        assert max(counts) - min(counts) <= 2, counts
    texts = [{row.text for row in part} for part in parts]
    assert not any(one & other for n, one in enumerate(texts) for other in texts[n + 1 :])
    assert divided(Session(asked(home)), 4) == parts


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--folds", "1"], "greater than or equal to 2"),
        (["--folds", "3", "--rates", "usual"], "leave out --rates"),
        (["--folds", "3", "--dev", "DEV"], "leave out --dev"),
        (["--folds", "9999"], "each fold needs at least two"),
        (["--folds", "3", "--adapter", "full,head"], "--folds is of one run"),
    ],
)
def test_what_cannot_be_cross_validated_is_refused(home, tmp_path, more, sentence):
    more = [str(home / "reviews.csv") if one == "DEV" else one for one in more]
    refused = adapt(home, *more, "--out", str(tmp_path / "run"))
    told = f"{refused.output} {refused.exception}".replace("│", " ")
    assert refused.exit_code and sentence in " ".join(told.split())
    assert not (tmp_path / "run").exists()


def content(rows):
    return sorted((row.text, row.pair or "", str(row.answers), str(row.words)) for row in rows)


@pytest.mark.parametrize("task", ["tagging", "answering"])
def test_tags_and_answers_are_scored_over_all_rows_by_attnlab_train(task, tmp_path):
    """The score of all folds together is that of their rows; what is written is read again as it was."""
    wanted = config(tmp_path, **merged(for_task(task, tmp_path), {"training": {"budget": {"steps": 4}}}))
    file, out = tmp_path / "own.json", tmp_path / "folds"
    file.write_text(json.dumps(to_json(wanted)))
    with checked_by():
        said = command("train", file, "--folds", 2, "--out", out, "--json")
    told, session = json.loads(said.stdout), Session(wanted)
    every = [row for split in ("train", "dev") for row in session.dataset.texts(split)]
    scored = [Trained.at(out / f"fold-{n}").dataset.texts("dev") for n in (1, 2)]
    assert content(row for rows in scored for row in rows) == content(every)
    assert [fold["n"] for fold in told["folds"]] == list(map(len, scored))
    assert told["score"]["n"] == len(every) and told["metric"] == session.task.metrics[0]
    assert ("bag of words" in {one["name"] for one in told["baselines"]}) == (task == "tagging")
    assert (told["learned"] is not None) == (task == "tagging")


def test_entities_between_other_signs_are_written_as_spans():
    text = "Ann-Lee, of New York, left."
    row = Example(text, words=tagged_words(text, [(0, 7, "WHO"), (12, 20, "WHERE")]))
    spans = [(span["start"], span["end"], span["label"]) for span in spans_of(row)]
    assert spans == [(0, 7, "WHO"), (12, 20, "WHERE")] and tagged_words(text, spans) == row.words


def test_words_are_not_cross_validated_and_it_is_said_what_to_do(tmp_path):
    file = tmp_path / "own.json"
    file.write_text(json.dumps(to_json(config(tmp_path))))
    refused = command("train", file, "--folds", 3, "--out", tmp_path / "run")
    assert 'task "causal" has none' in str(refused.exception) and "--seeds 5" in str(refused.exception)
    assert not (tmp_path / "run").exists()


def test_few_rows_are_offered_folds_in_one_line(home, tmp_path):
    with checked_by():
        said = adapt(home, "--out", str(tmp_path / "run"), "--set", "training.budget.epochs=1")
    (line,) = [line for line in said.output.splitlines() if "--folds 5" in line]
    assert line.startswith("Dev has ") and line.endswith("each by others.")


def test_python_gives_the_same_as_a_record_that_shows_itself(home, tmp_path):
    settings = {"training.optimizer.learning_rate": 0.02, "training.budget.epochs": 1}
    reading = {"text": "body", "label": "who"}
    data = home / "reviews.csv"
    with checked_by():
        given = {"folds": 2, "set": settings, "out": tmp_path / "run", "progress": False, **reading}
        result = lab.cross_validate(home / "bert", data=data, **given)
    assert len(result.folds) == 2 and result.score.n == sum(fold.n for fold in result.folds)
    assert str(result).startswith("Accuracy ") and "rows in 2 folds" in str(result).splitlines()[0]
    with pytest.raises(ConfigError, match="--folds is 1; it must be at least 2"):
        lab.cross_validate(home / "bert", data=data, folds=1, out=tmp_path / "other", **reading)
