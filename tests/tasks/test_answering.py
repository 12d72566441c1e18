"""Questions: which span is the best, which window, which characters; and that nothing else decides it."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.data.batch import collate
from attnlab.data.batching import Padded
from attnlab.data.encode.question import Question
from attnlab.data.example import Answer, Example
from attnlab.data.loader import Loader
from attnlab.data.rows import in_memory
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.evaluation.evaluator import Evaluator
from attnlab.metrics import METRICS
from attnlab.targets import TARGETS
from attnlab.tasks.answer_spans import best_spans, choices
from attnlab.tasks.answering import Answering
from attnlab.tasks.vocabulary import Vocabulary

PASSAGE = "Jill lives in Oslo. Udo, who is old, owns a small red boat near the river."
UNICODE = "In İSTANBUL the ﬁne Åse met Ｚoë; ½ of “Straße” №7 is ﷺ, naïve café 日本 𝒳𝒴 e\u0301te\u0301."


def asked(answer: str, passage: str = PASSAGE, question: str = "Where does Jill live?") -> Example:
    """A question whose answer is the first place of this text; none for an empty one."""
    answers = (Answer(answer, passage.index(answer)),) if answer else ()
    return Example(question, pair=passage, answers=answers)


@functools.cache
def tokenizer(kind: str = "word(vocabulary=200, minimum_count=1)"):
    texts = [PASSAGE, "Where does Jill live?", UNICODE] * 2
    return TOKENIZERS.build(kind).train(texts, source="test")


def task_of(held, **options) -> Answering:
    return Answering(Vocabulary.of(held), TARGETS["answer"].draft(), **options)


def model_of(held, length: int = 64):
    torch.manual_seed(0)
    sizes = {"vocabulary": held.size, "width": 16, "heads": 2, "layers": 1, "length": length}
    return lab.encoder(**sizes, token_types=2, output="span").eval()


def rows_of(held, examples, length: int = 64, **options):
    encoding = Question(held, length, **{"overlap": 4, "question_length": 8} | options)
    return in_memory(encoding.rows(examples), vocabulary=held.size)


def batch_of(held, rows, side: str = "right"):
    return collate(rows, [np.array([row]) for row in range(len(rows))], pad=held.pad, side=side)


class Oracle(Answering):
    """Gives the gold tokens the highest scores: whatever is still wrong then is not the model's fault."""

    def scores(self, head, hidden, prepared):
        plain = super().scores(head, hidden, prepared)
        right = torch.zeros_like(plain)
        for side in (0, 1):
            right[torch.arange(len(right)), prepared.targets[:, side], side] = 50.0
        return plain + right


def oracle(held) -> Oracle:
    return Oracle(Vocabulary.of(held), TARGETS["answer"].draft(), threshold=0.0)


def evaluated(held, examples, task, length: int = 64, **options):
    rows = rows_of(held, examples, length, **options)
    loader = Loader(rows, Padded(length, batch_size=3), seed=0, pad=held.pad)
    return Evaluator(model=model_of(held, length), task=task, loader=loader, seed=0, texts=lambda: examples)()


# ---------------------------------------------------------------- spans


@settings(max_examples=60)
@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 10**6))
def test_the_best_span_is_that_of_trying_all(length, longest, seed):
    generator = torch.Generator().manual_seed(seed)
    start, end = torch.randint(-3, 4, (2, 3, length), generator=generator).double()  # many are equal
    start[0, 0], end[1] = -math.inf, -math.inf
    best, first, last = best_spans(start, end, longest)
    for row in range(3):
        tried = {
            (i, j): float(start[row, i] + end[row, j])
            for i in range(length)
            for j in range(i, min(i + longest, length))
        }
        assert float(best[row]) == max(tried.values())
        if math.isfinite(best[row]):
            i, j = int(first[row]), int(last[row])
            equal = [span for span, score in tried.items() if score == float(best[row])]
            assert (i, j) == min(equal, key=lambda span: (span[1] - span[0], span[0]))


def test_an_answer_ends_where_it_begins_or_later_and_within_the_limit():
    start = torch.tensor([[0.0, 0, 9, 0, 0]])
    end = torch.tensor([[0.0, 9, 0, 0, 5]])
    assert [int(place) for place in best_spans(start, end, 5)[1:]] == [2, 4]
    assert [int(place) for place in best_spans(start, end, 2)[1:]] == [1, 1]  # 9 as well, and before 2 … 2


def test_only_the_passage_and_the_first_token_can_be_chosen():
    held = tokenizer()
    batch = batch_of(held, rows_of(held, [asked("Oslo"), asked("", "Udo owns.")]))
    prepared = task_of(held).prepare(batch, 0)
    assert torch.equal(choices(prepared)[:, 1:], batch.char_start[:, 1:] >= 0)
    assert choices(prepared)[:, 0].all() and not choices(prepared)[1, -1]  # padding


# ---------------------------------------------------------------- loss


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_loss_is_that_of_first_and_last_token_written_out(side, double):
    held = tokenizer()
    rows = rows_of(held, [asked("Oslo"), asked("small red boat"), asked("", "Udo owns.")])
    task, model, batch = task_of(held), model_of(held).double(), batch_of(held, rows, side)
    prepared = task.prepare(batch, 0)
    with torch.no_grad():
        found = task.loss(model, prepared)
        scores = model(**prepared.inputs).numpy()
    wanted = []
    for row in range(3):
        places, real = batch.char_start[row].numpy(), batch.real[row].numpy()
        first = int(real.argmax())
        can = [first, *np.flatnonzero(places >= 0)]
        target = [first, first] if row == 2 else [int(batch.start[row]), int(batch.end[row])]
        nats = 0.0
        for which in (0, 1):
            chances = np.exp(scores[row, can, which]) / np.exp(scores[row, can, which]).sum()
            nats -= math.log(chances[can.index(target[which])])
        wanted.append(nats)
    assert found.each.tolist() == pytest.approx(wanted, abs=1e-12)
    assert float(found.total) == pytest.approx(sum(wanted)) and int(found.count) == 3


def test_a_padded_side_changes_no_answer(double):
    held = tokenizer()
    rows = rows_of(held, [asked("Oslo"), asked("", "Udo owns.")])
    task, model = task_of(held), model_of(held).double()
    with torch.no_grad():
        right, left = (
            task.predict(model, task.unlabelled(batch_of(held, rows, side))) for side in ("right", "left")
        )
    assert torch.allclose(right["margin"], left["margin"], atol=1e-12)
    assert torch.equal(right["char_start"], left["char_start"])


# ---------------------------------------------------------------- windows


def test_the_margin_is_the_best_span_minus_no_answer_over_all_windows(double):
    held = tokenizer()
    long = asked("boat", " ".join([PASSAGE] * 4))
    rows = rows_of(held, [long], 32)
    assert len(rows) > 3
    task, model = task_of(held, longest_answer=5), model_of(held, 32).double()
    batch = batch_of(held, rows)
    with torch.no_grad():
        prepared = task.unlabelled(batch)
        scores = model(**prepared.inputs)
        said = {name: column.numpy() for name, column in task.predict(model, prepared).items()}
    best = max(
        (float(scores[w, i, 0] + scores[w, j, 1] - scores[w, 0].sum()), w, i, j)
        for w in range(len(rows))
        for i in range(1, scores.shape[1])
        for j in range(i, min(i + 5, scores.shape[1]))
        if batch.char_start[w, i] >= 0 and batch.char_start[w, j] >= 0
    )
    found, numbers = task.by_example(said, np.zeros(len(rows), np.int64))
    assert numbers.tolist() == [0] and found["margin"][0] == pytest.approx(best[0])
    assert found["char_start"][0] == batch.char_start[best[1], best[2]]
    assert found["char_end"][0] == batch.char_end[best[1], best[3]]


@given(st.permutations(range(6)))
def test_windows_are_merged_by_score_and_never_by_order(order):
    columns = {
        "margin": np.array([1.0, 3.0, 3.0, -math.inf, -2.0, -2.0]),
        "char_start": np.array([0, 40, 10, -1, 7, 7]),
        "char_end": np.array([4, 44, 12, -1, 9, 8]),
        "nats": np.arange(6.0),
        "targets": np.ones(6),
    }
    example = np.array([4, 4, 4, 2, 9, 9])
    task = task_of(tokenizer())
    found, numbers = task.by_example({n: c[list(order)] for n, c in columns.items()}, example[list(order)])
    assert numbers.tolist() == [2, 4, 9]
    assert found["char_start"].tolist() == [-1, 10, 7]  # of equal margins the first in the passage
    assert found["char_end"].tolist() == [-1, 12, 8]
    assert found["nats"].tolist() == [3.0, 3.0, 9.0] and found["targets"].tolist() == [1.0, 3.0, 2.0]


def test_an_answer_over_a_windows_border_is_found_whole_in_the_next_window():
    held = tokenizer()
    passage = " ".join(["near the river"] * 8)
    for place in range(0, 8 * 15 - 15, 15):  # wherever the borders are, one of the answers lies across
        example = Example("Where does Jill live?", pair=passage, answers=(Answer("river near", place + 9),))
        found = evaluated(
            held, [example], Oracle(Vocabulary.of(held), TARGETS["answer"].draft(), threshold=0.0), 24
        )
        assert found.scores["exact_match"] == 1.0
        start = int(found.examples["char_start"][0])
        assert start == place + 9  # and it is that one, not another of the same words


def test_an_answer_that_no_window_holds_is_none_to_learn_and_counted():
    held = tokenizer()
    encoding = Question(held, 18, overlap=4, question_length=8)
    long = asked("lives in Oslo. Udo, who is old, owns a small red boat")
    rows = in_memory(encoding.rows([long, asked("Oslo")]), vocabulary=held.size)
    assert encoding.cuts.answers == 2 and encoding.cuts.split == 1
    assert "1 of 2 answers whole in no window" in str(encoding.cuts)
    assert not rows.scalars("start")[rows.scalars("example") == 0].any()


# ---------------------------------------------------------------- characters

KINDS = [
    "word(vocabulary=300, minimum_count=1)",
    "bpe(vocabulary=300)",
    "wordpiece(vocabulary=300)",
    "character",
]


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_exact_characters_of_the_passage_whatever_normalising_does(kind):
    """Lower case and other normal forms are longer or shorter than the text they stand for."""
    held = tokenizer(kind)
    words = [
        "İSTANBUL",
        "ﬁne",
        "Åse",
        "Ｚoë",
        "½",
        "Straße",
        "naïve café",
        "日本",
        "𝒳𝒴",
        "e\u0301te\u0301",
        "Oslo",
    ]
    examples = [asked(word, UNICODE if word in UNICODE else PASSAGE) for word in words]
    examples += [asked("", UNICODE)] * 3
    found = evaluated(held, examples, oracle(held), 128, question_length=30)
    right = METRICS.build("exact_match").each(found.examples)
    wrong = [example.answers[0].text for example, one in zip(examples, right, strict=False) if not one]
    assert not wrong
    for example, start, end in zip(
        examples[:-3], found.examples["char_start"], found.examples["char_end"], strict=False
    ):
        answer = example.answers[0]
        assert start <= answer.start and answer.start + len(answer.text) <= end
        assert example.pair[start:end].strip("“”;, ") == answer.text


@pytest.mark.parametrize("passage", ["x", "Oslo", " \n", ""])
def test_passages_of_one_token_and_of_none(passage):
    held = tokenizer()
    task, model = task_of(held, threshold=-100.0), model_of(held)
    rows = rows_of(held, [Example("Where does Jill live?", pair=passage)])
    with torch.no_grad():
        said = task.predict(model, task.unlabelled(batch_of(held, rows)))
    columns = {name: column.numpy() for name, column in said.items()}
    (found,) = task.predictions(columns, [Example("?", pair=passage)])
    assert found.answer == passage.strip() == passage[found.start : found.end]
    assert math.isfinite(found.margin) == bool(passage.strip())
    loss = task.loss(model, task.prepare(batch_of(held, rows), 0))
    assert math.isfinite(float(loss.total.detach()))


# ---------------------------------------------------------------- the threshold


def test_what_is_above_the_threshold_is_answered_and_what_was_settled_decides():
    held = tokenizer()
    said = {"margin": np.array([0.5]), "char_start": np.array([0]), "char_end": np.array([4])}
    (given,) = task_of(held).with_decision({"threshold": 0.4}).predictions(said, [asked("Oslo")])
    assert (given.answer, given.span, given.start, given.end) == ("Jill", "Jill", 0, 4)
    assert given.margin == pytest.approx(0.1) and given.columns["start"] == 0
    (kept,) = task_of(held).with_decision({"threshold": 0.5}).predictions(said, [asked("Oslo")])
    assert (kept.answer, kept.span, kept.margin) == ("", "Jill", 0.0) and kept.columns["start"] is None
    fixed = task_of(held, threshold=2.0)
    assert fixed.with_decision({"threshold": 0.4}).threshold == 2.0 and fixed.fit_decision({}) == {}


def test_what_is_kept_is_the_best_of_all_of_dev_and_scores_go_by_the_other_folds():
    held, generator = tokenizer(), np.random.default_rng(1)
    texts = [asked("Oslo" if n % 2 else "", f"{PASSAGE} {n // 2}") for n in range(40)]
    said = {
        "margin": generator.normal(size=40),
        "char_start": np.full(40, PASSAGE.index("Oslo")),
        "char_end": np.full(40, PASSAGE.index("Oslo") + 4),
    }
    task = task_of(held)
    columns = task.compare(said, texts)
    kept = task.fit_decision(columns)["threshold"]
    f1 = [
        np.where(said["margin"] > tau, columns["span_f1"], columns["silent"]).mean() for tau in said["margin"]
    ]
    assert np.where(said["margin"] > kept, columns["span_f1"], columns["silent"]).mean() >= max(f1)
    assert len(set(columns["fold"])) == 5 and len(set(columns["threshold"])) > 1
    assert all(columns["fold"][n] == columns["fold"][n + 1] for n in range(0, 40, 2))  # one passage, one fold


def test_options_that_mean_nothing_are_refused():
    held = tokenizer()
    with pytest.raises(ConfigError, match="longest_answer is 0"):
        task_of(held, longest_answer=0)
    with pytest.raises(ConfigError, match="threshold is nan"):
        task_of(held, threshold=math.nan)


def test_a_model_whose_first_token_sees_nothing_is_refused():
    held = tokenizer()
    model = lab.decoder(vocabulary=held.size, width=16, heads=2, layers=1, token_types=2, output="span")
    with pytest.raises(ConfigError, match="shows it nothing of the text"):
        task_of(held).check(model)
