"""Whatever the batching, an epoch holds every row once, in an order that (seed, epoch) alone decides."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlab.data.batch import Batch, collate
from attnlab.data.batching import BATCHING, Batching, Plan
from attnlab.data.columns import Row
from attnlab.data.errors import DataError
from attnlab.data.loader import Loader
from attnlab.data.rows import Rows, in_memory

LENGTH = 32
KINDS = {
    "padded": "padded(batch_size=4)",
    "longest_first": "longest_first(batch_size=4)",
    "bucketed": "bucketed(tokens=64, step=4)",
    "packed": "packed(batch_size=3)",
}
LENGTHS = st.lists(st.integers(1, LENGTH), min_size=1, max_size=60)


def test_every_variant_is_tried_here() -> None:
    assert set(KINDS) == set(BATCHING)


def batching(kind: str, length: int = LENGTH) -> Batching:
    return BATCHING.build(KINDS[kind], length=length)


def rows_of(lengths: list[int]) -> Rows:
    """Rows in which every token of the corpus is another one."""
    counter = itertools.count(1)
    rows = [Row([next(counter) for _ in range(n)], i, [3] * n) for i, n in enumerate(lengths)]
    return in_memory(rows, vocabulary=100_000, fingerprint="x")


def loader(kind: str, lengths: list[int], seed: int = 0, side: str = "right") -> Loader:
    return Loader(rows_of(lengths), batching(kind), seed=seed, pad=0, side=side)  # type: ignore[arg-type]


def same(a: Batch, b: Batch) -> bool:
    return a.columns.keys() == b.columns.keys() and all(
        torch.equal(column, b.columns[name]) for name, column in a.columns.items()
    )


@pytest.mark.parametrize("kind", KINDS)
@given(lengths=LENGTHS, seed=st.integers(0, 5), side=st.sampled_from(["left", "right"]))
def test_every_token_appears_exactly_once_over_an_epoch(
    kind: str, lengths: list[int], seed: int, side: str
) -> None:
    batches = list(loader(kind, lengths, seed, side))
    tokens = torch.cat([b.ids[b.real] for b in batches])
    assert sorted(tokens.tolist()) == list(range(1, sum(lengths) + 1))
    assert all((b.ids[~b.real] == 0).all() for b in batches)
    assert all(torch.equal(b.sizes, 3 * b.real) for b in batches)


@pytest.mark.parametrize("kind", KINDS)
@given(lengths=LENGTHS, stop=st.integers(0, 30), epoch=st.integers(0, 2))
def test_a_place_inside_an_epoch_leads_to_the_same_remaining_batches(
    kind: str, lengths: list[int], stop: int, epoch: int
) -> None:
    first = loader(kind, lengths)
    stream = first.forever()
    for _ in range(epoch * len(first) + stop):
        next(stream)
    state = first.state()
    expected = list(itertools.islice(stream, 12))
    second = loader(kind, lengths)
    second.restore(state)
    resumed = list(itertools.islice(second.forever(), 12))
    assert all(map(same, expected, resumed))
    assert first.state() == second.state()


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_depends_on_seed_and_epoch_and_on_nothing_else(kind: str) -> None:
    lengths = np.random.default_rng(0).integers(1, LENGTH + 1, 300)
    chosen = batching(kind)

    def order(seed: int, epoch: int) -> list[int]:
        return chosen.plan(lengths, seed=seed, epoch=epoch).order.tolist()

    before = order(3, 1)
    np.random.seed(99)
    torch.manual_seed(99)
    assert order(3, 1) == before
    assert order(3, 2) != before
    assert order(4, 1) != before


def test_a_state_of_other_data_is_refused() -> None:
    state = loader("padded", [3, 4, 5]).state()
    others = (loader("padded", [3, 4, 6]), loader("padded", [3, 4, 5], seed=1), loader("packed", [3, 4, 5]))
    for other in others:
        with pytest.raises(DataError, match="belongs to other data, batching or seed"):
            other.restore(state)


def test_the_padding_example_of_the_source_document() -> None:
    """Three sequences of 6, 3 and 4 tokens, padded with 0 to the longest."""
    rows = [
        Row([4, 7, 9, 15, 23, 18], 0, [4, 7, 9, 15, 23, 18]),
        Row([2, 8, 10], 1, [2, 8, 10]),
        Row([3, 13, 2, 8], 2, [3, 13, 2, 8]),
    ]
    held = in_memory(rows, vocabulary=30)
    batch = collate(held, [np.array([i]) for i in range(3)], pad=0)
    assert batch.ids.tolist() == [[4, 7, 9, 15, 23, 18], [2, 8, 10, 0, 0, 0], [3, 13, 2, 8, 0, 0]]
    assert batch.real.sum(1).tolist() == [6, 3, 4]
    assert batch.position is None and batch.document is None
    assert batch.waste == pytest.approx(5 / 18)


def test_left_padding_moves_tokens_but_not_their_positions() -> None:
    held = in_memory([Row([4, 7, 9], 0, [4, 7, 9]), Row([2], 1, [2])], vocabulary=30)
    batch = collate(held, [np.array([0]), np.array([1])], pad=0, side="left")
    assert batch.ids.tolist() == [[4, 7, 9], [0, 0, 2]]
    assert batch.real.tolist() == [[True, True, True], [False, False, True]]
    assert batch.position is not None and batch.position.tolist() == [[0, 1, 2], [0, 0, 0]]


def test_packed_documents_have_numbers_and_their_own_positions() -> None:
    held = in_memory([Row([5, 6, 7], 0, [5, 6, 7]), Row([8, 9], 1, [8, 9]), Row([3], 2, [3])], vocabulary=30)
    batch = collate(held, [np.array([0, 1]), np.array([2])], pad=0, packed=True)
    assert batch.ids.tolist() == [[5, 6, 7, 8, 9], [3, 0, 0, 0, 0]]
    assert batch.document is not None and batch.document.tolist() == [[1, 1, 1, 2, 2], [1, 0, 0, 0, 0]]
    assert batch.position is not None and batch.position.tolist() == [[0, 1, 2, 0, 1], [0, 0, 0, 0, 0]]


def test_longest_first_goes_from_the_longest_to_the_shortest() -> None:
    lengths = np.array([3, 9, 1, 9, 5, 7])
    plan = BATCHING.build("longest_first(batch_size=2)", length=10).plan(lengths, seed=0, epoch=0)
    assert lengths[plan.order].tolist() == [9, 9, 7, 5, 3, 1]


@given(lengths=LENGTHS, tokens=st.integers(LENGTH, 200))
def test_buckets_keep_to_their_budget_and_step(lengths: list[int], tokens: int) -> None:
    held = np.array(lengths)
    plan = BATCHING.build(f"bucketed(tokens={tokens}, step=4)", length=LENGTH).plan(held, seed=1, epoch=0)
    for number in range(len(plan)):
        sizes = held[np.concatenate(plan.batch(number))]
        assert len(sizes) * sizes.max() <= tokens


@given(lengths=LENGTHS)
def test_packing_never_overfills_a_line_and_fills_most(lengths: list[int]) -> None:
    held = np.array(lengths)
    plan = batching("packed").plan(held, seed=0, epoch=0)
    used = [int(held[place].sum()) for number in range(len(plan)) for place in plan.batch(number)]
    assert max(used) <= LENGTH
    # Best fit never leaves two lines that would fit into one.
    assert sum(sorted(used)[:2]) > LENGTH or len(used) == 1


def log_normal(count: int = 5000) -> np.ndarray:
    drawn = np.random.default_rng(7).lognormal(3.5, 0.8, count)
    return np.clip(drawn, 1, 512).astype(np.int64)


def test_bucketing_and_packing_waste_far_less_than_random_batches_on_log_normal_lengths() -> None:
    lengths = log_normal()
    waste = {
        kind: BATCHING.build(kind, length=512).plan(lengths, seed=0, epoch=0).waste(lengths)
        for kind in ("padded", "longest_first", "bucketed", "packed")
    }
    assert waste["padded"] > 0.7
    assert waste["bucketed"] < 0.07
    assert waste["longest_first"] < 0.05
    assert waste["packed"] < 0.005


@pytest.mark.parametrize("kind", KINDS)
def test_the_waste_of_a_plan_is_that_of_its_batches(kind: str) -> None:
    lengths = np.random.default_rng(1).integers(1, LENGTH + 1, 50).tolist()
    made = loader(kind, lengths)
    plan: Plan = made.plan(0)
    batches = list(made)
    places, tokens = sum(b.places for b in batches), sum(b.tokens for b in batches)
    assert plan.waste(np.array(lengths)) == pytest.approx(1 - tokens / places)


def test_a_budget_below_one_row_is_refused() -> None:
    with pytest.raises(DataError, match=r"cannot hold one row of data\.length 128; use tokens of at least"):
        BATCHING.build("bucketed(tokens=64)", length=128)


def test_labelled_rows_do_not_pack() -> None:
    held = in_memory([Row([1, 2], 0, [1, 1], label=0)], vocabulary=10)
    with pytest.raises(DataError, match=r'use data\.batching = "bucketed"'):
        Loader(held, batching("packed"), seed=0, pad=0)


def test_an_empty_split_is_refused() -> None:
    with pytest.raises(DataError, match="the split is empty"):
        Loader(in_memory([], vocabulary=10), batching("padded"), seed=0, pad=0)


def test_a_batch_moves_to_a_device_whole() -> None:
    batch = next(iter(loader("packed", [3, 4, 5], side="left")))
    moved = batch.to("meta")
    held = moved.columns
    assert {"ids", "real", "rows", "sizes", "position", "document"} == set(held)
    assert all(v.device.type == "meta" for v in held.values())


def test_sources_and_targets_are_bucketed_together() -> None:
    random = np.random.default_rng(3)
    sources = random.integers(1, 30, 3000)
    targets = np.maximum(1, sources + random.integers(-8, 9, 3000))
    chosen = BATCHING.build("bucketed(tokens=1024)", length=64)
    plan = chosen.plan(sources, targets, seed=0, epoch=0)
    for number in range(len(plan)):
        rows = np.concatenate(plan.batch(number))
        assert len(rows) * (sources[rows].max() + targets[rows].max()) <= 1024
    by_source_alone = chosen.plan(sources, seed=0, epoch=0).waste(sources, targets)
    assert plan.waste(sources, targets) < 0.12 < by_source_alone


def test_buckets_of_a_number_of_rows_hold_just_that():
    lengths = np.random.default_rng(0).integers(1, 100, 1000)
    plan = BATCHING.build("bucketed(batch_size=32, tokens=3200)", length=100).plan(lengths, seed=0, epoch=0)
    sizes = np.diff(plan.batch_bounds)
    assert sorted(sizes)[1:] == [32] * 31 and sizes.sum() == 1000
    assert plan.waste(lengths) < 0.1
