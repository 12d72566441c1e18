"""`attnlab generate`: text from a trained model, as it is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from attnlab.cli.console import JsonOption, emit, err, not_sound, out
from attnlab.config.values import ConfigError

if TYPE_CHECKING:
    from attnlab.experiment.trained import Trained
    from attnlab.generation.generate import Written

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run's folder, or one of its checkpoints.")
]
SAMPLED = "sample(temperature=0.8, top_p=0.95)"


def generate(
    run: RunArgument,
    prompts: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT", help="Texts to go on with; none: from the start."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(help="New tokens at the most.", min=1, show_default="50, or what the context leaves"),
    ] = None,
    rule: Annotated[
        str,
        typer.Option(
            help="How tokens are chosen: greedy, or sample(temperature=…, top_k=…, top_p=…, min_p=…, "
            "repetition=…).",
            show_default=SAMPLED,
        ),
    ] = "",
    beam: Annotated[
        int, typer.Option(help="Beams of a search for the most likely text; 0: none.", min=0)
    ] = 0,
    penalty: Annotated[
        float, typer.Option(help="Length penalty of the beams: 0 compares sums, 1 means.")
    ] = 1.0,
    copies: Annotated[int, typer.Option(help="Texts for each prompt; of a beam, its best ones.", min=1)] = 1,
    stop: Annotated[
        list[str] | None, typer.Option(help="Text at which to stop; it is kept. Repeatable.")
    ] = None,
    beyond: Annotated[
        str, typer.Option(help="Past the trained context: refuse, or window (forget the beginning).")
    ] = "refuse",
    fill: Annotated[str, typer.Option(help="A text with [MASK]s for a masked model to fill in.")] = "",
    weights: Annotated[
        str, typer.Option(help="float32, or fewer bits: float16 or int8, faster and approximate.")
    ] = "float32",
    seed: Annotated[int, typer.Option(help="The same seed gives a prompt the same text.")] = 0,
    json: JsonOption = False,
) -> None:
    """Write text with a trained model."""
    check(
        fill=fill,
        prompts=bool(prompts or weights != "float32"),
        beam=beam,
        rule=rule,
        stop=stop or [],
        beyond=beyond,
    )
    from attnlab.experiment.trained import open_run
    from attnlab.generation import DECODING
    from attnlab.generation.generate import Written

    trained = open_run(run)
    if trained.unsound:
        err.print(not_sound(trained.unsound), highlight=False)
    if fill:
        return show_filled(trained, fill, json=json)
    asked = prompts or [""]
    about = {"run": str(trained.folder), "step": trained.step, "weights": held(trained, weights, asked)}
    repeated = [prompt for prompt in asked for _ in range(copies)]
    usual = 50 if beyond == "window" else trained.usual_length(asked)
    limits: dict[str, Any] = {"length": length or usual, "beyond": beyond}
    if beam:
        texts = trained.beams(asked, width=beam, best=copies, penalty=penalty, **limits)
    else:
        texts = [Written(trained.prompt(prompt)) for prompt in repeated]
        tokens = trained.streamed(
            texts, rule=DECODING.build(rule or SAMPLED), stop=stop or [], seed=seed, **limits
        )
        if len(texts) == 1 and not json:
            return write_one(trained, repeated[0], texts[0], tokens)
        watch(trained, repeated, texts, tokens, shown=out.is_terminal and not json)
    return show(trained, repeated, texts, about=about, json=json)


def check(*, prompts: bool, fill: str, beam: int, rule: str, stop: list[str], beyond: str) -> None:
    """Refuse what does not go together, before anything is loaded."""
    if beyond not in ("refuse", "window"):
        raise ConfigError(f'--beyond takes refuse or window, not "{beyond}".')
    if fill and prompts:
        raise ConfigError(
            "Give either prompts to go on with (and --weights), or --fill with a text that has [MASK]s."
        )
    if "" in stop:
        raise ConfigError("--stop is empty, which every text holds; leave it out, or give some text.")
    if beam and (rule or stop):
        raise ConfigError(
            "A beam looks for the most likely whole text up to the model's own stop token: leave out "
            f"{'--rule' if rule else '--stop'}, or --beam."
        )


def held(trained: Trained, weights: str, prompts: list[str]) -> dict[str, Any]:
    """Weights in fewer bits where they are asked for, and what that does to the scores."""
    if weights == "float32":
        return {"kind": weights}
    found = trained.pack(weights, prompts)
    err.print(
        f"[dim]{weights} weights are approximate: after {len(prompts)} prompt{'s'[: len(prompts) - 1]} the "
        f"logits are off by at most {found.largest:.2g}, the next token's distribution by "
        f"{found.divergence:.2g} nats.[/]",
        highlight=False,
    )
    return {"kind": weights, "largest_difference": found.largest, "divergence": found.divergence}


def write_one(trained: Trained, prompt: str, text: Written, tokens: Iterator[Any]) -> None:
    """One text appears as it is written."""
    shown = ""
    for number, _ in enumerate(tokens):
        if number == 0:  # mistakes are known by now
            out.print(Text(prompt, "bold"), end="", soft_wrap=True)
        whole = trained.text(text)
        if not whole.endswith("�"):  # a character whose last byte is still to come
            out.print(Text(whole[len(shown) :]), end="", soft_wrap=True)
            shown = whole
    if not text.new:
        out.print(Text(prompt, "bold"), end="", soft_wrap=True)
    out.print(ending(text))


def watch(
    trained: Trained, prompts: list[str], texts: list[Written], tokens: Iterator[Any], *, shown: bool
) -> None:
    """Several texts grow at once, each under the other; what is whole is then shown for good."""

    def growing() -> Group:
        return Group(*(passage(trained, *pair) for pair in zip(prompts, texts, strict=True)))

    live = Live(get_renderable=growing, console=out, transient=True, refresh_per_second=8)
    with live if shown else nullcontext():
        for _ in tokens:
            pass


def passage(trained: Trained, prompt: str, text: Written) -> Text:
    """A prompt, and what was written after it."""
    return Text.assemble((prompt, "bold"), trained.text(text), ending(text), "\n")


def ending(text: Written) -> Text:
    """Whether a text ended by itself, or was cut off."""
    return Text("" if text.stopped else " …", "dim")


def show(
    trained: Trained, prompts: list[str], texts: list[Written], *, about: dict[str, Any], json: bool
) -> None:
    from dataclasses import asdict

    from attnlab.evaluation.samples import quality

    measured = quality(texts, unknown=trained.tokenizer.specials.unknown)
    if json:
        samples = [
            {"prompt": prompt, "text": trained.text(text), "tokens": len(text.new), "stopped": text.stopped}
            for prompt, text in zip(prompts, texts, strict=True)
        ]
        return emit(about | {"samples": samples, "quality": asdict(measured)})
    for pair in zip(prompts, texts, strict=True):
        out.print(passage(trained, *pair), soft_wrap=True)
    n = "1 sample" if measured.n == 1 else f"{measured.n} samples"
    out.print(
        f"[dim]{n}, {measured.tokens} tokens: {measured.distinct_2:.0%} of pairs distinct, "
        f"{measured.repeated_4:.0%} of runs of four repeated, {measured.stopped:.0%} stopped by themselves, "
        f"{measured.unknown:.0%} unknown tokens.[/]",
        highlight=False,
    )
    return None


def show_filled(trained: Trained, text: str, *, json: bool) -> None:
    found = trained.fill(text)
    if json:
        return emit([[{"token": token, "probability": p} for token, p in place] for place in found])
    for number, place in enumerate(found, start=1):
        table = Table("token", "probability", title=escape(f"[MASK] {number}"), title_justify="left")
        for token, p in place:
            table.add_row(escape(token), f"{p:.3f}")
        out.print(table)
    return None
