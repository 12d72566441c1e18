"""Did seeds change anything, and did arms share what they claim to? By what runs were really given.

`trace` and `initial` of a run are in its run.json (training/trace.py says what they hold).

Cannot see: a seed that decides the masking of a task only in part, dropout of a module of one's own
with a generator of its own or seeded anew for batches of another shape, and batches that differ after the
last count that two runs of different length have both marked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from attnlab.config.files import to_json
from attnlab.config.schema import SCRATCH, Config, declares_dropout
from attnlab.data.batching import BATCHING
from attnlab.evaluation.comparability import Basis, first_difference, tokens_by_start
from attnlab.metrics.measures import COSTS
from attnlab.runs.findings import unlearned_of
from attnlab.runs.reason import Reason, ReasonKind
from attnlab.runs.result import RunResult
from attnlab.runs.typed import Value
from attnlab.studies.outcome import Note, NoteKind

Initial = Mapping[str, str]

MOST = 0.5
"""The share of random parameters, or of their numbers, above which two models start alike.

Not all of them: a part may have a fixed start by design, as a table that is filled by a formula.
"""

OTHER_DRAWS = (
    *("model.", "data.", "task", "start", "adapter", "training.accumulate", "training.precision"),
    *("training.gradient_checkpointing", "training.compile", "training.device"),
)
"""Settings under which the same seed draws other numbers in dropout, or as many in another order."""


DRAWS = ("draws", "drawn")
"""The trails of the random generator: before and after each batch that drew from it."""


def unasked_draws(arm: str, runs: Sequence[RunResult], config: Config) -> list[Note]:
    """That a model drew random numbers in training though its config has no dropout, where it did."""
    drew = [run.seed for run in runs if any(trail(run, name) for name in DRAWS)]
    if not drew or config.start != SCRATCH or declares_dropout(to_json(config)):
        return []
    return [Note(NoteKind.UNASKED_DRAWS, {"arm": arm, "seeds": drew})]


def idle_seeds(arm: str, runs: Sequence[RunResult], *, batching: str) -> tuple[list[Reason], list[Note]]:
    """Why runs of different seeds are not independent results, and what their seeds could not change."""
    alike = {
        ReasonKind.SAME_WEIGHTS: pairs(runs, same_start),
        ReasonKind.SAME_BATCHES: pairs(runs, same_batches),
        ReasonKind.SAME_DRAWS: pairs(runs, same_draws),
    }
    notes = fixed_parts(arm, runs) if not alike[ReasonKind.SAME_WEIGHTS] else []
    fixed = fixed_order(arm, runs, batching) if alike[ReasonKind.SAME_BATCHES] else None
    if fixed is not None:
        del alike[ReasonKind.SAME_BATCHES]
        notes.append(fixed)
    if any(run.trace is None for run in runs):
        notes.append(Note(NoteKind.UNKNOWN_SEEDS, {"arm": arm}))
    seeds_alike = {kind: seeds_in(pairs) for kind, pairs in alike.items() if pairs}
    return [Reason(kind, {"arm": arm, "seeds": seeds}) for kind, seeds in seeds_alike.items()], notes


def fixed_order(arm: str, runs: Sequence[RunResult], batching: str) -> Note | None:
    """Why the order of batches could not depend on the seed; nothing where it could."""
    if not BATCHING[batching].shuffles:
        return Note(NoteKind.SORTED_BATCHES, {"arm": arm, "batching": batching})
    one_batch = all(run.epoch_batches == 1 for run in runs)
    return Note(NoteKind.ONE_BATCH, {"arm": arm}) if one_batch else None


def fixed_parts(arm: str, runs: Sequence[RunResult]) -> list[Note]:
    """That a smaller part of the model starts from the same values with every seed, where it does."""
    starts = [start(run) for run in runs]
    if len(starts) < 2 or not all(starts):
        return []
    drawn = [name for name, weights in starts[0].items() if drawn_at_random(weights)]
    fixed = [name for name in drawn if len({weights.get(name) for weights in starts}) == 1]
    values: dict[str, Value] = {
        "arm": arm,
        "fixed": len(fixed),
        "drawn": len(drawn),
        "first": fixed[0] if fixed else "",
    }
    return [Note(NoteKind.FIXED_PARTS, values)] if fixed else []


Codes = Mapping[str, Mapping[str, str]]
"""The hash of each file of the person's own code that a run used, by the run's folder and the file's name."""


def mixed_runs(
    arm: str,
    runs: Sequence[RunResult],
    baseline: Sequence[RunResult],
    *,
    changed: Collection[str],
    codes: Codes,
    drawn: bool = False,
) -> list[Reason]:
    """What runs do not have in common though neither their seed nor what the arm changes decides it: a study
    that was continued after its data, its tokenizer or its code had changed. Training rows that are `drawn`
    (data.train_rows) are those of each seed."""
    everywhere = [*runs, *baseline]
    alike = runs if touches(changed, "data.", "task", "start") else everywhere
    versions = {
        "text": versions_of(alike, lambda run: run.fingerprints.get("text")),
        "tokenizer": versions_of(alike, lambda run: run.fingerprints.get("tokenizer")),
        "rows": versions_of(runs, partial(_rows, drawn)),
    }
    mixed = [what for what, groups in versions.items() if len(groups) > 1][:1]  # the others follow from it
    for name in dict.fromkeys(name for run in everywhere for name in codes.get(run.folder, ())):
        versions[name] = versions_of(everywhere, partial(_code, codes, name))
        mixed += [name] if len(versions[name]) > 1 else []
    return [Reason(ReasonKind.MIXED_RUNS, {"arm": arm, "what": w, "versions": versions[w]}) for w in mixed]


def _rows(drawn: bool, run: RunResult) -> Mapping[str, str] | None:
    """What a run was trained and judged on that its seed did not draw."""
    data: Mapping[str, str] | None = run.fingerprints.get("data")
    return data if data is None or not drawn else {k: v for k, v in data.items() if k != "train"}


def _code(codes: Codes, name: str, run: RunResult) -> str | None:
    return codes.get(run.folder, {}).get(name)


def versions_of(runs: Sequence[RunResult], version: Callable[[RunResult], Any]) -> list[Value]:
    """Runs by the version of something that they used; those that do not say are left out."""
    groups: dict[str, list[str]] = {}
    for run in runs:
        if (used := version(run)) is not None:
            name = used if isinstance(used, str) else json.dumps(used, sort_keys=True)
            groups.setdefault(name, []).append(f"{run.arm} seed {run.seed}")
    return [{"version": version, "runs": names} for version, names in groups.items()]


def training_differences(run: RunResult, other: RunResult, *, changed: Collection[str]) -> list[Reason]:
    """What two arms did not share with the same seed, though nothing that they change explains it."""
    return [*input_differences(run, other, changed), *weight_differences(run, other, changed)]


def input_differences(run: RunResult, other: RunResult, changed: Collection[str]) -> list[Reason]:
    if touches(changed, "data.") or tokens_by_start(Basis.of(run), Basis.of(other), changed):
        return []
    first = first_difference(trail(run, "batches"), trail(other, "batches"))
    if first:
        return [Reason(ReasonKind.OTHER_BATCHES, {"seed": run.seed, "batch": first})]
    first = first_difference(trail(run, "inputs"), trail(other, "inputs"))
    if first and not touches(changed, "task", "training.accumulate"):
        return [Reason(ReasonKind.OTHER_INPUTS, {"seed": run.seed, "batch": first})]
    for name in DRAWS:
        first = first_difference(trail(run, name), trail(other, name))
        if first and not touches(changed, *OTHER_DRAWS):
            return [Reason(ReasonKind.OTHER_DRAWS, {"seed": run.seed, "batch": first})]
    return []


def weight_differences(run: RunResult, other: RunResult, changed: Collection[str]) -> list[Reason]:
    one, two = start(run), start(other)
    shared = [name for name in one if name in two and shape(one[name]) == shape(two[name])]
    if touches(changed, "model."):
        drawn = [name for name in shared if drawn_at_random(one[name]) and drawn_at_random(two[name])]
        differ = [name for name in drawn if signs(one[name]) != signs(two[name])]
        wrong = most(one, differ, drawn)
    else:
        differ = [name for name in shared if one[name] != two[name]]
        wrong = bool(differ)
    if not wrong:
        return []
    counts: dict[str, Value] = {"differ": len(differ), "shared": len(shared), "first": differ[0]}
    return [Reason(ReasonKind.OTHER_WEIGHTS, {"seed": run.seed, **counts})]


# ---------------------------------------------------------------- two seeds of an arm
def pairs(runs: Sequence[RunResult], same: Callable[[RunResult, RunResult], bool]) -> list[tuple[int, int]]:
    return [(a.seed, b.seed) for a, b in combinations(runs, 2) if same(a, b)]


def same_start(one: RunResult, other: RunResult) -> bool:
    mine, theirs = start(one), start(other)
    drawn = [name for name in mine if drawn_at_random(mine[name])]
    return most(mine, [name for name in drawn if mine[name] == theirs.get(name)], drawn)


def same_batches(one: RunResult, other: RunResult) -> bool:
    return same_trail(trail(one, "batches"), trail(other, "batches"))


def same_draws(one: RunResult, other: RunResult) -> bool:
    """Whether two seeds began with the same state, or ended in it, as where a part seeds anew in between."""
    return any(same_trail(trail(one, name), trail(other, name)) for name in DRAWS)


def same_trail(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Over all that both have; nothing is not the same as nothing: a model may have no dropout."""
    return bool(one.keys() & other.keys()) and not first_difference(one, other)


# ---------------------------------------------------------------- reading a run's record
def trail(run: RunResult, name: str) -> Mapping[str, str]:
    return (run.trace or {}).get(name) or {}


def start(run: RunResult) -> Initial:
    return run.initial or {}


def shape(described: str) -> str:
    return described.split()[0]


def drawn_at_random(described: str) -> bool:
    """Not a norm or a bias, whose values are all equal at the start, or 0 and 1."""
    return "=" not in described


def signs(described: str) -> str:
    return described.split()[-1]


def most(initial: Initial, some: Sequence[str], drawn: Sequence[str]) -> bool:
    """Whether these are most of the parameters that were drawn, or hold most of their numbers."""
    return len(some) > MOST * len(drawn) or size(initial, some) > MOST * size(initial, drawn)


def size(initial: Initial, names: Sequence[str]) -> int:
    """How many numbers these parameters hold."""
    return sum(math.prod(map(int, shape(initial[name]).split("x"))) for name in names)


def touches(changed: Collection[str], *beginnings: str) -> bool:
    return any(field.startswith(beginnings) for field in changed)


def seeds_in(pairs: Sequence[tuple[int, int]]) -> list[int]:
    return sorted({seed for pair in pairs for seed in pair})


# ---------------------------------------------------------------- did models learn?
MEANT = ("loss", "unigram")
"""Of a model that has not learned yet, what is told of it."""


def unlearned(arm: str, runs: Sequence[RunResult], metric: str) -> list[Reason]:
    """That language models of an arm know no more than counts of their training text; what they cost may be
    compared all the same."""
    findings = {run.seed: unlearned_of(one for one in run.checks if one.when == "evaluation") for run in runs}
    short = {seed: finding.values for seed, finding in findings.items() if finding is not None}
    if metric in COSTS or not short:
        return []
    loss, unigram = (float(np.mean([values[name] for values in short.values()])) for name in MEANT)
    values: dict[str, Value] = {"arm": arm, "seeds": [*short], "trained": len(runs)}
    return [Reason(ReasonKind.NOT_LEARNED, values | {"loss": loss, "unigram": unigram})]
