"""Cross-validation: every row is scored once, by a model that was trained on other rows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.checks.word_baseline import WordBaseline, said_by_words
from attnlab.config.schema import Config
from attnlab.config.values import ConfigError
from attnlab.data.corpora import CORPORA
from attnlab.data.example import Example
from attnlab.data.splits import fraction, key_of
from attnlab.documents.nodes import DocumentPage, Node, Number, Sentence, Table, TableColumn
from attnlab.documents.notebook import SelfShowing
from attnlab.documents.numbers import beside, value_text
from attnlab.evaluation.documents import document_losses
from attnlab.metrics import METRICS
from attnlab.metrics.measures import form_of, title_of
from attnlab.metrics.metric import Estimate, Examples
from attnlab.runs.atomic import replace_bytes, replace_json
from attnlab.runs.findings import Finding, shortfall_sentence
from attnlab.runs.record import RECORD
from attnlab.session.baselines import baselines_of
from attnlab.session.session import Session
from attnlab.session.trained import Trained
from attnlab.session.training import Run
from attnlab.targets.report import Baseline, baselines_sentence
from attnlab.tasks import TASKS
from attnlab.tasks.task import Task

FILE = "folds.json"
TrainOne = Callable[[Config, Path, bool], Run]


@dataclass(frozen=True)
class FoldScore:
    """The score of one fold's rows by the model that was trained on the others."""

    fold: int
    value: float
    n: int
    unsound: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class CrossValidation(SelfShowing):
    """The metric that decides over all rows together, with its 95% interval over rows, and fold by fold.

    `signal` is what stopped it before the last fold, 0 for nothing: there is no score then.
    """

    folder: Path
    metric: str
    folds: tuple[FoldScore, ...]
    score: Estimate | None = None
    baselines: tuple[Baseline, ...] = ()
    learned: Finding | None = None
    signal: int = 0

    @property
    def unsound(self) -> list[str]:
        return sorted({check for fold in self.folds for check in fold.unsound})

    @property
    def shortfall(self) -> str:
        """That a bag of words knows as much; nothing where it does not."""
        return "" if self.learned is None else shortfall_sentence([self.learned])

    def as_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "metric": self.metric,
            "score": None if self.score is None else self.score.as_json(),
            "folds": [asdict(fold) | {"unsound": list(fold.unsound)} for fold in self.folds],
            "baselines": [asdict(baseline) for baseline in self.baselines],
            "learned": None if self.learned is None else self.learned.as_json(),
            "unsound": self.unsound,
        }

    def document(self) -> DocumentPage:
        title, form = title_of(self.metric), form_of(self.metric)
        rows = [
            (f"fold {one.fold}", one.n, Number(one.value, form=form, decimals=1 if form == "percent" else 4))
            for one in self.folds
        ]
        columns = ("rows", TableColumn("n", right=True), TableColumn(title, right=True))
        note = (
            "Each row is scored once, by the last step of a model that was not trained on it. The interval "
            "is over rows: folds share most of their training rows, so that it does not tell what another "
            f"training would give. The models are in {self.folder}; without --folds one is trained on all."
        )
        told = Sentence(baselines_sentence(self.baselines))
        nodes: list[Node] = [Table(columns, rows), told, Sentence(note, "fine")]
        return DocumentPage("cross-validation", self.headline, nodes)

    @property
    def headline(self) -> str:
        """What all rows together come to."""
        if self.score is None:
            return f"Stopped after {len(self.folds)} folds."
        number = replace(Number.within(self.score.value, self.score.interval), form=form_of(self.metric))
        between = f" ({beside(number)[0]})" if self.score.interval else ""
        title = title_of(self.metric).removeprefix("dev ")
        return (
            f"{title[:1].upper()}{title[1:]} {value_text(number)}{between} over {self.score.n:,} rows in "
            f"{len(self.folds)} folds"
        )


def cross_validate(
    config: Config, folds: int, folder: Path, train: TrainOne, *, resume: bool = False
) -> CrossValidation:
    """Train the config once for each fold of its rows, and score each fold by the model of the others.

    Nothing is chosen by the rows that are scored: the budget is trained to its end, and its last step counts.
    """
    session = Session(config)
    refuse_unfit(session, folds)
    if (folder / FILE).exists() and not resume:
        raise ConfigError(f"{folder / FILE} already exists; resume it with --resume, or give another --out.")
    parts = divided(session, folds)
    task, scores = session.task, list[FoldScore]()
    scored, by_words = list[Examples](), list[Examples]()
    for number, held_out in enumerate(parts, 1):
        place = folder / f"fold-{number}"
        others = [row for part in parts if part is not held_out for row in part]
        rows = write_rows(folder / f"rows-{number}-train.jsonl", others, task)
        dev = write_rows(folder / f"rows-{number}-dev.jsonl", held_out, task)
        own = with_files(config, rows, dev, columns=columns_of(held_out[0], task))
        run = train(own, place, (place / RECORD).is_file())
        if run.reason == "interrupted":
            return CrossValidation(folder, task.metrics[0], tuple(scores), signal=run.signal)
        trained = Trained.at(place, which="last")
        examples = document_losses(trained.evaluator("dev")).examples
        scored.append(examples)
        if task.target.told_by_words:
            by_words.append(said_by_words(trained.dataset, trained.task)(trained.dataset.texts("dev")))
        value = METRICS.build(task.metrics[0]).value(examples)
        scores.append(FoldScore(number, value, len(examples), tuple(run.unsound)))
    return summarised(session, folder, [row for part in parts for row in part], scores, (scored, by_words))


def summarised(
    session: Session,
    folder: Path,
    rows: Sequence[Example],
    scores: Sequence[FoldScore],
    said: tuple[Sequence[Examples], Sequence[Examples]],
) -> CrossValidation:
    """All folds as one set of rows, each said by the model that did not know it."""
    task = session.task
    model, words = together(said[0]), together(said[1]) if said[1] else None
    result = CrossValidation(
        folder,
        task.metrics[0],
        tuple(scores),
        METRICS.build(task.metrics[0]).interval(model),
        tuple(baselines_of(session, rows, words=words)),
        None if words is None else WordBaseline().judge("evaluation", task, model, words),
    )
    replace_json(folder / FILE, result.as_json())
    return result


def together(parts: Sequence[Examples]) -> Examples:
    """Examples one after another, in the columns that all have."""
    names = set.intersection(*({*part.columns} for part in parts))
    return Examples({name: np.concatenate([part[name] for part in parts]) for name in sorted(names)})


# ---------------------------------------------------------------- rows
def refuse_unfit(session: Session, folds: int) -> None:
    """What cannot be cross-validated, before any work."""
    target, corpus = session.draft_task.target, session.dataset.corpus
    if not has_folds(session.draft_task):
        kinds = " or ".join(name for name in TASKS if has_folds(TASKS[name]))
        raise ConfigError(
            f'--folds scores labels, tags and answers (task {kinds}); task "{session.config.task.kind}" has '
            "none. To see how much its score varies, train several seeds: attnlab run FILE --seeds 5."
        )
    if "dev" in corpus.given:
        raise ConfigError("--folds takes dev from the training rows by turns; leave out --dev.")
    if folds < 2:
        raise ConfigError(f"--folds is {folds}; it must be at least 2.")
    rows = len(every_row(session))
    if rows < 2 * folds:
        raise ConfigError(f"--folds is {folds}, and there are {rows:,} rows; each fold needs at least two.")
    single = [n for n, count in zip(session.labels.names, session.labels.counts, strict=False) if count < 2]
    if target.one_name and single:
        raise ConfigError(
            f'The class "{single[0]}" has one row, which cannot be both learned and scored; give it more, or '
            "merge it with another, or leave out --folds."
        )


def has_folds(task: Task | type[Task]) -> bool:
    """Whether rows can be scored one by one: words are of one text, and pairs are told from their batch."""
    return not task.target.of_words and not task.target.compares_batch


def every_row(session: Session) -> list[Example]:
    """Those of train and dev; test stays apart."""
    splits = [split for split in ("train", "dev") if split in session.dataset.splits.names]
    return [row for split in splits for row in session.dataset.texts(split)]


def divided(session: Session, folds: int) -> list[list[Example]]:
    """The rows of train and dev in so many folds, each class in its share; what must stay in one split stays
    in one fold."""
    by_key: dict[str, list[Example]] = defaultdict(list)
    for row in every_row(session):
        by_key[key_of(row)].append(row)
    seed, stratum = session.config.data.split_seed, session.dataset.reader.stratum
    ordered = sorted(by_key, key=lambda key: (str(stratum(by_key[key][0])), fraction(key, seed)))
    parts: list[list[Example]] = [[] for _ in range(folds)]
    for number, key in enumerate(ordered):
        parts[number % folds] += by_key[key]
    return parts


def write_rows(file: Path, rows: Sequence[Example], task: Task) -> Path:
    """Rows as a file that the corpus `files` reads again."""
    lines = [json.dumps(record_of(row, task)) for row in rows]
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_bytes(file, ("\n".join(lines) + "\n").encode())
    return file


def record_of(row: Example, task: Task) -> Mapping[str, object]:
    """A row with the columns of its target."""
    pair = {} if row.pair is None else {"pair": row.pair}
    if "answers" in task.target.columns:
        answers = [{"text": answer.text, "answer_start": answer.start} for answer in row.answers]
        return {"text": row.text, **pair, "answers": answers}
    if "tags" not in task.target.columns:
        return {"text": row.text, "label": task.label_of(row), **pair}
    words = [row.text[word.start : word.end] for word in row.words]
    if " ".join(words) == row.text:
        return {"text": words, "tags": [word.tag for word in row.words]}
    return {"text": row.text, "tags": spans_of(row)}  # whose words are found again between the spans


def spans_of(row: Example) -> list[dict[str, int | str]]:
    """The entities of a row's tagged words, from character to character."""
    spans: list[dict[str, int | str]] = []
    for word in row.words:
        position, _, label = word.tag.partition("-")
        if position == "I" and spans:
            spans[-1]["end"] = word.end
        elif position != "O":
            spans.append({"start": word.start, "end": word.end, "label": label})
    return spans


def columns_of(row: Example, task: Task) -> dict[str, str]:
    return {name: name for name in record_of(row, task)}


def with_files(config: Config, train: Path, dev: Path, *, columns: Mapping[str, str]) -> Config:
    """The config on the files of a fold, trained to the end of its budget."""
    kept = {k: v for k, v in config.data.corpus.options.items() if k == "labels"}
    files = {"kind": "files", "path": str(train), "dev": str(dev)}
    corpus = CORPORA.resolve({**files, **columns, **kept}, "data")
    data = replace(config.data, corpus=corpus, test_share=0.0)
    return replace(config, data=data, training=replace(config.training, patience="unlimited"))
