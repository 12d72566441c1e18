"""What a model writes is scored as what it predicts: during training, and in a study with its interval and
verdict."""

import json
from dataclasses import replace

import numpy as np
import pytest
import sacrebleu

from attnlab.checks.best_step import BestStep
from attnlab.checks.recomputed_metrics import RecomputedMetrics, scored_in_training
from attnlab.config.files import config_of
from attnlab.config.values import ConfigError
from attnlab.data.encode.texts import ends
from attnlab.evaluation.evaluator import Evaluation
from attnlab.evaluation.written_texts import FILE, of_texts, read_texts, save_texts
from attnlab.generation.beam import beam_search
from attnlab.generation.generate import generate
from attnlab.generation.target_writer import alike
from attnlab.metrics import METRICS
from attnlab.metrics.metric import Examples
from attnlab.runs.findings import read_findings
from attnlab.runs.metrics_file import read_events
from attnlab.session.session import Session
from attnlab.session.trained import Trained
from attnlab.studies.outcome import StudyOutcome
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from attnlab.studies.spec import Quick, Study
from attnlab.training.best import judged, standard_error
from attnlab.training.budget import State
from tests.checks.cases import case as case_of
from tests.evaluation.copying_run import PREFIXED, STEPS, copying
from tests.studies.here import here
from tests.training.small_run import config, merged, train


@pytest.fixture(scope="module", autouse=True)
def registered():
    import tests.evaluation.echoes  # noqa: F401

    yield
    METRICS.unregister("echoes")


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
    assert {one.check for one in result.confirmations} >= {"text_pairs", "outputs"}
    assert not result.failed
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


@pytest.mark.parametrize("beam", [1, 3])
def test_texts_are_those_of_each_source_alone_whatever_they_are_batched_with(tmp_path, beam):
    """Written in batches of similar lengths and given in the split's order; by a beam, its best text."""
    session = Session(config_of(copying(tmp_path, generate_beam=beam, generate_penalty=0.6)))
    writer = replace(session.writer("dev"), context=12)
    batches = alike([len(writer.source(row).ids) for row in range(30)])
    assert sorted(row for rows in batches for row in rows) == [*range(30)]
    lengths = [[len(writer.source(row).ids) for row in rows] for rows in batches]
    assert max(lengths[-1]) <= min(lengths[0]) or len(batches) == 1
    examples = writer(12)
    for row, text in enumerate(examples["generated"][:4]):
        (start, stop), source = ends(session.tokenizer), writer.source(row).ids
        if beam == 1:
            (alone,) = generate(session.model, [[start]], sources=[source], length=11, stop={stop})
        else:
            about = {"length": 11, "stop": {stop}, "source": source, "width": beam, "penalty": 0.6}
            alone = beam_search(session.model, [start], **about)[0]
        assert text == session.tokenizer.decode(alone.new).strip()
        assert examples["stopped"][row] == alone.stopped
    texts = session.dataset.texts("dev")
    assert examples["source"].tolist() == [one.text for one in texts[:12]]


def prefixed(folder):
    return merged(copying(folder, generate_every="evaluation", evaluate_every=60), PREFIXED)


def test_a_decoder_alone_writes_after_its_source(tmp_path, unchecked):
    """What it writes is what it goes on with after source and separator, up to its stop token."""
    run = train(config_of(prefixed(tmp_path)), tmp_path / "run")
    scored = {line["step"]: line["scores"] for line in lines_of(run, "evaluated")}
    assert (
        all("bleu" in scores for scores in scored.values()) and scored[120]["bleu"] > scored[60]["bleu"] / 2
    )
    trained = Trained.at(run.folder)
    writer, row = trained.writer("dev"), 3
    source, form = writer.source(row).ids, trained.tokenizer.form
    example = trained.dataset.texts("dev")[row]
    assert source == [*form.before, *trained.tokenizer.encode(example.text), *form.middle]
    (alone,) = generate(
        trained.model,
        [source],
        length=writer.context - len(source),
        stop=set(form.end),
        context=writer.context,
    )
    examples = writer(8)
    assert examples["generated"][row] == trained.tokenizer.decode(alone.new).strip() != ""
    assert examples["reference"][row] == example.target


def test_the_best_checkpoint_by_a_score_of_texts(tmp_path, unchecked):
    """Only evaluations that wrote texts decide, by the score's own standard error, as the check replays."""
    about = {"evaluate_every": 20, "generate_every": 40, "patience": 2, "evaluate_batches": "all"}
    given = copying(tmp_path, best_by="bleu", **about)
    run = train(config_of(given), tmp_path / "run")
    lines = lines_of(run, "evaluated")
    scored = {line["step"]: line["scores"]["bleu"] for line in lines if "bleu" in line["scores"]}
    assert [*scored] == [40, 80, 120]
    best = Trained.at(run.folder).record["best"]
    assert best["metric"] == "bleu" and best["value"] == scored[best["step"]] > 0
    assert best["top_value"] == max(scored.values())
    errors = {line["step"]: line["error"] for line in lines}
    assert errors[20] == 0 < errors[best["top_step"]]
    about = {"config": config_of(given), "folder": run.folder, "when": "after"}
    case = replace(case_of("seq2seq"), best=(best["step"], best["value"]), **about)
    assert BestStep().run(case).kind == "best"
    result = Trained.at(run.folder).evaluate("dev")
    (history,) = [one for one in result.confirmations if one.kind == "as_in_history"]
    assert history.number < 1e-3, "the history is of the first 8 texts, and evaluate is of all"
    assert result["measures"]["bleu"]["value"] != best["value"]
    wrong = next(step for step in scored if step != best["step"])
    assert BestStep().run(replace(case, best=(wrong, scored[wrong]))).kind == "not_best"


def test_early_stopping_by_a_score_of_texts():
    """A worse score counts towards the patience, an evaluation without texts does not."""
    state = State(step=10)
    worse = [evaluation_of(value) for value in ("a b c d e f", "a b c d x f", "q", "q")]
    for number, evaluation in enumerate(worse):
        state = judged(replace(state, step=10 + number), evaluation, "bleu")
    assert (state.best_step, state.since_best) == (10, 3)
    silent = replace(worse[0], scores={}, texts=None)
    assert judged(replace(state, step=20), silent, "bleu") == replace(state, step=20)
    assert standard_error(silent, "bleu") == 0


def test_a_score_that_dev_cannot_have_is_refused_before_the_first_step(tmp_path, unchecked):
    given = copying(tmp_path, best_by="bleu")
    given["data"]["corpus"] = str(tmp_path / "short.jsonl")
    pairs = [{"text": f"word{n} here now", "target": f"word{n} here now"} for n in range(200)]
    (tmp_path / "short.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    with pytest.raises(ConfigError, match="BLEU needs references of four words or more; use chrf"):
        train(config_of(given), tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_texts_are_kept_with_every_sign_that_ends_a_line_somewhere(tmp_path):
    texts = of_texts(["one\u2028two", "three\x85four", "five\x0c\x1csix", "seven\r\neight"])
    save_texts(tmp_path, {"generated": texts, "reference": texts})
    assert read_texts(tmp_path)["generated"].tolist() == texts.tolist()


def evaluation_of(text):
    """That one text was written for each of many references, some of which it is."""
    texts = Examples({"generated": of_texts([text] * 40), "reference": of_texts(["a b c d e f"] * 40)})
    return Evaluation(1.0, {"bleu": METRICS.build("bleu").value(texts)}, Examples({}), texts=texts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"best_by": "blue"}, "training.best_by.*bleu"),
        ({"best_by": "accuracy"}, 'best_by is "accuracy", which task "seq2seq" does not give'),
        ({"best_by": "bleu", "generate_every": "never"}, "none are written; set training.generate_every"),
        ({"generate_beam": 0}, "generate_beam"),
        ({"generate_penalty": -1.0}, "generate_penalty"),
    ],
)
def test_what_cannot_choose_or_write_is_refused(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        Session(config_of(copying(tmp_path, **changes)))


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
    stated = {one["name"]: one.get("signature") for one in results["study"]["metrics"]}
    package = sacrebleu.BLEU()
    package.corpus_score(texts["generated"].tolist(), [texts["reference"].tolist()])
    assert stated["bleu"] == f"BLEU|{package.get_signature()}" and stated["loss"] is None
    report = (ended.folder / "report.md").read_text()
    assert stated["bleu"] in report.replace("\\", "")
    again = StudyOutcome.of_json(json.loads((ended.folder / "results.json").read_text()))
    assert again.study == ended.outcome.study
    assert "written at their place" in report and "Written texts by the length of their source" in report
    assert all(sum(one["n"] for one in run["by_length"]) == compared["documents"] for run in results["runs"])
