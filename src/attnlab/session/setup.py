"""From a config to a run's parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from attnlab.config import schema
from attnlab.config.schema import SCRATCH
from attnlab.config.values import ConfigError
from attnlab.data.batching import BATCHING
from attnlab.data.dataset import Dataset, ProgressOf, no_progress
from attnlab.data.encode import ENCODINGS
from attnlab.data.loader import Loader
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.evaluation.evaluator import Evaluator, no_texts
from attnlab.model.adapters import ADAPTERS
from attnlab.model.assemble import build_model
from attnlab.model.counts import count
from attnlab.model.model import Model
from attnlab.runs.run_error import RunError
from attnlab.session.feasibility import refuse_infeasible
from attnlab.session.start import Origin, Start, begin, has_start, settle
from attnlab.session.stored import Stored
from attnlab.targets import TARGETS
from attnlab.tasks import TASKS
from attnlab.tasks.task import Task
from attnlab.tasks.vocabulary import Vocabulary
from attnlab.training.listeners import LISTENERS
from attnlab.training.optimizers import OPTIMIZERS
from attnlab.training.schedules import SCHEDULES


@dataclass(frozen=True)
class Setup:
    """The parts of a run, ready to train."""

    config: schema.Config
    dataset: Dataset
    task: Task
    model: Model
    origin: Origin


def check(config: schema.Config, planned: Start | None = None) -> schema.Config:
    """The config with what its start decides, as it is or is `planned`. What cannot work is refused before
    any text is read: parts, sizes and names that do not go together."""
    config = settle(config, planned)
    model, task = draft(config), draft_task(config)
    task.check(build_model(model, device="meta", labels=task.labels.outputs))
    name, encoding, batching = config.task.kind, config.data.encoding.kind, config.data.batching.kind
    if encoding not in task.encodings:
        others = " or ".join(kind for kind in TASKS if encoding in TASKS[kind].encodings)
        raise ConfigError(
            f'task "{name}" cannot use data.encoding "{encoding}"; it takes '
            f"{' or '.join(task.encodings)}. That encoding goes with task {others or 'none here'}."
        )
    if BATCHING[batching].packs and not task.packs:
        raise ConfigError(
            f'task "{name}" does not support packing; use data.batching = "bucketed" or "padded".'
        )
    if BATCHING[batching].packs and ADAPTERS[config.adapter.kind].stands_before:
        raise ConfigError(
            f'adapter "{config.adapter.kind}" does not support packing; use data.batching = "bucketed" or '
            '"padded".'
        )
    if config.data.length > config.model.length:
        raise ConfigError(
            f"data.length {config.data.length} is more than model.length {config.model.length}; "
            "raise the one or lower the other."
        )
    if config.data.length > config.longest_text:
        raise ConfigError(
            f"data.length {config.data.length} is more than the {config.longest_text} tokens of text that "
            f"model.length {config.model.length} leaves after those of adapter {config.adapter}; lower it."
        )
    refuse_token_types(config, 1)
    for listener in config.training.listeners:
        LISTENERS[LISTENERS.resolve(listener, "training.listeners").kind].refuse_missing()
    SCHEDULES.build(config.training.schedule)
    OPTIMIZERS.build(config.training.optimizer)
    return config


def draft(config: schema.Config) -> schema.ModelSettings:
    """The model's settings before there is a tokenizer: with as many tokens as that may have."""
    if config.model.vocabulary != "tokenizer":
        return config.model
    return config.model.with_tokenizer(TOKENIZERS.build(config.data.tokenizer).most)


def step_flops(config: schema.Config) -> float:
    """Operations of a training step of full batches, counted before any text is read."""
    length, batching = config.data.length, config.data.batching.options
    sizes = {"batch_size": length, "tokens": 1}
    limits = [batching[name] * each for name, each in sizes.items() if isinstance(batching.get(name), int)]
    tokens = min(limits, default=length)
    model = build_model(draft(config), device="meta", labels=draft_task(config).labels.outputs)
    forward = count(model, length=length, source_length=length, batch=1).forward
    return 3 * forward / length * tokens * config.training.accumulate  # the backward is twice the forward


def set_up(config: schema.Config, *, cache: Path | None = None, progress: ProgressOf = no_progress) -> Setup:
    """Corpus, tokenizer, task and model."""
    config = check(config)
    dataset = dataset_of(config, cache=cache, progress=progress)
    declared = bool(config.data.corpus.options.get("labels"))
    TARGETS[dataset.labels.kind].refuse(dataset.labels, declared=declared)
    dataset.refuse_unknown_labels()
    refuse_infeasible(config, dataset)
    task = TASKS.build(config.task, vocabulary=Vocabulary.of(dataset.tokenizer), labels=dataset.labels)
    model, origin = begin(config, dataset.tokenizer, dataset.labels)
    task.check(model)
    refuse_token_types(config, max(dataset.tokenizer.form.pair_types(1, 1)) + 1)
    return Setup(config, dataset, task, model, origin)


def refuse_token_types(config: schema.Config, needed: int) -> None:
    """Pairs of texts for a model that cannot tell the two apart."""
    encoding, held = config.data.encoding.kind, config.model.token_types
    typed = ENCODINGS[encoding].typed and config.data.encoding.options.get("types", True)
    if typed and held < needed:
        fix = "set model.token_types = 2" if config.start == SCRATCH else "begin from a model that has them"
        raise ConfigError(
            f'data.encoding "{encoding}" tells two texts apart by token types, and model.token_types is '
            f"{held}; {fix}."
        )


def set_up_again(stored: Stored, model: Model, *, cache: Path | None = None) -> Setup:
    """The parts of a run that was trained, around its model."""
    dataset = dataset_of(stored.config, cache=cache)
    task = TASKS.build(stored.config.task, vocabulary=Vocabulary.of(stored.tokenizer), labels=stored.labels)
    origin = Origin(stored.record.get("start", SCRATCH), fresh=stored.fresh)
    return Setup(stored.config, dataset, task, model, origin)


def draft_task(config: schema.Config) -> Task:
    """The task before any text is read."""
    vocabulary = Vocabulary.draft(draft(config).tokens)
    classes = config.model.output.options.get("classes", "labels")
    given = {} if classes == "labels" else {"classes": classes}
    labels = TASKS[config.task.kind].target.draft(**given)
    return TASKS.build(config.task, vocabulary=vocabulary, labels=labels)


def dataset_of(
    config: schema.Config, *, cache: Path | None = None, progress: ProgressOf = no_progress
) -> Dataset:
    """A run's text, with its labels read as the task reads them."""
    reader = draft_task(config).reader
    return Dataset(config.data, reader=reader, seed=config.seed, cache=cache, progress=progress)


def initial_model(setup: Setup) -> Model:
    """The model as it was before the first step."""
    model, origin = begin(setup.config, setup.dataset.tokenizer, setup.dataset.labels)
    if origin.start != setup.origin.start:
        raise RunError(
            f"The start {setup.config.start} is no longer the one that this run began from "
            f"({origin.start}, not {setup.origin.start}); restore it."
        )
    return model


def initial_of(setup: Setup) -> Callable[[], Model] | None:
    """How to build the model as it was before the first step; nothing where its start is gone."""
    return partial(initial_model, setup) if has_start(setup.config) else None


def in_order(setup: Setup) -> Loader:
    """The training batches, in the order of the run's seed."""
    return setup.dataset.trained(setup.config.seed)


def evaluator_of(
    config: schema.Config, dataset: Dataset, model: Model, task: Task, split: str, **chosen: Any
) -> Evaluator:
    """How a split is scored. Its stream is the split's, not the run's: runs of other seeds meet the same
    batches with the same tokens hidden."""
    texts = partial(dataset.texts, split) if task.compares_text else no_texts
    return Evaluator(
        model=model,
        task=task,
        loader=dataset.scored(split),
        seed=config.data.split_seed,
        texts=texts,
        **chosen,
    )


def fingerprints(setup: Setup) -> dict[str, Any]:
    """What decides the batches and their order: a resumed run must find the same."""
    dataset, names = setup.dataset, setup.dataset.splits.names
    return {
        "text": dataset.text_fingerprint,
        "data": {split: dataset.fingerprint(split) for split in names},
        "tokenizer": dataset.tokenizer.fingerprint,
        "order": in_order(setup).fingerprint,
        "tokenizer_identity": dataset.tokenizer.identity(),
        "tokenizer_text": dataset.tokenizer.text.identity if dataset.tokenizer.text else None,
        "start": setup.origin.start,
    }


def truncation(setup: Setup) -> dict[str, dict[str, float]]:
    """What data.length removed from the texts that are trained and judged on."""
    splits = [split for split in ("train", "dev") if split in setup.dataset.splits.names]
    return {split: setup.dataset.truncation(split).record() for split in splits}
