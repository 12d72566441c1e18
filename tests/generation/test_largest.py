"""The largest of a row by the maxima of blocks: those that torch's own topk gives."""

import pytest
import torch

from attnlab.generation.beam import BLOCK, largest
from attnlab.model.cache import KeyValues


@pytest.mark.parametrize("size", [3, BLOCK, 40 * BLOCK, 40 * BLOCK + 1, 8003])
def test_the_largest_are_those_of_topk(size):
    """Several of them in one block, at its edges, and behind the last whole block."""
    generator = torch.Generator().manual_seed(size)
    values = torch.randperm(16 * size, generator=generator).view(16, size).float()
    top = 1e6 + torch.arange(4.0)
    values[0, : min(4, size)] = top[: min(4, size)]
    values[1, -min(4, size) :] = top[: min(4, size)]
    values[2, ::BLOCK] += 1e6
    values[3] = torch.where(torch.arange(size) == size - 1, 1.0, -torch.inf)
    for count in (1, 3, 8):
        best, places = largest(values, min(count, size))
        wanted = values.topk(min(count, size))
        assert torch.equal(best, wanted.values)
        rows = torch.tensor([row for row in range(16) if row != 3])  # of equal ones any may come
        assert torch.equal(places[rows], wanted.indices[rows])
        assert torch.equal(values.gather(1, places), best)


def test_a_cache_of_selected_rows_is_that_of_the_rows():
    """In place where few move, anew where many do or rows are left out, behind keys that are forgotten."""
    memory = KeyValues(keep=5)
    generator = torch.Generator().manual_seed(0)
    held = [torch.zeros(6, 2, 0, 3)] * 2

    def extended(rows):
        k, v = torch.randn(2, rows, 2, 2, 3, generator=generator)
        return [torch.cat([old, new], 2) for old, new in zip(held, (k, v), strict=True)], (k, v)

    for rows in ([0, 1, 2, 3, 4, 4], [5, 4, 3, 2, 1, 0], [0, 0, 1, 1, 2, 2, 3, 3], [1, 2, 3], [0, 1, 2]):
        for _ in range(9):
            held, (k, v) = extended(len(held[0]))
            given = memory.extend(k, v)
            for own, whole in zip(given, held, strict=True):
                assert torch.equal(own, whole[:, :, -own.shape[2] :]) and own.shape[2] >= min(
                    5, whole.shape[2]
                )
        memory.select(torch.tensor(rows))
        held = [one[torch.tensor(rows)] for one in held]
