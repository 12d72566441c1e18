"""The composition root: from one run's config to its parts, and to a trained model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from attnlab.config import schema
from attnlab.config.files import to_json
from attnlab.config.streams import stream_seed
from attnlab.config.values import ConfigError
from attnlab.data.batching import BATCHING
from attnlab.data.dataset import Dataset, ProgressOf, no_progress
from attnlab.model.attention import ATTENTION
from attnlab.model.blocks import RESIDUALS, Alone, Attention, Block, CrossAttention, SelfAttention
from attnlab.model.combinations import Parts, refusal
from attnlab.model.feedforward import FEEDFORWARDS
from attnlab.model.heads import HEADS
from attnlab.model.initial import initialise, table_std
from attnlab.model.masks import MASKS, Bidirectional, Mask, backward_looking
from attnlab.model.model import Model
from attnlab.model.norms import NORMS
from attnlab.model.positions import POSITIONS
from attnlab.model.positions.position import Position
from attnlab.model.projections import PROJECTIONS
from attnlab.model.transformer import Embedding, Stack, Transformer
from attnlab.objectives import OBJECTIVES
from attnlab.objectives.objective import Objective
from attnlab.objectives.vocabulary import Vocabulary
from attnlab.training.budget import State
from attnlab.training.evaluate import Evaluation, evaluate
from attnlab.training.events import Listener
from attnlab.training.failure import Failure
from attnlab.training.folder import RunFolder
from attnlab.training.interrupt import Interrupt
from attnlab.training.listeners import LISTENERS
from attnlab.training.listeners.metrics import MetricsFile
from attnlab.training.loop import Loop
from attnlab.training.machine import autocast_of, device_of, recompute_blocks
from attnlab.training.optimizers import OPTIMIZERS, Optimizers
from attnlab.training.schedules import SCHEDULES


def build_model(config: schema.Model, *, seed: int = 0, device: str = "cpu") -> Model:
    """The model of a config, initialised from the seed. On the device "meta" nothing is allocated."""
    try:
        with torch.device(device), _Undrawn() if device == "meta" else nullcontext():
            model = _assemble(config)
    except ConfigError:
        raise
    except ValueError as error:  # a part refused its options or sizes
        raise ConfigError(str(error)) from error
    if device != "meta":
        initialise(model, seed)
    return model


class _Undrawn(TorchFunctionMode):
    """Leaves out torch's own random numbers, which on "meta" fill nothing and load its compiler."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), named: dict[str, Any] | None = None
    ) -> Any:
        if getattr(function, "__name__", "") in ("normal_", "uniform_", "kaiming_uniform_"):
            return arguments[0] if arguments else (named or {})["tensor"]
        return function(*arguments, **(named or {}))


def _assemble(config: schema.Model) -> Model:
    mask = MASKS.build(config.mask)
    encodes, decodes = config.family != "decoder", config.family != "encoder"
    encoder_mask = mask if not decodes else Bidirectional()
    encoder = _stack(config, encoder_mask) if encodes else None
    shared = encoder.embedding.tokens if encoder is not None else None
    decoder = _stack(config, mask, tokens=shared, cross=encodes) if decodes else None
    trunk = Transformer(encoder=encoder, decoder=decoder)
    head = HEADS.build(
        config.output,
        width=config.width,
        tokens=trunk.main.embedding.tokens,
        norm=partial(_norm, config),
        dropout=config.dropout,
    )
    return Model(trunk, head)


def _norm(config: schema.Model, width: int) -> nn.Module:
    return NORMS.build(config.norm, width=width, bias=config.bias)


def _stack(
    config: schema.Model, mask: Mask, *, tokens: nn.Embedding | None = None, cross: bool = False
) -> Stack:
    width = config.width
    positions = _positions(config, mask)
    blocks = [_block(config, cross) for _ in range(config.layers)]
    _refuse(config, mask, positions, blocks[0], cross)
    embedding = Embedding(
        tokens if tokens is not None else nn.Embedding(config.vocabulary, width - positions.narrows),
        positions,
        types=nn.Embedding(config.token_types, width - positions.narrows) if config.token_types else None,
        norm=_norm(config, width) if config.embedding_norm else None,
        scale=_embedding_scale(config, width - positions.narrows),
        dropout=config.dropout,
    )
    final = RESIDUALS[config.residual.kind].final(_norm(config, width))
    return Stack(embedding, blocks, final, mask)


def _embedding_scale(config: schema.Model, width: int) -> float:
    """Of a table of this width: as large as what blocks add to it; what they drown is learnt late."""
    if config.embedding_scale == "unit":
        return 1 / table_std(width)
    return config.width**0.5 if config.embedding_scale == "root" else config.embedding_scale


def _positions(config: schema.Model, mask: Mask) -> Position:
    return POSITIONS.build(
        config.positions,
        width=config.width,
        heads=config.heads,
        head_width=config.each_head_width,
        layers=config.layers,
        length=config.length,
        scale=partial(_embedding_scale, config),
        looks_back=backward_looking(mask),
    )


def _block(config: schema.Model, cross: bool) -> Block:
    parts: list[nn.Module] = [_attention(config, config.attention, SelfAttention)]
    if cross:
        parts.append(_attention(config, config.cross_attention, CrossAttention))
    feedforward = FEEDFORWARDS.build(config.feedforward, width=config.width, bias=config.bias)
    parts.append(Alone(feedforward))
    residuals = (
        RESIDUALS.build(config.residual, norm=_norm(config, config.width), inner=part, dropout=config.dropout)
        for part in parts
    )
    return Block(*residuals)


def _attention(
    config: schema.Model, choice: Any, kind: type[SelfAttention] | type[CrossAttention]
) -> SelfAttention | CrossAttention:
    width, heads, head_width = config.width, config.heads, config.each_head_width
    rule = ATTENTION.build(
        choice,
        heads=heads,
        head_width=head_width,
        length=config.length,
        masking=config.masking,
        dropout=config.attention_dropout,
    )
    projections = PROJECTIONS.build(
        config.projections, width=width, heads=heads, head_width=head_width, bias=config.bias
    )
    return kind(projections, rule, nn.Linear(heads * head_width, width, bias=config.bias))


def _refuse(config: schema.Model, mask: Mask, positions: Position, block: Block, cross: bool) -> None:
    """Stop at a combination that cannot work, with its reason."""
    rules = [part.rule for part in block.modules() if isinstance(part, Attention)]
    parts = Parts(
        attention=rules[0],
        cross_attention=rules[1] if cross else None,
        mask=mask,
        positions=positions,
        decodes=config.family == "decoder" or cross,
        dropout=config.attention_dropout,
    )
    reason = refusal(parts)
    if reason is not None:
        raise ConfigError(reason)


# ---------------------------------------------------------------- a run
@dataclass(frozen=True)
class Setup:
    """The parts of a run, ready to train."""

    config: schema.Config
    dataset: Dataset
    objective: Objective
    model: Model


@dataclass(frozen=True)
class Run:
    """A run that has ended: by its "budget", by lost "patience", or "interrupted"."""

    folder: Path
    reason: str
    state: State
    setup: Setup
    signal: int = 0

    @property
    def model(self) -> Model:
        return self.setup.model


def check(config: schema.Config) -> None:
    """Refuse what cannot work before any text is read: parts, sizes and names that do not go together."""
    objective = OBJECTIVES.build(config.objective, vocabulary=Vocabulary.draft(config.model.vocabulary))
    objective.check(build_model(config.model, device="meta"))
    name, encoding, batching = config.objective.kind, config.data.encoding.kind, config.data.batching.kind
    if encoding not in objective.encodings:
        raise ConfigError(
            f'objective "{name}" cannot use data.encoding "{encoding}"; it takes '
            f"{' or '.join(objective.encodings)}."
        )
    if BATCHING[batching].packs and not objective.packs:
        raise ConfigError(
            f'objective "{name}" needs a line for each text; use data.batching = "bucketed" or "padded".'
        )
    if config.data.length > config.model.length:
        raise ConfigError(
            f"data.length {config.data.length} is more than model.length {config.model.length}; "
            "raise the one or lower the other."
        )
    for listener in config.training.listeners:
        LISTENERS.resolve(listener, "training.listeners")
    SCHEDULES.build(config.training.schedule)
    OPTIMIZERS.build(config.training.optimizer)


def set_up(config: schema.Config, *, cache: Path | None = None, progress: ProgressOf = no_progress) -> Setup:
    """Corpus, tokenizer, objective and model. The vocabulary's size is the tokenizer's."""
    check(config)
    dataset = Dataset(config.data, cache=cache, progress=progress)
    tokenizer = dataset.tokenizer
    objective = OBJECTIVES.build(config.objective, vocabulary=Vocabulary.of(tokenizer))
    model = build_model(replace(config.model, vocabulary=tokenizer.size), seed=config.seed)
    return Setup(config, dataset, objective, model)


def train(
    config: schema.Config,
    out: Path,
    *,
    resume: bool = False,
    cache: Path | None = None,
    listeners: Iterable[Listener] = (),
    progress: ProgressOf = no_progress,
) -> Run:
    """Train as the config says, in the folder `out`; with `resume`, go on where that run stands."""
    check(config)
    folder = RunFolder(out)
    with folder.opened(config, resume=resume) as warnings:
        setup = set_up(config, cache=cache, progress=progress)
        with folder.recorded():
            setup.dataset.tokenizer.save(out)
            folder.expect(**fingerprints(setup))
            loop = _loop(setup, folder)
            warnings += _restored(loop, folder)
            with MetricsFile(folder.metrics, loop.state) as metrics:
                loop.listeners = [metrics, *listeners, *_trackers(config, out)]
                for warning in warnings:
                    loop.warn(warning)
                return _run(loop, setup, folder)


def _run(loop: Loop, setup: Setup, folder: RunFolder) -> Run:
    interrupt = Interrupt()
    folder.note(status="running")
    with interrupt.heard():
        reason = loop.run(interrupt)
    state = loop.state
    best = {"step": state.best_step, "loss": state.best_loss}
    status = "interrupted" if reason == "interrupted" else "finished"
    folder.note(status=status, reason=reason, step=state.step, best=best, error="")
    return Run(folder.path, reason, state, setup, interrupt.signal)


def fingerprints(setup: Setup) -> dict[str, Any]:
    """What decides the batches and their order: a resumed run must find the same."""
    dataset, names = setup.dataset, setup.dataset.splits.names
    return {
        "data": {split: dataset.fingerprint(split) for split in names},
        "tokenizer": dataset.tokenizer.fingerprint,
    }


def _loop(setup: Setup, folder: RunFolder) -> Loop:
    config, settings = setup.config, setup.config.training
    device = device_of(settings.device)
    model = setup.model.to(device)
    if settings.recompute:
        recompute_blocks(model)
    if settings.compile:
        model.trunk.compile(dynamic=True)
    autocast = autocast_of(settings.precision, device)
    return Loop(
        model=model,
        objective=setup.objective,
        loader=setup.dataset.loader("train", seed=stream_seed(config.seed, "data")),
        evaluate=_evaluation(setup, device, autocast),
        optimizer=Optimizers(OPTIMIZERS.build(settings.optimizer), model),
        schedule=SCHEDULES.build(settings.schedule),
        settings=settings,
        checkpoints=folder.checkpoints,
        failure=Failure(folder.path, folder.checkpoints),
        seed=config.seed,
        autocast=autocast,
        device=device,
    )


def _evaluation(setup: Setup, device: torch.device, autocast: Any) -> Callable[[], Evaluation] | None:
    """The dev loss. Its stream is the split's, not the run's: runs of other seeds meet the same test."""
    config = setup.config
    if config.training.evaluate_every == "never" or "dev" not in setup.dataset.splits.names:
        return None
    seed = config.data.split_seed
    loader = setup.dataset.loader("dev", seed=stream_seed(seed, "evaluation"))
    batches = config.training.evaluate_batches
    chosen: dict[str, Any] = {"batches": batches, "seed": seed, "device": device, "autocast": autocast}
    return partial(evaluate, setup.model, setup.objective, loader, **chosen)


def _restored(loop: Loop, folder: RunFolder) -> list[str]:
    """Go on from the last sound checkpoint, where there is one; gives what was wrong with later ones."""
    messages: list[str] = []
    checkpoint = folder.checkpoints.newest(messages.append)
    if checkpoint is not None:
        loop.restore(checkpoint)
    place = f"step {loop.state.step}" if checkpoint is not None else "the beginning"
    warnings = [f"{message} The run goes on from {place}." for message in messages]
    if checkpoint is not None and "seconds" in loop.settings.budget.limits:
        warnings.append(
            "The budget is in seconds, which no two runs spend alike: this run goes on, but its end is not "
            "that of a run never interrupted."
        )
    return warnings


def _trackers(config: schema.Config, out: Path) -> list[Listener]:
    chosen = config.training.listeners
    return [LISTENERS.build(name, folder=out, config=to_json(config)) for name in chosen]


def default_cache() -> Path:
    """Where tokenised text is kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "attnlab"
