"""Commands on sound models and files, with options that may be anything, and on caches that were damaged."""

from __future__ import annotations

import functools
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import typer
from typer.main import get_command

from tests.soak.damage import damage_one, damaged_data
from tests.soak.hostile import REAL, TEXT, WHOLE
from tests.soak.input import Input, usable

WORDS = ("the cat sees a dog .", "the old man likes [MASK] bird", "row 3 says 你好")
LATER = ("--help", "--version", "--import", "--resume")
"""Options that are not drawn: they answer at once, run a person's own code, or ask for another run."""
WRITTEN = ("--out", "--index", "--html")
NAMES = ("text", "label", "pair", "answers", "target", "utf-8", "latin-1", "utf-16", "line", "sentence")


@dataclass(frozen=True)
class Option:
    name: str
    kind: str
    """whole, real, text, path or flag."""


@functools.cache
def options_of(command: tuple[str, ...]) -> tuple[Option, ...]:
    """The options that a command declares itself."""
    from attnlab.cli import app

    found: Any = get_command(app)
    context = typer.Context(found)
    for word in command:
        found = found.get_command(context, word)
    kinds = {int: "whole", float: "real", Path: "path", bool: "flag"}
    return tuple(
        Option(one.opts[0], kinds.get(one.type_descriptor.annotation, "text"))
        for one in found.params
        if one.param_type_name == "option" and one.opts[0] not in LATER
    )


def drawn_value(pick: Random, option: Option, sound: Path, work: Path) -> Any:
    if option.kind == "whole":
        return pick.choice(WHOLE)
    if option.kind == "real":
        return pick.choice((*REAL, *WHOLE))
    if option.name in WRITTEN:
        return pick.choice((work / "new", work / "new.html", work / "new" / "below", sound / "run", work))
    if option.kind == "path" or option.name in ("--data", "--dev", "--test", "--on", "--in", "--score"):
        places = [sound / name for name in ("data", "run", "study", "tokenizers", "tiny.json", "missing")]
        return pick.choice([*places, *sorted((sound / "data").iterdir()), work, Path("/dev/null")])
    return pick.choice([text for text in (*TEXT, *NAMES) if usable(text)])


def model_uses(pick: Random, sound: Path, work: Path) -> Input:
    """A command that would be done, with some of its options set to whatever."""
    data, run, classifier = sound / "data", sound / "run", sound / "classifier"
    text = pick.choice((*WORDS, *(text for text in TEXT if usable(text))))
    table = pick.choice(sorted(data.iterdir()))
    command, given = pick.choice(
        (
            (("generate",), (run, text, "--length", "3")),
            (("generate",), (sound / "gpt2", text, "--length", "3")),
            (("evaluate",), (run, "--probe", text)),
            (("evaluate",), (classifier, "--on", table)),
            (("predict",), (classifier, text)),
            (("predict",), (classifier, "--data", table, "--out", work / "said.csv")),
            (("ask",), (run, text)),
            (("search",), (sound / "gpt2", text, "--in", table, "--index", work / "index")),
            (("compare",), (run, sound / "gpt2")),
            (("runs",), (sound,)),
            (("check",), (run,)),
            (("check",), (sound / "tiny.json",)),
            (("convert",), (sound / "gpt2", work / "theirs")),
            (("explain", "counts"), (sound / "tiny.json",)),
            (("explain", "mask"), (sound / "tiny.json", "--text", text)),
            (("explain", "attention"), (run, "--text", text)),
            (("explain", "heads"), (run,)),
            (("explain", "scores"), (run, "--text", text)),
            (("explain", "gradients"), (run, "--text", text)),
            (("explain", "reach"), (run,)),
            (("explain", "query"), ("--target", pick.choice(("each", "one:2", "0.5,0.5,0,0", text)))),
            (("tokenizer", "train"), (table, "--vocabulary", "400", "--out", work / "tokenizer.json")),
            (("tokenizer", "compare"), ("bpe", "word", "--on", table)),
            (("data", "inspect"), (table,)),
        )
    )
    return Input((*command, *given, *drawn_options(pick, command, sound, work)))


def drawn_options(pick: Random, command: tuple[str, ...], sound: Path, work: Path) -> list[Any]:
    words: list[Any] = []
    options = options_of(command)
    for option in pick.sample(options, min(len(options), pick.choice((1, 1, 2, 3)))):
        words.append(option.name)
        if option.kind != "flag":
            words.append(drawn_value(pick, option, sound, work))
    return words


def own_data(pick: Random, sound: Path, work: Path) -> Input:
    """Damaged rows, on which a model is adapted, or which it labels, scores or searches."""
    file = damaged_data(pick, sound, work)
    short = ("--set", "training.budget.steps=1", "--out", work / "run")
    columns = pick.choice(((), ("--label", "label"), ("--text", "text", "--label", "label"), ("--skip-bad",)))
    return Input(
        pick.choice(
            (
                ("adapt", sound / "gpt2", "--data", file, *columns, *short),
                ("adapt", sound / "gpt2", "--data", file, "--adapter", "head", *columns, *short),
                ("predict", sound / "classifier", "--data", file, "--out", work / "said.csv"),
                ("evaluate", sound / "classifier", "--on", file),
                ("evaluate", sound / "run", "--on", file),
                ("search", sound / "gpt2", "the tower", "--in", file, "--index", work / "index"),
            )
        )
    )


def caches(pick: Random, sound: Path, work: Path) -> Input:
    """A cache with a damaged file: what it holds is made anew."""
    cache = work / "cache"
    shutil.copytree(sound / "cache", cache)
    file = damage_one(pick, cache)
    commands: list[tuple[Any, ...]] = [
        ("train", sound / "tiny.json", "--show-batch"),
        ("train", sound / "labels.json", "--show-batch"),
        ("train", sound / pick.choice(("tiny.json", "labels.json")), "--out", work / "run"),
        ("evaluate", sound / "run"),
    ]
    about = {"file": str(file.relative_to(work))}
    return Input(pick.choice(commands), environment={"XDG_CACHE_HOME": str(cache)}, about=about)


def indexes(pick: Random, sound: Path, work: Path) -> Input:
    """An index of passages with a damaged file."""
    folder = work / "index"
    shutil.copytree(sound / "index", folder)
    file = damage_one(pick, folder)
    searched = ("--in", sound / "data" / "plain.txt", "--index", folder)
    return Input(("search", sound / "gpt2", "the tower", *searched), about={"file": file.name})
