"""`attnlab explain …`: what a config means before anything is trained, and what a model does inside."""

from __future__ import annotations

from typing import Annotated

import typer

from attnlab.cli.console import MOST, HtmlOption, JsonOption, SetOption, present
from attnlab.cli.explain_inside import attention, cost, gradients, heads, masked_positions, reach, scores
from attnlab.cli.explain_query import query, superposition
from attnlab.cli.explain_shapes import masking, padding, positions, softmax
from attnlab.config.files import load
from attnlab.config.values import ConfigError, written

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
    from attnlab.explain.model_counts import ModelCounts
    from attnlab.model.assemble import build_model
    from attnlab.model.counts import count
    from attnlab.session.session import draft_settings

    model = build_model(draft_settings(settings), device="meta")
    length = settings.model.length
    costs = count(model, length=length, source_length=length, batch=batch)
    present(ModelCounts(costs), json=json, html=html)


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
    settings = load(config, set=set or ())
    words, source = _words(text)
    lengths = _lengths(documents, len(words))
    import torch

    from attnlab.explain.mask_picture import MaskPicture
    from attnlab.model.assemble import build_model
    from attnlab.model.tokens import Tokens
    from attnlab.model.trunks.transformer import transformer_of
    from attnlab.session.session import draft_settings

    words = ["[PAD]"] * padding + words
    lengths[:1] = [length + padding for length in lengths[:1]]  # padding goes with the first document
    real = (torch.arange(len(words)) >= padding)[None] if padding else None
    ids = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)) if lengths else None
    tokens = Tokens.of(
        len(words),
        real=real,
        source=((torch.arange(len(words)) >= padding) & (torch.arange(len(words)) < padding + source))[None],
        document=None if ids is None else ids[None],
    )
    grids = {}
    for name in masks_of(masks, str(settings.model.mask)):
        chosen = (
            load(config, set=[*(set or ()), f"model.mask={name}", *family_of(name)]) if masks else settings
        )
        trunk = transformer_of(build_model(draft_settings(chosen), device="meta").trunk)
        grids[name] = trunk.ways(tokens)[0].near.tolist()
    attention = written(settings.model.attention)
    present(MaskPicture(words, source, grids, attention, numbers), json=json, html=html)


UNILM = ("causal", "bidirectional", "prefix")
"""UniLM's masks: from left to right, both sides, and from a source to a target."""


def masks_of(text: str, own: str) -> list[str]:
    """The masks that are drawn: the config's own, or those that are named."""
    if not text:
        return [own]
    names = (
        list(UNILM) if text.strip() == "unilm" else [name.strip() for name in text.split(",") if name.strip()]
    )
    return list(dict.fromkeys(names))


def family_of(mask: str) -> list[str]:
    """A decoder sees nothing to its right, so that a mask which does is drawn in an encoder."""
    from attnlab.model.masks import MASKS, incremental

    return [] if incremental(MASKS.build(MASKS.read(mask, "--masks"))) else ["model.family=encoder"]


def _words(text: str) -> tuple[list[str], int]:
    """The words, and how many of them stand before the bar."""
    default = "Jill Birt [MASK] outdoor activities | He was [MASK] hiking"
    before, bar, after = (text or default).partition("|")
    words = before.split() + after.split()
    if not words:
        raise ConfigError('--text has no words; write for example --text "the cat | le chat".')
    if len(words) > 40:
        raise ConfigError(f"--text has {len(words)} words; a drawing of more than 40 cannot be read.")
    return words, len(before.split()) if bar else 0


def _lengths(documents: str, total: int) -> list[int]:
    if not documents:
        return []
    try:
        lengths = [int(part) for part in documents.split(",")]
    except ValueError:
        lengths = [0]
    if min(lengths) < 1 or sum(lengths) != total:
        raise ConfigError(f"--documents {documents} must be whole lengths that add up to {total} words.")
    return lengths


INSIDE = (attention, heads, query, superposition, scores, reach, gradients, masked_positions, cost)
for command in (*INSIDE, softmax, positions, padding, masking):
    app.command()(command)
