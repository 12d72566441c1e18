"""A person's script by the public names: mypy reads it with the package, and test_public_names runs it.

Where a line is wrong, its comment says which error mypy must find; where mypy finds none, that is an error.
"""

from __future__ import annotations

from pathlib import Path

import attnlab as lab
from attnlab.model.adapters.adapter import Adapter
from attnlab.session.trained import Trained
from attnlab.studies.runner import EndedStudy


def part_of_each_kind() -> int:
    """Choices with typed options, one for all layers or one for each, and an adapter on the model."""
    rules: list[lab.Choice] = [lab.Group(groups=4, inner=lab.Additive(hidden=8)), lab.Dot(scale=1.0)]
    mask = lab.Causal() & lab.choice("masks", "window", size=8)
    model = lab.decoder(
        vocabulary=50,
        width=16,
        layers=2,
        heads=2,
        length=16,
        attention=rules,
        mask=mask,
        positions=lab.Rotary(),
    )
    adapter: Adapter = lab.attach(model, lab.Lora(rank=2), train=["head"])
    return sum(parameter.numel() for parameter in adapter.own())


def whole_run(corpus: str, out: Path) -> str:
    """Trained, evaluated and asked."""
    run: Trained = lab.train("mini-gpt", set={"model.attention": lab.Linear()}, corpus=corpus, out=out)
    written = run.generate("Once", length=8, rule="greedy", seed=1)
    return written if isinstance(written, str) else written[0]


def whole_study(out: Path) -> EndedStudy:
    return lab.study("masking", seeds=3).run(out, jobs=1)


def adapted(start: Path, rows: Path) -> Trained:
    return lab.adapt(start, data=rows, adapter=lab.Lora(rank=2), text="text", label="label")


def mistakes(model: Path) -> None:
    """What an editor must underline."""
    lab.Group(group=4)  # type: ignore[call-arg]  # the option is `groups`
    lab.Lora(rank="two")  # type: ignore[arg-type]
    lab.Lora(scaling="ranks")  # type: ignore[arg-type]  # rank or root
    lab.Window(size=4)  # type: ignore[attr-defined]  # in two tables: lab.choice
    lab.adapt(model)  # type: ignore[call-arg]  # on which rows? lab.attach is for a bare module
    lab.attach("runs/mine")  # type: ignore[arg-type]  # a model, not a path
