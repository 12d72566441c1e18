"""`attnlab evaluate`: scores of a trained model, each with its definition."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from attnlab.cli.answer_view import show_answers
from attnlab.cli.console import MOST, JsonOption, emit, err, not_sound, out, say_first
from attnlab.cli.corpus_options import (
    AnswersOption,
    EncodingOption,
    LabelOption,
    PairOption,
    SkipOption,
    TemplateOption,
    TextOption,
    WordsOption,
)
from attnlab.cli.generate import RunArgument
from attnlab.cli.label_view import show_labels
from attnlab.cli.search import show_retrieval
from attnlab.config.values import ConfigError
from attnlab.config.visible_text import visible
from attnlab.runs.display import Display, escape
from attnlab.runs.tabular import number


def evaluate(
    run: RunArgument,
    split: Annotated[str, typer.Option(help="The split to score: dev, test or train.")] = "dev",
    on: Annotated[
        Path | None,
        typer.Option(help="Other files to score: plain text (long texts in windows) or rows with labels."),
    ] = None,
    probe: Annotated[
        list[str] | None, typer.Option(help="A sentence to score by itself, or source => target. Repeatable.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Texts for the token-by-token loss.", min=2, max=MOST)] = 32,
    text: TextOption = "",
    pair: PairOption = "",
    label: LabelOption = "",
    answers: AnswersOption = "",
    encoding: EncodingOption = "",
    skip_bad: SkipOption = False,
    template: TemplateOption = "",
    label_words: WordsOption = "",
    json: JsonOption = False,
) -> None:
    """Score a trained model: its task's metrics, each with its n, its interval and its definition."""
    reading: dict[str, Any] = {"text": text, "pair": pair, "label": label, "answers": answers}
    reading |= {"encoding": encoding, "skip_bad": skip_bad}
    options = {name: value for name, value in reading.items() if value}
    if options and on is None:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in options)
        raise ConfigError(f"{named} says how the files of --on are read; give --on FILE, or leave it out.")
    with Display(err) as display:
        display.work("Opening the run")
        from attnlab.session.baselines import wording_from
        from attnlab.session.evaluating import of_probes, of_split, of_text
        from attnlab.session.trained import Trained

        trained = Trained.at(run)
        result: dict[str, Any] = {"run": str(trained.folder), "step": trained.step}
        result["checkpoint"] = trained.checkpoint
        result |= {"sound": not trained.unsound, "unsound": trained.unsound}
        wording = wording_from(template, label_words) if template or label_words else None
        display.work("Scoring")
        if on is not None:
            result["text"] = of_text(trained, on, wording=wording, **options)
        elif not (trained.imported and probe):  # an imported model has no text of its own
            result["split"] = of_split(trained, split, rows=rows, wording=wording)
        if probe:
            result["probes"] = of_probes(trained, probe)
    if json:
        return emit(result)
    show(result)
    if trained.unsound:
        out.print(not_sound(trained.unsound), highlight=False)
    return None


def show(result: dict[str, Any]) -> None:
    scored = result.get("split") or result.get("text") or {}
    if scored:
        say_first(scored.get("collapsed", ""))
        out.print(f"The model of {escape(visible(result['checkpoint']))}.", highlight=False)
        out.print(measures_table(scored))
    if "truncation" in scored:
        show_truncation(scored["truncation"])
    if "recomputed" in scored:
        show_recomputed(scored["recomputed"])
    if "retrieval" in scored:
        show_retrieval(scored["retrieval"] | {"name": scored["name"]})
    if "mistakes" in scored:
        show_labels(scored)
    if "answers" in scored:
        show_answers(scored)
    if "honesty" in scored:
        show_honesty(scored["honesty"])
    if "pseudo" in scored:
        show_pseudo(scored["pseudo"])
    if "probes" in result:
        out.print(probes_table(result["probes"]))


def measures_table(scored: dict[str, Any]) -> Table:
    table = Table(title=escape(visible(scored["name"])), title_justify="left")
    table.add_column("measure", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    several = any("interval" in one for one in scored["measures"].values())
    if several:  # of one text there are no intervals
        table.add_column("95 % interval", no_wrap=True)
    table.add_column("definition")
    for name, one in scored["measures"].items():
        between = " to ".join(map(number, one.get("interval", ())))
        table.add_row(*[escape(name), number(one["value"]), *[between] * several, escape(one["definition"])])
    return table


def show_truncation(cut: dict[str, Any]) -> None:
    """What of the texts was not scored, in yellow where it is much."""
    from attnlab.data.encode.encoding import MUCH

    colour = "yellow" if cut["tokens_cut_share"] > MUCH else "bright_black"
    out.print(
        f"[{colour}]Cut off and not scored: {cut['tokens_cut']:,} of {cut['tokens']:,} tokens "
        f"({cut['tokens_cut_share']:.1%}), in {cut['texts_cut']:,} of {cut['texts']:,} texts "
        f"({cut['texts_cut_share']:.1%}).[/]",
        highlight=False,
    )


def show_honesty(honest: dict[str, Any]) -> None:
    alone, parallel, difference, low, high = (
        f"{round(value, 4) + 0.0:.4f}"  # no minus before zero
        for value in (honest["token_by_token"], honest["parallel"], honest["difference"], *honest["interval"])
    )
    colour = "green" if honest["sound"] else "bold red"
    out.print(
        f"Token-by-token loss ({honest['targets']:,} targets of {honest['texts']} texts, later tokens "
        f"removed): {alone}; parallel loss of the same targets: {parallel}; difference {difference} "
        f"(95 % interval {low} to {high}).\n[{colour}]{escape(honest['meaning'])}.[/]",
        highlight=False,
    )


def show_recomputed(finding: dict[str, Any]) -> None:
    if finding["outcome"] == "pass":
        out.print(f"Recomputed without the run's own code: {escape(finding['found'])}.", highlight=False)
        return
    told = " ".join(finding[part] for part in ("meaning", "fix"))
    out.print(f"[bold red]Recomputed: {escape(finding['found'])}.[/] {escape(told)}", highlight=False)


def show_pseudo(pseudo: dict[str, Any]) -> None:
    between = ""
    if pseudo["interval"] is not None:
        low, high = pseudo["interval"]
        between = f" (95 % interval {number(low)} to {number(high)})"
    out.print(
        f"Pseudo-perplexity (each token masked alone, {pseudo['rows']} rows): {number(pseudo['perplexity'])}"
        f"{between}. It is no perplexity: a masked model gives a text no probability.",
        highlight=False,
    )


def probes_table(probes: list[dict[str, Any]]) -> Table:
    table = Table(title="Probe sentences", title_justify="left")
    table.add_column("sentence")
    for name in ("loss", probes[0]["kind"], "tokens", "unknown"):
        table.add_column(name, justify="right")
    for entry in probes:
        value = entry["perplexity"]
        shown = f"{value:,.1f}" if math.isfinite(value) else "∞"
        counts = str(entry["tokens"]), str(entry["unknown"])
        table.add_row(escape(visible(entry["text"])), f"{entry['loss']:.3f}", shown, *counts)
    return table
