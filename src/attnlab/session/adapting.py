"""A trained model adapted to a person's labelled texts: the config of the run, and the run itself."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.config import schema
from attnlab.config.files import identity, load, parse_override
from attnlab.config.values import Choice, ConfigError
from attnlab.data.corpora import CORPORA
from attnlab.data.corpora.records import ANSWER_COLUMNS
from attnlab.data.encode import ENCODINGS
from attnlab.data.labels import given, is_number, whole
from attnlab.model.adapters import ADAPTERS
from attnlab.runs.display import Display
from attnlab.runs.findings import read_findings, shortfall_sentence
from attnlab.session.adapting_plan import adapting_plan
from attnlab.session.baselines import PLAIN, Wording, keep_baselines
from attnlab.session.folds import CrossValidation, cross_validate
from attnlab.session.rates import RatesTried, rates_of, try_rates
from attnlab.session.run_display import displayed_session, train_displayed
from attnlab.session.start import start_at
from attnlab.session.trained import Trained
from attnlab.session.training import Run
from attnlab.targets.classes import FEW
from attnlab.targets.recipes import RECIPES
from attnlab.targets.report import Baseline
from attnlab.tasks import TASKS
from attnlab.tasks.task import Task

LENGTH = 512
"""Tokens of a text that are read where nobody says otherwise, if the model reads so many."""
LENGTHS = {"answering": 384}
"""The same by task: a longer passage is read in several windows, and nothing of it is lost."""
HELD_OUT = 0.1
"""The share of the rows that is kept as dev, and the share kept as test, where no files are given."""
BATCH, TOKENS = 16, 4096
"""The most rows of a batch, and the most tokens."""
COMPARED = 32
"""Rows of a batch whose texts are compared with each other: the more, the more there is to learn of one."""
COUNTED = 20_000
"""Rows that are counted at most: with so many no method needs more epochs than its own."""


# ---------------------------------------------------------------- the config
def adapting_config(
    start: str | Path,
    *,
    data: str | Path,
    adapter: Choice | str = "full",
    task: str = "",
    reading: Mapping[str, Any] | None = None,
    set: Iterable[str] | Mapping[str, Any] = (),
) -> schema.Config:
    """The config of a run that adapts `start` to the rows of `data`.

    `reading` are options of the corpus, such as the columns `text`, `pair` and `label`. Everything that
    follows from them can be set otherwise with `set`.
    """
    overrides = dict(set) if isinstance(set, Mapping) else dict(map(parse_override, set))
    for name in {"start", "adapter", "task", "data.corpus"} & overrides.keys():
        raise ConfigError(f"{name} decides other settings here; give it as an argument, not with --set.")
    columns = {name: value for name, value in (reading or {}).items() if value}
    read = CORPORA.read(str(data), "data")
    chosen = {"kind": read.kind, **read.options, **columns}
    task = task or task_of(CORPORA.resolve(chosen, "data"))
    target = TASKS[task].target
    chosen |= answer_columns(read.kind, columns) if "answers" in target.columns else {}
    if "tags" in target.columns and "label" in columns:
        chosen["tags"] = chosen.pop("label")
    corpus = CORPORA.resolve(chosen, "data")
    method = ADAPTERS.resolve(adapter, "adapter")
    if target.of_words:
        raise ConfigError(
            f'task "{task}" learns words, not labels: use attnlab train --set start={start}, or give '
            f"--task {' or '.join(name for name in TASKS if not TASKS[name].target.of_words)}."
        )
    settings_of_start, taught = start_at(str(start)).settings, TASKS[task]
    labelled = "classification" in taught.heads and settings_of_start.output.kind not in taught.heads
    read_last = labelled and settings_of_start.family == "decoder"
    graded = target.compares_batch and "label" in columns  # a label says how alike two texts are
    form = form_of_rows(taught, settings_of_start, corpus, columns)
    size = COMPARED if target.compares_batch else BATCH
    test_share = 0.0 if "dev" in columns else HELD_OUT
    trained = rows_of(corpus) * (1 - test_share - (0.0 if "dev" in columns else HELD_OUT))
    settings = {
        "start": str(start),
        "adapter": method,
        "task": {"kind": task} | ({"objective": "cosine"} if graded else {}),
        "model": {"output": "classification(pooling=last)"} if read_last else {},
        "data": {
            "corpus": corpus,
            "encoding": form,
            "batching": {"kind": "bucketed", "batch_size": size, "tokens": TOKENS},
            "length": min(
                LENGTHS.get(task, LENGTH), settings_of_start.length - int(method.options.get("tokens", 0))
            ),
            "dev_share": HELD_OUT,
            "test_share": test_share,
        },
        "training": target.recipes.get(method.kind, RECIPES["lora"]).training(
            epoch_steps=max(1, math.ceil(trained / size)), width=settings_of_start.width
        ),
    }
    return load(settings, set=overrides)


def form_of_rows(
    task: type[Task], start: schema.ModelSettings, corpus: Choice, columns: Collection[str]
) -> str:
    """The encoding that gives a start what it reads: pictures, with their texts where rows have some."""
    if start.picture is not None:
        first = next(iter(CORPORA.build(corpus).read("train")), None)
        pictured = [name for name in task.encodings if ENCODINGS[name].pictured]
        with_text = first is not None and first.text and "text" in start.modalities
        if pictured:
            return pictured[-1 if with_text else 0]
    return "pair" if "pair" in columns and "pair" in task.encodings else task.encodings[0]


def rows_of(corpus: Choice) -> int:
    """The rows to train on, dev and test included where they are taken from them; of many, enough of them."""
    return sum(1 for _ in itertools.islice(CORPORA.build(corpus).read("train"), COUNTED))


def task_of(corpus: Choice) -> str:
    """The task that answers or a column of labels ask for; where that is not plain, a person must say it."""
    labels: set[str] = set()
    for example in CORPORA.build(corpus).read("train"):
        if example.answers:
            return "answering"
        if example.words:
            return "tagging"
        if example.pair is not None and example.label is None:
            continue  # a question without an answer
        label = given(example)
        if isinstance(label, tuple):
            return "multilabel"
        labels.add(label)
    if all(map(is_number, labels)) and (len(labels) > FEW or not all(map(whole, labels))):
        shown = ", ".join(sorted(labels)[:3])
        raise ConfigError(
            f"The label column holds {len(labels):,} different numbers, such as {shown}: to predict a number "
            "give --task regression; if they are names of classes, give --task classification."
        )
    return "classification"


def answer_columns(corpus: str, named: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Where a person's table may have its answers: a column of that name is no label then."""
    if corpus not in ("files", "hub"):
        return {}
    usual: dict[str, tuple[str, ...]] = {"answers": ANSWER_COLUMNS, "label": ()}
    return {name: value for name, value in usual.items() if name not in named}


def run_folder(config: schema.Config, data: str | Path) -> Path:
    """Where a run goes where nobody says otherwise."""
    return Path("runs") / f"{Path(data).stem}-{config.adapter.kind}-{identity(config)[:8]}"


# ---------------------------------------------------------------- the run
@dataclass(frozen=True)
class Adapted:
    """What became of it: the run of the config, or what was tried of several learning rates, the best of
    which is in the folder. `baselines` are those of a run that came to its end."""

    folder: Path
    run: Run | None = None
    folds: CrossValidation | None = None
    rates: RatesTried | None = None
    baselines: Sequence[Baseline] = ()

    @property
    def signal(self) -> int:
        """What stopped it, 0 for nothing."""
        ended = self.run or self.rates or self.folds
        return ended.signal if ended else 0

    @property
    def collapsed(self) -> str:
        """One sentence, where its best predictions came to the majority share."""
        return self.run.collapsed if self.run else self.rates.best.collapsed if self.rates else ""

    @property
    def shortfall(self) -> str:
        """One sentence, where it is worse than a bag of words; of several learning rates, the best is."""
        if self.run is None and self.rates is not None and not self.rates.signal:
            return shortfall_sentence([one for one in read_findings(self.folder) if one.when == "after"])
        return self.run.shortfall if self.run else ""


def adapt(
    config: schema.Config,
    folder: Path,
    *,
    display: Callable[[], Display],
    tell: Callable[[str], None],
    rates: str | Sequence[float] = (),
    folds: int = 0,
    wording: Wording = PLAIN,
    resume: bool = False,
    allow: Collection[str] = (),
) -> Adapted:
    """Train as the config says, at each of several learning rates, or once for each of several folds of the
    rows. `tell` gets what it will do, once."""
    plans = 0

    def train_one(config: schema.Config, folder: Path, resume: bool) -> Run:
        nonlocal plans
        with display() as shown:
            session = displayed_session(shown, config, folder, resume=resume)
            plan = None if plans else adapting_plan(session, folder)
            if plan is not None:
                tell(str(plan))
            plans += 1
            expected = None if plan is None else plan.seconds
            return train_displayed(shown, session, folder, resume=resume, allow=allow, expected=expected)

    if folds != 0:
        return Adapted(folder, folds=cross_validate(config, folds, folder, train_one, resume=resume))
    if len(rates):
        tried = try_rates(config, rates_of(rates, config), folder, train_one, resume=resume)
        kept = [] if tried.signal else keep_baselines(Trained.at(folder), folder, wording)
        return Adapted(folder, rates=tried, baselines=kept)
    run = train_one(config, folder, resume)
    kept = [] if run.reason == "interrupted" else keep_baselines(run.session, folder, wording)
    return Adapted(folder, run=run, baselines=kept)
