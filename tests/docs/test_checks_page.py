"""docs/checks.md has a row for every check, and says of it what its card says."""

import re
from pathlib import Path

import pytest

from attnlab.checks import CHECKS
from attnlab.config.registry import card

PAGE = (Path(__file__).parents[2] / "docs" / "checks.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].strip("`"): cells
    for line in PAGE.splitlines()
    if line.startswith("| `") and len(cells := [cell.strip() for cell in line.strip("|").split(" | ")]) == 6
}


def test_every_check_has_its_row_and_no_other_has_one():
    assert list(ROWS) == list(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_a_row_says_what_the_card_says(name):
    shown = card(CHECKS, name)
    blind = re.search(r"Cannot see: (.*?)(\n\n|$)", shown.text, re.S)
    assert blind, f"the card of {name} does not say what it cannot see"
    _, when, proves, cannot, faults, cost = ROWS[name]
    assert when == ", ".join(CHECKS[name].when)
    assert proves == shown.summary.partition(": ")[2]
    assert cannot == " ".join(blind[1].split())
    assert len(faults) > 10 and cost
