"""`attnlab generate`: text from a trained model, as it is written."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import (
    MOST,
    AllowOption,
    JsonOption,
    RunArgument,
    emit,
    err,
    exit_unsound,
    invalid_sentence,
    out,
)
from attnlab.config.values import ConfigError, shortened
from attnlab.config.wording import count_of
from attnlab.documents.live_terminal import live_nodes
from attnlab.documents.nodes import Marked, MarkedSpan, Number, Sentence, Table, Tone, toned
from attnlab.generation.request import SAMPLED, Request, request_of

if TYPE_CHECKING:
    from attnlab.generation.generate import Written
    from attnlab.session.trained import Trained


def generate(
    run: RunArgument,
    prompts: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT", help="Prompts to continue; none: start from nothing."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of new tokens.",
            min=1,
            max=MOST,
            show_default="50, or what the context leaves",
        ),
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
        int, typer.Option(help="Beam width for beam search; 0: no beam search.", min=0, max=MOST)
    ] = 0,
    penalty: Annotated[
        float,
        typer.Option(help="Length penalty of beam search: 0 compares sums of log-probabilities, 1 means."),
    ] = 1.0,
    copies: Annotated[
        int, typer.Option(help="Texts for each prompt; of a beam, its best ones.", min=1, max=MOST)
    ] = 1,
    stop: Annotated[
        list[str] | None, typer.Option(help="Text at which to stop; it is kept. Repeatable.")
    ] = None,
    beyond: Annotated[
        str, typer.Option(help="Beyond the trained context: refuse, or window (drop the oldest tokens).")
    ] = "refuse",
    fill: Annotated[str, typer.Option(help="A text with [MASK]s for a masked model to fill in.")] = "",
    weights: Annotated[
        str, typer.Option(help="float32, or fewer bits: float16 or int8, faster and approximate.")
    ] = "float32",
    seed: Annotated[
        int, typer.Option(help="The same seed gives a prompt the same text.", min=-MOST, max=MOST)
    ] = 0,
    allow: AllowOption = None,
    json: JsonOption = False,
) -> None:
    """Generate text with a trained model. Exits 1 where its run failed a check."""
    if fill and (prompts or weights != "float32"):
        raise ConfigError(
            "Give either prompts to continue (and --weights), or --fill with a text that has [MASK]s."
        )
    settings = {"length": length, "rule": rule, "beam": beam, "penalty": penalty, "copies": copies}
    request = request_of(settings | {"stop": stop or (), "beyond": beyond, "seed": seed})
    from attnlab.session.trained import Trained

    trained = Trained.at(run)
    if trained.unsound:
        err.say(invalid_sentence(trained.unsound))
    write_texts(trained, prompts or [""], request, fill=fill, weights=weights, json=json)
    exit_unsound(trained.unsound, allow)


def write_texts(
    trained: Trained, asked: list[str], request: Request, *, fill: str, weights: str, json: bool
) -> None:
    """What the model writes after each prompt, or into the gaps of a text."""
    from attnlab.session.writing import start_writing

    tell_unknown(trained, [fill.replace("[MASK]", " ")] if fill else asked)
    about: dict[str, Any] = {"run": str(trained.folder), "step": trained.step}
    about |= {"sound": not trained.unsound, "unsound": list(trained.unsound)}
    if fill:
        return show_filled(trained, fill, about=about, json=json)
    about |= {"weights": weights_used(trained, weights, asked)}
    texts, tokens = start_writing(trained, asked, request)
    repeated = request.repeated(asked)
    if len(texts) == 1 and not request.beam and not json:
        return write_one(trained, repeated[0], texts[0], tokens)
    watch(trained, repeated, texts, tokens, shown=out.is_terminal and not (json or request.beam))
    return show(trained, repeated, texts, about=about, json=json)


def tell_unknown(trained: Trained, texts: list[str]) -> None:
    """Once, which words of the prompts the model cannot read."""
    words = list(dict.fromkeys(word for text in texts for word in trained.tokenizer.unknown_parts(text)))
    if words:
        token = trained.tokenizer.token(trained.unknown_token)
        message = shortened(f"Unknown to the tokenizer, and read as {token}: {', '.join(words)}.")
        err.say(toned(Tone.WARNING, message))
    if message := unseen_sentence(trained, texts):
        err.say(toned(Tone.WARNING, message))


def unseen_sentence(trained: Trained, texts: list[str]) -> str:
    """Which characters of some texts the training text does not have, and of which script they are; nothing
    where it has all, or where that is not recorded."""
    known = trained.tokenizer.text
    return characters_sentence([] if known is None else known.unseen("".join(texts)))


def characters_sentence(unseen: Iterable[str]) -> str:
    """The same of characters that the training text does not have."""
    shown = [character for character in unseen if not character.isspace()]
    if not shown:
        return ""
    scripts = dict.fromkeys(script_of(character) for character in shown if character.isalpha())
    of = f" ({', '.join(filter(None, scripts))})" if any(scripts) else ""
    return shortened(
        f"The training text has none of these characters{of}: “{' '.join(shown)}”. What the model "
        "makes of them means nothing."
    )


def script_of(character: str) -> str:
    """The script of a letter, as its Unicode name begins."""
    script = unicodedata.name(character, "").split(" ")[0]
    return script if script == "CJK" else script.title()


def weights_used(trained: Trained, weights: str, prompts: list[str]) -> dict[str, Any]:
    """Weights in fewer bits where they are asked for, and what that does to the scores."""
    if weights == "float32":
        return {"kind": weights}
    from attnlab.session.writing import pack_weights

    error = pack_weights(trained, weights, prompts)
    message = (
        f"{weights} weights are approximate: after {count_of(len(prompts), 'prompt')} the logits are off "
        f"by at most {error.largest:.2g}, the next token's distribution by {error.divergence:.2g} nats."
    )
    err.show(Sentence(message, "fine"))
    return {"kind": weights, "largest_difference": error.largest, "divergence": error.divergence}


def write_one(trained: Trained, prompt: str, text: Written, tokens: Iterator[Any]) -> None:
    """One text appears as it is written."""
    shown = ""
    for number, _ in enumerate(tokens):
        if number == 0:  # mistakes are known by now
            out.stream(*before(trained, prompt))
        whole = new_text(trained, text)
        if not whole.endswith("�"):  # a character whose last byte is still to come
            out.stream(MarkedSpan(whole[len(shown) :]))
            shown = whole
    if not text.new:
        out.stream(*before(trained, prompt))
    out.stream(ending(text), MarkedSpan("\n"))


def watch(
    trained: Trained, prompts: list[str], texts: list[Written], tokens: Iterator[Any], *, shown: bool
) -> None:
    """Several texts grow at once, each under the other; what is whole is then shown for good."""
    if not shown:
        for _ in tokens:
            pass
        return

    def growing() -> list[Marked]:
        return [passage(trained, *pair) for pair in zip(prompts, texts, strict=True)]

    with live_nodes(out, *growing(), transient=True) as screen:
        for _ in tokens:
            screen.show(*growing())


def passage(trained: Trained, prompt: str, text: Written) -> Marked:
    """A prompt, and what was written after it."""
    written = MarkedSpan(new_text(trained, text))
    return Marked([*before(trained, prompt), written, ending(text), MarkedSpan("\n")])


def before(trained: Trained, prompt: str) -> list[MarkedSpan]:
    """The prompt, apart from what follows where it is a source that was read."""
    arrow = [MarkedSpan(" → ", tone=Tone.MUTED)] if trained.reads_source else []
    return [MarkedSpan(prompt, tone=Tone.STRONG), *arrow]


def new_text(trained: Trained, text: Written) -> str:
    from attnlab.session.writing import text_of

    written = text_of(trained, text)
    return written.lstrip(" ") if trained.reads_source else written


def ending(text: Written) -> MarkedSpan:
    """Whether a text ended by itself, or was cut off."""
    return MarkedSpan("" if text.stopped else " …", tone=Tone.MUTED)


def show(
    trained: Trained, prompts: list[str], texts: list[Written], *, about: dict[str, Any], json: bool
) -> None:
    from dataclasses import asdict

    from attnlab.evaluation.sample_quality import quality
    from attnlab.session.writing import text_of

    measured = quality(texts, unknown=trained.tokenizer.target.specials.unknown)
    if json:
        samples = [
            {
                "prompt": prompt,
                "text": text_of(trained, text),
                "tokens": len(text.new),
                "stopped": text.stopped,
            }
            for prompt, text in zip(prompts, texts, strict=True)
        ]
        return emit(about | {"samples": samples, "quality": asdict(measured)})
    for pair in zip(prompts, texts, strict=True):
        out.stream(*passage(trained, *pair).spans, MarkedSpan("\n"))
    summary = (
        f"{count_of(measured.n, 'sample')}, {measured.tokens} tokens: {measured.distinct_2:.0%} of bigrams "
        f"distinct, {measured.repeated_4:.0%} of 4-grams repeated, {measured.stopped:.0%} of samples ended "
        f"with the stop token, {measured.unknown:.0%} of tokens unknown."
    )
    out.show(Sentence(summary, "fine"))
    return None


def show_filled(trained: Trained, text: str, *, about: dict[str, Any], json: bool) -> None:
    from attnlab.session.filling import sentence

    guesses = trained.fill(text)
    whole = sentence(trained, text, guesses)
    if json:
        words = [[{"token": token, "probability": p} for token, p in place] for place in guesses]
        return emit(about | {"text": text, "filled": whole, "places": words})
    out.stream(MarkedSpan(f"{whole}\n"))
    for number, place in enumerate(guesses, start=1):
        rows = [(token, Number(p, form="chance")) for token, p in place]
        out.show(Table(("token", "probability"), rows, title=f"[MASK] {number}"))
    return None
