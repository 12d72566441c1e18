"""What a model writes is scored as what it predicts: during training, and in a study with its interval and
verdict."""

import json
from dataclasses import replace

import numpy as np
import pytest

from attnlab.checks.recomputed_metrics import RecomputedMetrics, scored_in_training
from attnlab.config.files import config_of
from attnlab.config.values import ConfigError
from attnlab.evaluation.written_texts import FILE, of_texts, read_texts
from attnlab.metrics import METRICS
from attnlab.metrics.metric import Examples
from attnlab.runs.findings import read_findings
from attnlab.runs.metrics_file import read_events
from attnlab.session.session import Session
from attnlab.session.trained import Trained
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from attnlab.studies.spec import Quick, Study
from tests.studies.here import here
from tests.training.small_run import config, for_task, merged, settings, train

STEPS = 120


@pytest.fixture(scope="module", autouse=True)
def registered():
    import tests.evaluation.echoes  # noqa: F401

    yield
    METRICS.unregister("echoes")


def copying(folder, **training):
    """Sentences are written again, word by word: the pairs of the small run, the right way round."""
    given = merged(settings(folder), for_task("seq2seq", folder))
    lines = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
    same = "".join(json.dumps({"text": one["text"], "target": one["text"]}) + "\n" for one in lines)
    (folder / "same.jsonl").write_text(same)
    given["data"]["corpus"] = str(folder / "same.jsonl")
    given["training"] |= {
        "budget": {"steps": STEPS},
        "evaluate_every": 60,
        "generate_every": 120,
        "generate_examples": 8,
        "optimizer": {"kind": "adamw", "learning_rate": 1e-2},
    }
    return merged(given, {"training": training})


def lines_of(run, event):
    return [line for line in read_events(run.folder / "metrics.jsonl") if line["event"] == event]


def test_texts_are_scored_when_they_are_due_and_disturb_nothing(tmp_path, unchecked):
    given = copying(tmp_path)
    run = train(config_of(given), tmp_path / "run")
    scored = {line["step"]: line["scores"] for line in lines_of(run, "evaluated")}
    assert ["echoes" in scored[step] for step in (60, 120)] == [False, True]
    plain = {k: v for k, v in given["training"].items() if not k.startswith("generate")}
    quiet = train(config_of(given | {"training": plain}), tmp_path / "quiet")
    losses = [[one["loss"] for one in lines_of(each, "stepped")] for each in (run, quiet)]
    assert losses[0] == losses[1]
    trained = Trained.at(run.folder)
    examples, texts = trained.evaluator("dev").said(8), trained.dataset.texts("dev")[:8]
    assert examples["reference"].tolist() == [one.target for one in texts]
    alone = [trained.generate(one.text, rule="greedy") for one in texts]
    assert [one.split() for one in examples["generated"]] == [one.split() for one in alone]
    assert any(alone)
    result = trained.evaluate("dev")
    measures = result["measures"]
    for name in ("echoes", "bleu", "chrf", "rougeL"):
        score = measures[name]
        assert score["interval"][0] < score["value"] < score["interval"][1]
    assert "tok:13a" in measures["bleu"]["signature"] and "tok:13a" in str(result.document())
    assert measures["bleu"]["value"] == METRICS.build("bleu").value(trained.evaluator("dev").said())
    confirmed = [one for one in result.confirmations if one.check == "recomputed_metrics"]
    (recomputed,) = [one for one in confirmed if one.kind == "agree"]
    assert recomputed.values["unconfirmed"] == ["echoes"] and recomputed.values["intervals"] >= 4


def test_the_checks_know_a_metric_of_texts_from_a_part_of_the_loss(tmp_path):
    """Perplexity is e to the power of the loss of the words, whatever else was scored. Every score of written
    text is computed a second time, and has the signature of its package."""
    brief = copying(tmp_path, budget={"steps": 4}, evaluate_every=4, generate_every=4)
    run = train(config_of(brief), tmp_path / "run")
    findings = {one.check: one for one in read_findings(tmp_path / "run")}
    outcomes = {name: finding.outcome for name, finding in findings.items()}
    assert outcomes["denominators"] == "pass" and "fail" not in outcomes.values()
    assert findings["recomputed_metrics"].values["unconfirmed"] == ["echoes"]
    (line,) = lines_of(run, "evaluated")
    assert {"bleu", "chrf", "rouge1", "exact_text"} <= {*line["scores"]}
    assert line["signatures"]["bleu"].startswith("BLEU|nrefs:1|case:mixed")


@pytest.mark.parametrize("fault", ["tokenised", "lower case", "mean of sentences"])
def test_a_score_of_other_text_than_was_written_is_found(tmp_path, unchecked, monkeypatch, fault):
    """BLEU of parted or lower-cased words, and the mean of sentences' BLEU, are other numbers."""
    session = Session(config_of(copying(tmp_path, budget={"steps": 4})))
    evaluation = session.evaluator("dev")(written=8)
    references = evaluation.texts["reference"]
    texts = Examples({"generated": of_texts([f"{text}." for text in references]), "reference": references})
    evaluation = replace(evaluation, texts=texts)
    changes = {"tokenised": lambda text: text.replace("e", " e"), "lower case": str.upper}
    bleu = METRICS.build("bleu")
    if fault in changes:
        said = of_texts([changes[fault](text) for text in texts["generated"]])
        wrong = bleu.value(Examples({"generated": said, "reference": texts["reference"]}))
    else:
        wrong = float(np.mean(bleu.of(bleu.parts(texts))))
    about = {"task": session.task, "dataset": session.dataset}
    for value, outcome in ((bleu.value(texts), "pass"), (wrong, "fail")):
        scored = scored_in_training(evaluation, "dev", {"bleu": value}, **about)
        finding = RecomputedMetrics().judge("evaluation", scored)
        assert finding.outcome == outcome, finding.found
    assert finding.kind == "misreported" and finding.values["metric"] == "bleu"


def test_a_task_that_writes_nothing_is_refused_before_any_work(tmp_path):
    with pytest.raises(ConfigError, match=r'task "causal" writes none.*seq2seq'):
        Session(config(tmp_path, training={"generate_every": 4}))
    never = copying(tmp_path, generate_every="never")
    with pytest.raises(ConfigError, match=r"set training\.generate_every"):
        resolve(study_of_echoes(never))


def study_of_echoes(base):
    return Study(
        name="echoes",
        question="Does a model that learns write what it reads?",
        base=base,
        arms={"still": {"training.optimizer.learning_rate": 1e-9}, "learning": {}},
        metric="echoes",
        extras="tests.evaluation.echoes:Registered",
        seeds=2,
        budget={"steps": STEPS},
        quick=Quick(seeds=1, budget={"steps": 2}),
    )


def test_a_metric_of_texts_is_compared_in_a_study(tmp_path, unchecked):
    """The difference is far from 0, and better than an arm that knows word frequencies alone says nothing."""
    with here():
        ended = run_study(resolve(study_of_echoes(copying(tmp_path))), tmp_path / "study", jobs=1)
    results = ended.results
    (compared,) = [one for one in results["comparisons"] if one["metric"] == "echoes"]
    assert 0.1 < compared["low"] < compared["difference"], compared
    assert compared["verdict"] == "not trained long enough" and ended.outcome.arms[1].state == "finished"
    assert compared["difference"] < compared["high"] and compared["documents"] > 20
    folders = [tmp_path / "study" / one["folder"] for one in results["runs"]]
    for folder, run in zip(folders, results["runs"], strict=True):
        texts = read_texts(folder)
        assert (folder / FILE).is_file() and len(texts["generated"]) == len(texts["reference"]) > 20
        value = METRICS.build("echoes").value(Examples(texts))
        assert run["metrics"]["echoes"] == pytest.approx(value)
    assert "written at their place" in (ended.folder / "report.md").read_text()
