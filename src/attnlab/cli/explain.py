"""`attnlab explain …`: what a config means before anything is trained, and what a model does inside."""

from __future__ import annotations

from typing import Annotated

import typer

from attnlab.cli.console import MOST, HtmlOption, JsonOption, SetOption, present
from attnlab.cli.explain_inside import attention, cost, gradients, heads, masked_positions, reach, scores
from attnlab.cli.explain_query import query, superposition
from attnlab.cli.explain_shapes import masking, padding, positions, softmax
from attnlab.config.files import load

app = typer.Typer(help="Explain what a model is made of and what it does inside.", no_args_is_help=True)

ConfigArgument = Annotated[str | None, typer.Argument(help="A TOML file or a preset (gpt2, bert, …).")]


@app.command()
def counts(
    config: ConfigArgument = None,
    set: SetOption = None,
    batch: Annotated[
        int, typer.Option(help="Rows of a training step, for its activations.", min=1, max=MOST)
    ] = 32,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Count parameters, operations and memory, term by term, in closed form."""
    settings = load(config, set=set or ())
    from attnlab.session.config_explained import explain_counts

    present(explain_counts(settings, batch=batch), json=json, html=html)


@app.command()
def mask(
    config: ConfigArgument = None,
    set: SetOption = None,
    text: Annotated[str, typer.Option(help="Words separated by spaces; | ends the source.")] = "",
    documents: Annotated[str, typer.Option(help="Lengths of packed documents, e.g. 4,3.")] = "",
    padding: Annotated[int, typer.Option(help="Number of padding tokens on the left.", min=0, max=1000)] = 0,
    masks: Annotated[
        str, typer.Option(help="Several masks in one picture, for example causal,bidirectional; or unilm.")
    ] = "",
    numbers: Annotated[bool, typer.Option("--numbers", help="As numbers: 0 may attend, 1 may not.")] = False,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Draw which positions may attend to which: mask, attention layout, padding, documents."""
    from attnlab.session.config_explained import explain_mask

    about = {"text": text, "documents": documents, "masks": masks}
    picture = explain_mask(config, set or [], padding=padding, numbers=numbers, **about)
    present(picture, json=json, html=html)


INSIDE = (attention, heads, query, superposition, scores, reach, gradients, masked_positions, cost)
for command in (*INSIDE, softmax, positions, padding, masking):
    app.command()(command)
