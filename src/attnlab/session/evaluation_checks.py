"""What an evaluation is checked by: its history, its written texts, and the rows of training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from attnlab.checks.decoded_texts import DecodedTexts
from attnlab.checks.outputs import Outputs
from attnlab.checks.recomputed_text import confirm_history
from attnlab.checks.scored_rows import chosen_on_dev, identify
from attnlab.checks.seen_references import SeenReferences
from attnlab.checks.text_pairs import TextPairs
from attnlab.checks.trained_text import TrainedText, Unread
from attnlab.config.values import ConfigError
from attnlab.data.dataset import Dataset
from attnlab.data.errors import DataError
from attnlab.data.example import Example
from attnlab.evaluation.documents import DocumentLosses
from attnlab.evaluation.written_texts import text_scores
from attnlab.metrics.metric import Examples
from attnlab.runs.findings import Finding, Outcome
from attnlab.session.trained_texts import text_of_run, texts_before

if TYPE_CHECKING:
    from attnlab.session.trained import Trained


def history_confirmed(
    trained: Trained, split: str, values: Mapping[str, float], losses: DocumentLosses
) -> tuple[Finding, ...]:
    """Whether dev's numbers are those of the run's history at this step, where it scored the same rows; those
    of written texts by as many as the run wrote then."""
    settings, dev = trained.config.training, (trained.record.get("data") or {}).get("dev")
    same = split == "dev" and settings.evaluate_batches == "all" and dev == trained.dataset.fingerprint("dev")
    if not same:
        return ()
    texts = settings.generate_examples
    first = slice(None if texts == "all" else texts)
    written = Examples({name: column[first] for name, column in losses.texts.items()})
    finding = confirm_history(
        trained.folder,
        trained.step,
        {**values, **text_scores(written)},
        n=len(losses),
        texts=len(written),
        precision=settings.precision,
    )
    return () if finding is None else (finding,)


def texts_judged(trained: Trained, split: str, texts: Examples) -> tuple[Finding, ...]:
    """What checks say of written texts; nothing where none were."""
    if not len(texts):
        return ()
    decoded = DecodedTexts().judge("evaluation", trained.writer(split), texts)
    pairs, outputs = TextPairs().judge("evaluation", texts), Outputs().judge("evaluation", texts)
    return decoded, pairs, outputs, *references_seen(trained, split)


def references_seen(trained: Trained, split: str) -> tuple[Finding, ...]:
    """Whether the targets of a split are targets of training too; nothing where there are none to compare, or
    the text of training is not there any more."""
    dataset = training_dataset(trained)
    finding = None if dataset is None else SeenReferences().of_split("evaluation", dataset, split)
    return () if finding is None or finding.outcome is Outcome.NOT_APPLICABLE else (finding,)


def training_dataset(trained: Trained) -> Dataset | None:
    """The data that a run was trained on; none where they are not known, or not there any more."""
    if trained.imported:
        return None
    with suppress(ConfigError, DataError, OSError):
        return trained.dataset if trained.dataset.text_fingerprint == trained.record.get("text") else None
    return None


def rows_scored(trained: Trained, texts: Iterable[Example], split: str | None = None) -> Finding:
    """Whether the rows that are scored were trained on, or chose something; of a split, or of a file."""
    own = TrainedText("", unread=Unread.PUBLISHED)
    if not trained.imported:
        fingerprint = trained.record.get("text", "")
        own = text_of_run("", trained.config, fingerprint, trained.cache)
    metric = trained.config.training.deciding(trained.task.metrics)
    large = split is not None and own.unread is Unread.LARGE  # whose splits were compared as they were read
    return identify(
        texts,
        trained.dataset if large else own.dataset,
        split=split,
        chosen=chosen_on_dev(trained.folder, metric, decides=bool(trained.decision)),
        before=tuple(texts_before(trained.config, trained.cache)),
        words=trained.task.predicts_words,
        unread=None if large else own.unread,
    )
