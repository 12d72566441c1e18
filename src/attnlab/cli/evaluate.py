"""`attnlab evaluate`: scores of a trained model, each with its definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.console import MOST, JsonOption, RunArgument, emit, err, not_sound, out, say_first
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
from attnlab.cli.label_view import answer_nodes, label_nodes
from attnlab.cli.search import retrieval_nodes
from attnlab.config.values import ConfigError
from attnlab.documents.nodes import Node, Number, Sentence, Table, Tone, toned
from attnlab.runs.display import Display
from attnlab.session.score_table import measures_table


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
        out.say(not_sound(trained.unsound))
    return None


def show(result: dict[str, Any]) -> None:
    scored = result.get("split") or result.get("text") or {}
    if scored:
        say_first(scored.get("collapsed", ""))
        out.show(*scored_nodes(scored, result["checkpoint"]))
    if "probes" in result:
        out.show(probes_table(result["probes"]))


def scored_nodes(scored: dict[str, Any], checkpoint: str) -> Iterator[Node]:
    """What a text or a split came to, and what stands with it."""
    yield Sentence(f"The model of {checkpoint}.")
    yield replace(measures_table(scored), title=scored["name"])
    if "truncation" in scored:
        yield truncation_sentence(scored["truncation"])
    if "recomputed" in scored:
        yield recomputed_sentence(scored["recomputed"])
    if "retrieval" in scored:
        yield from retrieval_nodes(scored["retrieval"] | {"name": scored["name"]})
    if "mistakes" in scored:
        yield from label_nodes(scored)
    if "answers" in scored:
        yield from answer_nodes(scored)
    if "honesty" in scored:
        yield from honesty_sentences(scored["honesty"])
    if "pseudo" in scored:
        yield pseudo_sentence(scored["pseudo"])


def truncation_sentence(cut: dict[str, Any]) -> Sentence:
    """What of the texts was not scored, as a warning where it is much."""
    from attnlab.data.encode.encoding import MUCH

    tone = Tone.WARNING if cut["tokens_cut_share"] > MUCH else Tone.MUTED
    message = (
        f"Cut off and not scored: {cut['tokens_cut']:,} of {cut['tokens']:,} tokens "
        f"({cut['tokens_cut_share']:.1%}), in {cut['texts_cut']:,} of {cut['texts']:,} texts "
        f"({cut['texts_cut_share']:.1%})."
    )
    return Sentence(toned(tone, message))


def honesty_sentences(honest: dict[str, Any]) -> Iterator[Sentence]:
    alone, parallel = (Number(honest[name], decimals=4) for name in ("token_by_token", "parallel"))
    difference = Number.within(honest["difference"], honest["interval"], decimals=4)
    yield Sentence(
        (
            f"Token-by-token loss ({honest['targets']:,} targets of {honest['texts']} texts, later tokens "
            "removed): ",
            *(
                alone,
                "; parallel loss of the same targets: ",
                parallel,
                "; difference and its 95% interval: ",
            ),
            *(difference, "."),
        )
    )
    yield Sentence(toned(Tone.GOOD if honest["sound"] else Tone.WRONG, f"{honest['meaning']}."))


def recomputed_sentence(finding: dict[str, Any]) -> Sentence:
    if finding["outcome"] == "pass":
        return Sentence(f"Recomputed without the run's own code: {finding['found']}.")
    advice = " ".join(finding[part] for part in ("meaning", "fix"))
    return Sentence((toned(Tone.WRONG, f"Recomputed: {finding['found']}."), f" {advice}"))


def pseudo_sentence(pseudo: dict[str, Any]) -> Sentence:
    value = Number.within(pseudo["perplexity"], pseudo["interval"])
    return Sentence(
        (
            f"Pseudo-perplexity (each token masked alone, {pseudo['rows']} rows; 95% interval): ",
            *(value, ". It is no perplexity: a masked model gives a text no probability."),
        )
    )


def probes_table(probes: list[dict[str, Any]]) -> Table:
    rows = [
        (
            *(entry["text"], Number(entry["loss"], decimals=3), Number(entry["perplexity"], decimals=1)),
            *(entry["tokens"], entry["unknown"]),
        )
        for entry in probes
    ]
    columns = ("sentence", "loss", probes[0]["kind"], "tokens", "unknown")
    return Table(columns, rows, title="Probe sentences")
