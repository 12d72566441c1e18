"""Kinds of input: each writes something that may be wrong, and says which command is to read it."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

from attnlab.config.files import load, ready_configs, to_json
from attnlab.config.registry import TABLES, table
from tests.soak.damage import damage_one, damaged_data
from tests.soak.hostile import changed, near, nested, spoiled, value
from tests.soak.input import Input, Maker, usable
from tests.soak.uses import caches, indexes, model_uses, own_data

# ---------------------------------------------------------------- settings
CHOICES = {
    "model.attention": "attention",
    "model.cross_attention": "attention",
    "model.mask": "masks",
    "model.positions": "positions",
    "model.projections": "projections",
    "model.norm": "norms",
    "model.residual": "residuals",
    "model.feedforward": "feedforwards",
    "model.output": "heads",
    "data.corpus": "corpora",
    "data.tokenizer": "tokenizers",
    "data.encoding": "encodings",
    "data.batching": "batching",
    "task": "tasks",
    "adapter": "adapters",
    "training.optimizer": "optimizers",
    "training.schedule": "schedules",
}


@functools.cache
def plain_settings() -> tuple[tuple[str, Any], ...]:
    """Every setting that is no choice, with its default."""
    held = to_json(load("mini-gpt"))
    found: list[tuple[str, Any]] = [("seed", 0), ("start", "scratch")]
    for section in ("model", "data", "training"):
        for name, default in held[section].items():
            if f"{section}.{name}" not in CHOICES and name != "budget":
                found.append((f"{section}.{name}", default))
    found += [(f"training.budget.{name}", 2) for name in ("steps", "tokens", "epochs", "seconds", "flops")]
    return tuple(found)


def written(held: Any) -> str:
    """As TOML has it, for --set."""
    if isinstance(held, str):
        return (
            json.dumps(held)
            if held.isprintable() and not any("\ud800" <= c < "\ue000" for c in held)
            else held
        )
    if isinstance(held, dict):
        return "{" + ", ".join(f"{json.dumps(str(k))} = {written(v)}" for k, v in held.items()) + "}"
    if isinstance(held, (list, tuple)):
        return "[" + ", ".join(map(written, held)) + "]"
    return str(held).lower() if isinstance(held, (bool, float)) else str(held)


def setting(pick: Random) -> str:
    """One --set that may be anything, and is often nearly right."""
    if pick.random() < 0.5:
        key, default = pick.choice(plain_settings())
        return f"{key}={written(near(pick, default))}"
    if pick.random() < 0.1:
        return f"{pick.choice(('model.attention', 'model.mask'))}={nested(pick)}"
    key = pick.choice(list(CHOICES))
    of = table(CHOICES[key])
    kind = pick.choice(list(of))
    options = of.options(kind)
    if not options or pick.random() < 0.2:
        return f"{key}={kind}" if pick.random() < 0.7 else f"{key}={written(value(pick))}"
    chosen = {}
    for name in pick.sample(list(options), min(len(options), pick.choice((1, 1, 2)))):
        default = options[name].default
        chosen[name] = near(pick, default if isinstance(default, (int, float, str)) else 1)
    return f"{key}={written({'kind': kind, **chosen})}"


def settings(pick: Random, sound: Path, work: Path) -> Input:
    made = [text for text in (setting(pick) for _ in range(pick.choice((1, 1, 2, 3)))) if usable(text)]
    sets = [word for text in made for word in ("--set", text)]
    match pick.randrange(20):
        case number if number < 13:
            base = pick.choice([sound / "tiny.json", *ready_configs()])
            return Input(("explain", "counts", base, *sets))
        case number if number < 17:
            return Input(("train", sound / "tiny.json", "--show-batch", *sets))
        case number:  # trained to its end, which a budget may put off as long as it likes
            short = [word for text in made if "budget" not in text for word in ("--set", text)]
            base = sound / ("labels.json" if number == 17 else "tiny.json")
            return Input(("train", base, *short, "--out", work / "run"))


def config_files(pick: Random, sound: Path, work: Path) -> Input:
    """Config files of damaged bytes, and of JSON with other values."""
    if pick.random() < 0.5:
        file = work / "config.toml"
        file.write_bytes(spoiled(pick, pick.choice(list(ready_configs().values())).read_bytes()))
    else:
        file = work / "config.json"
        held = to_json(load(pick.choice(list(ready_configs()))))
        file.write_text(json.dumps(changed(pick, held, pick.choice((1, 2, 4)))), encoding="utf-8")
    return Input(("explain", "counts", file))


def study_files(pick: Random, sound: Path, work: Path) -> Input:
    file = work / "study.json"
    held = json.loads((sound / "question.json").read_text())
    file.write_text(json.dumps(changed(pick, held, pick.choice((1, 1, 2, 4)))), encoding="utf-8")
    return Input((file,), call="resolve_study")


# ---------------------------------------------------------------- text and tokenizers
def data_files(pick: Random, sound: Path, work: Path) -> Input:
    file = damaged_data(pick, sound, work)
    options = pick.choice(
        ((), (), (), ("--skip-bad",), ("--unit", "line"), ("--label", "label"), ("--encoding", "latin-1"))
    )
    return Input(("data", "inspect", file, *options))


def tokenizers(pick: Random, sound: Path, work: Path) -> Input:
    source = pick.choice(sorted((sound / "tokenizers").iterdir()))
    folder = work / source.name
    shutil.copytree(source, folder)
    damage_one(pick, folder)
    target = pick.choice((folder, *sorted(folder.iterdir())))
    return Input(("data", "inspect", sound / "data" / "plain.txt", "--tokenizer", target))


# ---------------------------------------------------------------- checkpoints and runs
def foreign(pick: Random, sound: Path, work: Path) -> Input:
    folder = work / "theirs"
    shutil.copytree(sound / "transformers", folder)
    damage_one(pick, folder)
    return Input(("convert", folder, work / "ours"))


def peft(pick: Random, sound: Path, work: Path) -> Input:
    folder = work / "adapter"
    shutil.copytree(sound / "peft", folder)
    damage_one(pick, folder)
    return Input((folder, sound / "gpt2"), call="read_peft")


def run_folders(pick: Random, sound: Path, work: Path) -> Input:
    name = pick.choice(("run", "run", "classifier"))
    folder = work / name
    shutil.copytree(sound / name, folder)
    file = damage_one(pick, folder)
    commands: list[tuple[Any, ...]] = [
        ("runs", work),
        ("runs", work, "--json"),
        ("compare", folder, sound / name),
        ("train", "--resume", "--out", folder),
        ("train", "--from", folder, "--show-batch"),
        ("generate", folder, "the cat", "--length", "4"),
        ("evaluate", folder),
    ]
    if name == "classifier":
        commands.append(("predict", folder, "the cat sees a dog"))
    chosen = pick.choice(commands[:3] * 4 + commands)  # those that train or compute are the slow ones
    return Input(chosen, about={"file": str(file.relative_to(work))})


def study_folders(pick: Random, sound: Path, work: Path) -> Input:
    folder = work / "study"
    shutil.copytree(sound / "study", folder)
    file = damage_one(pick, folder)
    if pick.random() < 0.3:
        return Input(("runs", folder), about={"file": str(file.relative_to(work))})
    return Input((folder,), call="report_again", about={"file": str(file.relative_to(work))})


def predictions(pick: Random, sound: Path, work: Path) -> Input:
    file = work / "predictions.csv"
    lines = ["text,label,prediction", *(f"t{n},{'ab'[n % 2]},{'ab'[n % 3 % 2]}" for n in range(40))]
    file.write_bytes(spoiled(pick, "\n".join(lines).encode()))
    return Input(("check", file))


KINDS: dict[str, tuple[int, Maker]] = {
    "settings": (27, settings),
    "config files": (8, config_files),
    "study files": (7, study_files),
    "data files": (10, data_files),
    "tokenizers": (8, tokenizers),
    "foreign folders": (7, foreign),
    "peft folders": (3, peft),
    "run folders": (10, run_folders),
    "study folders": (3, study_folders),
    "predictions": (1, predictions),
    "options of commands": (8, model_uses),
    "own data": (4, own_data),
    "caches": (3, caches),
    "indexes": (1, indexes),
}
"""How often each is drawn, of a hundred."""
assert set(CHOICES.values()) <= set(TABLES)
