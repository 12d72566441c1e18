"""What cannot be trained, refused before it is begun: parts that do not go together, a machine too small.

Every number of memory and time is a lower bound, so that nothing is refused that could be done.
"""

from __future__ import annotations

from collections.abc import Callable

from attnlab.config import schema
from attnlab.config.memory import machine_bytes
from attnlab.config.schema import SCRATCH
from attnlab.config.values import ConfigError, unknown_name
from attnlab.data.batching import BATCHING
from attnlab.data.dataset import Dataset
from attnlab.data.encode import ENCODINGS
from attnlab.data.loader import Loader
from attnlab.evaluation.written_texts import TextWriter
from attnlab.metrics import METRICS
from attnlab.metrics.metric import is_of_texts
from attnlab.model.adapters import ADAPTERS
from attnlab.model.counts import count
from attnlab.model.model import Model
from attnlab.tasks import TASKS
from attnlab.tasks.task import Task
from attnlab.training.budget import amount
from attnlab.training.listeners import LISTENERS
from attnlab.training.machine import cores, device_of
from attnlab.training.optimizers import OPTIMIZERS
from attnlab.training.schedules import SCHEDULES

FASTEST = {"cpu": 2e11, "cuda": 2e15, "mps": 5e13}
"""Operations a second that no core, or no accelerator, is beyond."""
OVERHEAD = 1e-5
"""Seconds of a layer and batch beside its operations, at the least."""
LONGEST_STEP, LONGEST_RUN = 3600.0, 365 * 86400.0
"""Seconds of a step, before whose end nothing is seen or saved, and of a whole run."""
FLOAT, TRAINED = 4, 3
"""Bytes of a number, and numbers of a trained weight: itself, its gradient, and one of the optimizer's."""

NEEDED_BY = {"bleu": "BLEU needs references of four words or more; use chrf or exact_text."}
"""What references must have for a score to exist, and what else to choose by."""


# ---------------------------------------------------------------- parts that do not go together
def refuse_misfits(config: schema.Config, task: Task, draft: Model) -> None:
    """Parts, sizes and names that do not go together, before any text is read."""
    task.check(draft)
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
    refuse_separate(config)
    refuse_pictures(config)
    refuse_unwritten(config, task)
    refuse_unknown_best(config, task)
    refuse_token_types(config, 1)
    for listener in config.training.listeners:
        LISTENERS[LISTENERS.resolve(listener, "training.listeners").kind].refuse_missing()
    SCHEDULES.build(config.training.schedule)
    OPTIMIZERS.build(config.training.optimizer)


def takes_separate(config: schema.Config) -> bool:
    """Whether its targets have a vocabulary of their own, and rows and a decoder in which they can."""
    apart = ENCODINGS[config.data.encoding.kind].two_vocabularies
    return config.data.target_tokenizer != "shared" and apart and config.model.family == "encoder_decoder"


def refuse_separate(config: schema.Config) -> None:
    """A vocabulary for targets where they stand in one row, or one table, with what is read."""
    data = config.data
    if data.target_tokenizer != "shared" and not takes_separate(config):
        raise ConfigError(
            f"data.target_tokenizer is {data.target_tokenizer}, a vocabulary for targets alone, and with "
            f'task "{config.task.kind}", data.encoding "{data.encoding.kind}" and model.family '
            f'"{config.model.family}" sources and targets are read with one; set data.target_tokenizer to '
            '"shared", or use task seq2seq with encoding translation and family encoder_decoder.'
        )


def refuse_pictures(config: schema.Config) -> None:
    """Pictures for a model that reads none, and a model of pictures without any."""
    encoding, model = config.data.encoding.kind, config.model
    if ENCODINGS[encoding].pictured and model.picture is None:
        raise ConfigError(
            f'data.encoding "{encoding}" gives the patches of pictures, and model.inputs is text; set '
            'model.inputs = ["image(size=32, patch=4)"], with "text" beside it where it reads both.'
        )
    if model.picture is not None and not ENCODINGS[encoding].pictured:
        raise ConfigError(
            f'model.inputs has image, and data.encoding "{encoding}" gives no pictures; use image or '
            "image_text, or leave model.inputs out."
        )
    if encoding in ("image_text", "image_apart") and "text" not in model.modalities:
        raise ConfigError(
            f'data.encoding "{encoding}" gives a picture and its text, and model.inputs is image alone; set '
            'model.inputs = ["image", "text"], or data.encoding = "image".'
        )
    grid = model.picture
    if grid is not None and not grid.apart and config.data.length < grid.patches + 1:
        raise ConfigError(
            f"data.length is {config.data.length}, and a picture alone has {grid.patches} patches "
            f"and two special tokens; use at least {grid.patches + 2}, or larger patches."
        )


def refuse_unwritten(config: schema.Config, task: Task) -> None:
    """Texts to score, where none is written after a source."""
    encoding = ENCODINGS[config.data.encoding.kind]
    writes = task.predicts_words and "target" in encoding.uses and task.sees != "all"
    if config.training.generate_every != "never" and not writes:
        raise ConfigError(
            f'training.generate_every asks for texts to score, and task "{config.task.kind}" writes none '
            f'with data.encoding "{config.data.encoding.kind}"; leave it out, or use task seq2seq with '
            "encoding translation, or task prefix with encoding prefix (for captions of pictures: "
            "image_translation and image_prefix)."
        )


def refuse_unknown_best(config: schema.Config, task: Task) -> None:
    """A metric that chooses the best checkpoint, and that no evaluation has."""
    settings = config.training
    metric = settings.deciding(task.metrics)
    if metric not in METRICS:
        raise unknown_name("training.best_by", metric, ["task", *METRICS])
    if settings.best_by == "task" or metric in task.metrics:
        return
    if not is_of_texts(METRICS[metric]):
        raise ConfigError(
            f'training.best_by is "{metric}", which task "{config.task.kind}" does not give; use task, or '
            f"one of {', '.join(task.metrics)}."
        )
    if settings.generate_every == "never":
        raise ConfigError(
            f'training.best_by is "{metric}", a score of written texts, and none are written; set '
            'training.generate_every = "evaluation".'
        )


def refuse_unscored(config: schema.Config, task: Task, writer: Callable[[], TextWriter]) -> None:
    """A score of texts that chooses the best checkpoint, and that even the references of dev have not."""
    settings = config.training
    metric = settings.deciding(task.metrics)
    if settings.generate_every == "never" or not is_of_texts(METRICS[metric]):
        return
    count = None if settings.generate_examples == "all" else settings.generate_examples
    if not METRICS.build(metric).applies(writer().ideal(count)):
        fix = NEEDED_BY.get(metric, "Use chrf or exact_text.")
        raise ConfigError(f'training.best_by is "{metric}", which the texts of dev have not. {fix}')


def refuse_token_types(config: schema.Config, needed: int) -> None:
    """Pairs of texts for a model that cannot tell the two apart."""
    encoding, types = config.data.encoding.kind, config.model.token_types
    typed = ENCODINGS[encoding].typed and config.data.encoding.options.get("types", True)
    if typed and types < needed:
        fix = "set model.token_types = 2" if config.start == SCRATCH else "begin from a model that has them"
        raise ConfigError(
            f'data.encoding "{encoding}" tells two texts apart by token types, and model.token_types is '
            f"{types}; {fix}."
        )


# ---------------------------------------------------------------- a machine that is too small
def refuse_infeasible(config: schema.Config, dataset: Dataset, model: Model) -> None:
    """A run that cannot fit into this machine or come to an end; `model` may be on the meta device."""
    device = device_of(config.training.device).type
    weights = weight_bytes(config, model)
    refuse_large(weights, "The model's weights, gradients and optimizer", config, device)
    loader = dataset.trained(config.seed)
    refuse_repeated(config.training.accumulate, len(loader))
    tokens, rows, length = batch_size(config, loader)
    cost = count(model, length=length, source_length=length, batch=1)
    kept = sum(term.count for term in cost.activations) * rows * FLOAT
    if config.training.gradient_checkpointing or config.training.precision != "float32":
        kept = 0.0
    id_bytes = 8 * tokens * config.training.accumulate  # the ids of all batches of a step are held at once
    refuse_large(int(weights + kept / 2 + id_bytes), "A training step", config, device)
    speed = FASTEST[device] * (cores() if device == "cpu" else 1)
    batch = 3 * cost.forward * rows / speed + OVERHEAD * config.model.layers
    refuse_endless(config, loader, batch * config.training.accumulate)


def weight_bytes(config: schema.Config, model: Model) -> int:
    """Of all weights and tables; of what is trained, its gradients and optimizer, too."""
    weights = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    return FLOAT * weights * (TRAINED if config.adapter.kind == "full" else 1)


def batch_size(config: schema.Config, loader: Loader) -> tuple[float, float, int]:
    """Tokens and rows of a batch on average, and how long those rows are at the most."""
    tokens = loader.epoch_tokens / max(len(loader), 1)
    length = max(1, min(config.data.length, int(tokens)))
    return tokens, max(1.0, tokens / length), length


def refuse_large(needed: int, what: str, config: schema.Config, device: str) -> None:
    available = machine_bytes() if device == "cpu" else 0
    if available and needed > available:
        model = config.model
        raise ConfigError(
            f"{what} would take at least {gibibytes(needed)} of memory, and this machine has "
            f"{gibibytes(available)}. Lower model.width ({model.width:,}), model.layers ({model.layers:,}), "
            f"model.length ({model.length:,}), the vocabulary or the batches ({config.data.batching}); "
            "attnlab explain counts shows what each costs."
        )


def refuse_repeated(accumulate: int, batches: int) -> None:
    """A step of more batches than the text has would add up the same gradients again."""
    if accumulate > max(batches, 1):
        raise ConfigError(
            f"training.accumulate is {accumulate:,} batches a step, and the training text has {batches:,}: a "
            f"step would read it {accumulate / max(batches, 1):,.1f} times. Use at most {batches:,}."
        )


def refuse_endless(config: schema.Config, loader: Loader, step: float) -> None:
    """A step, or a budget, that this machine cannot come to the end of."""
    training, batches = config.training, max(len(loader), 1)
    if step > LONGEST_STEP:
        raise ConfigError(
            f"A step would take at least {step / 3600:,.0f} hours here, and nothing is seen or saved before "
            f"it ends. Lower training.accumulate ({training.accumulate:,}), the batches or the model."
        )
    limits = training.budget.limits
    if "flops" in limits or training.patience != "unlimited":
        return  # it ends by a count of operations, or when nothing gets better
    epoch = step * batches / training.accumulate
    each = {"steps": step, "epochs": epoch, "tokens": epoch / max(loader.epoch_tokens, 1), "seconds": 1.0}
    name = min(limits, key=lambda limit: limits[limit] * each[limit])
    years = limits[name] * each[name] / LONGEST_RUN
    if years > 1:
        raise ConfigError(
            f"training.budget of {amount(limits[name], name)} would take at least {years:,.3g} years here; "
            "lower it, or add training.budget.seconds."
        )


def gibibytes(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
