"""What an evaluation found: scores with their intervals and definitions, and what stands with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from attnlab.documents.nodes import DocumentPage, Notice
from attnlab.documents.notebook import SelfShowing
from attnlab.evaluation.by_length import LengthScores
from attnlab.evaluation.honesty import HonestLoss
from attnlab.evaluation.result_nodes import headline_of, probes_table, score_nodes
from attnlab.evaluation.retrieval import RankingResult
from attnlab.runs.findings import Finding, collapse_sentence, failed_checks, shortfall_sentence
from attnlab.targets.report import Baseline, TargetReport, baselines_sentence

OF_WORDS = {"unigram", "bigram", "most frequent token", "bag of words"}
"""Baselines that words give, not labels."""


@dataclass(frozen=True)
class DefinedScore:
    """A number with what it means, its 95% interval over texts where it has one, and how it was computed
    where another package defines it."""

    value: float
    definition: str
    interval: tuple[float, float] | None = None
    signature: str = ""

    def as_json(self) -> dict[str, Any]:
        between = {} if self.interval is None else {"interval": list(self.interval)}
        signed = {"signature": self.signature} if self.signature else {}
        return {"value": self.value, "definition": self.definition, **between, **signed}


@dataclass(frozen=True)
class PseudoPerplexity:
    """Of a masked model: each token of some rows masked alone."""

    loss: float
    perplexity: float
    interval: tuple[float, float] | None
    rows: int


@dataclass(frozen=True)
class ProbeScore:
    """A sentence scored by itself; `kind` is perplexity or pseudo-perplexity."""

    text: str
    loss: float
    perplexity: float
    kind: str
    tokens: int
    unknown: int


@dataclass(frozen=True, kw_only=True, repr=False)
class EvaluationResult(SelfShowing):
    """Scores of a split or of a file's texts, and of probe sentences. `result["measures"]` and the other keys
    of `attnlab evaluate --json` can be asked for by name."""

    name: str = ""
    scores: Mapping[str, DefinedScore] = field(default_factory=dict)
    fingerprint: str = ""
    cuts: Mapping[str, float] | None = None
    recomputed: Finding | None = None
    """The same loss by another route."""
    confirmations: tuple[Finding, ...] = ()
    """What else was found of these numbers: the same metrics by another route, and which rows they are of."""
    retrieval: RankingResult | None = None
    target: TargetReport | None = None
    learned: Finding | None = None
    """Whether a model is better than counts of words of its training text, or than a bag of them."""
    baselines: tuple[Baseline, ...] = ()
    honesty: HonestLoss | None = None
    pseudo: PseudoPerplexity | None = None
    probes: tuple[ProbeScore, ...] = ()
    by_length: tuple[LengthScores, ...] = ()
    """Of written texts, by the length of their sources."""

    @property
    def failed(self) -> list[str]:
        """The checks that do not confirm these numbers."""
        found = [*(() if self.recomputed is None else [self.recomputed]), *self.confirmations]
        return failed_checks(found)

    @property
    def collapse(self) -> str:
        """That predictions came to what the most frequent label gives; nothing where they did not."""
        checks = None if self.target is None else self.target.checks
        return collapse_sentence(checks) if checks else ""

    @property
    def shortfall(self) -> str:
        """That counts of words, or a bag of them, know as much; nothing where they do not."""
        return "" if self.learned is None else shortfall_sentence([self.learned])

    def as_json(self) -> dict[str, Any]:
        return dict(self._entries())

    def __getitem__(self, name: str) -> Any:
        return self.as_json()[name]

    def document(self) -> DocumentPage:
        probes = [probes_table(self.probes)] if self.probes else []
        lead = [Notice(self.collapse, "invalid")] if self.collapse else []
        lead += [Notice(self.shortfall, "quick")] if self.shortfall and not lead else []
        return DocumentPage("scores", headline_of(self), [*score_nodes(self), *probes], lead=lead)

    def _entries(self) -> Iterator[tuple[str, Any]]:
        if self.scores:
            yield "name", self.name
        if self.fingerprint:
            yield "fingerprint", self.fingerprint
        if self.cuts is not None:
            yield "truncation", dict(self.cuts)
        if self.scores:
            yield "measures", {name: score.as_json() for name, score in self.scores.items()}
        if self.recomputed is not None:
            yield "recomputed", self.recomputed.as_json()
        if self.retrieval is not None:
            yield "retrieval", self.retrieval.as_json()
        if self.target is not None:
            yield from self.target.as_json().items()
        baselines = {
            "baselines": [asdict(baseline) for baseline in self.baselines],
            "baselines_told": baselines_sentence(self.baselines),
        }
        of_labels = bool({baseline.name for baseline in self.baselines} - OF_WORDS)
        if of_labels:
            yield from baselines.items()
        if self.honesty is not None:
            yield "honesty", self.honesty.as_json()
        if self.pseudo is not None:
            yield "pseudo", asdict(self.pseudo)
        if self.probes:
            yield "probes", [asdict(probe) for probe in self.probes]
        if self.target is not None and self.target.reliability is not None:
            yield "reliability", [asdict(share) for share in self.target.reliability]
        if self.confirmations:
            yield "confirmations", [finding.as_json() for finding in self.confirmations]
        if self.baselines and not of_labels:  # files that were read before there were these keep their order
            yield from baselines.items()
        if self.learned is not None:
            yield "learned", self.learned.as_json()
        if self.shortfall:
            yield "shortfall", self.shortfall
        if self.by_length:
            yield "by_length", [scores.as_json() for scores in self.by_length]
