"""Faults of an evaluation, put there on purpose: each is named, and its healthy counterpart is not."""

import random
from dataclasses import replace

import pytest
from scipy import stats

from attnlab.checks import CHECKS, judge
from attnlab.checks.denominators import expected
from attnlab.checks.real import evaluator_of
from attnlab.data.encode.encoding import Encoding
from attnlab.generation.generate import Written
from attnlab.metrics.metric import wilson
from attnlab.targets.relabelling import Predictions
from attnlab.tasks import causal
from tests.checks.cases import case, config, found, of
from tests.training import small_run
from tests.training.small_run import set_up


def scored(about):
    """The case with the scores that the run's own evaluation gives."""
    result = replace(evaluator_of(about), batches=about.config.training.evaluate_batches)()
    return replace(about, scores={"loss": result.loss, **result.scores})


# denominators


@pytest.mark.parametrize("task", ["causal", "masked", "span", "prefix", "unilm", "seq2seq", "denoising"])
@pytest.mark.parametrize("batches", ["all", 2])
def test_the_runs_own_evaluation_has_its_denominators(task, batches):
    about = of(set_up(config(task, training={"evaluate_batches": batches})), when="evaluation")
    finding = found("denominators", scored(about))
    assert finding.outcome == "pass", finding.found


def test_scores_of_train_beside_those_of_dev_are_no_parts_of_the_loss():
    about = scored(case(when="evaluation"))
    beside = {f"train_{name}": value + 1 for name, value in about.scores.items()}
    finding = found("denominators", replace(about, scores=dict(about.scores) | beside))
    assert finding.outcome == "pass", finding.found


def test_a_mean_of_exponentials_is_no_perplexity():
    about = scored(case(when="evaluation"))
    wrong = dict(about.scores) | {"perplexity": about.scores["perplexity"] * 1.01}
    finding = found("denominators", replace(about, scores=wrong))
    assert finding.outcome == "fail" and "e^loss" in finding.found


@pytest.mark.parametrize("change", [-1, 1])
def test_targets_that_count_twice_or_never_are_named(change):
    about = scored(case(when="evaluation"))
    targets = about.scores["targets"] + change
    assert expected(about)[0] == expected(about)[1] == about.scores["targets"]
    finding = found("denominators", replace(about, scores=dict(about.scores) | {"targets": targets}))
    assert finding.outcome == "fail" and "the rows have" in finding.found


def test_bits_a_byte_of_other_bytes_and_scores_without_n_are_named():
    about = scored(case(when="evaluation"))
    bits = dict(about.scores) | {"bits_per_byte": about.scores["bits_per_byte"] / 2}
    assert found("denominators", replace(about, scores=bits)).outcome == "fail"
    alone = {name: value for name, value in about.scores.items() if name != "targets"}
    assert "without the number of targets" in found("denominators", replace(about, scores=alone)).found


NON_ASCII = ["naïve café über alles", "你好 世界 and 🙂 more", "plain words here, and then some more of them"]
CUT = {"data": {"length": 6}, "model": {"length": 6}}


def of_texts(tmp_path, task="causal", **data):
    """An evaluation of texts that do not fit into a row."""
    lines = [f"{n} {text}" for n in range(60) for text in NON_ASCII]
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(lines))
    corpus = {"kind": "files", "path": str(file), "unit": "line"}
    changes = small_run.merged(CUT, {"data": {"corpus": corpus, "tokenizer": "bpe(vocabulary=280)"} | data})
    about = of(set_up(config(task, **changes)), when="evaluation")
    return lambda: found("denominators", scored(about))


def whole_text(rows):
    """A cut text that keeps all of its bytes: the fault of `single` and `pair`."""
    return [row.changed(sizes=[*row.sizes[:-2], row.sizes[-2] + 40, 0]) for row in rows]


def characters(rows):
    """Characters for bytes: less than three for one that is not ASCII."""
    return [row.changed(sizes=[min(size, 1) for size in row.sizes]) for row in rows]


def shared_out(rows):
    """A text's bytes shared out by its tokens, whatever they are, as `document` did."""
    return [row.changed(sizes=[round(sum(row.sizes) / len(row.sizes))] * len(row.sizes)) for row in rows]


def shifted_bytes(rows):
    """Every token with the bytes of the one after it."""
    return [row.changed(sizes=[*row.sizes[1:], 0]) for row in rows]


@pytest.mark.parametrize("encoding", ["single", "single(cut=start)", "document", "document(long=cut)"])
@pytest.mark.parametrize("fault", [whole_text, characters, shared_out, shifted_bytes])
def test_rows_with_other_bytes_than_their_text_are_named(tmp_path, monkeypatch, encoding, fault):
    """The score and the rows agree, so that only the text itself can tell."""
    rows = Encoding.rows
    monkeypatch.setattr(Encoding, "rows", lambda self, examples: fault(rows(self, examples)))
    judged = of_texts(tmp_path, encoding=encoding)
    finding = judged()
    assert finding.outcome == "fail" and "bytes of text" in finding.found, finding.found
    assert finding.number != pytest.approx(1, abs=5e-3)


@pytest.mark.parametrize("tokenizer", ["bpe(vocabulary=280)", "word(minimum_count=2)", "character"])
@pytest.mark.parametrize("task", ["causal", "denoising"])
@pytest.mark.parametrize("encoding", ["single", "single(cut=start)", "document", "document(long=cut)"])
def test_cut_and_split_texts_have_the_bytes_of_what_is_predicted(tmp_path, tokenizer, task, encoding):
    finding = of_texts(tmp_path, task, encoding=encoding, tokenizer=tokenizer)()
    assert finding.outcome == "pass" and "dev texts has" in finding.found, finding.found


def test_the_bytes_of_tokens_that_are_not_predicted_are_named(tmp_path, monkeypatch):
    judged = of_texts(tmp_path, encoding="document")
    monkeypatch.setattr(causal, "next_sizes", lambda batch: batch.sizes)
    finding = judged()
    assert finding.outcome == "fail" and "nats/ln 2/bytes" in finding.found


# contamination


def test_made_splits_are_clean():
    assert found("contamination", case()).outcome == "pass"


def given_splits(tmp_path, dev):
    """A corpus whose dev file is given."""
    lines = small_run.sentences(400)
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "train.txt").write_text("\n".join(lines))
    (folder / "dev.txt").write_text("\n".join(dev(lines)))
    corpus = {"kind": "files", "path": str(folder), "unit": "line"}
    return of(set_up(config(data={"corpus": corpus, "test_share": 0.0})))


def test_a_dev_split_that_was_trained_on_fails(tmp_path):
    finding = found("contamination", given_splits(tmp_path, lambda lines: [s.upper() for s in lines[:100]]))
    assert finding.outcome == "fail" and finding.number == 1.0 and "training score" in finding.meaning


def test_a_part_of_dev_in_train_is_told_with_its_share(tmp_path):
    fresh = [" ".join(s.split()[::-1]) for s in small_run.sentences(90, seed=1)]
    finding = found("contamination", given_splits(tmp_path, lambda lines: [*fresh, *lines[:10]]))
    assert finding.outcome == "warn" and 0.05 < finding.number < 0.5


def test_long_stretches_are_found_where_no_text_is_equal(tmp_path):
    words = [f"word{n}" for n in range(50)]
    pick = random.Random(2)
    texts = [" ".join(pick.choices(words, k=20)) for _ in range(100)]
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "train.txt").write_text("\n".join(texts))
    data = {"corpus": {"kind": "files", "path": str(folder), "unit": "line"}, "test_share": 0.0, "length": 40}
    model = {"length": 40}
    (folder / "dev.txt").write_text("\n".join(f"so {text} then" for text in texts[:60]))
    finding = found("contamination", of(set_up(config(data=data, model=model))))
    assert finding.outcome == "warn" and "0 of 60 texts" in finding.found
    (folder / "dev.txt").write_text("\n".join(" ".join(pick.choices(words, k=20)) for _ in range(60)))
    assert found("contamination", of(set_up(config(data=data, model=model)))).outcome == "pass"


TYPED = {"token_types": 2}


def test_a_passage_in_two_splits_is_told_where_the_questions_differ(tmp_path):
    def data(dev):
        for name, rows in (("train", [f"who is {n},he is {n}" for n in range(60)]), ("dev", dev)):
            (tmp_path / f"{name}.csv").write_text("\n".join(["question,passage", *rows]))
        return {"corpus": str(tmp_path), "encoding": "pair", "test_share": 0.0}

    finding = found(
        "contamination",
        of(set_up(config(model=TYPED, data=data([f"what was {n},He is {n}" for n in range(40)])))),
    )
    assert finding.outcome == "warn" and "0 of 40 texts" in finding.found
    assert "40 of 40 passages" in finding.found
    fresh = data([f"what was {n},it was {n}" for n in range(40)])
    assert found("contamination", of(set_up(config(model=TYPED, data=fresh)))).outcome == "pass"


@pytest.mark.parametrize("tokenizer", ["character", "bpe(vocabulary=300)"])
def test_short_tokens_are_not_taken_for_shared_text(tokenizer):
    assert found("contamination", of(set_up(config(data={"tokenizer": tokenizer})))).outcome == "pass"


# samples


def written(about, texts, stopped=True):
    return replace(about, samples=[Written([0], list(text), stopped) for text in texts])


def test_degenerate_samples_are_told_and_real_text_is_not():
    about = case(when="evaluation", step=400)
    rows = about.dataset.rows("dev")
    real = [rows.ragged("ids", row).tolist()[1:] for row in range(3)]
    assert found("samples", written(about, real)).outcome == "pass"
    looping = found("samples", written(about, [[5, 6, 7, 8] * 8] * 3))
    assert looping.outcome == "warn" and "repeats" in looping.meaning
    endless = found("samples", written(about, [[*row[:-1], *row[:-1:2]] for row in real], stopped=False))
    assert endless.outcome == "warn" and "does not stop" in endless.meaning
    few = found("samples", written(about, [random.Random(n).choices([5, 6], k=30) for n in range(3)]))
    assert few.outcome == "warn"


def test_a_model_that_stops_at_once_is_told():
    about = case(when="evaluation", step=400)
    short = found("samples", written(about, [[5], [], [], []]))
    assert short.outcome == "warn" and "stops at once" in short.meaning


def test_nothing_is_expected_of_early_samples():
    about = case(when="evaluation", step=12)
    assert found("samples", written(about, [[5] * 30] * 3)).outcome == "not applicable"


# classifiers


def boolq(n=1000, share=0.61):
    yes = round(n * share)
    labels = ["yes"] * yes + ["no"] * (n - yes)
    random.Random(0).shuffle(labels)
    return labels


def test_the_majority_class_has_learned_nothing_whatever_its_accuracy():
    labels = boolq()
    majority, collapse = judge(labels, ["yes"] * len(labels))
    assert majority.outcome == "fail" and "not better than always predicting" in majority.meaning
    assert "61.0% (57.9% to 64.0%)" in majority.found and "of 1,000" in majority.found
    assert collapse.outcome == "fail" and "same class for every input" in collapse.meaning


def test_a_classifier_that_learned_something_passes():
    labels = boolq()
    pick = random.Random(1)
    predicted = [label if pick.random() < 0.75 else pick.choice(["yes", "no"]) for label in labels]
    assert [one.outcome for one in judge(labels, predicted)] == ["pass", "pass"]


def test_too_few_examples_cannot_tell():
    labels = boolq(20, 0.6)
    predicted = [label if n % 4 else {"yes": "no", "no": "yes"}[label] for n, label in enumerate(labels)]
    majority = judge(labels, predicted)[0]
    assert (
        majority.number > 0 and majority.outcome == "fail" and "cannot be distinguished" in majority.meaning
    )


def test_all_right_of_a_few_is_told_and_no_failure():
    majority = judge(["yes", "no", "yes"], ["yes", "no", "yes"])[0]
    assert majority.outcome == "warn" and "luck" in majority.meaning


def test_one_label_cannot_be_judged():
    assert [one.outcome for one in judge(["yes"] * 3, ["yes"] * 3)] == ["not applicable"] * 2


def test_two_of_many_classes_are_told():
    labels = [n % 5 for n in range(500)]
    predicted = [n % 5 if n % 5 < 2 else 0 for n in range(500)]
    collapse = judge(labels, predicted)[1]
    assert collapse.outcome == "warn" and "2 of 5 classes" in collapse.found


@pytest.mark.parametrize(("right", "n"), [(31, 50), (0, 7), (610, 1000)])
def test_the_interval_is_wilsons(right, n):
    expected = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
    assert wilson(right, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_predictions_of_a_case_are_judged_and_wrong_ones_refused():
    about = case(when="after", predictions=Predictions(boolq(), ["yes"] * 1000))
    assert [found(name, about).outcome for name in ("majority", "collapse")] == ["fail", "fail"]
    assert found("majority", about).when == "after"
    assert found("majority", case(when="after")).outcome == "not applicable"
    with pytest.raises(ValueError, match="one for each"):
        judge(["a"], [])
    with pytest.raises(ValueError, match="no predictions"):
        judge([], [])


def test_every_check_has_a_card():
    for name in CHECKS:
        text = CHECKS[name].__doc__
        assert "Formula:" in text and "When it helps:" in text, name
