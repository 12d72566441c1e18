"""A study that takes seconds: the small run of tests/training, a few steps, two arms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnlab.studies.spec import Quick, Study
from tests.training.small_run import settings

ARMS: dict[str, dict[str, Any]] = {"dot": {"model.attention": "dot"}, "linear": {"model.attention": "linear"}}


def study(folder: Path, **changes: Any) -> Study:
    base = settings(folder)
    base["training"] |= {"checkpoint_every": 2, "evaluate_every": 4}
    base["model"] |= {"layers": 1}
    given: dict[str, Any] = {
        "name": "small",
        "question": "Is linear attention as good as dot-product attention?",
        "base": base,
        "arms": ARMS,
        "seeds": 2,
        "budget": {"steps": 8},
        "probes": ("the cat sees a dog .",),
        "sentence": "the old man likes the bird .",
        "quick": Quick(seeds=1, budget={"steps": 2}),
    }
    return Study(**given | changes)


TIMES = ("seconds", "tokens_per_second", "peak_memory_bytes")


def numbers(results: dict[str, Any]) -> dict[str, Any]:
    """All of a study's results that does not tell the time, the place or the machine's load."""
    kept = {name: results[name] for name in ("verdict", "comparisons", "attention", "lengths", "configs")}
    kept["runs"] = [
        {
            "arm": run["arm"],
            "seed": run["seed"],
            "status": run["status"],
            "metrics": {k: v for k, v in run["metrics"].items() if k not in TIMES},
            "curve": {k: v for k, v in run["curve"].items() if k != "seconds"},
            "dev_curve": {k: v for k, v in run["dev_curve"].items() if k != "seconds"},
            **{name: run[name] for name in ("probes", "samples", "quality", "fingerprints")},
            "trace": run.get("trace"),
        }
        for run in results["runs"]
    ]
    kept["arms"] = [
        {k: v for k, v in arm.items() if k != "metrics"}
        | {"metrics": {k: v for k, v in arm["metrics"].items() if k not in TIMES}}
        for arm in results["arms"]
    ]
    return kept
