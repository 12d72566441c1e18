"""`attnlab adapt`: a trained model, adapted to a person's labelled texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.console import JsonOption, SetOption, err
from attnlab.cli.corpus_options import (
    DevOption,
    EncodingOption,
    LabelOption,
    PairOption,
    SkipOption,
    TestOption,
    TextOption,
)
from attnlab.cli.train import run


def adapt(
    start: Annotated[
        str,
        typer.Argument(
            help="The model to start from: a run, a checkpoint, or a folder in transformers' layout."
        ),
    ],
    data: Annotated[str, typer.Option(help="Rows with labels (.csv, .tsv, .jsonl, .parquet).")],
    text: TextOption = "",
    label: LabelOption = "",
    pair: PairOption = "",
    dev: DevOption = "",
    test: TestOption = "",
    task: Annotated[
        str, typer.Option(help="classification, multilabel or regression. Default: from the labels.")
    ] = "",
    adapter: Annotated[
        str, typer.Option(help="What is trained, e.g. lora(rank=8); see attnlab list adapters.")
    ] = "full",
    set: SetOption = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The run's folder. Default: runs/DATA-ADAPTER-HASH."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume that run.")] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Train although this check fails; its numbers are marked not sound. Repeatable."),
    ] = None,
    encoding: EncodingOption = "",
    skip_bad: SkipOption = False,
    json: JsonOption = False,
) -> None:
    """Adapt a trained model to your own labelled texts: fine-tune it, or train a small part on it."""
    from attnlab.experiment.adapting import adapting_config, adapting_plan, run_folder

    reading: dict[str, Any] = {"text": text, "pair": pair, "label": label, "dev": dev, "test": test}
    reading |= {"encoding": encoding, "skip_bad": skip_bad}
    config = adapting_config(start, data=data, adapter=adapter, task=task, reading=reading, set=set or ())
    place = folder or run_folder(config, data)

    def tell(setup: Any) -> tuple[()]:
        err.print(str(adapting_plan(setup, place)), highlight=False, markup=False, soft_wrap=True)
        return ()

    run(config, place, resume=resume, allow=allow or (), json=json, watchers=tell)
