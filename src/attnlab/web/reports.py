"""What studies came to, read again when their results change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from attnlab.config.untrusted import read_json
from attnlab.documents.nodes import DocumentPage
from attnlab.runs.faults import reading
from attnlab.studies.outcome import StudyOutcome
from attnlab.studies.report.page import report
from attnlab.studies.report.study_results import StudyResults
from attnlab.web.addresses import LARGEST, refuse_outside
from attnlab.web.indexed import RESULTS, IndexedStudy

KEPT = 16


@dataclass
class StudyReport:
    """The results of a study, and the document that is made of them."""

    outcome: StudyOutcome

    file: Path

    @cached_property
    def document(self) -> DocumentPage:
        with reading(self.file):
            return report(StudyResults(self.outcome))


class Reports:
    """Of the studies that were looked at lately."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[str, tuple[object, StudyReport]] = {}

    def of(self, study: IndexedStudy) -> StudyReport | None:
        """None where a study has no results yet; what is wrong with those that cannot be read is raised."""
        if not study.ended:
            return None
        stamp, known = self._known.pop(study.address, (None, None))
        if known is None or stamp != study.stamp:
            refuse_outside(self.root, study.folder)
            file = study.folder / RESULTS
            with reading(file):
                known = StudyReport(StudyOutcome.of_json(read_json(file, most=LARGEST)), file)
        self._known[study.address] = study.stamp, known
        while len(self._known) > KEPT:
            self._known.pop(next(iter(self._known)), None)
        return known
