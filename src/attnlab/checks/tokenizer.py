"""The tokenizer beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attnlab.checks.check import Case, Check
from attnlab.data.errors import DataError
from attnlab.data.tokenizers.tokenizer_files import load_run
from attnlab.runs.findings import Finding, Outcome, When
from attnlab.runs.record import RECORD, read_record
from attnlab.runs.typed import Value


class TokenizerIdentity(Check):
    """Tokenizer: are text, weights and record of one tokenizer?

    Formula: the fingerprints of the run's tokenizer.json, of the dataset's tokenizer and of run.json
    are one; so are vocabulary size, special tokens and the ids of four fixed strings, as they were
    recorded when the run began; and the model's table has a row for each id. Where targets have a
    vocabulary of their own, this holds for both.

    When it helps: with another checkpoint's tokenizer every id is a valid one and means another word.

    Cannot see: a tokenizer file that was replaced before the run began, and one that differs only in
    words outside the four fixed strings while keeping the fingerprint.
    """

    when: ClassVar[tuple[When, ...]] = ("after",)
    limit: ClassVar[float] = 0.5

    def run(self, case: Case) -> Finding:
        own = case.dataset.tokenizer
        if case.folder is None or not (case.folder / RECORD).is_file():
            return self.finding(case.when, Outcome.NOT_APPLICABLE, "no_folder")
        record = read_record(case.folder)
        try:
            saved = load_run(case.folder, separate=len(own.sizes) > 1)
        except (OSError, DataError) as error:
            return self.finding(case.when, Outcome.FAIL, "unreadable", error=str(error))
        differences = [
            *different("tokenizer.json", saved.identity(), own.identity()),
            *different("run.json", record.get("tokenizer_identity", {}), own.identity()),
        ]
        if record.get("tokenizer", own.fingerprint) != own.fingerprint:
            prints = {"held": str(record["tokenizer"]), "own": own.fingerprint}
            differences.append({"kind": "fingerprint", **prints})
        tables = (table.num_embeddings for table in case.model.trunk.tables())
        for rows, ids in zip(tables, own.sizes, strict=False):
            if rows < ids:
                differences.append({"kind": "rows", "rows": rows, "ids": ids})
        if differences:
            return self.finding(case.when, Outcome.FAIL, "other", differences=differences)
        return self.finding(
            case.when, Outcome.PASS, "same", 0.0, fingerprint=own.fingerprint, ids=sum(own.sizes)
        )


def different(where: str, recorded: Mapping[str, Any], own: Mapping[str, Any]) -> list[dict[str, Value]]:
    """What a record says otherwise, value by value; nothing of what it does not say."""
    return [
        {
            "kind": "identity",
            "name": name,
            "where": where,
            "held": shortened(value),
            "own": shortened(own[name]),
        }
        for name, value in recorded.items()
        if name in own and value != own[name]
    ]


def shortened(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
