"""`attnlab generate`: text from a trained model, as it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

from attnlab.cli.console import JsonOption, emit, err, not_sound, out
from attnlab.config.values import ConfigError

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run's folder, or one of its checkpoints.")
]


def generate(
    run: RunArgument,
    prompts: Annotated[
        list[str] | None, typer.Argument(help="Texts to go on with; none: from the start.")
    ] = None,
    length: Annotated[int, typer.Option(help="New tokens at the most.", min=1)] = 50,
    rule: Annotated[
        str, typer.Option(help="How tokens are chosen: greedy, sample, sample(temperature=0.8, top_p=0.9), …")
    ] = "sample(temperature=0.8, top_p=0.95)",
    beam: Annotated[
        int, typer.Option(help="Beams of a search for the most likely text; 0: none.", min=0)
    ] = 0,
    penalty: Annotated[float, typer.Option(help="Length penalty of the beams: 0 short, 1 means.")] = 1.0,
    copies: Annotated[int, typer.Option(help="Texts for each prompt.", min=1)] = 1,
    stop: Annotated[list[str] | None, typer.Option(help="Text at which to stop. Repeatable.")] = None,
    beyond: Annotated[str, typer.Option(help="Past the trained context: refuse, or window.")] = "refuse",
    fill: Annotated[str, typer.Option(help="A text with [MASK]s for a masked model to fill in.")] = "",
    seed: int = 0,
    json: JsonOption = False,
) -> None:
    """Write text with a trained model."""
    if beyond not in ("refuse", "window"):
        raise ConfigError(f'--beyond takes refuse or window, not "{beyond}".')
    from attnlab.experiment.trained import open_run

    trained = open_run(run)
    if trained.unsound:
        err.print(not_sound(trained.unsound), highlight=False)
    if fill:
        return show_filled(trained, fill, json=json)
    texts = [prompt for prompt in (prompts or [""]) for _ in range(copies)]
    past: Literal["refuse", "window"] = "window" if beyond == "window" else "refuse"
    try:
        if not beam:
            return write(trained, texts, rule, length, stop or [], seed, past, json=json)
        found = [trained.best(text, width=beam, length=length, penalty=penalty) for text in texts]
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return show(trained, texts, found, json=json)


def write(
    trained: Any,
    prompts: list[str],
    rule: str,
    length: int,
    stop: list[str],
    seed: int,
    beyond: Literal["refuse", "window"],
    *,
    json: bool,
) -> None:
    """One text appears as it is written; several are shown when they are whole."""
    from attnlab.generation import DECODING
    from attnlab.generation.generate import Written

    chosen = DECODING.build(rule)
    texts = [Written(trained.prompt(prompt)) for prompt in prompts]
    settings = {"rule": chosen, "length": length, "stop": stop, "seed": seed, "beyond": beyond}
    if json or len(texts) > 1:
        for _ in trained.streamed(texts, **settings):
            pass
        return show(trained, prompts, texts, json=json)
    out.print(f"[bold]{escape(prompts[0])}[/]", end="")
    shown = ""
    for _ in trained.streamed(texts, **settings):
        text = trained.text(texts[0])
        if not text.endswith("�"):  # a character whose last byte is still to come
            out.print(escape(text[len(shown) :]), end="", highlight=False, soft_wrap=True)
            shown = text
    out.print()
    return None


def show(trained: Any, prompts: list[str], texts: list[Any], *, json: bool) -> None:
    from dataclasses import asdict

    from attnlab.evaluation.samples import quality

    measured = quality(texts, unknown=trained.tokenizer.specials.unknown)
    if json:
        samples = [
            {"prompt": prompt, "text": trained.text(text), "tokens": len(text.new), "stopped": text.stopped}
            for prompt, text in zip(prompts, texts, strict=True)
        ]
        return emit(
            {
                "run": str(trained.folder),
                "step": trained.step,
                "samples": samples,
                "quality": asdict(measured),
            }
        )
    for prompt, text in zip(prompts, texts, strict=True):
        end = "" if text.stopped else " [dim]…[/]"
        out.print(
            f"[bold]{escape(prompt)}[/]{escape(trained.text(text))}{end}\n", highlight=False, soft_wrap=True
        )
    out.print(
        f"[dim]{measured.n} samples, {measured.tokens} tokens: {measured.distinct_2:.0%} of pairs distinct, "
        f"{measured.repeated_4:.0%} of runs of four repeated, {measured.stopped:.0%} stopped by themselves, "
        f"{measured.unknown:.0%} unknown tokens.[/]",
        highlight=False,
    )
    return None


def show_filled(trained: Any, text: str, *, json: bool) -> None:
    found = trained.fill(text)
    if json:
        return emit([[{"token": token, "probability": p} for token, p in place] for place in found])
    for number, place in enumerate(found, start=1):
        table = Table(
            "token", "probability", title=f"[MASK] {number}".replace("[", r"\["), title_justify="left"
        )
        for token, p in place:
            table.add_row(escape(token), f"{p:.3f}")
        out.print(table)
    return None
