"""Predictions of new texts: of a few, or of a file of any size."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnlab.config.pictures import PictureGrid
from attnlab.config.values import ConfigError
from attnlab.config.wording import first_few
from attnlab.data.batch import collate
from attnlab.data.batching import budget_bounds
from attnlab.data.corpora.readers import reader_of
from attnlab.data.corpora.records import Broken, Columns, Names, Record, Tally, example_of
from attnlab.data.corpora.separators import Separator
from attnlab.data.encode import ENCODINGS
from attnlab.data.encode.encoding import Cuts, Encoding
from attnlab.data.errors import DataError, unusable
from attnlab.data.example import Example
from attnlab.data.images.decoding import PictureError, pixels_of
from attnlab.data.images.picture import SUFFIXES, Picture, is_picture_file, picture_of
from attnlab.data.images.picture_folder import picture_record, pictures_by_split
from attnlab.data.labels import UNREAD
from attnlab.data.rows import Rows, in_memory
from attnlab.evaluation.evaluator import array_of, concatenated_columns
from attnlab.tasks.task import Prediction, SplitColumns

if TYPE_CHECKING:
    from attnlab.session.trained import Trained
    from attnlab.session.translating import Translator

CHUNK = 1024
"""Examples that are in memory at a time."""
TOKENS = 1024
"""Of a batch with its padding, where one text has no more: enough to keep a processor busy."""
NO_COLUMN: tuple[str, ...] = ()


class Predictor:
    """Says what a trained model makes of texts, encoded as those that it was trained on.

    `cuts` counts what the model's length cut off of them.
    """

    def __init__(self, trained: Trained, *, batch_size: int = 64):
        trained.refuse_headless()
        if trained.task.predicts_words:
            raise ConfigError(
                f'{trained.folder} was trained for task "{trained.config.task.kind}", which predicts words, '
                f"not labels; {trained.fitting_command}, or score texts: attnlab evaluate RUN."
            )
        self.trained, self.batch_size = trained, batch_size
        self.encoding: Encoding = encoding_of(trained)

    @property
    def cuts(self) -> Cuts:
        return self.encoding.cuts

    @property
    def pairs(self) -> bool:
        """Whether an example is two texts."""
        return "pair" in self.encoding.uses

    @property
    def pictured(self) -> bool:
        """Whether an example has a picture."""
        return self.encoding.pictured

    @property
    def reads_text(self) -> bool:
        """Whether an example has a text, beside a picture or alone."""
        return not self.pictured or "text" in self.trained.config.model.modalities

    def __call__(self, examples: Iterable[Example]) -> Iterator[Prediction]:
        """One prediction for each example, in order."""
        remaining = iter(examples)
        while chunk := list(islice(remaining, CHUNK)):
            yield from self._chunk(chunk)

    @torch.inference_mode()
    def _chunk(self, examples: list[Example]) -> list[Prediction]:
        tokenizer, task = self.trained.tokenizer, self.trained.deciding
        rows = in_memory(self.encoding.rows(examples), vocabulary=tokenizer.size)
        judged: list[SplitColumns] = []
        read: list[NDArray[np.int64]] = []
        model = self.trained.model.eval()
        for places in self._batches(rows):
            batch = collate(rows, [places[n : n + 1] for n in range(len(places))], pad=tokenizer.pad)
            scores = task.predict(model, task.unlabelled(batch))
            judged.append({name: array_of(column) for name, column in scores.items()})
            read.append(places)
        columns, numbers = task.by_example(
            concatenated_columns(judged), rows.scalars("example")[np.concatenate(read)]
        )
        predictions = task.predictions(columns, [examples[n] for n in numbers])
        by_number = dict(zip(numbers.tolist(), predictions, strict=True))
        return [by_number[number] for number in range(len(examples))]

    def _batches(self, rows: Rows) -> Iterator[Any]:
        """Of texts alike in length, and few of long ones: hardly any padding."""
        order = rows.lengths.argsort(kind="stable")
        tokens = max(TOKENS, int(rows.lengths.max()))
        bounds = budget_bounds([rows.lengths[order]], tokens, self.batch_size)
        for begin, end in pairwise(bounds):
            yield order[begin:end]


def encoding_of(trained: Trained) -> Encoding:
    """How examples are encoded that nobody has labelled."""
    return ENCODINGS.build(
        trained.config.data.encoding,
        tokenizer=trained.tokenizer,
        length=trained.config.data.length,
        reader=UNREAD,
        pictures=trained.config.model.picture or PictureGrid(),
    )


def predict_each(
    texts: Iterable[Any], predict: Callable[[Iterable[Example]], Iterable[Prediction]], *, pairs: bool
) -> list[Prediction]:
    """One prediction for each text, in order; a text that cannot be read costs the others nothing, and its
    own says why."""
    given = list(texts)
    reasons = [unread_reason(text, pairs=pairs) for text in given]
    readable = [text for text, reason in zip(given, reasons, strict=True) if not reason]
    said = iter(predict(Example(*((text,) if isinstance(text, str) else text)) for text in readable))
    return [Prediction(answer=None, unread=reason) if reason else next(said) for reason in reasons]


def predict_pictures(pictures: Iterable[Any], predictor: Predictor | Translator) -> list[Prediction]:
    """One prediction for each picture (a file, or bytes), or picture and text, in order; one that cannot be
    read costs the others nothing."""
    made = [pictured_example(given, with_text=predictor.reads_text) for given in pictures]
    said = iter(predictor(example for example in made if isinstance(example, Example)))
    return [
        next(said) if isinstance(example, Example) else Prediction(answer=None, unread=example)
        for example in made
    ]


def pictured_example(given: Any, *, with_text: bool) -> Example | str:
    """The example of a picture, or why there is none."""
    if with_text != isinstance(given, tuple):
        wanted = 'a picture and a text, ("cat.png", "a cat")' if with_text else "a picture alone"
        raise ConfigError(f"This model reads {wanted}; {given!r:.60} was given.")
    picture, text = given if isinstance(given, tuple) else (given, "")
    if with_text and (reason := unread_reason(text, pairs=False)):
        return reason
    made = picture if isinstance(picture, Picture) else picture_of(plain_path(picture), Path())
    if isinstance(made, str):
        return f"the picture {made}"
    try:
        pixels_of(made, 1)
    except (PictureError, DataError) as error:
        return str(error)
    return Example(text, image=made, place=made.name)


def plain_path(picture: Any) -> Any:
    return str(picture) if isinstance(picture, Path) else picture


def unread_reason(text: Any, *, pairs: bool) -> str:
    """Why nothing can be predicted of a text, empty where something can. What this model does not read at
    all, a pair or a single text, is refused."""
    if pairs and isinstance(text, str):
        raise ConfigError(
            f'This model reads pairs of texts; give a pair: ("{text[:40]}", "…"), on the command line '
            '"first => second".'
        )
    if not pairs and isinstance(text, (tuple, list)):
        raise ConfigError("This model classifies single texts, and a pair was given; give single texts.")
    parts = text if isinstance(text, (tuple, list)) else (text,)
    if pairs and len(parts) != 2:
        return f"it is {text!r:.40}, not a pair of texts"
    for part in parts:
        if not isinstance(part, str):
            return f"it is {part!r:.40}, not text"
        if not part.strip():
            return "it is empty"
        if reason := unusable(part):
            return f"it cannot be tokenised: {reason}"
    return ""


def unread_sentence(predictions: Sequence[Prediction]) -> str:
    """How many texts have no prediction, and why; nothing where all have one."""
    unread = [(number, each.unread) for number, each in enumerate(predictions, start=1) if each.unread]
    named = first_few([f"text {number}: {reason}" for number, reason in unread])
    return f"{len(unread)} of {len(predictions)} texts have no prediction ({named})." if unread else ""


@dataclass
class FilePredictions:
    """The rows of a file with what is predicted of them, one by one; `skipped` counts broken ones.

    Texts are in the columns `text` and `pair`, or where those of the run's own corpus were.
    """

    predictor: Predictor | Translator
    file: Path
    text: Names = NO_COLUMN
    pair: Names = NO_COLUMN
    encoding: str = "utf-8"
    skip_bad: bool = False
    separator: Separator = "auto"
    skipped: int = 0

    def __iter__(self) -> Iterator[tuple[Mapping[str, Any], Prediction]]:
        waiting: deque[Mapping[str, Any]] = deque()
        tally = Tally(str(self.file), self.skip_bad)
        for prediction in self.predictor(tally.sound(self._examples(waiting))):
            yield waiting.popleft(), prediction
        self.skipped = tally.broken

    def _examples(self, waiting: deque[Mapping[str, Any]]) -> Iterator[Example | Broken]:
        """The texts of the file; the whole row of each sound one is held for the answer."""
        for file in self._files():
            yield from self._of_file(file, waiting)

    def _files(self) -> list[Path]:
        """The file itself, or what a folder of pictures holds: tables, or pictures."""
        if self.file.is_dir() and self._pictured:
            files = [file for side in pictures_by_split(self.file).values() for file in side]
            if not files:
                raise ConfigError(f"{self.file} holds no pictures ({', '.join(SUFFIXES)}).")
            return files
        if self._pictured and is_picture_file(self.file) and self.file.is_file():
            return [self.file]
        if not self.file.is_file():
            raise ConfigError(f"There is no file {self.file}; give a table of texts (.csv, .tsv, .jsonl, …).")
        return [self.file]

    @property
    def _pictured(self) -> bool:
        return self.predictor.pictured

    def _records(self, file: Path) -> Iterator[Record | Broken]:
        if is_picture_file(file):
            return iter([picture_record(file, classed=False)])
        return reader_of(file, self.separator)(file, self.encoding, "line")

    def _of_file(self, file: Path, waiting: deque[Mapping[str, Any]]) -> Iterator[Example | Broken]:
        parts: dict[str, str] = {}
        for record in self._records(file):
            if isinstance(record, Broken):
                yield record
                continue
            parts = parts or self._columns(record)
            parsed = example_of(record, parts, (), file.parent, look="whole" if self._pictured else "header")
            if isinstance(parsed, Example):
                waiting.append(without_bytes(record.values, parts, parsed, self._name(file)))
            yield parsed

    def _name(self, file: Path) -> str:
        """What tells a picture of a folder from others of its file name."""
        return str(file.relative_to(self.file)) if is_picture_file(file) and self.file.is_dir() else ""

    def _columns(self, first: Record) -> dict[str, str]:
        """The columns that are read; a label may be there, and is not looked at."""
        unread: dict[str, Any] = dict.fromkeys(("target", "label", "answers", "group"), NO_COLUMN)
        usual = self.predictor.trained.columns
        pair = self.pair or usual("pair") if self.predictor.pairs else NO_COLUMN
        existing = [str(name) for name in first.values]
        text: Names = self.text or usual("text")
        if not self.predictor.reads_text:
            text = NO_COLUMN
        image = usual("image") if self._pictured else NO_COLUMN
        columns = Columns(text=text, pair=pair, image=image, **unread)
        return columns.found(existing, str(self.file))


def without_bytes(
    values: Mapping[str, Any], parts: Mapping[str, str], example: Example, name: str
) -> Mapping[str, Any]:
    """A row with the name of its picture in the place of its bytes."""
    if example.image is None:
        return values
    return {**values, parts["image"]: name or example.image.name or example.place}
