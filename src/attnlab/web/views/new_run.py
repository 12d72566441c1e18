"""A new run: a form made from the settings, checked as one types, and the command that does the same."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from attnlab.config.files import ready_configs
from attnlab.config.setting_cards import overview
from attnlab.config.values import ConfigError
from attnlab.documents.html import inline
from attnlab.documents.nodes import Below, Code, Definitions, Inline, Number
from attnlab.documents.numbers import duration
from attnlab.web.indexed import IndexedRun
from attnlab.web.laboratory import Laboratory
from attnlab.web.shell import ShellPage, nodes, template
from attnlab.web.views.rows import page_of
from attnlab.web.views.study_commands import free_folder
from attnlab.web.worker_pool import WorkerError

USUAL = (
    *(
        "data.corpus",
        "data.tokenizer",
        "data.length",
        "data.batching",
        "task",
        "model.family",
        "model.layers",
    ),
    *("model.width", "model.heads", "model.attention", "model.mask", "model.positions", "model.feedforward"),
    *("model.dropout", "training.optimizer", "training.schedule", "training.budget.steps"),
    *("training.budget.epochs", "training.evaluate_every", "seed"),
)
"""Settings that most people ask for, in the order of the form; the others are folded by section."""
MOST_PACES = 64
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")


class Wanted(BaseModel):
    """A ready config, and what is to be other than it says, as --set has it."""

    config: Annotated[str, Field(max_length=100)] = "mini-gpt"
    set: Annotated[list[Annotated[str, Field(max_length=2000)]], Field(max_length=200)] = []
    name: Annotated[str, Field(max_length=100)] = ""


def routes(laboratory: Laboratory) -> APIRouter:
    router = APIRouter()
    known: dict[str, Any] = {}
    paces: dict[str, ExpectedTime] = {}

    @router.get("/new", response_class=HTMLResponse)
    async def new(config: str = "mini-gpt") -> str:
        """The form."""
        if not known:
            known.update(await laboratory.workers.answer("settings"))
        return page(known, config if config in ready_configs() else "mini-gpt").html()

    @router.post("/api/config")
    async def check(wanted: Wanted) -> dict[str, Any]:
        """What is wrong with a config, in the words of the command line; else what it comes to."""
        answer, fault = await checked(laboratory, wanted), name_fault(laboratory, wanted.name.strip())
        if answer["errors"]:
            return {"errors": answer["errors"], "name": fault, "html": ""}
        key = answer["identity"]
        time = paces.get(key) or ExpectedTime.of(laboratory, answer)
        out = laboratory.out(name_of(wanted, answer), chosen=bool(wanted.name.strip()))
        facts = {"name": fault, "command": answer["command"] + out, "outside": answer["outside"]}
        measures = time.seconds is None and key not in paces and not answer["outside"]
        return {"errors": [], "html": nodes([facts_of(answer, time)]), **facts, "measure": measures}

    @router.post("/api/pace")
    async def pace(wanted: Wanted) -> dict[str, Any]:
        """What a config comes to, its time by a few real steps."""
        answer = await checked(laboratory, wanted)
        if answer["errors"]:
            raise ConfigError(" ".join(one["message"] for one in answer["errors"]))
        try:
            values = {"config": wanted.config, "set": wanted.set}
            seconds = (await laboratory.workers.answer("pace", None, values))["seconds"]
            time = ExpectedTime(seconds, "measured from a few steps, checks included")
        except WorkerError as error:
            time = ExpectedTime(None, f"cannot be measured: {error}")
        paces[answer["identity"]] = time
        while len(paces) > MOST_PACES:
            del paces[next(iter(paces))]
        return {"html": nodes([facts_of(answer, time)])}

    @router.post("/api/train")
    async def train(wanted: Wanted) -> dict[str, Any]:
        """Begin the run, as a process of its own."""
        answer = await checked(laboratory, wanted)
        if answer["errors"]:
            raise ConfigError(" ".join(one["message"] for one in answer["errors"]))
        if answer["outside"]:
            raise ConfigError(answer["outside"])
        if fault := name_fault(laboratory, wanted.name.strip()):
            raise ConfigError(fault)
        await laboratory.workers.answer("run_to_begin", None, {"config": wanted.config, "set": wanted.set})
        folder = free_folder(laboratory.root, name_of(wanted, answer))
        changes = [word for change in wanted.set for word in ("--set", change)]
        laboratory.processes.start(folder, ["train", wanted.config, *changes, "--out", str(folder)])
        return {"there": page_of(folder.name, "starting")}

    return router


def name_of(wanted: Wanted, answer: Mapping[str, Any]) -> str:
    """As a person calls the run, or by its config."""
    return wanted.name.strip() or f"{wanted.config}-{answer['identity'][:8]}"


def name_fault(laboratory: Laboratory, name: str) -> str:
    """Why a run cannot have this name; nothing where it can, or where nobody chose one."""
    if name and not NAME.fullmatch(name):
        return f'"{name}" cannot name a run; use letters, digits, hyphens and full stops.'
    if name and os.path.lexists(laboratory.root / name):
        return f'There is a folder "{name}" already; give another name.'
    return ""


async def checked(laboratory: Laboratory, wanted: Wanted) -> dict[str, Any]:
    values = {"config": wanted.config, "set": wanted.set}
    return await laboratory.workers.answer("config", None, values)


@dataclass(frozen=True)
class ExpectedTime:
    """How long a run will take, as far as that is known; where it is not, a few steps can be measured."""

    seconds: float | None
    why: str
    """By what it is known, or why it is not."""

    @classmethod
    def of(cls, laboratory: Laboratory, answer: Mapping[str, Any]) -> ExpectedTime:
        """At the rate of the run here whose steps cost about as much; a budget of seconds ends it anyway."""
        tokens, most = answer["expected_tokens"], answer["most_seconds"]
        like = most_alike(laboratory, answer["step_flops"])
        if tokens is not None and like is not None:
            result = like.summary.result
            seconds = tokens / answer["step_tokens"] * answer["step_flops"] * result.seconds / result.flops
            if most is None or seconds < most:
                return cls(seconds, f"at the rate of {like.address}")
        if most is not None:
            return cls(most, "its budget of seconds, and its checks")
        read = "measuring a few steps …" if not answer["outside"] else "not known: its text is not read here"
        return cls(None, read)

    @property
    def shown(self) -> Inline:
        return (f"about {duration(self.seconds, 0)}", Below(self.why)) if self.seconds else self.why


def most_alike(laboratory: Laboratory, step_flops: float) -> IndexedRun | None:
    """The run whose steps cost most nearly as many operations; None where none is within a factor of four."""
    ended = {
        abs(math.log(run.summary.result.flops / run.step / step_flops)): run
        for run in laboratory.index.runs.values()
        if run.summary.result.flops > 0 and run.summary.result.seconds > 1 and run.step
    }
    nearest = min(ended, default=math.inf)
    return ended[nearest] if nearest < math.log(4) else None


def facts_of(answer: Mapping[str, Any], time: ExpectedTime) -> Definitions:
    """What a config comes to before any text is read."""
    items: list[tuple[Inline, Inline]] = [
        ("parameters", Number(answer["parameters"]["total"], form="count")),
        ("memory for training", Number(answer["memory"]["total"], form="bytes")),
        ("tokens a step", Number(answer["step_tokens"], form="count")),
        ("FLOPs a step", Number(answer["step_flops"], form="scaled")),
        ("expected time", time.shown),
    ]
    return Definitions(items, "facts")


# ---------------------------------------------------------------- the form
def page(known: Mapping[str, Any], config: str) -> ShellPage:
    settings = {entry["key"]: entry for entry in known["settings"]}
    usual = [settings[key] for key in USUAL if key in settings]
    sections: dict[str, list[Mapping[str, Any]]] = {}
    for key, entry in settings.items():
        if key not in USUAL:
            sections.setdefault(key.partition(".")[0] if "." in key else "run", []).append(entry)
    configs = {name: dict(_flat(values)) for name, values in known["configs"].items()}
    return ShellPage(
        title="New run",
        headline="New run",
        eyebrow="from a ready config, with what you change",
        body=template(
            "new_run.html",
            configs={name: _summary(name) for name in configs},
            chosen=config,
            groups={"The usual": _fields(usual), **{name: _fields(own) for name, own in sections.items()}},
        ),
        here="/new",
        scripts=("form.js",),
        data={"configs": configs, "cards": overview()},
    )


def _summary(name: str) -> str:
    return ready_configs()[name].read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def _fields(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a form needs of each setting."""
    fields = []
    for entry in entries:
        table = str(entry["table"])
        note = f" ({entry['note']})" if entry["note"] else ""
        what = f"{entry['takes'][:1].upper()}{entry['takes'][1:]}{note}"
        takes = inline((what, ", by default ", Code(entry["default"]), "."))
        own = {"key": entry["key"], "takes": takes, "table": table}
        fields.append(
            own | {"choices": list(entry["choices"] or entry["words"]), "id": entry["key"].replace(".", "-")}
        )
    return fields


def _flat(settings: Mapping[str, Any], above: str = "") -> list[tuple[str, str]]:
    """Each setting as --set would write it."""
    rows: list[tuple[str, str]] = []
    for name, value in settings.items():
        key = f"{above}{name}"
        if isinstance(value, Mapping) and "kind" not in value:
            rows += _flat(value, f"{key}.")
        else:
            rows.append((key, _written(value)))
    return rows


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        options = ", ".join(f"{name}={_written(own)}" for name, own in value.items() if name != "kind")
        return f"{value['kind']}({options})" if options else str(value["kind"])
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_quoted, value))}]"
    return str(value)


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else _written(value)
