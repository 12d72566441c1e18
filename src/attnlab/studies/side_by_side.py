"""Single runs side by side: which of their numbers may be compared, and what a reader must know of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attnlab.config.schema import SECTIONS
from attnlab.config.values import ConfigError
from attnlab.runs.summary import about
from attnlab.studies.evidence import fed_apart
from attnlab.studies.guards import SURVIVES, dev, judged_apart, trained_apart, unspelt

MEASURES = ("loss", "perplexity", "bits_per_byte", "train_loss", "incremental_loss", "seconds")
JUDGED = ("loss", "perplexity")
"""Measures that count tokens, and so are withheld where tokenizers differ."""


def compared(places: Sequence[Path]) -> dict[str, Any]:
    """Runs side by side under a study's guards: what may not be set beside the first is withheld.

    Runs that were not judged on the same text are refused altogether. Where tokenizers differ, bits per
    byte is left; where training data or order differ, every number stands, but not as equals.
    """
    runs = [about(place) for place in places]
    for run in runs:
        if dev(run["fingerprints"]) is None:
            raise ConfigError(f"{run['folder']} has no dev split, so that there is nothing to compare it by.")
    first, notes = runs[0], list[str]()
    withheld: set[str] = set()
    for run in runs[1:]:
        pair = f"{run['folder']} beside {first['folder']}"
        reasons = judged_apart(run["fingerprints"], first["fingerprints"], metric=SURVIVES)
        if reasons:
            raise ConfigError(f"{pair}: {'; '.join(reasons)}. Their numbers do not mean the same.")
        by_tokens = judged_apart(run["fingerprints"], first["fingerprints"], metric="loss")
        if by_tokens:
            withheld.update(JUDGED, ("train_loss", "incremental_loss"))
            unpaid = unspelt(run["measures"], first["measures"])
            withheld.update([SURVIVES] if unpaid else [])
            notes.append(f"{pair}: {'; '.join([*by_tokens, *unpaid])}.")
        trained = trained_apart(run["fingerprints"], first["fingerprints"])
        if not trained and run["seed"] == first["seed"]:
            trained = fed_apart(run, first, changed=changed_settings(run["config"], first["config"]))
        notes += [f"Not equals: {pair}: {reason}." for reason in trained]
    notes += list(remarks(runs))
    shown = [m for m in MEASURES if m not in withheld and any(m in run["measures"] for run in runs)]
    return {"runs": runs, "measures": shown, "notes": list(dict.fromkeys(notes))}


def changed_settings(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The settings in which two recorded configs differ: "model.attention"."""
    found = []
    for name in dict.fromkeys([*one, *other]):
        mine, theirs = one.get(name), other.get(name)
        if name in SECTIONS and isinstance(mine, dict) and isinstance(theirs, dict):
            found += [f"{name}.{key}" for key in {*mine, *theirs} if mine.get(key) != theirs.get(key)]
        elif mine != theirs:
            found.append(name)
    return found


def remarks(runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    for run in runs:
        if not run["sound"]:
            checks = " and ".join(run["failures"])
            yield f"{run['folder']} is not sound: it failed the check {checks}, so its loss is not real."
        if run["status"] != "finished":
            yield f"{run['folder']} is {run['status']} at step {run['steps']}."
        if not run["whole"]:
            yield f"{run['folder']} was evaluated on a part of dev only (training.evaluate_batches)."
    if len(runs) > 1:
        yield "Single runs: how much is the luck of a seed, only a study with several seeds tells."
