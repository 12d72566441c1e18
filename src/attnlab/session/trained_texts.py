"""What a run's model was trained on before: the texts of its start, and of what that began from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attnlab.checks.trained_text import TrainedText, Unread
from attnlab.config.pictures import PictureGrid
from attnlab.config.schema import SCRATCH, Config
from attnlab.config.values import ConfigError
from attnlab.data.dataset import Dataset
from attnlab.data.errors import DataError
from attnlab.runs.faults import RunError
from attnlab.runs.folder import RunFolder
from attnlab.runs.record import RECORD, read_record
from attnlab.session.session import draft_task
from attnlab.session.stored import is_checkpoint, model_folder


def texts_before(config: Config, cache: Path | None) -> Iterator[TrainedText]:
    """What each start was trained on, the run's own first."""
    seen = set[str]()
    while config.start != SCRATCH and config.start not in seen:
        name = config.start
        seen.add(name)
        try:
            place = model_folder(name)
            folder = place.parent.parent if is_checkpoint(place) else place
            if not (folder / RECORD).is_file() and folder.exists():
                yield TrainedText(name, unread=Unread.PUBLISHED)
                return
            record, config = read_record(folder), RunFolder(folder).config()
        except (ConfigError, RunError, OSError):
            yield TrainedText(name, unread=Unread.GONE)
            return
        if record.get("status") == "converted":
            yield TrainedText(name, unread=Unread.PUBLISHED)
            return
        yield text_of_run(name, config, record.get("text", ""), cache)


def text_of_run(name: str, config: Config, fingerprint: str, cache: Path | None) -> TrainedText:
    """The text of a run of this config, as it is now."""
    try:
        task = draft_task(config)
        pictures = config.model.picture or PictureGrid()
        dataset = Dataset(config.data, reader=task.reader, seed=config.seed, cache=cache, pictures=pictures)
        return TrainedText.of(name, dataset, fingerprint=fingerprint, words=task.predicts_words)
    except (ConfigError, DataError, OSError):  # its files are not there any more
        return TrainedText(name, unread=Unread.GONE)
