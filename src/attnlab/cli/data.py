"""`attnlab data inspect`: look at the text before training on it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from attnlab.cli.console import MOST, JsonOption, SetOption, emit, err, out
from attnlab.cli.corpus_options import (
    DevOption,
    EncodingOption,
    FileArgument,
    LabelOption,
    PairOption,
    SkipOption,
    TargetOption,
    TestOption,
    TextOption,
    UnitOption,
    corpus_of,
    data_of,
)
from attnlab.cli.token_view import Piece, segmented, show_pieces
from attnlab.config.visible_text import visible
from attnlab.runs.display import Display, escape

if TYPE_CHECKING:
    from attnlab.data.inspection import Report, SampleRow, SplitReport

app = typer.Typer(help="Inspect data: rows, lengths, classes, duplicates, tokens.", no_args_is_help=True)

BAR = 44
SHOWN_CLASSES = 12
SHOWN_TOKENS = 60


@app.callback()
def group() -> None:
    """Look at text and what becomes of it."""


@app.command("inspect")
def inspect(
    file: FileArgument,
    text: TextOption = "",
    pair: PairOption = "",
    target: TargetOption = "",
    label: LabelOption = "",
    dev: DevOption = "",
    test: TestOption = "",
    unit: UnitOption = "",
    encoding: EncodingOption = "",
    skip_bad: SkipOption = False,
    tokenizer: Annotated[
        str, typer.Option("--tokenizer", help="A kind, with options if wanted, or a tokenizer's file.")
    ] = "bpe",
    length: Annotated[int, typer.Option("--length", help="Maximum tokens per row.", min=1, max=MOST)] = 128,
    set: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Rows, lengths, classes, duplicates, overlap of splits, padding, and examples as the model sees them."""
    from attnlab.data.corpora import CORPORA
    from attnlab.data.dataset import Dataset
    from attnlab.data.inspection import fitting_encoding, inspected
    from attnlab.data.tokenizers import TOKENIZERS

    options = {"text": text, "pair": pair, "target": target, "label": label, "dev": dev, "test": test}
    options |= {"unit": unit, "encoding": encoding, "skip_bad": skip_bad}  # type: ignore[dict-item]
    corpus = corpus_of(file, options)
    TOKENIZERS.resolve(tokenizer, "--tokenizer")
    settings = {"corpus": corpus, "tokenizer": tokenizer, "length": length}
    settings["encoding"] = fitting_encoding(CORPORA.build(data_of(settings, set).corpus))
    data = data_of(settings, set)
    with tempfile.TemporaryDirectory() as cache, Display(err) as display:
        dataset = Dataset(data, cache=Path(cache), progress=display.preparing)
        display.work("Reading the text")
        _ = dataset.tokenizer
        display.work("Counting rows, classes and duplicates")
        report = inspected(dataset, told=display.counting)
    if json:
        return emit(report.as_json())
    show(report, file)
    return None


def show(report: Report, file: str) -> None:
    train = report.splits["train"]
    out.print(splits_table(report, file))
    made_splits(report)
    warnings(report)
    learned = f", trained on {report.trained_on}" if report.trained_on else ""
    heading(f"Length in tokens, {report.vocabulary:,} in the vocabulary{learned}")
    show_lengths(train, report.length)
    if train.classes:
        heading(classes_heading(report))
        out.print(classes_table(report))
    if report.encoding == "question":
        heading("Answers")
        out.print(answers_table(report))
    heading(f"Padding, rows encoded as {report.encoding}")
    out.print(waste_table(report))
    heading("As the model sees it")
    for sample in report.samples:
        show_sample(sample)


def heading(text: str) -> None:
    out.print(f"\n[bold]{escape(text)}[/]")


def splits_table(report: Report, file: str) -> Table:
    table = Table(title=escape(file), title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("split", style="cyan")
    for name in ("rows", "characters", "tokens", "unknown", "duplicates", "cut", "tokens lost"):
        table.add_column(name, justify="right")
    for name, split in report.splits.items():
        cuts = split.cuts
        lost = cuts["lost"] / cuts["tokens"] if cuts["tokens"] else 0
        table.add_row(
            name,
            f"{split.rows:,}",
            f"{split.characters:,}",
            f"{split.tokens:,}",
            share(split.unknown, sum(split.lengths)),
            f"{split.duplicates:,}",
            f"{cuts['cut']:,}",
            f"{lost:.1%}" if cuts["lost"] else "none",
        )
    return table


def share(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if part and whole else "none"


def made_splits(report: Report) -> None:
    """Rows that are not trained on although nobody put them aside."""
    if report.made:
        shares = " and ".join(f"{name} ({share:.0%})" for name, share in report.made.items())
        settings = " and ".join(f"data.{name}_share" for name in report.made)
        out.print(
            f"Taken out of train, since no file is given: {shares}, set by {settings}.", highlight=False
        )


def warnings(report: Report) -> None:
    """What a person should know before believing a number made from this text."""
    from attnlab.data.encode.encoding import MUCH

    if report.skipped:
        caution(f"{report.skipped:,} broken rows were left out.")
    overlaps(report)
    for name, split in report.splits.items():
        if split.cuts["lost"] > MUCH * split.cuts["tokens"]:
            percent = split.cuts["lost"] / split.cuts["tokens"]
            caution(f"{percent:.0%} of the tokens of {name} are cut off at {report.length}; raise --length.")
            break


def overlaps(report: Report) -> None:
    """What two splits share: whole examples, and passages with other questions."""
    for pair, count in report.overlap.items():
        if count:
            caution(f"{count:,} texts are in both {pair}: scores on them measure memorisation.")
    shared = {pair: passages for pair, passages in report.passages.items() if passages.count}
    for pair, passages in shared.items():
        one, _, other = pair.partition(" and ")
        caution(
            f"{report.overlap[pair]:,} examples of {other} are in {one}, but {passages.count:,} of "
            f"{passages.of:,} {passages.what} are: what was learned of them helps; keep each in one split."
        )
    if not any(report.overlap.values()) and not shared and len(report.splits) > 1:
        out.print("[green]✓[/] No text is in two splits.", highlight=False)


def caution(text: str) -> None:
    out.print(f"[yellow]![/] {escape(text)}", highlight=False)


def show_lengths(split: SplitReport, length: int) -> None:
    from attnlab.data.inspection import histogram, quantiles

    bins = histogram(split.lengths)
    most = max(b.count for b in bins)
    wide = max(len(b.label) for b in bins)
    for b in bins:
        style = "cyan" if b.last <= length else "blue" if b.first <= length else "bright_black"
        percent = b.count / split.rows
        out.print(
            f"  {b.label:>{wide}} [{style}]{bar(b.count / most):<{BAR}}[/] {b.count:>8,} {percent:>6.1%}",
            highlight=False,
        )
    found = ", ".join(f"{name} {value:,}" for name, value in quantiles(split.lengths).items())
    out.print(f"  [bright_black]{found}[/]", highlight=False)


def bar(fraction: float, width: int = BAR) -> str:
    """A bar of eighths of a character; what is not nothing is seen."""
    eighths = max(round(fraction * width * 8), 1 if fraction else 0)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def classes_heading(report: Report) -> str:
    without = sum(split.rows - split.labelled for split in report.splits.values())
    return f"Classes, shares of the rows with a label ({without:,} have none)" if without else "Classes"


def classes_table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    table.add_column("label", style="cyan")
    for name in report.splits:
        table.add_column(name, justify="right")
    labels = list(report.splits["train"].classes)
    for label in labels[:SHOWN_CLASSES]:
        cells = [part(s.classes.get(label, 0), s.labelled) for s in report.splits.values()]
        table.add_row(escape(visible(label)), *cells)
    if len(labels) > SHOWN_CLASSES:
        table.add_row(f"… {len(labels) - SHOWN_CLASSES} more", *[""] * len(report.splits))
    table.add_section()
    shares = [
        f"[bold]{split.majority[1]:.2%}[/]" if split.majority else "–" for split in report.splits.values()
    ]
    table.add_row("[bold]majority share[/]", *shares)
    return table


def part(count: int, whole: int) -> str:
    return f"{count:,} ({count / whole:.1%})" if whole else "–"


def answers_table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    table.add_column("questions", style="cyan")
    for name in report.splits:
        table.add_column(name, justify="right")
    splits = report.splits.values()
    table.add_row("with an answer", *(part(s.rows - s.without_answer, s.rows) for s in splits))
    table.add_row("without one", *(part(s.without_answer, s.rows) for s in splits))
    return table


def waste_table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    table.add_column("batching", style="cyan")
    table.add_column("share of padding", justify="right")
    table.add_column("")
    for kind, waste in report.waste.items():
        if isinstance(waste, str):
            table.add_row(kind, "–", f"[bright_black]{waste}[/]")
        else:
            table.add_row(kind, f"{waste:.1%}", f"[yellow]{bar(waste, 30)}[/]")
    return table


def show_sample(sample: SampleRow) -> None:
    show_pieces(sample_pieces(sample))


def sample_pieces(sample: SampleRow) -> Iterator[Piece]:
    """A row's first tokens, and what is to be told of it."""
    yield from segmented(sample.tokens[:SHOWN_TOKENS], sample.special)
    if len(sample.tokens) > SHOWN_TOKENS:
        yield f" … {len(sample.tokens) - SHOWN_TOKENS} more tokens", "bright_black"
    if sample.label is not None:
        yield f"  → {visible(sample.label)}", "bold green"
    if sample.answer is not None:
        nothing = "no answer here" if sample.windowed else "no answer"
        yield f"  → {visible(sample.answer) or nothing}", "bold green"
    if sample.windowed:
        yield f" (window {sample.window} of {sample.windows} of one question)", "bright_black"
