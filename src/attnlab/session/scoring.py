"""Scores of anybody's written texts against their references, given as files or as lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.checks.outputs import Outputs
from attnlab.checks.recomputed_metrics import RecomputedMetrics, ScoredRows
from attnlab.checks.text_pairs import TextPairs
from attnlab.config.values import ConfigError
from attnlab.config.wording import count_of
from attnlab.data.corpora.readers import lines_of, read_text, reader_of, undecoded
from attnlab.data.corpora.records import Broken
from attnlab.data.errors import DataError
from attnlab.documents.nodes import DocumentPage, Inline, Node, Number, Sentence, Table, TableColumn
from attnlab.documents.notebook import SelfShowing
from attnlab.documents.numbers import beside, decimals, value_text
from attnlab.evaluation.evaluation_result import DefinedScore
from attnlab.evaluation.result_nodes import (
    confirmed_sentence,
    definitions,
    doubt_sentence,
    measure_title,
    score_number,
    scores_table,
)
from attnlab.evaluation.written_texts import GENERATED, REFERENCE, SOURCE, of_texts, text_metrics
from attnlab.metrics.measures import is_share, measure_of
from attnlab.metrics.metric import Estimate, Examples, difference_records
from attnlab.metrics.written import Bleu
from attnlab.runs.findings import BAD, Finding, failed_checks

Texts = str | Path | Sequence[str]
"""A file, with ":column" after its name where it is a table, or the texts themselves."""
NO_BLEU = "No reference has four words, so there is no BLEU: go by chrF and exact text."


@dataclass(frozen=True)
class BleuCounts:
    """What BLEU is made of: n-grams of 1 to 4 words that a reference has, of all that were written, and the
    words of both sides."""

    matches: tuple[int, ...]
    totals: tuple[int, ...]
    words: int
    reference_words: int
    brevity_penalty: float
    value: float

    @classmethod
    def of(cls, examples: Examples) -> BleuCounts:
        score = Bleu().score(Bleu().parts(examples).sum(0))
        counts, totals = (tuple(map(int, numbers)) for numbers in (score.counts, score.totals))
        words = int(score.sys_len), int(score.ref_len)
        return cls(counts, totals, *words, float(score.bp), float(score.score))

    @property
    def sentence(self) -> str:
        """The score as it can be followed by hand."""
        shares = " · ".join(
            f"{match}/{total}" for match, total in zip(self.matches, self.totals, strict=True)
        )
        smoothed = (
            "" if all(self.matches) else " An order without a match counts as half of one, then a quarter."
        )
        return (
            f"BLEU / 100 = BP · (p1 · p2 · p3 · p4)^¼ = {self.brevity_penalty:.4g} · ({shares})^¼ = "
            f"{self.value / 100:.4f}. {self.words:,} words were written, the references have "
            f"{self.reference_words:,}.{smoothed}"
        )


@dataclass(frozen=True, kw_only=True)
class SystemScores:
    """The texts of one file: their scores, and what the checks found."""

    name: str
    n: int
    scores: Mapping[str, DefinedScore]
    bleu: BleuCounts | None
    """None where no reference has four words: there is no BLEU then."""
    checks: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "n": self.n,
            "measures": {name: score.as_json() for name, score in self.scores.items()},
            "bleu": None if self.bleu is None else asdict(self.bleu),
            "checks": [finding.as_json() for finding in self.checks],
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class TextScores(SelfShowing):
    """Scores of one or more files of texts against the same references; of several, each minus the first."""

    systems: tuple[SystemScores, ...]
    differences: Mapping[str, Mapping[str, Estimate]]
    """By file and metric, paired by line."""

    @property
    def failed(self) -> list[str]:
        return failed_checks([finding for system in self.systems for finding in system.checks])

    def as_json(self) -> dict[str, Any]:
        differences = difference_records(self.differences, self.systems[0].name)
        systems = [system.as_json() for system in self.systems]
        return {"systems": systems, **({"differences": differences} if differences else {})}

    def __getitem__(self, name: str) -> Any:
        """A measure of the first file: `result["bleu"]`."""
        return self.systems[0].scores[name].value

    def document(self) -> DocumentPage:
        first = self.systems[0]
        name, score = next(iter(first.scores.items()))
        number = score_number(name, score)
        between = f" ({beside(number)[0]})" if number.low is not None else ""
        texts = f"{count_of(first.n, 'text')} of {first.name}"
        headline = f"{measure_title(name)} {value_text(number)}{between}, {texts}"
        return DocumentPage("scores", headline, list(self.nodes()))

    def nodes(self) -> Iterator[Node]:
        for system in self.systems:
            yield from (doubt_sentence(one) for one in system.checks if one.outcome in BAD)
            title = f"{system.name}: {count_of(system.n, 'text')}"
            yield scores_table(system.scores, title=title)
            yield Sentence(NO_BLEU if system.bleu is None else system.bleu.sentence)
            yield from (confirmed_sentence(one) for one in system.checks if one.outcome not in BAD)
        for name, estimates in self.differences.items():
            yield difference_table(name, self.systems[0].name, estimates)
        yield definitions(self.systems[0].scores)


def difference_table(name: str, baseline: str, estimates: Mapping[str, Estimate]) -> Table:
    """A row a metric: the difference, paired by line, and whether it could be chance."""
    rows: list[tuple[Inline, ...]] = []
    for metric, estimate in estimates.items():
        form: Any = "points" if is_share(metric) else "signed"
        number = replace(Number.within(estimate.value, estimate.interval), form=form)
        clear = estimate.interval is not None and not estimate.low <= 0 <= estimate.high
        shown = replace(number, low=None, high=None, decimals=decimals([number]))
        rows.append((measure_title(metric), shown, " ".join(beside(number)), "yes" if clear else "no"))
    columns = (
        TableColumn("measure", whole=True),
        TableColumn("difference", alike=False, whole=True),
        TableColumn("95% interval", right=True),
        "beyond chance",
    )
    note = "Paired by line: what both find hard does not widen the interval, which is over texts like these."
    return Table(columns, rows, title=f"{name} − {baseline}", note=note)


def score_texts(
    hypotheses: Mapping[str, Texts],
    references: Sequence[Texts],
    *,
    sources: Texts | None = None,
    encoding: str = "utf-8",
) -> TextScores:
    """Scores of texts, by the name of whoever wrote them, against one or several references for each."""
    if not hypotheses or not references:
        raise ConfigError("Texts and references are needed; give --hypotheses FILE --references FILE.")
    wanted = [texts_of(given, REFERENCE, encoding) for given in references]
    several = len(wanted) > 1
    named = {f"references{f' {n}' * several}": texts for n, texts in enumerate(wanted, start=1)}
    named |= {} if sources is None else {"sources": texts_of(sources, SOURCE, encoding)}
    written = {name: texts_of(given, GENERATED, encoding) for name, given in hypotheses.items()}
    for name, texts in written.items():
        refuse_unequal(name, texts, named)
    right = of_texts([*zip(*wanted, strict=True)] if several else wanted[0])
    shared = {REFERENCE: right} | ({SOURCE: of_texts(named["sources"])} if sources is not None else {})
    columns = {name: Examples({GENERATED: of_texts(texts), **shared}) for name, texts in written.items()}
    systems = tuple(system_scores(name, examples) for name, examples in columns.items())
    return TextScores(systems=systems, differences=differences_from_first(columns))


def differences_from_first(columns: Mapping[str, Examples]) -> dict[str, dict[str, Estimate]]:
    """By name and metric: the texts of each minus those of the first, paired by example."""
    (_, first), *others = columns.items()
    metrics = text_metrics(first)
    return {
        name: {metric: built.difference(examples, first) for metric, built in metrics.items()}
        for name, examples in others
    }


def system_scores(name: str, examples: Examples) -> SystemScores:
    """Every score of one file's texts, confirmed by its second route, and what checks say of them."""
    scores = {}
    for metric, built in text_metrics(examples).items():
        estimate = built.interval(examples)
        definition = measure_of(metric).definition
        scores[metric] = DefinedScore(
            estimate.value, definition, estimate.interval, built.signature(examples)
        )
    recomputed = RecomputedMetrics().judge(
        "evaluation",
        ScoredRows(
            reported={metric: score.value for metric, score in scores.items()},
            columns=examples.columns,
            intervals={metric: score.interval for metric, score in scores.items()},
        ),
    )
    checks = (TextPairs().judge("evaluation", examples, files=True), Outputs().judge("evaluation", examples))
    counts = BleuCounts.of(examples) if "bleu" in scores else None
    return SystemScores(name=name, n=len(examples), scores=scores, bleu=counts, checks=(*checks, recomputed))


# ---------------------------------------------------------------- files
def texts_of(given: Texts, column: str, encoding: str) -> list[str]:
    """The texts of a file, a line or a row each, or those that are given."""
    if isinstance(given, str | Path):
        return file_texts(str(given), column, encoding)
    if not given:
        raise ConfigError(f"There are no texts in the list of {column} texts; give one for each example.")
    for number, text in enumerate(given, start=1):
        if not isinstance(text, str):
            raise ConfigError(
                f"Text {number} is a {type(text).__name__}, not text; give a list of strings, or of several "
                "references a list for each."
            )
    return list(given)


def file_texts(name: str, column: str, encoding: str) -> list[str]:
    """The lines of a text file, or a column of a table (.tsv, .csv, .jsonl): named after a colon, as in
    dev.tsv:target, or of this usual name."""
    path, _, own = name.rpartition(":")
    file = Path(name) if Path(name).is_file() or not path else Path(path)
    own = own if str(file) != name else ""
    if not file.is_file():
        raise DataError(f"There is no file {file}; give a text file, or a table and column, FILE:COLUMN.")
    is_table = reader_of(file) is not read_text
    texts = column_of(file, own or column, encoding) if is_table else lines_in(file, encoding)
    if not texts:
        raise DataError(f"{file} is empty; it needs a line for each example.")
    return texts


def lines_in(file: Path, encoding: str) -> list[str]:
    """All lines, empty ones too: each is an example."""
    lines = []
    for number, line in enumerate(lines_of(file, encoding), start=1):
        if reason := undecoded(line, encoding):
            raise DataError(f"{file} line {number}: {reason}.")
        lines.append(line.rstrip("\r\n"))
    return lines


def column_of(file: Path, column: str, encoding: str) -> list[str]:
    texts = []
    for record in reader_of(file)(file, encoding, "line"):
        if isinstance(record, Broken):
            raise DataError(f"{record.place}: {record.reason}.")
        if column not in record.values:
            names = list(record.values)
            raise DataError(
                f'{file} has no column "{column}", only {", ".join(names)}; name it, as in '
                f"{file.name}:{names[-1]}."
            )
        value = record.values[column]
        texts.append("" if value is None else str(value))
    return texts


def refuse_unequal(name: str, texts: Sequence[str], others: Mapping[str, Sequence[str]]) -> None:
    """Line by line the same examples: as many lines on each side."""
    for other, lines in others.items():
        if len(lines) != len(texts):
            raise DataError(
                f"{name} has {count_of(len(texts), 'line')} and the {other} {len(lines):,}: each line is "
                "scored against the same line of the other. Write a line for every example, empty ones too."
            )
