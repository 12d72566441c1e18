"""Results of studies that never ran, in the form of results.json: what the report must be able to show."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.studies import report
from attnlab.studies.outcome import Note, StudyOutcome
from tests.studies.records import comparison
from tests.studies.runs import ARMS, LEAKS, MORE_ARMS, PROBES, run, summary

NOTES = ["Sentences are cut at 100 tokens.", "The vocabulary has 10,000 words; others are <UNK>."]


def five_arms(seeds: int = 5) -> dict[str, Any]:
    """dot, additive, linear; zero, whose numbers are not sound; argmax, which failed."""
    random = np.random.default_rng(7)
    drawn = random.normal(0, 0.006, seeds)
    runs = [run(arm, seed, drawn[seed], random) for arm in ARMS for seed in range(seeds)]
    arms = [summary(name, [r for r in runs if r["arm"] == name]) for name in ARMS]
    return {
        "study": study(seeds),
        "verdict": "",
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
                "training": {
                    "optimizer": {"kind": "adamw", "learning_rate": 5e-4},
                    "budget": {"tokens": 1_561_375},
                },
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
        "format": 2,
        "notes": [Note.of_text(text).as_json() for text in NOTES],
    }


def study(seeds: int) -> dict[str, Any]:
    return {
        "name": "attention",
        "question": "Does the way in which queries meet keys change what a small language model learns?",
        "hypothesis": "Additive attention learns about as well as dot-product attention and takes longer; "
        "linear attention is faster and worse; zeroing after the softmax leaks the future.",
        "card": "Attention: how queries meet keys.\n\nSet-up: one trunk, one tokenizer, one order of\ndata; "
        "only the rule of attention changes. Weights that two arms share start from the same\nnumbers.\n\n"
        "How to read it: the zero arm ends *invalid*, whatever its loss.\n\nTime: an hour on two cores.",
        "baseline": "dot",
        "metric": "loss",
        "metrics": [
            {
                "name": "loss",
                "definition": "nats per target token, over the whole dev split",
                "lower_is_better": True,
            },
            {"name": "bits_per_byte", "definition": "bits a byte of UTF-8 text", "lower_is_better": True},
        ],
        "seeds": list(range(seeds)),
        "quick": False,
        "budget": {"tokens": 1_561_375},
        "match": "",
        "notes": NOTES,
        "tuning": [
            {
                "arm": arm,
                "learning_rate": rate,
                "metric": "loss",
                "value": base + 0.2 * abs(math.log10(rate / 5e-4)),
                "chosen": rate == 5e-4,
            }
            for arm, (_, base, *_rest) in list(ARMS.items())[:3]
            for rate in (1e-4, 5e-4, 2e-3)
        ],
    }


def comparisons(seeds: int) -> list[dict[str, Any]]:
    rows = [  # arm, metric, difference, low, high, p, verdict
        ("additive", "loss", -0.0272, -0.0341, -0.0203, 0.0004, "better"),
        ("linear", "loss", 0.0935, 0.0862, 0.1008, 0.0001, "worse"),
        ("zero", "loss", -0.6061, -0.6134, -0.5988, 0.0001, "invalid"),
        ("additive", "bits_per_byte", -0.0024, -0.0061, 0.0013, 0.21, "inconclusive"),
        ("linear", "bits_per_byte", 0.0009, -0.0012, 0.0030, 0.48, "no difference"),
    ]
    return [
        compared(arm, metric, verdict, seeds=seeds, difference=difference, low=low, high=high, p=p)
        for arm, metric, difference, low, high, p, verdict in rows
    ]


def compared(arm: str, metric: str, verdict: str, **facts: Any) -> dict[str, Any]:
    """A comparison with dot, as results.json holds it."""
    facts = {"p_corrected": min(3 * facts["p"], 1.0), "documents": 4358, "margin": 0.003} | facts
    return comparison(arm, "dot", verdict, metric=metric, **facts).as_json()


def outcome(results: dict[str, Any]) -> StudyOutcome:
    """The record that these results are written from."""
    return StudyOutcome.of_json(results)


def write(results: dict[str, Any], folder: Path) -> Path:
    return report.write(outcome(results), folder)


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


def two_arms(seeds: int = 5) -> dict[str, Any]:
    """A study of two sound arms."""
    results = five_arms(seeds)
    kept = {"dot", "additive"}
    for part in ("arms", "runs", "comparisons"):
        results[part] = [row for row in results[part] if row.get("name", row.get("arm")) in kept]
    return results


def many_arms(seeds: int = 5) -> dict[str, Any]:
    """Fourteen arms, as a large study has them: two are invalid, one failed, and names are long."""
    results, random = five_arms(seeds), np.random.default_rng(11)
    drawn = random.normal(0, 0.006, seeds)
    runs = {name: [run(name, seed, drawn[seed], random) for seed in range(seeds)] for name in MORE_ARMS}
    results["runs"] += [one for own in runs.values() for one in own]
    results["arms"] += [summary(name, own) for name, own in runs.items()]
    base = ARMS["dot"][1]
    for name, (_, level, *_rest) in MORE_ARMS.items():
        middle, half = level - base, random.uniform(0.004, 0.011)
        verdict = "invalid" if name in LEAKS else "worse" if middle > half else "better"
        verdict = "inconclusive" if abs(middle) < half else verdict
        facts = {"difference": middle, "low": middle - half, "high": middle + half, "seeds": seeds}
        p = 0.3 if verdict == "inconclusive" else 0.0002
        results["comparisons"].append(compared(name, "loss", verdict, p=p, p_corrected=p, **facts))
    return results


def one_seed() -> dict[str, Any]:
    """Seed noise is unknown, and no interval can be given."""
    results = five_arms(seeds=1)
    for row in results["comparisons"]:
        if row["verdict"] != "invalid":
            unknown = dict.fromkeys(("low", "high", "p", "p_corrected", "p_same"), math.nan)
            facts = {"difference": row["difference"], "seeds": 1, **unknown}
            row |= compared(row["arm"], row["metric"], "inconclusive", **facts)
    return results


def quick() -> dict[str, Any]:
    results = two_arms(seeds=3)
    results["study"] |= {"quick": True, "budget": {"steps": 200, "epochs": 1}}
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
    results["study"]["notes"] = [*results["study"]["notes"], image]
    results["notes"].append(Note.of_text(image).as_json())
    results["study"]["question"] += script
    results["configs"]["base"]["data"]["corpus"]["path"] = script
    results["figures"][0]["title"] = results["figures"][0]["series"][0]["name"] = image + "<b>bold</b>"
    tokens = ["<START>", script, image, "מודל", "語言", *[f"token{i}" for i in range(300)]]
    results["attention"] = attention(
        tokens, ["dot", rename["additive"]], np.random.default_rng(1), layers=1, heads=2
    )
    return results
