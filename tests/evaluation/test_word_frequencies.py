"""What counting words gives: against dictionaries and loops, for every task that predicts words."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from attnlab.checks.learned import Learned
from attnlab.config.files import config_of
from attnlab.evaluation.documents import document_losses
from attnlab.evaluation.word_frequencies import WordFrequencies, frequency_losses, row_frequencies
from attnlab.metrics.metric import Examples
from attnlab.model.losses import IGNORE
from attnlab.session.session import Session
from tests.checks.cases import WORDS, config
from tests.evaluation.copying_run import PREFIXED, copying
from tests.training.small_run import merged, set_up

D = 0.75


class SlowCounts:
    """The same by dictionaries: interpolated absolute discounting, pair to token to 1/V."""

    def __init__(self, texts, size, counts_first, special=()):
        self.size, self.tokens, self.pairs = size, Counter(), defaultdict(Counter)
        for text in texts:
            for place, token in enumerate(text):
                if token in special or (place == 0 and not counts_first):
                    continue
                self.tokens[token] += 1
                if place:
                    self.pairs[text[place - 1]][token] += 1

    def unigram(self, token):
        total = self.tokens.total()
        return max(self.tokens[token] - D, 0) / total + D * len(self.tokens) / total / self.size

    def bigram(self, before, token):
        follows = self.pairs.get(before)
        if not follows:
            return self.unigram(token)
        own, total = max(follows[token] - D, 0), follows.total()
        return own / total + D * len(follows) / total * self.unigram(token)


def slow_counts(session):
    rows, task = session.dataset.rows("train"), session.task
    texts = [rows.ragged(task.predicted_column, row).tolist() for row in range(len(rows))]
    special = set(np.flatnonzero(task.vocabulary.special).tolist()) if task.sees == "all" else ()
    return SlowCounts(texts, task.vocabulary.size, counts_first=task.sees == "all", special=special)


@pytest.mark.parametrize("task", WORDS)
def test_every_target_costs_what_a_slow_count_says(task):
    session = set_up(config(task))
    slow, evaluator = slow_counts(session), session.evaluator("dev")
    counted = frequency_losses(evaluator, WordFrequencies.of(session.dataset.rows("train"), session.task))
    nats, targets = {"unigram": 0.0, "bigram": 0.0}, 0
    plan = evaluator.loader.plan(0)
    for number in range(len(plan)):
        batch = evaluator.loader.load(plan, number)
        prepared = evaluator.prepare(batch, number)
        for line, place in (prepared.targets != IGNORE).nonzero().tolist():
            token, read = int(prepared.targets[line, place]), prepared.ids[line].tolist()
            document = None if prepared.tokens.document is None else prepared.tokens.document[line].tolist()
            before = read[place]
            if session.task.sees == "all":
                same = place > 0 and (document is None or document[place - 1] == document[place])
                before = read[place - 1] if same else None
            nats["unigram"] -= math.log(slow.unigram(token))
            nats["bigram"] -= math.log(slow.bigram(before, token))
            targets += 1
    assert targets > 20
    for name, total in nats.items():
        assert counted.losses[name].nats.sum() == pytest.approx(total, rel=1e-10), name
        assert counted.by_batch[name]["nats"].sum() == pytest.approx(total, rel=1e-10), name
        assert counted.losses[name].targets.sum() == targets
    model = document_losses(evaluator)
    assert (model.targets == counted.losses["unigram"].targets).all()  # text by text, what the model is asked


def test_a_source_in_the_same_row_is_not_counted(tmp_path):
    """Only what follows it is predicted: counts of sources would make a baseline that any model is above."""
    session = Session(config_of(merged(copying(tmp_path), PREFIXED)))
    rows = session.dataset.rows("train")
    counts = WordFrequencies.of(rows, session.task)
    texts = [rows.ragged("ids", row).tolist() for row in range(len(rows))]
    behind = [text[rows.scalar("source", row) :] for row, text in enumerate(texts)]
    expected = Counter(token for text in behind for token in text)
    assert 0 < expected.total() < sum(map(len, texts)) / 1.5
    assert {token: count for token, count in enumerate(counts.counts.tolist()) if count} == expected
    assert counts.pair_counts.sum() == expected.total()  # the first of a target follows the end of its source


def test_shares_are_a_distribution_after_every_word():
    session = set_up(config("causal"))
    counts = WordFrequencies.of(session.dataset.rows("train"), session.task)
    tokens = np.arange(session.task.vocabulary.size)
    assert np.exp(-counts.unigram(tokens)).sum() == pytest.approx(1)
    for before in (-1, *tokens.tolist()):
        shares = np.exp(-counts.bigram(np.full_like(tokens, before), tokens))
        assert shares.sum() == pytest.approx(1), before


def test_texts_of_a_file_cost_the_same_as_those_of_a_split():
    session = set_up(config("causal"))
    counts = WordFrequencies.of(session.dataset.rows("train"), session.task)
    rows = session.dataset.rows("dev")
    texts = [rows.ragged("ids", row).tolist() for row in range(len(rows))]
    one, other = frequency_losses(session.evaluator("dev"), counts), row_frequencies(counts, texts)
    for name in ("unigram", "bigram"):
        assert other.losses[name].loss == pytest.approx(one.losses[name].loss, rel=1e-12)
    assert one.most_frequent == other.most_frequent


def scored(counted, less):
    """A model that is better than counting by so many nats a target, give or take a little in each text."""
    targets = counted["unigram"]["targets"]
    noise = np.resize([0.2, -0.2], len(targets)) * targets
    return Examples({"words": counted["unigram"]["nats"] - less * targets + noise, "targets": targets})


@pytest.mark.parametrize(
    ("less", "outcome", "kind"),
    [(0.5, "pass", "better"), (0.001, "warn", "indistinguishable"), (-0.5, "warn", "not_better")],
)
def test_a_model_has_learned_when_its_whole_interval_is_below_counting(less, outcome, kind):
    session = set_up(config("causal"))
    counts = WordFrequencies.of(session.dataset.rows("train"), session.task)
    counted = frequency_losses(session.evaluator("dev"), counts).by_text
    found = Learned().judge("evaluation", scored(counted, less), counted)
    assert (found.outcome, found.kind) == (outcome, kind)
    assert found.number == pytest.approx(-less, abs=0.05)
    assert found.values["low"] < found.number < found.values["high"]
    early = Learned().judge("evaluation", scored(counted, less), counted, training=True)
    assert early.outcome == ("pass" if outcome == "pass" else "not applicable")
