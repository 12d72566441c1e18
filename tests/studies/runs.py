"""Runs that never ran, as a study's workers would have left them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

PROBES = (
    "After learning language models model natural language.",
    "The quick brown fox jumps over the lazy dog.",
    "Amidst the twilight, the ancient ruins whispered secrets long forgotten.",
    "Quantum entanglement fascinates physicists and philosophers alike, bridging worlds with invisible "
    "threads.",
)
SAMPLES = (
    "The film was released in the United States on the first of June , and it was the first of the "
    "series to be shown in two parts .",
    "In the early 20th century , the town was a part of the county 's northern district .",
    "He was the second son of a merchant , and had been a member of the club since 1904 .",
)
GARBAGE = (
    "the the of , , the of of in the , of the the the , and of the , , ,",
    ". . the in of of of of of of",
)
ARMS = {  # changes, loss, seconds, parameters, operations per token
    "dot": ({}, 5.008, 189.0, 1_407_552, 8_446_000),
    "additive": ({"model.attention": "additive"}, 4.981, 338.0, 1_426_368, 9_120_000),
    "linear": ({"model.attention": "linear"}, 5.102, 171.0, 1_407_552, 8_101_000),
    "zero": ({"model.masking": "zero"}, 4.402, 148.0, 1_407_552, 8_446_000),
    "argmax": (
        {"model.attention": {"kind": "argmax", "estimator": "straight-through"}},
        5.9,
        200.0,
        1_407_552,
        8e6,
    ),
}
MORE_ARMS = {  # as a large study has them: long names, several invalid, failed or alike
    "dot-with-rotary-positions": ({"model.positions": "rotary"}, 4.962, 201.0, 1_398_336, 8_446_000),
    "alibi": ({"model.positions": "alibi"}, 4.975, 196.0, 1_398_336, 8_446_000),
    "no-positions": ({"model.positions": "none"}, 5.071, 187.0, 1_398_336, 8_446_000),
    "shared-queries-and-keys": ({"model.projections": "shared_qk"}, 5.012, 180.0, 1_370_688, 8_225_000),
    "rms-norm": ({"model.norm": "rms"}, 5.006, 214.0, 1_406_688, 8_446_000),
    "window-32": ({"model.attention": {"kind": "window", "size": 32}}, 5.021, 160.0, 1_407_552, 7_870_000),
    "grouped-8": ({"model.attention": {"kind": "group", "groups": 8}}, 5.190, 121.0, 1_407_552, 7_100_000),
    "wide": ({"model.width": 128}, 4.912, 282.0, 2_090_000, 12_540_000),
    "zero-with-rotary-positions": (
        {"model.masking": "zero", "model.positions": "rotary"},
        *(4.388, 151.0, 1_398_336, 8_446_000),
    ),
}
LEAKS = ("zero", "zero-with-rotary-positions")
MEANING = "The model saw tokens that it was asked to predict: its loss is not that of a language model."
FIX = 'Set model.masking = "-inf", so that what is masked is removed before the softmax.'


def run(arm: str, seed: int, offset: float, random: np.random.Generator) -> dict[str, Any]:
    _, level, seconds, *_ = (ARMS | MORE_ARMS)[arm]
    failed, leaks = arm == "argmax", arm in LEAKS
    loss = level + offset + random.normal(0, 0.003)
    alone = loss + (0.71 if leaks else random.normal(0, 1e-7))
    took = seconds * random.uniform(0.98, 1.03)
    found: dict[str, Any] = {
        "arm": arm,
        "seed": seed,
        "folder": f"runs/{arm}/seed-{seed}",
        "status": "failed" if failed else "invalid" if leaks else "finished",
        "reason": "The loss became NaN at step 412."
        if failed
        else "dependency: the loss sees the future"
        if leaks
        else "",
        "steps": 412 if failed else 1957,
        "tokens": 329_000 if failed else 1_561_926,
        "seconds": took,
        "tokens_per_second": 1_561_926 / took,
        "peak_memory_bytes": int(6.1e8 + random.integers(0, 1e7)),
        "curve": curve(level, 412 if failed else 1957, took, random),
        "checks": checks(leaks),
        "fingerprints": {"data": "9f1c2ab34d5e6f70", "tokenizer": "aa55aa55aa55aa55"},
    }
    if failed:
        return found
    return found | {
        "metrics": {
            "loss": loss,
            "perplexity": math.exp(loss),
            "bits_per_byte": loss / math.log(2) / 5.41,
            "train_loss": loss - 0.11,
            "parallel_loss": loss,
            "parallel_perplexity": math.exp(loss),
            "token_by_token_loss": alone,
            "token_by_token_perplexity": math.exp(alone),
            "leak": alone - loss,
        },
        "dev_curve": curve(level, 1957, took, random, every=200, noise=0.004),
        "extra_curves": {"gradient norm": gradient(took, random)},
        "probes": [
            {
                "text": text,
                "loss": level + 1.3 - 0.4 * i + random.normal(0, 0.05),
                "perplexity": math.exp(level + 1.3 - 0.4 * i),
                "tokens": len(text.split()) + 1,
                "unknown": i,
            }
            for i, text in enumerate(PROBES)
        ],
        "samples": list(GARBAGE if leaks else SAMPLES),
        "quality": {
            "n": 5,
            "tokens": 240,
            "distinct_2": 0.31 if leaks else 0.86,
            "repeated_4": 0.4 if leaks else 0.01,
        },
    }


def curve(
    level: float,
    steps: int,
    seconds: float,
    random: np.random.Generator,
    *,
    every: int = 10,
    noise: float = 0.06,
) -> dict[str, Any]:
    step = np.arange(every, steps + 1, every)
    loss = (
        level
        + 4.3 * np.exp(-step / 180)
        + 0.4 * np.exp(-step / 900)
        - 0.04
        + random.normal(0, noise, len(step))
    )
    return {
        "step": step.tolist(),
        "tokens": (step * 798).tolist(),
        "seconds": (step * seconds / 1957).tolist(),
        "loss": loss.tolist(),
    }


def gradient(seconds: float, random: np.random.Generator) -> dict[str, Any]:
    found = curve(0.3, 1957, seconds, random, every=50)
    return {k: found[k] for k in ("step", "tokens", "seconds")} | {"value": np.abs(found["loss"]).tolist()}


def checks(leaks: bool) -> list[dict[str, Any]]:
    def finding(
        check: str, outcome: str, number: float | None, found: str, meaning: str = "", fix: str = ""
    ) -> Any:
        return {
            "check": check,
            "when": "after",
            "outcome": outcome,
            "number": number,
            "found": found,
            "meaning": meaning,
            "fix": fix,
            "seconds": 0.4,
        }

    dependency = (
        finding(
            "dependency", "fail", 0.71, "Logits at position 7 changed when token 9 was changed.", MEANING, FIX
        )
        if leaks
        else finding("dependency", "pass", 0.0, "No logit depends on a later token.")
    )
    return [
        dependency,
        finding(
            "first loss", "pass", 9.21, "The first loss is 9.21; an even guess among 10,000 words gives 9.21."
        ),
        finding(
            "overlap",
            "warn",
            0.013,
            "1.3% of dev sentences are in the training text too.",
            "The dev loss is a little lower than on new text.",
            "Remove duplicates with data.deduplicate = true.",
        ),
        finding("majority", "not applicable", None, "No classes are predicted."),
    ]


def summary(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    changes, _, _, parameters, operations = (ARMS | MORE_ARMS)[name]
    names = dict.fromkeys(key for r in runs for key in r.get("metrics", {}))
    values = {key: [r["metrics"][key] for r in runs if key in r.get("metrics", {})] for key in names}
    if values:
        values |= {
            key: [r[key] for r in runs] for key in ("seconds", "tokens_per_second", "peak_memory_bytes")
        }
    return {
        "name": name,
        "changes": changes,
        "parameters": parameters,
        "flops_per_token": operations,
        "status": runs[0]["status"],
        "reason": runs[0]["reason"],
        "metrics": {key: estimate(found) for key, found in values.items()},
    }


def estimate(values: list[float]) -> dict[str, Any]:
    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return {"value": mean, "low": math.nan, "high": math.nan, "n": n}
    half = 2.776 * float(np.std(values, ddof=1)) / math.sqrt(n)
    return {"value": mean, "low": mean - half, "high": mean + half, "n": n}
