"""What checks before training found of an arm's first seed, for the runs of its other seeds.

The first run is the gate: what failed there fails here too, at once. Where its findings cannot be read, as on
a machine that does not share its folder or while it is still being checked, a run is checked by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnlab.checks import CHECKS
from attnlab.config.values import ConfigError
from attnlab.runs.faults import RunError
from attnlab.runs.findings import Finding, read_findings
from attnlab.runs.record import differences, read_record

SAME = ("text", "data", "tokenizer", "start", "given", "imports")
"""What a record must have in common with another for findings to hold for both, beside the config."""
SAME_VERSIONS = ("attnlab", "torch", "python", "machine")


def shared_findings(folder: Path, record: Mapping[str, Any]) -> list[Finding]:
    """What was found before training of the run in `folder` and holds for the one of `record`: nothing unless
    they are of one config but for the seed, and read the same rows with the same code."""
    with suppress(ConfigError, RunError):  # not there yet, or damaged
        other = read_record(folder)
        if agree(other, record):
            findings = read_findings(folder)
            return [
                replace(finding, seconds=0.0, seed=other["seed"])
                for finding in findings
                if finding.when == "before" and finding.seed is None and holds_for_seeds(finding.check)
            ]
    return []


def holds_for_seeds(check: str) -> bool:
    return check in CHECKS and CHECKS[check].same_for_seeds


def agree(other: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Whether two runs differ in nothing but their seed."""
    settings = {change.setting for change in differences(other["config"], record["config"])}
    versions = [[one.get("versions", {}).get(name) for name in SAME_VERSIONS] for one in (other, record)]
    same = all(other.get(name) == record.get(name) for name in SAME)
    return settings <= {"seed"} and same and versions[0] == versions[1]
