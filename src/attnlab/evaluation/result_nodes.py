"""What an evaluation found, as a document's nodes: the same for a terminal, a page and a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnlab.checks.wording.of_scores import honest_meaning
from attnlab.config.wording import range_of
from attnlab.data.encode.encoding import MUCH
from attnlab.documents.nodes import (
    Axis,
    Bar,
    Definitions,
    Figure,
    Grid,
    Inline,
    Line,
    Lines,
    Node,
    Number,
    Sentence,
    Table,
    TableColumn,
    Tone,
    muted,
    toned,
)
from attnlab.documents.numbers import beside, decimals, value_text
from attnlab.documents.palette import Ink
from attnlab.metrics.classes import ClassScores
from attnlab.metrics.measures import form_of, signed, title_of
from attnlab.metrics.metric import Estimate
from attnlab.runs.findings import BAD, Finding, Outcome, mark
from attnlab.targets.report import (
    AnswersReport,
    Baseline,
    Confusion,
    Mistake,
    ReliabilityBin,
    TargetReport,
    ThresholdUse,
    WrongAnswer,
    baselines_sentence,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attnlab.evaluation.by_length import LengthScores
    from attnlab.evaluation.evaluation_result import (
        DefinedScore,
        EvaluationResult,
        ProbeScore,
        PseudoPerplexity,
    )
    from attnlab.evaluation.honesty import HonestLoss
    from attnlab.evaluation.retrieval import RankingResult

WIDE = 12
"""Classes of which a confusion matrix still fits a terminal."""
DIAGONAL = Ink("var(--muted)", "var(--muted)", "dash")
FEW = 10
"""Predictions below which a point of the reliability curve says little."""


def score_nodes(result: EvaluationResult) -> Iterator[Node]:
    """What a text or a split came to, and what stands with it."""
    yield from (doubt_sentence(one) for one in result.confirmations if one.outcome in BAD)
    if result.scores:
        yield scores_table(result.scores, title=result.name)
    if result.cuts is not None:
        yield truncation_sentence(result.cuts)
    if result.recomputed is not None:
        yield recomputed_sentence(result.recomputed)
    yield from (confirmed_sentence(one) for one in result.confirmations if one.outcome not in BAD)
    if result.retrieval is not None:
        yield from retrieval_nodes(result.retrieval, result.name)
    if result.target is not None:
        yield from target_nodes(result.target, result.baselines)
    elif result.baselines:
        yield Sentence(baselines_sentence(result.baselines))
    if result.by_length:
        yield length_table(result.by_length)
        yield length_figure(result.by_length)
    if result.honesty is not None:
        yield from honesty_sentences(result.honesty)
    if result.pseudo is not None:
        yield pseudo_sentence(result.pseudo)
    if result.scores:
        yield definitions(result.scores)


def scores_table(scores: Mapping[str, DefinedScore], *, title: str = "") -> Table:
    """A row a score, with its interval over texts; what each means stands apart."""
    numbers = {name: score_number(name, score) for name, score in scores.items()}
    several = any(score.interval is not None for score in scores.values())
    rows: list[tuple[Inline, ...]] = [
        (measure_title(name), replace(number, low=None, high=None, decimals=decimals([number])))
        + ((" ".join(beside(number)),) if several else ())
        for name, number in numbers.items()
    ]
    columns = [TableColumn("measure", whole=True), TableColumn("value", alike=False, whole=True)]
    return Table(
        [*columns, *([TableColumn("95% interval", right=True)] if several else [])], rows, title=title
    )


def measure_title(name: str) -> str:
    """What a measure is called here, where any split may be scored."""
    return title_of(name).removeprefix("dev ")


def score_number(name: str, score: DefinedScore) -> Number:
    number = Number.within(score.value, score.interval)
    return number if number.form == "count" else replace(number, form=form_of(name))


def estimate_number(name: str, estimate: Estimate) -> Number:
    """A metric with its interval, as its kind is written."""
    return replace(Number.within(estimate.value, estimate.interval), form=form_of(name))


def definitions(scores: Mapping[str, DefinedScore]) -> Definitions:
    items = [
        (measure_title(name), signed(score.definition, score.signature)) for name, score in scores.items()
    ]
    return Definitions(items, title="What the measures are")


def headline_of(result: EvaluationResult) -> str:
    """The measure that decides, with its interval, and what it was measured on."""
    if not result.scores:
        return result.name or "Probe sentences"
    name, score = next(iter(result.scores.items()))
    number = score_number(name, score)
    between = f" ({beside(number)[0]})" if score.interval is not None else ""
    measure = measure_title(name)
    return f"{measure[:1].upper()}{measure[1:]} {value_text(number)}{between} on {result.name}"


def truncation_sentence(cut: Mapping[str, float]) -> Sentence:
    """What of the texts was not scored, as a warning where it is much."""
    tone = Tone.WARNING if cut["tokens_cut_share"] > MUCH else Tone.MUTED
    text = (
        f"Cut off and not scored: {cut['tokens_cut']:,} of {cut['tokens']:,} tokens "
        f"({cut['tokens_cut_share']:.1%}), in {cut['texts_cut']:,} of {cut['texts']:,} texts "
        f"({cut['texts_cut_share']:.1%})."
    )
    return Sentence(toned(tone, text))


def recomputed_sentence(finding: Finding) -> Sentence:
    if finding.outcome is Outcome.PASS:
        return Sentence(f"Recomputed without the run's own code: {finding.found}.")
    return Sentence((toned(Tone.WRONG, f"Recomputed: {finding.found}."), f" {finding.meaning} {finding.fix}"))


def doubt_sentence(finding: Finding) -> Sentence:
    """What stands before numbers that are not confirmed, or are not of the rows that they seem to be of."""
    tone = Tone.WRONG if finding.outcome is Outcome.FAIL else Tone.WARNING
    return Sentence((toned(tone, as_sentence(finding.found)), f" {finding.meaning} {finding.fix}"))


def confirmed_sentence(finding: Finding) -> Sentence:
    return Sentence(toned(Tone.MUTED, as_sentence(finding.found)))


def as_sentence(found: str) -> str:
    return f"{found[:1].upper()}{found[1:]}."


def honesty_sentences(honest: HonestLoss) -> Iterator[Sentence]:
    difference = Number.within(honest.difference, honest.interval, decimals=4)
    yield Sentence(
        (
            f"Token-by-token loss ({honest.parallel.tokens:,} targets of {honest.texts} texts, later tokens "
            "removed): ",
            Number(honest.token_by_token.loss, decimals=4),
            "; parallel loss of the same targets: ",
            Number(honest.parallel.loss, decimals=4),
            "; difference and its 95% interval: ",
            difference,
            ".",
        )
    )
    yield Sentence(toned(Tone.GOOD if honest.sound else Tone.WRONG, f"{honest_meaning(honest.values)}."))


def pseudo_sentence(pseudo: PseudoPerplexity) -> Sentence:
    return Sentence(
        (
            f"Pseudo-perplexity (each token masked alone, {pseudo.rows} rows; 95% interval): ",
            Number.within(pseudo.perplexity, pseudo.interval),
            ". It is not a perplexity: a masked model gives a text no probability.",
        )
    )


def length_table(buckets: Sequence[LengthScores]) -> Table:
    """Scores of written texts by the length of their sources."""
    names = list(buckets[0].scores)
    rows: list[tuple[Inline, ...]] = [
        (
            range_of(one.least, one.most),
            one.n,
            *(estimate_number(name, score) for name, score in one.scores.items()),
        )
        for one in buckets
    ]
    heads = [TableColumn(measure_title(name), right=True) for name in names]
    first = TableColumn(f"{buckets[0].unit} of the source", whole=True)
    title = "Written texts by the length of their source"
    return Table([first, TableColumn("texts", right=True), *heads], rows, title=title)


def length_figure(buckets: Sequence[LengthScores]) -> Figure:
    """The first score, BLEU where there is one, by length, with its interval over texts."""
    name = next(iter(buckets[0].scores))
    scores, title = [one.scores[name] for one in buckets], measure_title(name)
    low, high = ([getattr(score, end) for score in scores] for end in ("low", "high"))
    hover = [f"{range_of(one.least, one.most)} {one.unit}, {one.n:,} texts" for one in buckets]
    line = Line(title, [one.mean for one in buckets], [s.value for s in scores], low, high, hover=hover)
    chart = Lines([line], Axis(f"{buckets[0].unit} of the source"), Axis(title, from_zero=True))
    note = "A point is a bucket of sources at its mean length; the band is the 95% interval over texts."
    return Figure.of(f"{title} by the length of the source", chart, note)


def probes_table(probes: Sequence[ProbeScore]) -> Table:
    rows = [
        (
            probe.text,
            Number(probe.loss, decimals=3),
            Number(probe.perplexity, decimals=1),
            probe.tokens,
            probe.unknown,
        )
        for probe in probes
    ]
    columns = ("sentence", "loss", probes[0].kind, "tokens", "unknown")
    return Table(columns, rows, title="Probe sentences")


def retrieval_nodes(ranking: RankingResult, name: str) -> Iterator[Node]:
    rows: list[tuple[Inline, ...]] = []
    by_words = all(score.bm25 is not None for score in ranking.measures.values())
    for measure, score in ranking.measures.items():
        sides = [side for side in (score.model, score.bm25, score.difference) if side is not None]
        chance = () if by_words else (Number(score.chance, decimals=3),)
        numbers = (Number.within(side.value, side.interval, decimals=3) for side in sides)
        rows.append((measure, *numbers, *chance))
    title = f"{name}: {ranking.queries:,} queries, {ranking.passages:,} passages"
    others = ("BM25", "model − BM25") if by_words else ("chance",)
    yield Table((TableColumn("measure", whole=True), "model", *others), rows, title=title)
    for measure, score in ranking.measures.items():
        yield Sentence(f"{measure}: {score.definition}.", "fine")
    compared = (
        "BM25 ranks by shared words and needs no model."
        if by_words
        else "Queries are pictures, and passages their texts; chance is a rank drawn blindly."
    )
    yield Sentence(
        f"{compared} Below each value is its 95% interval over queries, those of one passage taken together.",
        "fine",
    )
    yield from finding_sentences(ranking.checks)


# ---------------------------------------------------------------- labels
def target_nodes(report: TargetReport, baselines: Sequence[Baseline]) -> Iterator[Node]:
    """What is reported of labels or answers."""
    if report.answers is not None:
        yield from answer_nodes(report.answers, baselines)
    if report.majority is not None:
        most = report.majority
        yield Sentence(f"Always predicting “{most.label}” is right in {most.share:.1%}.")
    if baselines and report.answers is None:
        yield Sentence(baselines_sentence(baselines))
    if report.classes is not None:
        yield classes_table(report.classes)
    if report.confusion is not None:
        yield confusion_node(report.confusion)
    if report.reliability:
        yield reliability_figure(report.reliability)
    if report.mistakes:
        yield mistakes_table(report.mistakes)
    yield from finding_sentences(report.checks or ())


def finding_sentences(findings: Iterable[Finding]) -> Iterator[Sentence]:
    """What checks found of the examples, a line each."""
    for finding in findings:
        if finding.outcome is not Outcome.NOT_APPLICABLE:
            line = f" {finding.check}: {finding.found}. {finding.meaning} {finding.fix}".rstrip()
            yield Sentence((mark(finding.outcome), line))


def classes_table(classes: Sequence[ClassScores]) -> Table:
    rows: list[tuple[Inline, ...]] = [
        (
            *(scores.name, scores.examples, scores.predicted),
            *(Number(share, decimals=3) for share in (scores.precision, scores.recall, scores.f1)),
        )
        for scores in classes
    ]
    return Table(("class", "examples", "predicted", "precision", "recall", "F1"), rows, title="Classes")


def confusion_node(confusion: Confusion) -> Node:
    """Rows are what was right, columns what was said; of many classes the most frequent mistakes."""
    names, counts = confusion.names, confusion.counts
    if len(names) > WIDE:
        pairs = [(counts[a][b], a, b) for a in range(len(names)) for b in range(len(names)) if a != b]
        often = sorted(pairs, reverse=True)[:WIDE]
        listed = [(names[right], names[guess], count) for count, right, guess in often if count]
        return Table(("right", "predicted", "times"), listed, title="Most frequent confusions")
    numbered = [f"{number} {name}" for number, name in enumerate(names)]
    values = [[float(count) for count in row] for row in counts]
    note = "A row is the right class, a column the predicted one."
    return Grid(numbered, numbered, values, title="Confusion", note=note, written=True)


def reliability_figure(bins: Sequence[ReliabilityBin]) -> Figure:
    """Accuracy by confidence: on the diagonal, a prediction is right as often as its confidence says."""
    at, right = [one.confidence for one in bins], [one.accuracy for one in bins]
    hover = [
        f"{one.n:,} predictions of confidence {one.confidence:.2f}: {one.accuracy:.1%} right" for one in bins
    ]
    curves = [
        Line("this model", at, right, hover=hover),
        Line("calibrated", [0.0, 1.0], [0.0, 1.0], ink=DIAGONAL),
    ]
    chart = Lines(curves, Axis("confidence", span=(0, 1)), Axis("share that is right", span=(0, 1)))
    few = sum(one.n < FEW for one in bins)
    note = "Below the diagonal the model is surer than it is right."
    note += f" {few} of {len(bins)} points rest on fewer than {FEW} predictions." if few else ""
    return Figure.of("Reliability", chart, note)


def mistakes_table(mistakes: Sequence[Mistake]) -> Table:
    rows = [
        (
            label_text(mistake.label),
            label_text(mistake.prediction),
            Number(mistake.confidence, decimals=3),
            mistake.text,
        )
        for mistake in mistakes
    ]
    title = "Largest errors" if mistakes[0].confidence is None else "Most confidently wrong"
    return Table(("label", "prediction", "confidence", "text"), rows, title=title)


def label_text(value: Any) -> str:
    """A class, several, or a number."""
    if isinstance(value, float):
        return f"{value:,.4g}"
    return (value if isinstance(value, str) else ", ".join(value)) or "none"


# ---------------------------------------------------------------- answers to questions
def answer_nodes(answers: AnswersReport, baselines: Sequence[Baseline]) -> Iterator[Node]:
    if baselines:
        yield Sentence(baselines_sentence(baselines))
    yield Sentence(
        f"{answers.answered:,} of {answers.n:,} questions answered, {answers.answerable:,} have an answer."
    )
    yield threshold_table(answers)
    yield Sentence(threshold_sentence(answers.threshold))
    if answers.wrong:
        yield wrong_table(answers.wrong)


def threshold_table(answers: AnswersReport) -> Table:
    """F1 by threshold; those that were used are marked."""
    rows: list[tuple[Inline, ...]] = [
        (
            Number(point.threshold, form="signed", decimals=2),
            Number(point.answered / answers.n, form="percent", decimals=0),
            Number(point.f1, decimals=4),
            Number(point.exact, decimals=4),
            (Bar(point.f1), " ← used" if point.used else ""),
        )
        for point in answers.curve
    ]
    title = "F1 by threshold τ (an answer is given above it)"
    return Table(("τ", "answered", "F1", "exact match", ""), rows, title=title)


def threshold_sentence(used: ThresholdUse) -> str:
    """Where the threshold comes from, and what tuning it on these questions would have pretended."""
    if not used.folds:
        source = f"τ = {used.least:+.3f}, as kept with the model or set"
    else:
        source = (
            f"τ from {used.least:+.3f} to {used.most:+.3f}, cross-fitted: for each of {used.folds} "
            "folds of the passages the best one of the others"
        )
    gain = used.pretended_f1 - used.f1
    return (
        f"{source}: F1 {used.f1:.4f}. Tuned on these same questions, τ = {used.tuned_here:+.3f} would "
        f"have pretended {used.pretended_f1:.4f} ({gain:+.4f})."
    )


def wrong_table(wrong: Sequence[WrongAnswer]) -> Table:
    rows = [
        (
            Number(mistake.margin, form="signed", decimals=2),
            mistake.question,
            mistake.answer or muted("none"),
            mistake.gold or muted("none"),
        )
        for mistake in wrong
    ]
    shares = {"margin": None, "question": 2, "answer": 1, "right": 1}
    columns = [TableColumn(name, share=share) for name, share in shares.items()]
    return Table(columns, rows, title="Wrong by the largest margin")
