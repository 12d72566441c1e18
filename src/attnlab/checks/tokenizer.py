"""The tokenizer beside the weights."""

from __future__ import annotations

from typing import Any, ClassVar

from attnlab.checks.check import Case, Check, Moment
from attnlab.data.errors import DataError
from attnlab.data.tokenizers.tokenizer_files import load
from attnlab.runs.findings import Finding, When
from attnlab.runs.record import RECORD, read_record


class TokenizerIdentity(Check):
    """Tokenizer: are text, weights and record of one tokenizer?

    Formula: the fingerprints of the run's tokenizer.json, of the dataset's tokenizer and of run.json
    are one; so are vocabulary size, special tokens and the ids of four fixed strings, as they were
    recorded when the run began; and the model's table has a row for each id.

    When it helps: with another checkpoint's tokenizer every id is a valid one and means another word.

    Cannot see: a tokenizer file that was replaced before the run began, and one that differs only in
    words outside the four fixed strings while keeping the fingerprint.
    """

    when: ClassVar[tuple[When, ...]] = ("after",)
    limit: ClassVar[float] = 0.5

    def run(self, case: Case) -> Finding:
        own = case.dataset.tokenizer
        if case.folder is None or not (case.folder / RECORD).is_file():
            return self.not_applicable(case, "there is no run folder")
        record = read_record(case.folder)
        try:
            saved = load(case.folder / "tokenizer.json")
        except (OSError, DataError) as error:
            return self.other(case, f"tokenizer.json cannot be read: {error}")
        differences = [
            *different("tokenizer.json", saved.identity(), own.identity()),
            *different("run.json", record.get("tokenizer_identity", {}), own.identity()),
        ]
        if record.get("tokenizer", own.fingerprint) != own.fingerprint:
            differences.append(f"the fingerprint in run.json is {record['tokenizer']}, not {own.fingerprint}")
        rows = case.model.vocabulary
        if rows < own.size:
            differences.append(f"the model has {rows:,} rows for {own.size:,} ids")
        if differences:
            return self.other(case, "; ".join(differences))
        return self.passed(case, f"{own.fingerprint}, {own.size:,} ids, in file, record and dataset", 0.0)

    def other(self, at: Moment, told: str) -> Finding:
        return self.failed(
            at,
            told,
            meaning="The ids that the model was trained on mean other words in this tokenizer.",
            fix="Restore the tokenizer.json that the run was trained with.",
        )


def different(where: str, held: dict[str, Any], own: dict[str, Any]) -> list[str]:
    """What a record says otherwise, value by value; nothing of what it does not say."""
    return [
        f"the {name} of {where} is {shortened(value)}, not {shortened(own[name])}"
        for name, value in held.items()
        if name in own and value != own[name]
    ]


def shortened(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
