"""`attnlab explain` on a model: where it looks, what its heads are worth, and attention measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnlab.cli.console import MOST, HtmlOption, JsonOption, RunArgument, SetOption, err, present
from attnlab.config.files import load
from attnlab.config.values import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

    from attnlab.explain.model_reading import Reading
    from attnlab.model.model import Model

MODEL = "A run, a checkpoint, a folder in transformers' layout; or a TOML file or preset, untrained."
ModelOrConfig = Annotated[str | None, typer.Argument(metavar="[MODEL]", help=MODEL)]
MASK = "[MASK]"
SENTENCE = "the man chased the dog"


STORED = "A run's folder, one of its checkpoints, or a folder in transformers' layout."
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help=STORED)]


def attention(
    model: ModelArgument,
    text: Annotated[str, typer.Option(help="The text to read; the source of an encoder-decoder.")] = "",
    image: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A picture to read, with --text where it reads both, or has written it."
        ),
    ] = None,
    pair: Annotated[
        str, typer.Option(help="A second text; the target of a translator, by default its own translation.")
    ] = "",
    layer: Annotated[
        int, typer.Option(help="The layer to show; the most useful head by default.", min=-1, max=MOST)
    ] = -1,
    head: Annotated[int, typer.Option(help="The head to show.", min=-1, max=MOST)] = -1,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Show where each head looks on a text or a picture, what kind it is of, and what happens without it."""
    from attnlab.config.values import ConfigError
    from attnlab.session.trained import Trained

    if not text and image is None:
        raise ConfigError('Say what is read: --text "…", or --image FILE.')
    trained = Trained.at(model)
    if image is not None:
        if pair:
            raise ConfigError(
                "--pair is a second text, and a picture is read with --text alone; leave it out."
            )
        looks = trained.picture_attention(image, text, layer=layer, head=head)
        return present(looks, json=json, html=html)
    return present(trained.attention(text, pair, layer=layer, head=head), json=json, html=html)


def heads(
    run: RunArgument,
    on: Annotated[
        Path | None, typer.Option(help="A file of texts; by default the dev split of the run's own corpus.")
    ] = None,
    texts: Annotated[int, typer.Option(help="Score at most this many texts.", min=2, max=MOST)] = 200,
    unit: Annotated[str, typer.Option(help="Take plain text by document, paragraph, line or sentence.")] = "",
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Remove each head in turn and measure how the loss changes, with its interval over texts."""
    from attnlab.runs.display import Display
    from attnlab.session.evaluating import evaluate_heads
    from attnlab.session.trained import Trained

    reading = {"unit": unit} if unit else {}
    with Display(err) as display:
        display.work("Opening the run")
        trained = Trained.at(run)

        def progress(done: int, of: int) -> None:
            display.update(f"Removing heads: {done} of {of}", done / of)

        losses = evaluate_heads(trained, on, texts=texts, progress=progress, **reading)
    present(losses, json=json, html=html)


def scores(
    model: ModelOrConfig = None,
    text: Annotated[str, typer.Option(help="The text to read.")] = SENTENCE,
    head: Annotated[int, typer.Option(help="The head whose parts are drawn.", min=0, max=MOST)] = 0,
    set: SetOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Take the scores of the first layer apart: words, positions, and the two crossed."""
    from attnlab.explain.score_decomposition import score_decomposition

    network, _, ids, words = _reading(model, set, text)
    present(score_decomposition(network, ids, words, head=head), json=json, html=html)


def reach(
    model: ModelOrConfig = None,
    length: Annotated[int, typer.Option(help="Tokens to measure on.", min=2, max=4096)] = 48,
    set: SetOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Measure by gradient how many tokens an output depends on at each depth, against the bound."""
    from attnlab.explain.reach_by_depth import reach_by_depth

    network, reading = _model(model, set)
    most = int(min(network.trunk.longest, 10_000)) if reading is None else reading.longest
    from attnlab.runs.display import Display

    with Display(err) as display:
        display.work("Measuring")

        def progress(done: int, of: int) -> None:
            display.update(f"Measuring outputs: {done} of {of}", done / of)

        reached = reach_by_depth(network, min(length, most), progress=progress)
    present(reached, json=json, html=html)


def gradients(html: HtmlOption = None, json: JsonOption = False) -> None:
    """Compare the gradient that queries and keys get under argmax and softmax, with and without 1/√d."""
    from attnlab.explain.gradient_flow import gradient_flow

    present(gradient_flow(), json=json, html=html)


def masked_positions(
    model: ModelOrConfig = None,
    text: Annotated[
        str, typer.Option(help="A text with [MASK] twice or more.")
    ] = "the [MASK] chased the [MASK] across the [MASK]",
    set: SetOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Show that a masked token keeps its position, by masking the position too."""
    from attnlab.explain.masked_tokens_position import masked_positions as found_of

    network, mask, ids, words = _reading(model, [*(set or []), *_encoder(model)], text)
    masked = [place for place, token in enumerate(ids.tolist()) if token == mask]
    present(found_of(network, ids, masked, words), json=json, html=html)


def cost(
    longest: Annotated[
        int, typer.Option(help="The largest number of tokens tried.", min=64, max=65_536)
    ] = 1024,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Count operations and measure time of self- and cross-attention, with fitted exponents."""
    from attnlab.explain.attention_cost import attention_cost

    sizes = [longest // 8, longest // 4, longest // 2, longest]
    present(attention_cost(sizes), json=json, html=html)


def _encoder(model: str | None) -> list[str]:
    """Without a model, an encoder that reads both sides."""
    return [] if model else ["model.family=encoder"]


def _model(name: str | None, set: list[str] | None) -> tuple[Model, Reading | None]:
    """A stored model with its tokenizer, or an untrained one of a config."""
    if name is not None and Path(name).is_dir():
        if set:
            raise ConfigError(
                f"--set changes a config, and {name} is a model that was trained; leave it out."
            )
        from attnlab.session.trained import Trained

        trained = Trained.at(name)
        return trained.model, trained.reading
    settings = load(name, set=set or ())
    from attnlab.model.assemble import build_model
    from attnlab.session.session import draft_settings

    return build_model(draft_settings(settings), seed=settings.seed).eval(), None


def _reading(name: str | None, set: list[str] | None, text: str) -> tuple[Model, int, Tensor, list[str]]:
    """A model, its mask token, and a text as its ids (T) and words; an untrained one numbers the words."""
    import torch

    model, reading = _model(name, set)
    if reading is None:
        words = text.split()
        if not words:
            raise ConfigError('--text has no words; write for example --text "the man chased the dog".')
        known = [MASK, *dict.fromkeys(word for word in words if word != MASK)]
        return model, 0, torch.tensor([known.index(word) for word in words]), words
    mask, ids = reading.masked(text)
    return model, mask, torch.tensor(ids), reading.words(ids)
