"""A run that takes a second: a synthetic corpus, a tiny model."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from attnlab.config.files import config_of
from attnlab.config.schema import Config
from attnlab.session.session import Session
from attnlab.session.training import Run
from attnlab.session.training import train as train_session

WHO = ("the cat", "a dog", "the old man", "my sister", "the bird", "a small child")
DOES = ("sees", "likes", "follows", "hears", "finds")
WHERE = ("in the garden", "near the river", "at home", "under the table", "on the hill")


def sentences(count: int = 400, seed: int = 0) -> list[str]:
    pick = random.Random(seed)
    made = []
    for _ in range(count):
        parts = [pick.choice(WHO), pick.choice(DOES), pick.choice(WHO), pick.choice(WHERE)]
        made.append(" ".join(parts[: pick.choice((3, 4))]) + " .")
    return made


def corpus(folder: Path) -> Path:
    file = folder / "corpus.txt"
    if not file.exists():
        file.write_text("\n".join(sentences()))
    return file


def settings(folder: Path) -> dict[str, Any]:
    return {
        "data": {
            "corpus": {"kind": "files", "path": str(corpus(folder)), "unit": "line"},
            "tokenizer": {"kind": "word", "vocabulary": 60, "minimum_count": 1},
            "length": 24,
            "batching": {"kind": "packed", "batch_size": 4},
            "dev_share": 0.1,
        },
        "model": {"width": 16, "layers": 2, "heads": 2, "length": 24, "dropout": 0.1},
        "training": {
            "budget": {"steps": 12},
            "evaluate_every": 4,
            "evaluate_batches": 2,
            "checkpoint_every": 3,
        },
    }


def pairs(folder: Path) -> Path:
    """Sentences, and the same ones backwards."""
    file = folder / "pairs.jsonl"
    if not file.exists():
        lines = ({"text": s, "target": " ".join(reversed(s.split()))} for s in sentences())
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def labelled(folder: Path) -> Path:
    """Sentences with the verb as their class, the words that name a person or animal, and their length."""
    file = folder / "labelled.jsonl"
    if not file.exists():
        lines = (
            {
                "text": s,
                "verb": next(word for word in DOES if word in s),
                "who": sorted(who for who in WHO if who in s),
                "words": len(s.split()),
            }
            for s in dict.fromkeys(sentences(600))
        )
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def of_column(folder: Path, label: str) -> dict[str, Any]:
    """An encoder that learns a column of the labelled sentences."""
    corpus = {"kind": "files", "path": str(labelled(folder)), "label": label}
    data = {"corpus": corpus, "encoding": "single", "batching": {"kind": "bucketed", "tokens": 96}}
    return {"model": {"family": "encoder", "dropout": 0.1}, "data": data}


ANSWERS: dict[str, Any] = {
    "model": {"family": "encoder", "dropout": 0.1, "length": 64, "token_types": 2},
    "data": {
        "corpus": {"kind": "facts", "examples": 400},
        "encoding": {"kind": "question", "overlap": 8, "question_length": 10},
        "batching": {"kind": "bucketed", "tokens": 128},
        "length": 48,
    },
    "training": {"evaluate_batches": "all"},
}
"""Questions about passages, some of which are read in two windows."""


def tagged(folder: Path) -> Path:
    """Sentences in CoNLL's columns: who is tagged as WHO, where as WHERE, what they do as DOES."""
    file = folder / "tagged.conll"
    if not file.exists():
        labels = dict.fromkeys(WHO, "WHO") | dict.fromkeys(WHERE, "WHERE") | dict.fromkeys(DOES, "DOES")
        lines = []
        for sentence in dict.fromkeys(sentences(600)):
            rest = sentence
            while rest:
                phrase = next((one for one in labels if rest.startswith(f"{one} ")), "")
                words = phrase.split() or [rest.split()[0]]
                for number, word in enumerate(words):
                    tag = f"{'I' if number else 'B'}-{labels[phrase]}" if phrase else "O"
                    lines.append(f"{word} {tag}")
                rest = rest.removeprefix(" ".join(words)).strip()
            lines.append("")
        file.write_text("\n".join(lines))
    return file


def of_tags(folder: Path) -> dict[str, Any]:
    """An encoder that tags words."""
    data = {
        "corpus": str(tagged(folder)),
        "encoding": "words",
        "batching": {"kind": "bucketed", "tokens": 96},
    }
    return {"model": {"family": "encoder", "dropout": 0.1}, "data": data}


def paired(folder: Path) -> Path:
    """Sentences, each with a second text that says the same in other words: a code for each part."""
    file = folder / "paired.jsonl"
    if not file.exists():
        codes = {
            part: f"{kind}{n}"
            for kind, parts in zip("xyz", (WHO, DOES, WHERE), strict=True)
            for n, part in enumerate(parts)
        }
        lines = []
        for sentence in dict.fromkeys(sentences(600)):
            coded = sentence
            for part, code in codes.items():
                coded = coded.replace(part, code)
            lines.append(json.dumps({"text": sentence, "pair": coded.removesuffix(" .")}) + "\n")
        file.write_text("".join(lines))
    return file


def of_pairs(folder: Path) -> dict[str, Any]:
    """An encoder that finds a sentence by its second text."""
    data = {
        "corpus": str(paired(folder)),
        "encoding": "apart",
        "batching": {"kind": "padded", "batch_size": 12},
    }
    return {"model": {"family": "encoder", "dropout": 0.1}, "data": data}


def for_task(name: str, folder: Path) -> dict[str, Any]:
    """What must change in the small run for a task to fit."""
    encoder = {"family": "encoder", "dropout": 0.1}
    apart = {"batching": {"kind": "bucketed", "tokens": 96}}
    paired = apart | {"corpus": str(pairs(folder)), "encoding": "translation"}
    changes: dict[str, dict[str, Any]] = {
        "causal": {},
        "masked": {"model": encoder},
        "span": {"model": encoder | {"output": "span_boundary"}},
        "prefix": {"model": {"mask": "prefix"}},
        "unilm": {"model": encoder | {"mask": "prefix"}},
        "seq2seq": {"model": {"family": "encoder_decoder"}, "data": paired},
        "denoising": {"model": {"family": "encoder_decoder"}, "data": apart},
        "classification": of_column(folder, "verb"),
        "multilabel": of_column(folder, "who"),
        "regression": of_column(folder, "words"),
        "tagging": of_tags(folder),
        "similarity": of_pairs(folder),
        "answering": ANSWERS,
    }
    return {"task": name} | changes[name]


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in changes.items():
        held = result.get(key)
        nested = (
            isinstance(value, dict) and isinstance(held, dict) and "kind" not in value and key != "budget"
        )
        result[key] = merged(held, value) if nested else value
    return result


def config(folder: Path, **changes: Any) -> Config:
    """The small run's config with changes by section: `config(folder, training={"clip": 0.5})`."""
    return config_of(merged(settings(folder), changes))


def set_up(config: Config, **about: Any) -> Session:
    """A session with all its parts made."""
    session = Session(config, **about)
    _ = session.model
    return session


def train(config: Config, out: Path, *, cache: Path | None = None, **about: Any) -> Run:
    """A run of a config."""
    return train_session(Session(config, cache=cache), out, **about)
