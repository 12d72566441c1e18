"""A few labelled rows: nested, each class in its share, drawn by the run's seed, and dev as before."""

from collections import Counter

import pytest

from attnlab.config.files import load
from attnlab.config.values import ConfigError
from attnlab.data.splits import drawn
from attnlab.session.session import Session
from tests.training.small_run import for_task, merged, settings

CLASSES = ["a"] * 700 + ["b"] * 250 + ["c"] * 47 + ["d"] * 3


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_fewer_rows_are_among_more_and_every_class_has_its_share(seed):
    before: set[int] = set()
    counts = Counter(CLASSES)
    for rows in (4, 10, 100, 333, 999, 1000):
        taken = drawn(CLASSES, rows, seed)
        assert len(set(taken)) == rows and before <= set(taken)
        before = set(taken)
        held = Counter(CLASSES[row] for row in taken)
        for name, count in counts.items():
            share = rows * count / len(CLASSES)
            assert held[name] >= 1 and (rows < 100 or abs(held[name] - share) < 1.5), (name, rows)


def test_seeds_draw_other_rows_and_not_the_first():
    one, other = (set(drawn(CLASSES, 100, seed)) for seed in (0, 1))
    assert len(one & other) < 40 and one == set(drawn(CLASSES, 100, 0))
    assert max(row for row in one if CLASSES[row] == "a") > 500, "from all over the class"


def config_with(folder, **changes):
    return load(merged(settings(folder), for_task("classification", folder)), set=changes)


def texts(dataset, split="train"):
    return [example.text for example in dataset.examples(split)]


def test_a_run_trains_on_the_drawn_rows_alone_and_is_judged_on_the_same_dev(tmp_path):
    all_rows = Session(config_with(tmp_path)).dataset
    few, more = (
        Session(config_with(tmp_path, **{"data.train_rows": n, "seed": 3})).dataset for n in (20, 60)
    )
    assert set(texts(few)) < set(texts(more)) < set(texts(all_rows))
    assert len(few.rows("train")) == few.labels.examples == sum(few.labels.counts) == 20
    assert few.labels.names == all_rows.labels.names, "a class with no row would be another head"
    assert few.fingerprint("dev") == more.fingerprint("dev") == all_rows.fingerprint("dev")
    assert few.fingerprint("train") != more.fingerprint("train") != all_rows.fingerprint("train")
    assert few.first("train", 5) == tuple(few.examples("train"))[:5]


def test_arms_share_their_rows_by_seed(tmp_path):
    limit = {"data.train_rows": 20}
    arm = Session(
        config_with(tmp_path, **limit, **{"seed": 1, "model.width": 32, "training.clip": 0.5})
    ).dataset
    baseline, other_seed = (Session(config_with(tmp_path, **limit, seed=seed)).dataset for seed in (1, 2))
    assert texts(arm) == texts(baseline) != texts(other_seed)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (2, "5 classes, each of which needs a row; use at least 5"),
        (5000, "use at most so many"),
        (0, "least 1"),
    ],
)
def test_a_number_that_cannot_be_is_refused(tmp_path, rows, sentence):
    with pytest.raises((ValueError, ConfigError), match=sentence):
        _ = Session(config_with(tmp_path, **{"data.train_rows": rows})).dataset.labels


def test_without_labels_rows_are_drawn_all_the_same(tmp_path):
    dataset = Session(load(settings(tmp_path), set={"data.train_rows": 30})).dataset
    assert (
        len(dataset.rows("train")) == 30
        and texts(dataset) != texts(Session(load(settings(tmp_path))).dataset)[:30]
    )


def test_rows_in_the_cache_are_those_of_the_seed(tmp_path):
    held = []
    for seed in (1, 2, 1):
        config = config_with(tmp_path, **{"data.train_rows": 20, "seed": seed})
        rows = Session(config, cache=tmp_path / "cache").dataset.rows("train")
        held.append([rows.ragged("ids", row).tolist() for row in range(20)])
    assert held[0] == held[2] != held[1]
