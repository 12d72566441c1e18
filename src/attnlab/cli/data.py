"""`attnlab data inspect`: look at the text before training on it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import MOST, JsonOption, SetOption, emit, err, out
from attnlab.cli.corpus_options import (
    DevOption,
    EncodingOption,
    FileArgument,
    ImageOption,
    LabelOption,
    PairOption,
    SeparatorOption,
    SkipOption,
    TargetOption,
    TestOption,
    TextOption,
    UnitOption,
    corpus_of,
    data_of,
)
from attnlab.documents.nodes import (
    Bar,
    Heading,
    Inline,
    Marked,
    MarkedSpan,
    Node,
    Number,
    Sentence,
    Table,
    TableColumn,
    TableRow,
    Tone,
    muted,
    strong,
    token_spans,
    toned,
)
from attnlab.runs.display import Display

if TYPE_CHECKING:
    from attnlab.data.images.survey import PictureSurvey
    from attnlab.data.inspection import Report, SampleRow, SplitReport

app = typer.Typer(help="Inspect data: rows, lengths, classes, duplicates, tokens.", no_args_is_help=True)

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
    image: ImageOption = "",
    target: TargetOption = "",
    label: LabelOption = "",
    dev: DevOption = "",
    test: TestOption = "",
    unit: UnitOption = "",
    encoding: EncodingOption = "",
    separator: SeparatorOption = "",
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

    options: dict[str, Any] = {"text": text, "pair": pair, "target": target, "label": label, "dev": dev}
    options |= {"test": test, "unit": unit, "encoding": encoding, "separator": separator, "image": image}
    options |= {"skip_bad": skip_bad}
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
        report = inspected(dataset, progress=display.counting)
    if json:
        return emit(report.as_json())
    show(report, file)
    return None


def show(report: Report, file: str) -> None:
    out.show(*report_nodes(report, file))


def report_nodes(report: Report, file: str) -> Iterator[Node]:
    """What a corpus holds, from its counts to single rows."""
    train = report.splits["train"]
    yield splits_table(report, file)
    if report.made:
        yield made_splits_sentence(report)
    yield from warnings(report)
    learned = f", trained on {report.trained_on}" if report.trained_on else ""
    yield Heading(f"Length in tokens, {report.vocabulary:,} in the vocabulary{learned}")
    yield from length_nodes(train, report.length)
    if train.classes:
        yield Heading(classes_heading(report))
        yield classes_table(report)
    if report.encoding == "question":
        yield Heading("Answers")
        yield answers_table(report)
    if report.pictures:
        yield Heading("Pictures")
        yield pictures_table(report)
        yield from map(Sentence, picture_sentences(report))
    yield Heading(f"Padding, rows encoded as {report.encoding}")
    yield waste_table(report)
    yield Heading("As the model sees it")
    yield from map(sample_node, report.samples)


def splits_table(report: Report, file: str) -> Table:
    columns = ("split", "rows", "characters", "tokens", "unknown", "duplicates", "cut", "tokens lost")
    rows = []
    for name, split in report.splits.items():
        lost, tokens = split.cuts["lost"], split.cuts["tokens"]
        rows.append(
            (
                *(toned(Tone.NAME, name), split.rows, split.characters, split.tokens),
                *(share(split.unknown, sum(split.lengths), 2), split.duplicates, split.cuts["cut"]),
                share(lost, tokens, 1),
            )
        )
    heads = [TableColumn(column, right=place > 0) for place, column in enumerate(columns)]
    return Table(heads, rows, title=file)


def share(part: int, whole: int, decimals: int) -> Inline:
    return Number(part / whole, form="percent", decimals=decimals) if part and whole else "none"


def made_splits_sentence(report: Report) -> Sentence:
    """Rows that are not trained on although nobody put them aside."""
    shares = " and ".join(f"{name} ({share:.0%})" for name, share in report.made.items())
    settings = " and ".join(f"data.{name}_share" for name in report.made)
    return Sentence(f"Taken out of train, since no file is given: {shares}, set by {settings}.")


def picture_sentences(report: Report) -> Iterator[str]:
    from attnlab.data.reading_wording import picture_form_sentences

    return picture_form_sentences(report.pictures.values())


def warnings(report: Report) -> Iterator[Sentence]:
    """What a person should know before believing a number made from this text."""
    from attnlab.data.encode.encoding import MUCH
    from attnlab.data.reading_wording import (
        decimal_sentence,
        quality_sentences,
        separator_sentences,
        shared_picture_sentences,
    )

    yield from map(Sentence, separator_sentences(report.separators))
    if decimals := decimal_sentence(report.quality):
        yield Sentence(decimals)
    if report.skipped:
        yield caution(f"{report.skipped:,} broken rows were left out.")
    yield from map(caution, quality_sentences(report.quality))
    yield from overlaps(report)
    yield from map(caution, shared_picture_sentences(report.shared_pictures))
    for name, split in report.splits.items():
        if split.cuts["lost"] > MUCH * split.cuts["tokens"]:
            percent = split.cuts["lost"] / split.cuts["tokens"]
            yield caution(
                f"{percent:.0%} of the tokens of {name} are cut off at {report.length}; raise --length."
            )
            break


def overlaps(report: Report) -> Iterator[Sentence]:
    """What two splits share: whole examples, and passages with other questions."""
    for (first, second), count in report.overlap.items():
        if count:
            both = f"{first} and {second}"
            yield caution(f"{count:,} texts are in both {both}: scores on them measure memorisation.")
    shared = {pair: passages for pair, passages in report.passages.items() if passages.count}
    for (first, second), passages in shared.items():
        yield caution(
            f"{report.overlap[first, second]:,} examples of {second} are in {first}, but {passages.count:,} "
            f"of {passages.of:,} {passages.what} are: what was learned of them helps; keep each in one split."
        )
    if not any(report.overlap.values()) and not shared and len(report.splits) > 1:
        yield Sentence((toned(Tone.GOOD, "✓"), " No text is in two splits."))


def caution(text: str) -> Sentence:
    return Sentence((toned(Tone.WARNING, "!"), f" {text}"))


def length_nodes(split: SplitReport, length: int) -> Iterator[Node]:
    """Lengths as bars: those beyond the limit are muted."""
    from attnlab.data.inspection import histogram, quantiles

    bins = histogram(split.lengths)
    most = max(b.count for b in bins)
    rows = [
        (
            *(b.label, Bar(b.count / most, Tone.NAME if b.last <= length else Tone.MUTED), b.count),
            Number(b.count / split.rows, form="percent", decimals=1),
        )
        for b in bins
    ]
    yield Table((TableColumn("tokens", right=True), "", "rows", "share"), rows)
    summary = ", ".join(f"{name} {value:,}" for name, value in quantiles(split.lengths).items())
    yield Sentence(summary, "fine")


def classes_heading(report: Report) -> str:
    without = sum(split.rows - split.labelled for split in report.splits.values())
    return f"Classes, shares of the rows with a label ({without:,} have none)" if without else "Classes"


def classes_table(report: Report) -> Table:
    splits = report.splits.values()
    labels = list(report.splits["train"].classes)
    rows = [
        TableRow((toned(Tone.NAME, label), *(part(s.classes.get(label, 0), s.labelled) for s in splits)))
        for label in labels[:SHOWN_CLASSES]
    ]
    if len(labels) > SHOWN_CLASSES:
        rows.append(TableRow((f"… {len(labels) - SHOWN_CLASSES} more", *[""] * len(splits))))
    shares = [strong(f"{split.majority[1]:.2%}") if split.majority else None for split in splits]
    rows.append(TableRow((strong("majority share"), *shares), apart=True))
    return Table(["label", *(TableColumn(name, right=True) for name in report.splits)], rows)


def part(count: int, whole: int) -> str:
    return f"{count:,} ({count / whole:.1%})" if whole else "–"


def answers_table(report: Report) -> Table:
    splits = report.splits.values()
    rows = [
        ("with an answer", *(part(s.rows - s.without_answer, s.rows) for s in splits)),
        ("without one", *(part(s.without_answer, s.rows) for s in splits)),
    ]
    return Table(["questions", *(TableColumn(name, right=True) for name in report.splits)], rows)


def pictures_table(report: Report) -> Table:
    """Pictures of each split: how large they are, and in which forms."""
    columns = ("split", "pictures", "size", "modes", "transparent", "animated", "duplicates")
    rows = [
        (
            *(toned(Tone.NAME, name), known.pictures, sizes(known)),
            ", ".join(f"{mode} {count:,}" for mode, count in known.modes.items()),
            *(known.transparent, known.animated, report.picture_duplicates[name]),
        )
        for name, known in report.pictures.items()
    ]
    return Table(
        [TableColumn(column, right=place in (1, 4, 5, 6)) for place, column in enumerate(columns)], rows
    )


def sizes(known: PictureSurvey) -> str:
    """From the smallest picture to the largest."""
    ends = dict.fromkeys(f"{width} × {height}" for width, height in (known.smallest, known.largest))
    return " to ".join(ends)


def waste_table(report: Report) -> Table:
    rows = [
        (toned(Tone.NAME, kind), None, muted(waste))
        if isinstance(waste, str)
        else (toned(Tone.NAME, kind), Number(waste, form="percent", decimals=1), Bar(waste, Tone.WARNING))
        for kind, waste in report.waste.items()
    ]
    return Table(("batching", "share of padding", ""), rows)


def sample_node(sample: SampleRow) -> Marked:
    """A row's first tokens, with its label or answer."""
    spans = token_spans(sample.tokens[:SHOWN_TOKENS], sample.special)
    if len(sample.tokens) > SHOWN_TOKENS:
        more = f" … {len(sample.tokens) - SHOWN_TOKENS} more tokens"
        spans.append(MarkedSpan(more, tone=Tone.MUTED))
    if sample.label is not None:
        spans.append(MarkedSpan(f"  → {sample.label}", tone=Tone.CHOSEN))
    if sample.answer is not None:
        nothing = "no answer here" if sample.windowed else "no answer"
        spans.append(MarkedSpan(f"  → {sample.answer or nothing}", tone=Tone.CHOSEN))
    if sample.windowed:
        window = f" (window {sample.window} of {sample.windows} of one question)"
        spans.append(MarkedSpan(window, tone=Tone.MUTED))
    return Marked(spans)
