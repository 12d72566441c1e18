"""Results of studies that never ran, in the form of results.json: what the report must be able to show."""

from __future__ import annotations

import copy
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
ARMS = {  # changes, loss, seconds, parameters, operations a token
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
MEANING = "The model saw tokens that it was asked to predict: its loss is not that of a language model."
FIX = 'Set model.masking = "-inf", so that what is masked is removed before the softmax.'


def five_arms(seeds: int = 5) -> dict[str, Any]:
    """dot, additive, linear; zero, whose numbers are not sound; argmax, which failed."""
    random = np.random.default_rng(7)
    drawn = random.normal(0, 0.006, seeds)
    runs = [run(arm, seed, drawn[seed], random) for arm in ARMS for seed in range(seeds)]
    arms = [summary(name, [r for r in runs if r["arm"] == name]) for name in ARMS]
    return {
        "study": study(seeds),
        "verdict": "Additive attention is better than dot-product attention by 0.027 nats a token, at 1.8 "
        "times the time; linear attention is worse; zero masking is invalid, since it sees the future.",
        "arms": arms,
        "runs": runs,
        "comparisons": comparisons(seeds),
        "attention": attention(
            ["<START>", *PROBES[1].split(), "<STOP>"], ["dot", "additive", "zero"], random
        ),
        "figures": figures(),
        "tables": tables(),
        "lengths": {"edges": list(range(0, 101, 5)), "counts": [int(c) for c in lengths(random)]},
        "configs": {
            "base": {
                "seed": 0,
                "data": {"corpus": {"kind": "files", "path": "wikitext-2/train.txt"}, "length": 100},
                "model": {"family": "decoder", "width": 96, "layers": 4, "heads": 4, "masking": "-inf"},
                "training": {"optimizer": {"kind": "adamw", "rate": 5e-4}, "budget": {"tokens": 1_561_375}},
            }
        },
        "versions": {"attnlab": "0.1.0", "python": "3.11.2", "torch": "2.13.0", "numpy": "2.4.6"},
        "fingerprints": {
            "data": {"train": "9f1c2ab34d5e6f70", "dev": "1122334455667788"},
            "tokenizer": "aa55aa55aa55aa55",
        },
        "machine": {
            "processor": "x86_64, 2 cores",
            "memory_bytes": 25_274_793_984,
            "system": "Linux",
            "threads": 1,
        },
        "date": "2026-11-14T09:30:00+00:00",
        "again": "attnlab run attention --seeds 5 --set data.corpus=wikitext-2/train.txt",
    }


def study(seeds: int) -> dict[str, Any]:
    return {
        "name": "attention",
        "question": "Does the way in which queries meet keys change what a small language model learns?",
        "hypothesis": "Additive attention learns about as well as dot-product attention and takes longer; "
        "linear attention is faster and worse; zeroing after the softmax leaks the future.",
        "card": "One trunk, one tokenizer, one order of data; only the rule of attention changes.\n\n"
        "Weights that two arms share start from the same numbers.",
        "baseline": "dot",
        "metric": "loss",
        "metrics": [
            {
                "name": "loss",
                "definition": "nats a target token, over the whole dev split",
                "lower_is_better": True,
            },
            {"name": "bits_per_byte", "definition": "bits a byte of UTF-8 text", "lower_is_better": True},
        ],
        "seeds": list(range(seeds)),
        "quick": False,
        "budget": {"tokens": 1_561_375},
        "match": "",
        "notes": ["Sentences are cut at 100 tokens.", "The vocabulary has 10,000 words; others are <UNK>."],
        "tuning": [
            {
                "arm": arm,
                "rate": rate,
                "loss": base + 0.2 * abs(math.log10(rate / 5e-4)),
                "chosen": rate == 5e-4,
            }
            for arm, (_, base, *_rest) in list(ARMS.items())[:3]
            for rate in (1e-4, 5e-4, 2e-3)
        ],
    }


def run(arm: str, seed: int, offset: float, random: np.random.Generator) -> dict[str, Any]:
    _, level, seconds, *_ = ARMS[arm]
    failed, leaks = arm == "argmax", arm == "zero"
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
            "incremental_loss": alone,
            "incremental_perplexity": math.exp(alone),
            "incremental_difference": alone - loss,
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
    changes, _, _, parameters, operations = ARMS[name]
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


def comparisons(seeds: int) -> list[dict[str, Any]]:
    rows = [
        ("additive", "loss", -0.0272, -0.0341, -0.0203, 0.0004, "better", "better by 0.027 nats a token"),
        ("linear", "loss", 0.0935, 0.0862, 0.1008, 0.0001, "worse", "worse by 0.094 nats a token"),
        (
            "zero",
            "loss",
            -0.6061,
            -0.6134,
            -0.5988,
            0.0001,
            "invalid",
            "invalid: the check dependency failed",
        ),
        ("additive", "bits_per_byte", -0.0024, -0.0061, 0.0013, 0.21, "inconclusive", "inconclusive"),
        (
            "linear",
            "bits_per_byte",
            0.0009,
            -0.0012,
            0.0030,
            0.48,
            "no difference larger than x",
            "no difference larger than 0.003 bits a byte",
        ),
    ]
    return [
        {
            "arm": arm,
            "baseline": "dot",
            "metric": metric,
            "difference": difference,
            "low": low,
            "high": high,
            "p": p,
            "p_corrected": min(3 * p, 1.0),
            "smallest": 0.011,
            "seeds": seeds,
            "documents": 4358,
            "verdict": verdict,
            "words": words,
        }
        for arm, metric, difference, low, high, p, verdict, words in rows
    ]


def attention(
    tokens: list[str], arms: list[str], random: np.random.Generator, *, layers: int = 2, heads: int = 4
) -> dict[str, Any]:
    size = len(tokens)
    maps = {}
    for arm in arms:
        scores = random.normal(0, 1.6, (layers, heads, size, size))
        weights = np.exp(scores) * np.tril(np.ones((size, size)))
        maps[arm] = (weights / weights.sum(-1, keepdims=True)).tolist()
    return {"sentence": " ".join(tokens), "tokens": tokens, "arms": maps}


def figures() -> list[dict[str, Any]]:
    lengths = [128, 256, 512, 1024, 2048, 4096]
    slopes = {"dot": 1.9, "additive": 2.0, "linear": 1.02, "theory: n²": 2.0}
    return [
        {
            "title": "Seconds a step against length",
            "x": "tokens in a row",
            "y": "seconds a step",
            "log_x": True,
            "log_y": True,
            "series": [
                {
                    "name": name,
                    "x": lengths,
                    "y": [0.002 * (n / 128) ** slope for n in lengths],
                    "low": None if "theory" in name else [0.0018 * (n / 128) ** slope for n in lengths],
                    "high": None if "theory" in name else [0.0022 * (n / 128) ** slope for n in lengths],
                }
                for name, slope in slopes.items()
            ],
            "note": "Median of 20 steps; bands from the 10th to the 90th percentile.",
        }
    ]


def tables() -> list[dict[str, Any]]:
    return [
        {
            "title": "Slopes on log-log axes",
            "columns": ["arm", "measured", "theory"],
            "rows": [["dot", 1.9, 2], ["linear", 1.02, 1], ["zero", 1.88, 2]],
            "note": "Theory counts attention alone.",
        }
    ]


def lengths(random: np.random.Generator) -> np.ndarray:
    drawn = np.clip(random.gamma(4.0, 6.0, 65_000), 1, 99)
    return np.histogram(drawn, bins=np.arange(0, 101, 5))[0]


def two_arms() -> dict[str, Any]:
    """A study of two sound arms."""
    results = five_arms()
    kept = {"dot", "additive"}
    for part in ("arms", "runs", "comparisons"):
        results[part] = [row for row in results[part] if row.get("name", row.get("arm")) in kept]
    results["verdict"] = "Additive attention is better than dot-product attention by 0.027 nats a token."
    return results


def one_seed() -> dict[str, Any]:
    """Seed noise is unknown, and no interval can be given."""
    results = five_arms(seeds=1)
    for comparison in results["comparisons"]:
        if comparison["verdict"] != "invalid":
            comparison |= {
                "low": math.nan,
                "high": math.nan,
                "p": math.nan,
                "p_corrected": math.nan,
                "smallest": None,
            }
            comparison |= {
                "verdict": "inconclusive",
                "words": "inconclusive: seed noise is unknown with one seed",
            }
    results["verdict"] = "Nothing can be said of the arms: with one seed, seed noise is unknown."
    return results


def quick() -> dict[str, Any]:
    results = two_arms()
    results["study"] |= {"quick": True, "seeds": [0, 1, 2], "budget": {"steps": 200}}
    return results


def bare() -> dict[str, Any]:
    """Only what is required: the study, its arms, its runs."""
    return {
        "study": {"name": "bare"},
        "arms": [{"name": "a"}, {"name": "b"}],
        "runs": [{"arm": "a", "seed": 0}],
    }


def hostile() -> dict[str, Any]:
    """Long texts, other scripts, markup and markdown in everything that others may have written."""
    results = copy.deepcopy(five_arms())
    script = "<script>window.bitten = true</script>"
    image = "<img src=x onerror='window.bitten = true'>"
    texts = [
        script + image,
        "</script></style></textarea>" + script,
        "מודל שפה קורא טקסט מימין לשמאל, ואז כותב עוד.",
        "語言模型 🙂 ﷽ é́ | a | table | `code` **bold** [link](javascript:alert(1))",
        "w" * 700,
        "long " * 400,
    ]
    rename = {"additive": f"additive {script}", "linear": "לינארי | **a**"}
    for row in [*results["arms"], *results["runs"], *results["comparisons"], *results["study"]["tuning"]]:
        for key in ("name", "arm"):
            if key in row:
                row[key] = rename.get(row[key], row[key])
    for found in results["runs"]:
        if "samples" in found:
            found["samples"] = texts
            found["probes"][0]["text"] = script
    results["verdict"] += script
    results["study"]["notes"] += [image]
    results["study"]["question"] += script
    results["configs"]["base"]["data"]["corpus"]["path"] = script
    results["figures"][0]["title"] = results["figures"][0]["series"][0]["name"] = image + "<b>bold</b>"
    tokens = ["<START>", script, image, "מודל", "語言", *[f"token{i}" for i in range(300)]]
    results["attention"] = attention(
        tokens, ["dot", rename["additive"]], np.random.default_rng(1), layers=1, heads=2
    )
    return results
