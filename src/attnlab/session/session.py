"""A run's parts, made once: config, start and draft when it is created, text and model when first used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from attnlab.config import schema
from attnlab.config.pictures import PictureGrid
from attnlab.config.schema import SCRATCH
from attnlab.data.dataset import Dataset, ProgressOf, no_progress
from attnlab.data.labels import Labels
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.evaluation.evaluator import Evaluator, no_texts
from attnlab.evaluation.written_texts import TextWriter
from attnlab.model.assemble import build_model
from attnlab.model.counts import count
from attnlab.model.model import Model
from attnlab.runs.cache_folder import default_cache as default_cache
from attnlab.runs.faults import RunError
from attnlab.session.refusals import refuse_infeasible, refuse_misfits, refuse_token_types, takes_separate
from attnlab.session.start import Origin, Start, begin, start_at, with_start
from attnlab.tasks import TASKS
from attnlab.tasks.task import Task
from attnlab.tasks.vocabulary import Vocabulary


class Session:
    """The parts of a run that is to be trained. What cannot work is refused when it is created, before any
    text is read; what its text does not allow, when that is read.

    A start that is only planned is given as `start`; `cache` is where tokenised text is kept between runs.
    """

    def __init__(
        self,
        config: schema.Config,
        *,
        start: Start | None = None,
        cache: Path | None = None,
        progress: ProgressOf = no_progress,
    ):
        self.start = start_at(config.start) if start is None and config.start != SCRATCH else start
        self.config = with_start(config, self.start)
        self.cache, self.progress = cache, progress
        self.taken = False
        refuse_misfits(self.config, self.draft_task, self.draft)

    @cached_property
    def draft_task(self) -> Task:
        """The task before any text is read."""
        return draft_task(self.config)

    @cached_property
    def draft(self) -> Model:
        """The model on the meta device, before there is a tokenizer."""
        return draft_model(self.config, self.draft_task)

    def read_dataset(self) -> Dataset:
        """The run's text, with its labels read as the task reads them."""
        reader, config = self.draft_task.reader, self.config
        return Dataset(
            config.data,
            reader=reader,
            seed=config.seed,
            cache=self.cache,
            progress=self.progress,
            pictures=config.model.picture or PictureGrid(),
        )

    @cached_property
    def dataset(self) -> Dataset:
        dataset = self.read_dataset()
        declared = bool(self.config.data.corpus.options.get("labels"))
        self.draft_task.target.refuse(dataset.labels, declared=declared)
        dataset.refuse_unknown_labels()
        return dataset

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return self.dataset.tokenizer

    @cached_property
    def labels(self) -> Labels:
        return self.dataset.labels

    @cached_property
    def task(self) -> Task:
        """What the model is to predict."""
        vocabulary = Vocabulary.of(self.tokenizer.target)
        return TASKS.build(self.config.task, vocabulary=vocabulary, labels=self.labels)

    @cached_property
    def model(self) -> Model:
        """Before training as it begins; training changes it."""
        return self._begun[0]

    @cached_property
    def origin(self) -> Origin:
        """Where the weights of the model come from."""
        return self._begun[1]

    @cached_property
    def _begun(self) -> tuple[Model, Origin]:
        settings, outputs = self.config.model.with_tokenizer(*self.tokenizer.sizes), self.labels.outputs
        same = settings == draft_settings(self.config) and outputs == self.draft_task.labels.outputs
        sized = self.draft if same else build_model(settings, device="meta", labels=outputs)
        refuse_infeasible(self.config, self.dataset, sized)
        model, origin = begin(self.config, self.start, self.tokenizer, self.labels)
        self.task.check(model)
        refuse_token_types(self.config, max(self.tokenizer.form.pair_types(1, 1)) + 1)
        return model, origin

    def refuse_second_training(self) -> None:
        """A model is trained once: a second run would not begin at its beginning."""
        if self.taken:
            raise RunError("This session was trained already; make another of the same config.")

    @property
    def initial(self) -> Callable[[], Model] | None:
        """How to build the model as it was before the first step; nothing where its start is gone."""
        gone = self.config.start != SCRATCH and self.start is None
        return None if gone else self.initial_model

    def initial_model(self) -> Model:
        model, origin = begin(self.config, self.start, self.dataset.tokenizer, self.dataset.labels)
        if origin.start != self.origin.start:
            raise RunError(
                f"The start {self.config.start} is no longer the one that this run began from "
                f"({origin.start}, not {self.origin.start}); restore it."
            )
        return model

    def evaluator(self, split: str, *, task: Task | None = None, **chosen: Any) -> Evaluator:
        """How a split is scored. Its stream is the split's, not the run's: runs of other seeds meet the same
        batches with the same tokens hidden."""
        judged = task or self.task
        return Evaluator(
            model=self.model,
            task=judged,
            loader=self.dataset.scored(split),
            seed=self.config.data.split_seed,
            texts=partial(self.dataset.texts, split) if self._reads_texts(judged, split) else no_texts,
            writer=self.writer(split) if self.config.training.generate_every != "never" else None,
            **chosen,
        )

    def _reads_texts(self, task: Task, split: str) -> bool:
        """Whether a task is scored with the examples themselves: their texts, or the groups they are in."""
        grouped = any(example.group is not None for example in self.dataset.first(split, 1))
        return task.compares_text or (grouped and not task.predicts_words)

    def writer(self, split: str) -> TextWriter:
        """How the texts of a split are written anew."""
        settings = self.config.training
        return TextWriter(
            model=self.model,
            tokenizer=self.tokenizer,
            rows=self.dataset.rows(split),
            texts=partial(self.dataset.texts, split),
            context=self.config.longest_text,
            beam=settings.generate_beam,
            penalty=settings.generate_penalty,
        )


def draft_settings(config: schema.Config) -> schema.ModelSettings:
    """The model's settings before there is a tokenizer: with as many tokens as that may have."""
    model, data = config.model, config.data
    if takes_separate(config) and model.source_vocabulary == "shared":
        model = replace(model, source_vocabulary=TOKENIZERS.build(data.tokenizer).most)
    if model.vocabulary == "tokenizer":
        model = replace(model, vocabulary=TOKENIZERS.build(data.writing_tokenizer).most)
    return model


def draft_task(config: schema.Config) -> Task:
    vocabulary = Vocabulary.draft(draft_settings(config).tokens)
    classes = config.model.output.options.get("classes", "labels")
    known = {} if classes == "labels" else {"classes": classes}
    labels = TASKS[config.task.kind].target.draft(**known)
    return TASKS.build(config.task, vocabulary=vocabulary, labels=labels)


def draft_model(config: schema.Config, task: Task) -> Model:
    return build_model(draft_settings(config), device="meta", labels=task.labels.outputs)


def step_flops(config: schema.Config, draft: Model | None = None) -> float:
    """Operations of a training step of full batches, counted before any text is read."""
    model = draft_model(config, draft_task(config)) if draft is None else draft
    length = config.data.length
    forward = count(model, length=length, source_length=length, batch=1).forward
    return 3 * forward / length * step_tokens(config)  # the backward is twice the forward


def step_tokens(config: schema.Config) -> int:
    """Tokens of a training step of full batches."""
    length, batching = config.data.length, config.data.batching.options
    sizes = {"batch_size": length, "tokens": 1}
    limits = [batching[name] * each for name, each in sizes.items() if isinstance(batching.get(name), int)]
    return min(limits, default=length) * config.training.accumulate
