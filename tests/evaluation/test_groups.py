"""Rows that a person put into one group are no independent examples: intervals count groups."""

import json

import numpy as np
import pytest

from attnlab.metrics import METRICS
from attnlab.metrics.metric import CLUSTER, Examples, t_reach
from tests.checks.cases import config
from tests.training.small_run import set_up

GROUPS, TIMES = 30, 4


def session_of(folder, *, grouped):
    for split in ("train", "dev"):
        rows = []
        for number in range(GROUPS * TIMES):
            row = {"text": f"{split} {number // TIMES} sun moon", "label": "ab"[number // TIMES % 2]}
            rows.append(row | ({"group": f"{split} {number // TIMES}"} if grouped else {}))
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = {"kind": "files", "path": str(folder / "train.jsonl"), "dev": str(folder / "dev.jsonl")}
    data = {"corpus": given, "tokenizer": "word(minimum_count=1)", "test_share": 0.0}
    return set_up(config("classification", data=data))


def test_an_interval_over_groups_is_that_of_one_row_of_each(tmp_path):
    evaluation = session_of(tmp_path, grouped=True).evaluator("dev")()
    said, texts = evaluation.examples, evaluation.numbers // TIMES
    pairs = set(zip(said[CLUSTER].tolist(), texts.tolist(), strict=True))
    assert len(pairs) == len({cluster for cluster, _ in pairs}) == GROUPS
    each = [said["probabilities"][texts == n].argmax(1) == said["label"][texts == n] for n in range(GROUPS)]
    shares = np.array([one.mean() for one in each])
    half = t_reach(GROUPS - 1, 0.05) * shares.std(ddof=1) / GROUPS**0.5
    estimate = METRICS.build("accuracy").interval(said)
    assert estimate.n == GROUPS * TIMES and estimate.value == pytest.approx(shares.mean())
    assert estimate.high - estimate.value == pytest.approx(half, rel=1e-6)
    alone = Examples({name: column for name, column in said.columns.items() if name != CLUSTER})
    narrow = METRICS.build("accuracy").interval(alone)
    assert estimate.high - estimate.low > 1.7 * (narrow.high - narrow.low)


def test_rows_without_groups_are_examples_of_their_own(tmp_path):
    assert CLUSTER not in session_of(tmp_path, grouped=False).evaluator("dev")().examples
