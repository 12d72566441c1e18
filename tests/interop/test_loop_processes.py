"""A loop in two processes: each of the usual silent faults is found and named, a sound loop is not."""

from __future__ import annotations

import pytest

from attnlab.checks.process_facts import coincidences
from attnlab.checks.processes import Processes
from attnlab.runs.findings import read_findings
from attnlab.testing import assert_processes_agree
from attnlab.training.strategies.own_processes import current
from tests.interop.parallel_loops import DEV, all_loops, faults, loop_with_equal_data, sound_loop
from tests.training.forked import in_processes

DRIFTED = {"evaluation": "other_weights", "after": "other_weights"}
EXPECTED = {
    "sound": {},
    "summed": {},
    "not averaged": {"before": "not_averaged", **DRIFTED},
    "no_sync left on": {"before": "not_averaged", **DRIFTED},
    "same data": {"before": "same_rows", "during": "shared_rows"},
    "divergent sampler seeds": {"during": "shared_rows"},
    "mean of means": {"during": "mean_of_means"},  # its first step has as many targets in both
    "other initialisation": {"before": "other_weights", **DRIFTED},
    "last batch dropped": {
        "before": "not_averaged",
        "during": "mean_of_means",
        "evaluation": "other_steps",
        "after": "other_steps",
    },
    "same dropout": {"before": "same_draws"},
    "filled": {"evaluation": "repeated_rows"},
    "cut": {"evaluation": "unscored_rows"},
    "buffers": {"before": "other_buffers", "evaluation": "other_buffers", "after": "other_buffers"},
}
"""What the check finds at each moment; where nothing is named, it passes."""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What was found of every loop: two processes are started once for all of them."""
    folder = tmp_path_factory.mktemp("loops")
    assert in_processes(2, every_loop, str(folder), tuple(EXPECTED)) == [None, None]
    return {name: of_processes(read_findings(folder / name)) for name in EXPECTED}


def every_loop(folder, names):
    all_loops(current().rank, folder, names)


def of_processes(findings):
    return {one.when: one for one in findings if one.check == "processes"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_fault_of_processes_is_named_and_nothing_else(found, name):
    assert set(EXPECTED) == set(faults(0))
    moments = found[name]
    assert set(moments) == {"before", "during", "evaluation", "after"}
    bad = {when: one.kind for when, one in moments.items() if one.outcome in ("fail", "warn")}
    assert bad == EXPECTED[name], {when: one.sentence for when, one in moments.items()}


def test_what_is_found_says_how_much(found):
    assert found["sound"]["evaluation"].values["rows"] == DEV
    assert found["filled"]["evaluation"].values["scored"] == DEV + 1
    assert "22 examples were scored, and the split has 21" in found["filled"]["evaluation"].sentence
    assert found["last batch dropped"]["after"].values["steps"] == [15, 14]
    assert (
        "process 1 of 2 uses the gradient of its own rows alone" in found["not averaged"]["before"].sentence
    )


def test_a_loop_is_asked_in_somebodys_own_test(found, monkeypatch):
    with pytest.raises(AssertionError, match="read the same 8 rows as another"):
        assert_processes_agree(loop_with_equal_data)
    sound = [*found["sound"].values()]  # of processes that need not be started again
    monkeypatch.setattr("attnlab.interop.started_loops.findings_in_processes", lambda loop, processes: sound)
    assert_processes_agree(sound_loop)


def test_rows_that_the_data_repeats_are_not_taken_for_shared_ones():
    """Half of the rows are one and the same text: processes meet it as often as each alone does."""
    often = [[f"{rank}-{n}" if n % 2 else "again" for n in range(200)] for rank in range(3)]
    assert Processes().judge_rows("during", often).outcome == "pass"
    across, inside, share = coincidences(often)
    assert (across, inside) == (3 * 100 * 100, 3 * 100 * 99 // 2)
    assert share == pytest.approx(3 * 200 * 200 / (600 * 599 / 2))
    shared = [rows + [f"common-{n}" for n in range(60)] for rows in often]
    assert Processes().judge_rows("during", shared).outcome == "pass"  # drowned by what the data repeats
    few = [[f"{rank}-{n}" for n in range(200)] + [f"common-{n}" for n in range(60)] for rank in range(3)]
    assert Processes().judge_rows("during", few).kind == "shared_rows"
