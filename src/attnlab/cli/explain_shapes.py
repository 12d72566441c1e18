"""`attnlab explain softmax`, `positions`, `padding` and `masking`: what happens to numbers on their way."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Literal

import typer

from attnlab.cli.console import MOST, HtmlOption, JsonOption, SetOption, err, present
from attnlab.config.files import load
from attnlab.config.values import ConfigError
from attnlab.runs.display import Display


def softmax(
    scores: Annotated[str, typer.Option(help="Scores of keys, for example 3,1,1,-3.")] = "3,1,1,-3",
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Show softmax by temperature with argmax as its limit, and what 1/√d is for."""
    from attnlab.explain.softmax_shape import softmax_shape

    try:
        numbers = [float(part) for part in scores.split(",")]
    except ValueError:
        raise ConfigError(f"--scores {scores} are not numbers; write for example 3,1,1,-3.") from None
    present(softmax_shape(numbers), json=json, html=html)


def positions(
    config: Annotated[str | None, typer.Argument(help="A TOML file or a preset (gpt2, bert, …).")] = None,
    set: SetOption = None,
    length: Annotated[int, typer.Option(help="How many positions are compared.", min=2, max=512)] = 64,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Show inner products of positions by distance, or what a scheme adds to the scores."""
    settings = load(config, set=set or ())
    from attnlab.session.config_explained import explain_positions

    present(explain_positions(settings, length), json=json, html=html)


def padding(
    rows: Annotated[
        list[str] | None,
        typer.Argument(metavar="ROW...", help="Rows of a batch: ids (4,7,9), or texts with --tokenizer."),
    ] = None,
    tokenizer: Annotated[
        str, typer.Option(metavar="TOKENIZER", help="A tokenizer's file, a run, or minilm: rows are texts.")
    ] = "",
    side: Annotated[Literal["right", "left"], typer.Option(help="Where padding stands.")] = "right",
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Show a padded batch as numbers, with its mask and how much of it is padding."""
    from attnlab.explain.padded_batch import padded_batch

    given = rows or ["4,7,9,15,23,18", "2,8,10", "3,13,2,8"]
    if tokenizer:
        from attnlab.cli.tokenizer import recipe_of

        recipe = recipe_of(tokenizer, "--tokenizer")
        if recipe.trains:
            raise ConfigError(f"--tokenizer {tokenizer} is a kind to train; give a tokenizer's file.")
        made = recipe.make([])
        ids = [made.form.single(made.encode(text)) for text in given]
        shown = padded_batch(ids, pad=made.pad, side=side, names=[text[:14] for text in given])
    else:
        shown = padded_batch([numbers_of(row) for row in given], side=side)
    present(shown, json=json, html=html)


def numbers_of(row: str) -> list[int]:
    try:
        return [int(part) for part in row.split(",")]
    except ValueError:
        raise ConfigError(
            f'"{row}" is not a row of ids; write 4,7,9, or give --tokenizer TOKENIZER for rows of text.'
        ) from None


def masking(
    config: Annotated[str, typer.Argument(help="A config that masks tokens (bert-mini, spanbert-mini).")] = (
        "spanbert-mini"
    ),
    set: SetOption = None,
    batches: Annotated[int, typer.Option(help="How many batches are counted.", min=1, max=MOST)] = 20,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Count what a masking task hides: the share, lengths of spans, whole words, and what stands there."""
    settings = load(config, set=set or ())
    from attnlab.explain.masking_statistics import masking_statistics
    from attnlab.session.session import Session, default_cache

    with Display(err) as display:
        display.work("Preparing the data")
        session = Session(settings, cache=default_cache())
        some = islice(session.dataset.trained(settings.seed), batches)
        found = masking_statistics(session.task, some, seed=settings.seed)
    present(found, json=json, html=html)
