"""`attnlab check`: is this sound? A config, a run, a checkpoint, or predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.checks.wording import counts_phrase, soundness_phrase
from attnlab.cli.console import JsonOption, SetOption, emit, err, out
from attnlab.config.files import ready_configs
from attnlab.config.values import ConfigError
from attnlab.documents.nodes import Sentence, Tone, muted, toned
from attnlab.runs.display import Display
from attnlab.runs.findings import FEW, Findings, merged

PREDICTIONS = (".csv", ".tsv", ".jsonl")
CODE = (".py", ".ipynb")
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
VERDICT_TONES = {False: Tone.WRONG, True: Tone.GOOD, None: Tone.WARNING}


def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG|RUN|CHECKPOINT|FOLDER|PREDICTIONS",
            help="A config (file or name), a run's folder, one of its checkpoints, a folder in transformers' "
            "layout, minilm, or a .csv, .tsv or .jsonl "
            "with the columns label and prediction, and text if it is there.",
        ),
    ],
    set: SetOption = None,
    label: Annotated[
        str, typer.Option(metavar="COLUMN", help="Of predictions: the column that holds the labels.")
    ] = "label",
    prediction: Annotated[
        str, typer.Option(metavar="COLUMN", help="Of predictions: the column that holds them.")
    ] = "prediction",
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Also write the verdicts to DIR/checks.json.")
    ] = None,
    whole: Annotated[
        bool, typer.Option("--all", help="Show every finding, not only what failed and what warns.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Say whether a result is real, and what is wrong where it is not. Exits 1 when a check fails."""
    findings = check_target(target, set or [], label=label, prediction=prediction)
    if folder is not None:
        from attnlab.runs.findings import save_findings

        folder.mkdir(parents=True, exist_ok=True)
        save_findings(folder, findings)
    if json:
        emit([finding.as_json() for finding in findings])
    else:
        show(target, Findings(findings), whole=whole)
    if any(finding.outcome == "fail" for finding in findings):
        raise typer.Exit(1)


def check_target(target: str, set: list[str], *, label: str, prediction: str) -> list[Any]:
    place = named_folder(target)
    if place.is_dir():
        if set:
            raise ConfigError("--set cannot be used with a finished run or a model; give a config.")
        from attnlab.session.checking import of_folder

        with Display(err) as display:
            display.work("Opening the folder")
            return of_folder(place, tell=display.work)
    if place.suffix in PREDICTIONS:
        from attnlab.session.checking import of_predictions

        return of_predictions(place, label=label, prediction=prediction)
    if place.suffix in CODE:
        raise ConfigError(
            f"{target} is code, which `attnlab check` does not run. To check the model that it builds, call "
            "lab.check(model, vocabulary=…) in it (import attnlab as lab); to check its training, give "
            "transformers' Trainer callbacks=[Soundness()] (attnlab.interop.transformers), or a loop of your "
            "own LoopChecks (attnlab.interop.loop_checks): docs/other-models.md."
        )
    if place.suffix in WEIGHTS:
        raise ConfigError(
            f"{target} holds weights alone, which say nothing of the model that they belong to. Give the "
            "folder with its config.json (attnlab check FOLDER), or load it in Python and call "
            "lab.check(model, vocabulary=…)."
        )
    from attnlab.config.files import load
    from attnlab.session.checking import of_config

    config = load(target, set=set)
    with Display(err) as display:
        display.work("Building the model")
        return of_config(config, tell=display.work)


def named_folder(target: str) -> Path:
    """The folder of a model that has a name (minilm), where no file, config or preset is called so."""
    place = Path(target)
    if place.exists() or not target.isidentifier() or target in ready_configs():
        return place
    from attnlab.session.stored import PACKAGED, model_folder

    return model_folder(target) if target in PACKAGED else place


def show(target: str, findings: Findings, *, whole: bool) -> None:
    """The verdict, what is wrong and what to do, and what passed; every finding where it is asked for."""
    verdict = toned(VERDICT_TONES[findings.sound], soundness_phrase(findings.sound))
    seconds = sum(finding.seconds for finding in findings)
    out.show(Sentence((verdict, f": {counts_phrase(findings.outcomes)} ({seconds:.1f} s).")))
    for node in findings.nodes(whole=whole):
        out.print()
        out.show(node)
    if not whole and len(merged(findings)) > FEW:
        out.say(muted(f"Every finding: attnlab check {target} --all"))
