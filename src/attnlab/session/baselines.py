"""What a score is compared with: counts of labels or words, and the start's own words without training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from attnlab.checks.word_baseline import said_by_words
from attnlab.config.values import ConfigError
from attnlab.data.corpora.units import divided
from attnlab.data.example import Example
from attnlab.evaluation.label_words import LabelWords, NoRoomError, can_score_words, names_in
from attnlab.evaluation.statistics import loss_interval
from attnlab.evaluation.word_frequencies import FrequencyLosses, split_frequencies
from attnlab.evaluation.written_texts import GENERATED, REFERENCE, SOURCE, of_texts
from attnlab.metrics import METRICS
from attnlab.metrics.copied import are_summaries
from attnlab.metrics.metric import Examples
from attnlab.metrics.written import ROUGES
from attnlab.model.heads import HEADS
from attnlab.runs.atomic import replace_json
from attnlab.runs.faults import read_object
from attnlab.runs.summary import BASELINES, BaselinesRecord
from attnlab.session.predicting import predict_each
from attnlab.session.session import Session
from attnlab.session.start import start_at
from attnlab.targets.report import Baseline
from attnlab.tasks.task import Prediction, Task

MOST = 1000
"""Texts that label words are scored on: each is read by the start, for some templates once a class."""


@dataclass(frozen=True)
class Wording:
    """How label words are asked for: a template with {text}, {label} and of pairs {pair}, and the word of
    each class, where that is not its name."""

    template: str = ""
    words: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.template:
            names_in(self.template)  # refuses what is no template before anything is trained


PLAIN = Wording()
COUNTED = {
    "unigram": "each token by its share of the training text",
    "bigram": "each token by how often it follows the one before it there, backing off to its share",
}
"""What the losses of counting are."""
LINEAR = "a linear model of hashed words and runs of characters, of up to 3,000 training texts"
BY_TAG = "the tag that each word most often has in up to 3,000 training texts"


def word_baselines(session: Session, split: str) -> list[Baseline]:
    """Of a task that predicts words, what counts of its training text give on the batches of a split."""
    counted = split_frequencies(session.dataset, split, session.evaluator(split))
    token, right = counted.most_frequent
    targets = int(counted.losses["unigram"].targets.sum())
    word = session.tokenizer.target.decode([token], specials=True)
    always = f"always predicting “{word}”, the most frequent token of the training text"
    return [
        *frequency_baselines(counted),
        Baseline("most frequent token", right / targets, None, targets, always),
        *lead_baselines(session.dataset.texts(split)),
    ]


def lead_baselines(examples: Sequence[Example]) -> list[Baseline]:
    """Of texts to summarise, what their first sentences score; nothing for others."""
    columns = Examples(
        {
            GENERATED: of_texts([next(iter(divided(example.text, "sentence")), "") for example in examples]),
            REFERENCE: of_texts([example.target or "" for example in examples]),
            SOURCE: of_texts([example.text for example in examples]),
        }
    )
    if not are_summaries(columns):
        return []
    scores = {name: METRICS.build(name).interval(columns) for name in ROUGES}
    return [
        Baseline("lead", score.value, score.interval, score.n, "the first sentence of the source", name)
        for name, score in scores.items()
    ]


def frequency_baselines(counted: FrequencyLosses) -> list[Baseline]:
    """The losses of counting, each with its interval over texts."""
    baselines = []
    for name, losses in counted.losses.items():
        loss = loss_interval(losses)
        baselines.append(Baseline(name, loss.value, loss.interval, loss.n, COUNTED[name], "loss"))
    return baselines


def baselines_of(
    session: Session, examples: Sequence[Example], wording: Wording = PLAIN, *, words: Examples | None = None
) -> list[Baseline]:
    """Those of a task on these texts: what there is without a transformer that was trained on it. `words` is
    what a bag of words says of them."""
    task = session.task
    baselines = task.target.baselines(task, examples)
    if baselines and task.target.one_name:
        baselines = [*baselines, *_label_words(session, examples, wording)]
    return baselines if words is None else [*baselines, _bag_of_words(task, words)]


def _bag_of_words(task: Task, words: Examples) -> Baseline:
    metric = task.metrics[0]
    score = METRICS.build(metric).interval(words)
    defined = BY_TAG if task.target.by_token else LINEAR
    return Baseline("bag of words", score.value, score.interval, score.n, defined, metric)


def _label_words(
    session: Session,
    examples: Sequence[Example],
    wording: Wording,
) -> list[Baseline]:
    """Nothing where the start is no language model, or is gone, or the usual template with the classes' own
    names leaves no room for text."""
    start, config, labels = session.start, session.config, session.labels
    if start is None or not HEADS[start.settings.output.kind].scores_words:
        return []
    model, _ = start.read()
    if not can_score_words(model, start.tokenizer):
        return []
    scorer = LabelWords(
        model=model,
        tokenizer=start.tokenizer,
        length=min(config.data.length, start.settings.length),
        names=labels.names,
        template=wording.template,
        words=wording.words,
        pairs=config.data.encoding.kind == "pair",
    )
    chosen = np.unique(np.linspace(0, len(examples) - 1, min(MOST, len(examples))).astype(np.int64))
    try:
        probabilities = scorer.probabilities([examples[n] for n in chosen])
    except NoRoomError:
        if wording != PLAIN:
            raise
        return []
    right = [labels.number(session.task.label_of(examples[n]), examples[n].place) for n in chosen]
    accuracy = METRICS.build("accuracy").interval(
        Examples({"label": np.array(right), "probabilities": probabilities})
    )
    words = ", ".join(f"{name}: “{scorer.words.get(name, name)}”" for name in labels.names[:8])
    defined = f'the class whose word is most probable to {config.start} in "{scorer.form}" ({words})'
    return [Baseline("label words", accuracy.value, accuracy.interval, accuracy.n, defined)]


# ---------------------------------------------------------------- of a run
def keep_baselines(session: Session, folder: Path, wording: Wording = PLAIN) -> list[Baseline]:
    """Those of a run on its dev, kept in its folder with the wording that they were asked in."""
    if "dev" not in session.dataset.splits.names:
        return []
    if session.task.predicts_words:
        baselines = word_baselines(session, "dev")
    else:
        dev, told = session.dataset.texts("dev"), session.task.target.told_by_words
        words = said_by_words(session.dataset, session.task)(dev) if told else None
        baselines = baselines_of(session, dev, wording, words=words)
    replace_json(folder / BASELINES, asdict(wording) | {"dev": [asdict(baseline) for baseline in baselines]})
    return baselines


def wording_of(folder: Path) -> Wording:
    """How a run's label words were asked for; the usual way where nobody said."""
    try:
        record = read_object(folder / BASELINES, BaselinesRecord)
    except FileNotFoundError:
        return PLAIN
    return Wording(record["template"], record["words"])


def wording_from(template: str, words: str) -> Wording:
    """As a person writes it: words as "neg=bad,pos=good"."""
    pairs = [part.partition("=") for part in words.split(",") if part.strip()]
    if not all(name.strip() and word.strip() for name, _, word in pairs):
        raise ConfigError(f'label words are "{words}"; write CLASS=WORD for each class: neg=bad,pos=good.')
    return Wording(template, {name.strip(): word.strip() for name, _, word in pairs})


def predict_words(
    start: str | Path, texts: Sequence[str | tuple[str, str]], labels: Sequence[str], wording: Wording = PLAIN
) -> list[Prediction]:
    """What a language model says of texts without training, by the probability of each label's words."""
    source = start_at(str(start))
    model, _ = source.read()
    pairs = any(isinstance(text, (tuple, list)) for text in texts)
    scorer = LabelWords(
        model, source.tokenizer, source.settings.length, tuple(labels), wording.template, wording.words, pairs
    )

    def predict(examples: Iterable[Example]) -> list[Prediction]:
        given = list(examples)
        rows = scorer.probabilities(given).tolist() if given else []
        scores = [dict(zip(labels, row, strict=True)) for row in rows]
        best = [max(chances, key=chances.__getitem__) for chances in scores]
        return [
            Prediction(answer=b, confidence=chances[b], scores=chances)
            for b, chances in zip(best, scores, strict=True)
        ]

    return predict_each(texts, predict, pairs=pairs)
