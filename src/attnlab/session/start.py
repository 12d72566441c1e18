"""What a run begins from: weights that are drawn, or those of a model that was trained before."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from attnlab.config import schema
from attnlab.config.files import section_of
from attnlab.config.schema import SCRATCH
from attnlab.config.values import Choice, ConfigError
from attnlab.data.labels import Labels
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.data.tokenizers.tokenizer import TARGET_FILE, Tokenizer
from attnlab.data.tokenizers.tokenizer_files import load as load_tokenizer
from attnlab.interop.exchange import load_belonging
from attnlab.interop.foreign import CONFIG, read_settings
from attnlab.model.adapters import ADAPTERS
from attnlab.model.assemble import build_model
from attnlab.model.heads import HEADS
from attnlab.model.model import Model
from attnlab.model.trunks import TRUNKS
from attnlab.model.trunks.transformer import transformer_of
from attnlab.runs.record import RECORD
from attnlab.session.stored import (
    PACKAGED,
    is_checkpoint,
    is_published,
    model_folder,
    stored_at,
    without_adapter,
)
from attnlab.tasks import TASKS
from attnlab.tasks.task import Task
from attnlab.training.checkpoint import load_weights, weights_of
from attnlab.training.trace import digest, initial_weights

FREE = ("dropout", "attention_dropout")
"""What [model] may set beside its head with a start: it changes no weight."""


@dataclass(frozen=True)
class Start:
    """A model that was trained before, or that a study will train first; its weights are read by `read`."""

    name: str
    """What a config calls it."""
    path: Path
    settings: schema.ModelSettings
    tokenizer_choice: Choice
    """What data.tokenizer becomes in a run that begins from it."""
    trained_with: tuple[Choice, ...] = ()
    """What data.tokenizer was where the tokenizer was made."""
    labels: Labels = Labels()
    made_tokenizer: Tokenizer | None = None
    """None where it is still to be trained."""
    target_choice: Choice | Literal["shared"] = "shared"
    """The same of data.target_tokenizer."""
    targets_with: Choice | Literal["shared"] = "shared"
    """What data.target_tokenizer was where the tokenizer was made."""
    reader: Callable[[], tuple[Model, Mapping[str, Any]]] | None = None

    def read(self) -> tuple[Model, Mapping[str, Any]]:
        """The model, every tensor accounted for, and its certificate where another project made it."""
        if self.reader is None:
            raise ConfigError(f"The start {self.path} has not been trained yet.")
        return self.reader()

    @property
    def tokenizer_of_others(self) -> Choice:
        """How a run that does not begin from it gets its tokenizer: made anew where there is none yet."""
        return self.trained_with[0] if self.reader is None else self.tokenizer_choice

    @property
    def tokenizer(self) -> Tokenizer:
        assert self.made_tokenizer is not None, "a start that is only planned is not read"
        return self.made_tokenizer


def start_at(name: str | Path) -> Start:
    place = model_folder(name)
    if is_published(place):
        return _of_folder(str(name), place)
    if (place / RECORD).is_file() or is_checkpoint(place):
        return _of_run(str(name), place)
    raise ConfigError(
        f'start is "{name}", which holds neither a run ({RECORD}), nor a checkpoint of one, nor a model in '
        f"transformers' layout ({CONFIG}); give the folder of one, {' or '.join(PACKAGED)}, or "
        f'"{SCRATCH}".'
    )


def has_start(config: schema.Config) -> bool:
    """Whether what a run began from can still be read."""
    try:
        return config.start == SCRATCH or model_folder(config.start).exists()
    except ConfigError:
        return False


def planned_start(name: str, settings: schema.ModelSettings, data: schema.DataSettings) -> Start:
    """A start that is still to be trained: enough to validate the configs that begin from it."""
    folder = Path(name)
    return Start(
        name,
        folder,
        settings,
        _from_file(folder / "tokenizer.json"),
        (data.tokenizer,),
        target_choice=_target_of(data, folder),
        targets_with=data.target_tokenizer,
    )


def _target_of(data: schema.DataSettings, folder: Path) -> Choice | Literal["shared"]:
    """What data.target_tokenizer becomes in a run that begins from one with this data."""
    return "shared" if data.target_tokenizer == "shared" else _from_file(folder / TARGET_FILE)


def _from_file(path: Path) -> Choice:
    return TOKENIZERS.resolve({"kind": "file", "path": str(path)})


def _of_run(name: str, place: Path) -> Start:
    stored = stored_at(place)
    return Start(
        name,
        place,
        stored.settings,
        _from_file(stored.folder / "tokenizer.json"),
        trained_with=(stored.config.data.tokenizer,),
        labels=stored.labels,
        made_tokenizer=stored.tokenizer,
        target_choice=_target_of(stored.config.data, stored.folder),
        targets_with=stored.config.data.target_tokenizer,
        reader=lambda: (without_adapter(stored.model(), place), {}),
    )


def _of_folder(name: str, place: Path) -> Start:
    try:
        tokenizer = load_tokenizer(place)
    except ConfigError as error:
        raise ConfigError(
            f"{error} The start {place} needs the tokenizer that it was trained with: copy its files there, "
            f"or name them with attnlab convert {place} RUN --tokenizer PATH, and start from RUN."
        ) from error

    def read() -> tuple[Model, Mapping[str, Any]]:
        foreign = load_belonging(place, tokenizer)
        return foreign.model, foreign.certificate.as_json()

    settings = read_settings(place)
    return Start(name, place, settings, _from_file(place), made_tokenizer=tokenizer, reader=read)


# ---------------------------------------------------------------- settings
def with_start(config: schema.Config, start: Start | None) -> schema.Config:
    """The config with what its start decides: the model's settings and the tokenizer.

    What the config sets otherwise is refused, but for what is at its default.
    """
    if start is None:
        if config.adapter != ADAPTERS.resolve(ADAPTERS.default):
            raise ConfigError(
                f"adapter {config.adapter.kind} trains a small part of a model that was trained before, and "
                f'start is "{SCRATCH}"; set start to a run or a model\'s folder, or adapter to '
                f'"{ADAPTERS.default}".'
            )
        return config
    model, tokenizer = _model(config, start), _tokenizer(config.data.tokenizer, start)
    encoding, target = _encoding(config.data.encoding, model), _target_tokenizer(config, start)
    data = replace(config.data, tokenizer=tokenizer, target_tokenizer=target, encoding=encoding)
    return replace(config, model=model, data=data)


def _encoding(wanted: Choice, model: schema.ModelSettings) -> Choice:
    """Pairs for a model without token types are told apart by the separator alone, as it was trained."""
    if wanted.kind not in ("pair", "question") or model.token_types:
        return wanted
    return Choice(wanted.kind, {**wanted.options, "types": False})


def stacks_for(task: type[Task], own: schema.ModelSettings) -> schema.ModelSettings:
    """The settings of the part of a start that a task reads with: of two stacks, the encoder alone where
    there is nothing to write."""
    if own.family != "encoder_decoder" or task.two_stacks:
        return own
    if own.trunk.kind != TRUNKS.default:
        raise ConfigError(
            f'The encoder alone can be taken of a transformer, and the trunk of the start is "{own.trunk}"; '
            "use a task that reads a source and writes a text, or another start."
        )
    rows = own.vocabulary if own.source_vocabulary == "shared" else own.source_vocabulary
    mask = section_of("model", {"family": "encoder"}).mask
    return replace(own, family="encoder", mask=mask, vocabulary=rows, source_vocabulary="shared")


def _model(config: schema.Config, start: Start) -> schema.ModelSettings:
    wanted, own = config.model, stacks_for(TASKS[config.task.kind], start.settings)
    usual: schema.ModelSettings = section_of("model", {"family": wanted.family})
    set_here = {name: value for name, value in vars(wanted).items() if value != getattr(usual, name)}
    if wanted.family != schema.ModelSettings.family:
        set_here["family"] = wanted.family
    for name, value in set_here.items():
        decided = getattr(own, name)
        if name not in (*FREE, "output") and value != decided:
            free = ", ".join(f"model.{free}" for free in FREE)
            raise ConfigError(
                f"model.{name} is {value}, and in the start {start.path} it is {decided}. A model that "
                f"begins from another has its settings: leave model.{name} out, or set it to {decided}. "
                f"Only model.output, {free} may be set otherwise."
            )
    chosen = {name: set_here[name] for name in FREE if name in set_here}
    return replace(own, **chosen, output=_head(config, own.output))


def _head(config: schema.Config, own: Choice) -> Choice:
    """The start's own where it serves the task and no other is asked for; its classes are the labels'."""
    task, wanted = TASKS[config.task.kind], config.model.output
    serves = own.kind in task.heads and own.options.get("classes", "labels") == "labels"
    return own if serves and wanted == HEADS.resolve(task.head) else wanted


def _tokenizer(wanted: Choice, start: Start) -> Choice:
    usual = section_of("data", {}).tokenizer
    same = wanted in (usual, *start.trained_with)
    if not same and wanted.kind == "file" and start.made_tokenizer is not None:
        same = load_tokenizer(str(wanted.options["path"])).fingerprint == start.tokenizer.alone.fingerprint
    if not same:
        raise ConfigError(
            f"data.tokenizer is {wanted}, a foreign tokenizer for the start {start.path}: its ids would mean "
            "other words than those that the model has learned. Leave data.tokenizer out, or set it to the "
            f"start's own: {start.tokenizer_choice.options['path']}."
        )
    return start.tokenizer_choice


def _target_tokenizer(config: schema.Config, start: Start) -> Choice | Literal["shared"]:
    """The start's own where the run writes targets; what the config sets otherwise is refused."""
    wanted = config.data.target_tokenizer
    if wanted not in ("shared", start.targets_with, start.target_choice):
        raise ConfigError(
            f"data.target_tokenizer is {wanted}, and the start {start.path} was trained with "
            f"{start.targets_with}: ids would mean other words than those that the model has learned. Leave "
            "data.target_tokenizer out."
        )
    return start.target_choice if TASKS[config.task.kind].two_stacks else "shared"


# ---------------------------------------------------------------- weights
@dataclass(frozen=True)
class Origin:
    """Where the weights of a model come from that has not been trained here yet."""

    start: str = SCRATCH
    """What identifies the start: a hash of its weights."""
    taken: tuple[str, ...] = ()
    """The parameters that have their values from the start."""
    fresh: tuple[str, ...] = ()
    """Those of the model that are drawn, since the start does not have them."""
    certificate: Mapping[str, Any] = field(default_factory=dict)
    """The account of the tensors of another project's files."""


def begin(
    config: schema.Config, start: Start | None, tokenizer: Tokenizer, labels: Labels
) -> tuple[Model, Origin]:
    """The model before its first step: a function of the start and the seed."""
    if start is None:
        settings = config.model.with_tokenizer(*tokenizer.sizes)
        return build_model(settings, seed=config.seed, labels=labels.outputs), Origin()
    source, certificate = start.read()
    model = build_model(config.model, seed=config.seed, labels=labels.outputs)
    same_head = config.model.output == start.settings.output and labels.means_the_same(start.labels)
    taken, fresh = _filled(model, source, with_head=same_head)
    try:
        ADAPTERS.build(config.adapter).attach(model, train=fresh, seed=config.seed)
    except ValueError as error:
        raise ConfigError(f"adapter {config.adapter}: {error}") from error
    summary = json.dumps(initial_weights(source), sort_keys=True)
    return model, Origin(digest(summary.encode()), taken, fresh, certificate)


Names = tuple[str, ...]


def _filled(model: Model, source: Model, *, with_head: bool) -> tuple[Names, Names]:
    """Give the model the source's weights, every tensor of the trunk, or of its encoder where the model has
    that alone, accounted for; their names, and those of the rest."""
    parts = ["trunk."]
    if source.trunk.reads_source != model.trunk.reads_source:
        transformer_of(source.trunk)  # whose encoder is a part of its own
        parts = ["trunk.encoder."]
    parts += ["head."] if with_head else []
    taken = {name: w for name, w in weights_of(source).items() if name.startswith(tuple(parts))}
    drawn = {name: w for name, w in weights_of(model).items() if name.startswith("head.")}
    fresh = {} if with_head else drawn
    load_weights(model, taken | fresh)
    return tuple(taken), tuple(fresh)
