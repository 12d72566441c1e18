"""`attnlab tokenizer`: train one, see what it makes of a sentence, and compare two on a text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import MOST, HtmlOption, JsonOption, emit, err, out, present
from attnlab.cli.corpus_options import (
    EncodingOption,
    FileArgument,
    PairOption,
    SkipOption,
    TargetOption,
    TextOption,
    UnitOption,
    corpus_of,
)
from attnlab.config.values import Choice, ConfigError
from attnlab.documents.nodes import (
    Heading,
    Marked,
    MarkedSpan,
    Number,
    Sentence,
    Table,
    TableColumn,
    Tone,
    token_spans,
    toned,
)
from attnlab.runs.display import Display

if TYPE_CHECKING:
    from attnlab.data.tokenizers.compare import TokenizerMeasure
    from attnlab.data.tokenizers.tokenizer import Tokenizer
    from attnlab.data.tokenizers.tokenizer_recipe import TokenizerRecipe

LONGEST = 2000
"""Characters of a text whose pieces are shown one by one."""

app = typer.Typer(
    help="Train a tokenizer, see what it makes of a sentence, or compare two on your text.",
    no_args_is_help=True,
)


@app.command("train")
def train(
    file: FileArgument,
    kind: Annotated[
        str,
        typer.Option("--kind", help="bpe, wordpiece, unigram, word or character, with options if wanted."),
    ] = "bpe",
    vocabulary: Annotated[
        int, typer.Option("--vocabulary", help="Its size; 0: the kind's default.", min=0, max=MOST)
    ] = 0,
    to: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")] = Path(
        "tokenizer.json"
    ),
    text: TextOption = "",
    pair: PairOption = "",
    target: TargetOption = "",
    unit: UnitOption = "",
    encoding: EncodingOption = "",
    skip_bad: SkipOption = False,
    json: JsonOption = False,
) -> None:
    """Train a tokenizer on a text and save it as tokenizer.json."""
    from attnlab.data.tokenizers import TOKENIZERS
    from attnlab.data.tokenizers.compare import measured

    choice = TOKENIZERS.read(kind, "--kind")
    if vocabulary:
        choice = Choice(choice.kind, {**choice.options, "vocabulary": vocabulary})
    recipe = TOKENIZERS.build(choice)
    if not recipe.trains:
        raise ConfigError(f'--kind "{kind}" is an existing tokenizer; to train one, name a kind such as bpe.')
    options = {"text": text, "pair": pair, "target": target, "unit": unit, "encoding": encoding}
    texts = list(all_texts(file, options | {"skip_bad": skip_bad}))
    with Display(err) as display:
        display.work(f"Training {choice} on {len(texts):,} texts")
        tokenizer = recipe.train(texts, source=str(file))
    saved = tokenizer.save(to)
    measure = measured(tokenizer, texts)
    if json:
        return emit({"file": str(saved), "fingerprint": tokenizer.fingerprint, **measure.as_json()})
    show_measures({choice.kind: measure}, f"on {file}, the text it was trained on")
    if measure.vocabulary < (asked := choice.options.get("vocabulary", 0)):
        message = (
            f"The vocabulary has {measure.vocabulary:,} of the {asked:,} entries asked for: nothing more "
            "occurs often enough in this text. Give more text, or ask for fewer."
        )
        out.show(Sentence(message))
    sample = tokens_of(tokenizer, texts[len(texts) // 2].strip()[:160])
    out.show(Heading("Sample"), Marked(token_spans(sample)))
    out.print()
    out.say("Saved to ", toned(Tone.NAME, str(saved)), f", fingerprint {tokenizer.fingerprint}.")
    return None


@app.command("show")
def show(
    text: Annotated[str, typer.Argument(help="A sentence of yours.")],
    tokenizers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOKENIZER...",
            help="A tokenizer's file, a run or a folder of a model, minilm, or a kind to train (bpe, "
            "wordpiece, unigram, word, character); without one, bpe and wordpiece.",
        ),
    ] = None,
    on: Annotated[
        str, typer.Option("--on", metavar="CORPUS", help="The text or corpus that kinds are trained on.")
    ] = "python_docs",
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Show how tokenizers take a sentence apart: pieces, ids, merges in their order, and what is unknown."""
    from attnlab.data.tokenizers.segmentation import segmented
    from attnlab.explain.tokenized_text import TokenizedText

    if not text.strip():
        raise ConfigError('The text has no words; write for example: attnlab tokenizer show "a red fox".')
    if len(text) > LONGEST:
        raise ConfigError(f"The text has {len(text):,} characters; up to {LONGEST:,} can be shown.")
    values = list(dict.fromkeys(tokenizers or ("bpe", "wordpiece")))
    recipes = {value: recipe_of(value, "TOKENIZER") for value in values}
    texts: list[str] = []
    with Display(err) as display:
        if any(recipe.trains for recipe in recipes.values()):
            display.work(f"Training on {on}")
            texts = list(all_texts(on, {}))
        made = {value: recipe.make(texts) for value, recipe in recipes.items()}
    short = {value: short_name(value) for value in values}
    unique = len(set(short.values())) == len(values)
    named = {short[value] if unique else value: segmented(one, text) for value, one in made.items()}
    present(TokenizedText(text, named), json=json, html=html)


@app.command("compare")
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A tokenizer's file or folder, or a kind to train.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    on: Annotated[str, typer.Option("--on", metavar="FILE", help="The text to compare them on.")],
    text: TextOption = "",
    pair: PairOption = "",
    target: TargetOption = "",
    unit: UnitOption = "",
    encoding: EncodingOption = "",
    skip_bad: SkipOption = False,
    json: JsonOption = False,
) -> None:
    """Compare two tokenizers on your text, and say whether a new one is worth training.

    One half of the text trains what is to be trained, and the other half is what all are measured on.
    """
    from attnlab.data.tokenizers.compare import compared, enough, halves, telling

    names = names_of(a, b)
    options = {"text": text, "pair": pair, "target": target, "unit": unit, "encoding": encoding}
    texts = list(all_texts(on, options | {"skip_bad": skip_bad}))
    compared_on = texts if unit else enough(texts)
    learn, held_out = halves(compared_on)
    with Display(err) as display:
        display.work("Training and measuring")
        recipes = [recipe_of(a, "A"), recipe_of(b, "B")]
        made = [recipe.make(learn) for recipe in recipes]
        rows, verdict = compared(names, recipes, made, learn, held_out)
    samples = telling(held_out, made[0], made[1])
    if json:
        shown = {name: measure.as_json() for name, measure in rows.items()}
        pieces = [
            {"text": s} | {n: tokens_of(t, s) for n, t in zip(names, made, strict=True)} for s in samples
        ]
        return emit({"measures": shown, "verdict": vars(verdict), "samples": pieces})
    noun = "texts" if compared_on is texts else "lines"
    show_measures(rows, f"on {len(held_out):,} {noun} of {on} that none was trained on here")
    for sample in samples:
        out.print()
        for name, tokenizer in zip(names, made, strict=True):
            tokens = tokens_of(tokenizer, sample)
            named = MarkedSpan(f"{name} ({len(tokens)}): ", tone=Tone.STRONG)
            out.show(Marked([named, *token_spans(tokens)]))
    out.show(
        Heading("Is a new tokenizer worth training for this text?"),
        Sentence(verdict.text),
        Sentence("To adapt a pretrained model, always keep its own tokenizer.", "fine"),
    )
    return None


def all_texts(file: str, options: dict[str, Any]) -> Iterator[str]:
    """Every text of a corpus, of all its columns that hold text."""
    from attnlab.data.corpora import CORPORA

    for example in CORPORA.build(corpus_of(file, options)).read("train"):
        yield from (text for text in (example.text, example.pair, example.target) if text is not None)


def recipe_of(value: str, where: str) -> TokenizerRecipe:
    """How a tokenizer comes to be: trained, or read from a file, a run, or a model by its name (minilm)."""
    from attnlab.data.tokenizers import TOKENIZERS

    if value.isidentifier() and value not in TOKENIZERS:
        from attnlab.session.stored import model_folder

        value = str(model_folder(value))
    return TOKENIZERS.build(TOKENIZERS.read(value, where))


def names_of(a: str, b: str) -> tuple[str, str]:
    """Two names that tell the tokenizers apart."""
    if a == b:
        raise ConfigError(f'A and B are both "{a}"; give two tokenizers to compare.')
    return (short_name(a), short_name(b)) if short_name(a) != short_name(b) else (a, b)


def short_name(value: str) -> str:
    """A path by its last parts, a kind as it is."""
    return "/".join(Path(value.removesuffix("/tokenizer.json")).parts[-2:])


def show_measures(measures: dict[str, TokenizerMeasure], title: str) -> None:
    out.show(measures_table(measures, title))
    if any(m.exact < 1 for m in measures.values()):
        note = (
            "Round trip is the share of lines that encoding and decoding return unchanged; the others lose "
            "spaces, case, accents or unknown words."
        )
        out.show(Sentence(note, "fine"))


def measures_table(measures: dict[str, TokenizerMeasure], title: str) -> Table:
    rows = [
        (
            *(toned(Tone.NAME, name), m.vocabulary, f"{m.used_share:.0%}", m.tokens),
            *(Number(m.fertility, decimals=3), Number(m.bytes_per_token, decimals=3)),
            *(toned(Tone.WARNING, f"{m.unknown_rate:.2%}") if m.unknown else "none", f"{m.exact:.0%}"),
        )
        for name, m in measures.items()
    ]
    names = ("size", "used", "tokens", "tokens per word", "bytes per token", "unknown", "round trip")
    columns = [TableColumn("tokenizer", whole=True), *(TableColumn(name, right=True) for name in names)]
    return Table(columns, rows, title=title)


def tokens_of(tokenizer: Tokenizer, text: str) -> list[str]:
    from attnlab.data.inspection import shown

    return [shown(tokenizer, number) for number in tokenizer.encode(text)]
