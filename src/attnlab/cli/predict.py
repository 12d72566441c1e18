"""`attnlab predict`: labels of new texts, of a few or of a file."""

from __future__ import annotations

import csv
import json as json_module
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

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
from attnlab.cli.corpus_options import (
    EncodingOption,
    PairOption,
    SeparatorOption,
    SkipOption,
    TextOption,
)
from attnlab.cli.generate import characters_sentence
from attnlab.cli.translate import CutOption, unended_sentence
from attnlab.config.values import ConfigError, coerce
from attnlab.config.visible_text import as_cell, visible_json
from attnlab.config.wording import count_of
from attnlab.documents.nodes import (
    Bar,
    Marked,
    MarkedSpan,
    Node,
    Number,
    Sentence,
    Table,
    Tone,
    strong,
    toned,
)
from attnlab.runs.display import Display

if TYPE_CHECKING:
    from attnlab.session.predicting import FilePredictions, Predictor
    from attnlab.session.trained import Trained
    from attnlab.session.translating import LineTranslations, Translator
    from attnlab.tasks.task import Prediction, TextSpan

FORMATS = (".csv", ".tsv", ".jsonl")
LINES = (".txt",)
"""Where a text goes for each line of a file."""


def predict(
    run: RunArgument,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts to classify; for a model of pairs: first => second."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="A file of texts to classify (.csv, .tsv, .jsonl, .parquet, .txt).")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Where predictions go: .csv, .tsv, .jsonl; of a translator also .txt, a line for a line.",
        ),
    ] = None,
    text: TextOption = "",
    pair: PairOption = "",
    scores: Annotated[bool, typer.Option("--scores", help="Add the probability of every class.")] = False,
    beam: Annotated[int, typer.Option(help="Beam width of a translator; 1: greedy.", min=1, max=MOST)] = 4,
    penalty: Annotated[float, typer.Option(help="Length penalty of a translator's beam.")] = 1.0,
    cut: CutOption = "refuse",
    batch_size: Annotated[int, typer.Option(help="Batch size.", min=1, max=65_536)] = 64,
    encoding: EncodingOption = "",
    separator: SeparatorOption = "",
    skip_bad: SkipOption = False,
    allow: AllowOption = None,
    json: JsonOption = False,
) -> None:
    """Predict the labels of new texts, or translate a file. Exits 1 where the run failed a check."""
    if bool(texts) == (data is not None):
        raise ConfigError("Give texts, or a file of them with --data FILE --out FILE; one of the two.")
    folder = data is not None and data.is_dir()
    if (data is None) != (to is None) and not folder:
        raise ConfigError("--data FILE and --out FILE go together: predictions of a file go to a file.")
    if to is not None:
        refuse_target(to)
    from attnlab.data.corpora.separators import Separator
    from attnlab.data.encode.encoding import Cut
    from attnlab.session.predicting import FilePredictions, Predictor, predict_each, predict_pictures
    from attnlab.session.trained import Trained
    from attnlab.session.translating import LineTranslations, Translator

    trained = Trained.at(run)
    if to is not None and to.suffix in LINES and not trained.translates:
        raise ConfigError(f"--out {to}: labels go to a table; use {', '.join(FORMATS)}.")
    side: Cut = coerce(cut, Cut, "--cut")
    if side != "refuse" and not trained.translates:
        raise ConfigError(
            f"--cut {cut} is for models that translate; this one shortens texts as it was trained, by "
            f"data.encoding {trained.config.data.encoding}."
        )
    predictor: Predictor | Translator = (
        Translator(trained, beam=beam, penalty=penalty, cut=side)
        if trained.translates
        else Predictor(trained, batch_size=batch_size)
    )
    if data is not None and to is not None and to.suffix in LINES and isinstance(predictor, Translator):
        lines = LineTranslations(predictor, data, encoding=encoding or "utf-8", skip_bad=skip_bad)
        summary = lines_to_file(lines, to, quiet=json)
        emit(summary) if json else report(summary, trained)
    elif data is not None and to is not None:
        options = {"text": text, "pair": pair, "encoding": encoding, "skip_bad": skip_bad}
        if separator:
            options["separator"] = coerce(separator, Separator, "--separator")
        given: dict[str, Any] = {name: value for name, value in options.items() if value}
        summary = to_file(FilePredictions(predictor, data, **given), to, scores=scores, quiet=json)
        emit(summary) if json else report(summary, trained)
    elif data is not None:
        rows = FilePredictions(predictor, data, skip_bad=skip_bad)
        shown_rows(list(rows), trained, skipped=rows.skipped, json=json)
    else:
        in_pairs = predictor.pairs or (predictor.pictured and predictor.reads_text)
        inputs = [in_two(written) if in_pairs else written for written in texts or ()]
        if predictor.pictured:
            predictions = predict_pictures(inputs, predictor)
        else:
            predictions = predict_each(inputs, predictor, pairs=predictor.pairs)
        show(texts or [], predictions, trained, predictor, json=json)
    exit_unsound(trained.unsound, allow)


def refuse_target(to: Path) -> None:
    if to.suffix not in (*FORMATS, *LINES):
        known = ", ".join((*FORMATS, *LINES))
        raise ConfigError(f"--out {to} has an unknown format; use {known}.")
    if to.exists():
        raise ConfigError(f"{to} is there already; give another --out, or remove it.")
    if not to.parent.is_dir():
        raise ConfigError(f"There is no folder {to.parent} for --out {to}; make it, or give another.")


def in_two(text: str) -> tuple[str, str]:
    first, arrow, second = text.partition("=>")
    if not arrow:
        raise ConfigError(f'This model reads pairs of texts; write "first => second", not "{text}".')
    return first.strip(), second.strip()


def show(
    texts: list[str],
    predictions: list[Prediction],
    trained: Trained,
    predictor: Predictor | Translator,
    *,
    json: bool,
) -> None:
    if json:
        emit(
            [
                {"text": text, **asdict(prediction)}
                for text, prediction in zip(texts, predictions, strict=True)
            ]
        )
        return
    for text, prediction in zip(texts, predictions, strict=True):
        out.show(prediction_node(text, prediction))
    if predictor.cuts.cut:
        out.show(Sentence(toned(Tone.WARNING, f"{predictor.cuts}.")))
    if trained.unsound:
        out.say(invalid_sentence(trained.unsound))


def shown_rows(
    rows: Sequence[tuple[Mapping[str, Any], Prediction]], trained: Trained, *, skipped: int, json: bool
) -> None:
    """The pictures of a folder with what is predicted of each."""
    if json:
        return emit([{**row, **asdict(prediction)} for row, prediction in rows])
    cells = [
        (
            str(row.get("image", row.get("file_name", ""))),
            *(str(value) if isinstance(value, str) else value for value in prediction.columns.values()),
        )
        for row, prediction in rows
    ]
    out.show(Table(["picture", *(rows[0][1].columns if rows else ())], cells))
    if skipped:
        out.say(f"{skipped:,} broken pictures were left out.")
    if trained.unsound:
        out.say(invalid_sentence(trained.unsound))
    return None


def report(summary: dict[str, Any], trained: Trained) -> None:
    skipped = f"; {summary['skipped']:,} broken left out" if summary["skipped"] else ""
    out.say(f"Predictions of {count_of(summary['rows'], 'row')} are in {summary['out']}{skipped}.")
    warnings = [f"{summary['cut']}." if summary["cut"] else ""]
    warnings += [unended_sentence(summary.get("unended", 0)), characters_sentence(summary.get("unseen", ()))]
    for warning in filter(None, warnings):
        out.show(Sentence(toned(Tone.WARNING, warning)))
    if trained.unsound:
        out.say(invalid_sentence(trained.unsound))


@contextmanager
def whole_file(to: Path) -> Iterator[TextIO]:
    """Written beside the place of the result, which is there only when it is whole."""
    beside = to.with_name(f".{to.name}.part")
    try:
        with beside.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            yield stream
        os.replace(beside, to)
    finally:
        beside.unlink(missing_ok=True)


def lines_to_file(lines: LineTranslations, to: Path, *, quiet: bool) -> dict[str, Any]:
    """Write a line for each line."""
    rows = 0
    with whole_file(to) as stream, counted(quiet) as tell:
        for line in lines:
            stream.write(f"{line}\n")
            rows += 1
            tell(rows)
    return {"out": str(to), "rows": rows, "skipped": lines.skipped, **facts_of(lines.translator)}


def to_file(predictions: FilePredictions, to: Path, *, scores: bool, quiet: bool) -> dict[str, Any]:
    """Write row by row."""
    rows = 0
    with whole_file(to) as stream, counted(quiet) as tell:
        write = writer(stream, to.suffix)
        for row, prediction in predictions:
            write(with_prediction(row, prediction, scores=scores))
            rows += 1
            tell(rows)
    return {
        "out": str(to),
        "rows": rows,
        "skipped": predictions.skipped,
        **facts_of(predictions.predictor),
    }


def facts_of(predictor: Predictor | Translator) -> dict[str, Any]:
    """What a person has to know of the texts that were read, and of those that were written."""
    from attnlab.session.translating import Translator

    cut = {"cut": str(predictor.cuts) if predictor.cuts.cut else ""}
    if not isinstance(predictor, Translator):
        return cut
    return cut | {"unended": predictor.unended, "unseen": list(predictor.unseen)}


def with_prediction(row: Mapping[str, Any], prediction: Prediction, *, scores: bool) -> dict[str, Any]:
    """A row with what is predicted of it."""
    columns = prediction.columns
    taken = [name for name in columns if name in row]
    if taken:
        raise ConfigError(
            f"The file has a column {taken[0]} already, which predictions are to be written to; rename it."
        )
    return {
        **row,
        **columns,
        **({f"p({n})": value for n, value in prediction.scores.items()} if scores else {}),
    }


def writer(stream: TextIO, suffix: str) -> Any:
    """What writes one row in a format; the first decides the columns of a table."""
    if suffix == ".jsonl":
        return lambda row: stream.write(
            visible_json(json_module.dumps(row, ensure_ascii=False, default=str)) + "\n"
        )
    tables: list[csv.DictWriter[str]] = []

    def write(row: dict[str, Any]) -> None:
        if not tables:
            tables.append(csv.DictWriter(stream, list(row), delimiter="\t" if suffix == ".tsv" else ","))
            tables[0].writerow({name: as_cell(name) for name in row})
        if new := row.keys() - set(tables[0].fieldnames):
            raise ConfigError(
                f'A row has a column "{min(new)}", which the first has not, and a table has the same columns '
                "in all rows; let --out end in .jsonl."
            )
        tables[0].writerow({name: as_cell(in_a_cell(value)) for name, value in row.items()})

    return write


def in_a_cell(value: Any) -> Any:
    """Several words with commas between them; any other list or mapping as JSON."""
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, (list, tuple, dict)):
        return json_module.dumps(value, ensure_ascii=False, default=str)
    return value


@contextmanager
def counted(quiet: bool) -> Iterator[Any]:
    """A count of rows on stderr."""
    with Display(err, shown=not quiet) as display:
        display.work("Predicting")
        yield lambda rows: display.update(f"Predicting: {rows:,} rows") if rows % 256 == 0 else None


# ---------------------------------------------------------------- in a terminal
def prediction_node(text: str, prediction: Prediction) -> Node:
    """One text with what is predicted of it: its parts marked, or its classes; or why nothing is."""
    if prediction.unread:
        return Sentence((strong(text or "“”"), toned(Tone.WARNING, f"  no prediction: {prediction.unread}")))
    if prediction.spans is None:
        return prediction_table(text, prediction)
    return marked_text(text, prediction.spans)


def marked_text(text: str, spans: Sequence[TextSpan]) -> Marked:
    """A text with its labelled parts."""
    shown, at = list[MarkedSpan](), 0
    for span in spans:
        shown += [MarkedSpan(text[at : span.start]), MarkedSpan(span.text, span.label)]
        at = span.end
    return Marked([*shown, MarkedSpan(text[at:])])


def prediction_table(text: str, prediction: Prediction, top: int = 5) -> Table:
    """One text with its prediction, and the classes that are most probable."""
    from attnlab.evaluation.result_nodes import label_text

    if not prediction.scores:
        columns = {name: value for name, value in prediction.columns.items() if value is not None}
        cells = [value if isinstance(value, int) else label_text(value) for value in columns.values()]
        return Table(list(columns), [cells], title=text)
    chosen = (prediction.answer,) if isinstance(prediction.answer, str) else prediction.answer
    ranked = sorted(prediction.scores.items(), key=lambda item: -item[1])[:top]
    rows = [
        (
            toned(Tone.CHOSEN, name) if name in chosen else name,  # type: ignore[operator]
            Number(share, decimals=3),
            Bar(share),
        )
        for name, share in ranked
    ]
    return Table(("class", "probability", ""), rows, title=text)
