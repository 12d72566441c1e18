"""The table of docs/scale.md is what its formulas give, and the formulas are those that it names."""

import math
from pathlib import Path

import pytest

from benchmarks.scale_model import (
    GPUS,
    MODELS,
    PARTS,
    TOKENS,
    ddp,
    ddp_bytes,
    fsdp,
    fsdp_bytes,
    held,
    table,
)

PAGE = (Path(__file__).parents[2] / "docs" / "scale.md").read_text()


def test_the_table_is_the_one_that_is_computed():
    assert table() in PAGE


def test_steps_are_those_of_a_computation_by_hand():
    small, large = MODELS[0], MODELS[2]
    part = 6 * 124e6 * 16_384 / 400e12
    sent = 63 / 64 * 4 * 124e6 / 40e9 + 4 * 124e6 / (25 * 2**20) * 6 * 25e-6
    assert ddp(small, GPUS, 64, TOKENS, PARTS) == pytest.approx(4 * part + 2 * sent - 2 / 3 * part)
    one_block = 511 / 512 * 6.7e9 / 40e9, 32 * 511 * 25e-6  # a byte of each weight; its waits
    gathers, sums = 2 * (2 * one_block[0] + one_block[1]), 4 * one_block[0] + one_block[1]
    assert fsdp(large, GPUS, 512, TOKENS, PARTS) == pytest.approx(4 * (gathers + sums))
    own = 2 * (63 / 64 * 4 * 6.7e9 / 8 / 40e9 + 32 * 6 * 25e-6)
    alone = 6 * 6.7e9 * 16_384 / 400e12
    assert own < 2 / 3 * alone  # hidden
    assert fsdp(large, GPUS, 512, TOKENS, PARTS, replicas=64) == pytest.approx(4 * alone)
    assert held(large) == pytest.approx(107.2e9) and math.log2(64) == 6


def test_bytes_are_those_of_a_computation_by_hand():
    small = MODELS[0]
    assert ddp_bytes(small, 4) == pytest.approx(2 * 3 / 4 * 4 * 124e6)
    part = 2 * 3 / 4 * 2 * 124e6 + 3 / 4 * 4 * 124e6
    assert fsdp_bytes(small, 4, 5) == pytest.approx(5 * part)
    assert fsdp_bytes(small, 4, 1, sums=2) == pytest.approx(part + 3 / 4 * 4 * 124e6)
    inside = 2 * 1 / 2 * 2 * 124e6 + 1 / 2 * 4 * 124e6
    assert fsdp_bytes(small, 4, 3, replicas=2) == pytest.approx(3 * inside + 2 * 1 / 2 * 2 * 124e6)
