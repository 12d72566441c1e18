"""A model of another project becomes a run folder that is opened here, and the reverse."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.config.files import config_of, plain, section_of
from attnlab.config.schema import Config, ModelSettings
from attnlab.config.untrusted import read_json
from attnlab.config.values import ConfigError
from attnlab.data.labels import Labels
from attnlab.data.tokenizers.patches import patches
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_files import load as load_tokenizer
from attnlab.interop.belonging import moved, special_names, strangeness
from attnlab.interop.certificate import Certificate
from attnlab.interop.class_names import counted, labels_in, labels_out, named_labels, task_of
from attnlab.interop.fields import Settings, Theirs, get
from attnlab.interop.foreign import (
    CONFIG,
    ID2LABEL,
    NULL_THRESHOLD,
    Foreign,
    NoLayoutError,
    built_with,
    class_layout_of,
    family_of,
    layout_of,
    load_model,
    resize,
    save_model,
)
from attnlab.interop.onnx import write_onnx
from attnlab.interop.picture_models import drawn_pictures, in_order, picture_scores, without_patch_vector
from attnlab.interop.sentence_layout import SentenceHead
from attnlab.interop.tokenizer_export import save_tokenizer
from attnlab.model.heads.labels import Classification, TokenClassification
from attnlab.model.heads.language import language_head
from attnlab.model.heads.span import Span
from attnlab.model.model import Model
from attnlab.model.positions.absolute import sinusoids
from attnlab.model.trunks.transformer import transformer_of
from attnlab.model.trunks.two_encoders import TwoEncoders
from attnlab.model.witness import answer, differs
from attnlab.runs.folder import RunFolder
from attnlab.targets import TARGETS
from attnlab.training.checkpoint import Checkpoint, save_checkpoint, weights_of
from attnlab.training.machine import versions

GENERATION = "generation_config.json"
GENERATION_IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
USUAL_TASKS = {"decoder": "causal", "encoder": "masked", "encoder_decoder": "seq2seq"}
"""What a model was most likely trained for whose head predicts words."""


def import_model(
    source: Path,
    target: Path,
    *,
    output: Any = None,
    tokenizer: str | Path | None = None,
    accept: Collection[str] = (),
    vocabulary: int | None = None,
    length: int | None = None,
) -> Certificate:
    """A folder that `open_run` opens, from one of transformers'."""
    own = _tokenizer(source, tokenizer)
    foreign = load_model(source, output=output, accept=accept)
    sizes = foreign.config.tokens, foreign.config.length
    foreign = resize(foreign, vocabulary=vocabulary or sizes[0], length=length or sizes[1])
    strange = reasons_against(own, foreign, source)
    if strange and "tokenizer" not in accept:
        raise ConfigError(
            f"The tokenizer does not belong to this model: {'; '.join(strange)}. Its ids would mean other "
            "words; give the model's own with --tokenizer, or proceed anyway with --accept tokenizer."
        )
    spare = foreign.config.tokens - own.size
    if spare < 0:  # what cannot be accepted: an id without a row is an error at the first text that has it
        raise ConfigError(
            f"The tokenizer has {own.size:,} tokens, and the model's table {foreign.config.tokens:,} rows: "
            f"some ids would have none. Add rows for them: --vocabulary {own.size}."
        )
    certificate = foreign.certificate.with_notes(
        f"the tokenizer has {own.size:,} tokens, the model {foreign.config.tokens:,}"
        + (f" ({spare:,} rows to spare)" if spare > 0 else ""),
        *(f"accepted: {reason}" for reason in strange),
    )
    _write_run(target, foreign, own, certificate, str(source))
    return certificate


def reasons_against(tokenizer: Tokenizer, foreign: Foreign, folder: Path) -> list[str]:
    """Why a tokenizer cannot be that of the model in a folder; nothing if it can."""
    return [
        *strangeness(tokenizer, foreign.config.tokens, foreign.theirs, special_names(folder)),
        *moved(tokenizer, folder, foreign.witness.get("tokenizer")),
    ]


@dataclass(frozen=True)
class Published:
    """A model of another project as it stands in its folder, with all that a run has of its own."""

    model: Model
    tokenizer: Tokenizer
    labels: Labels
    config: Config


def read_published(folder: Path) -> Published:
    """The model of a folder in transformers' layout, in memory."""
    tokenizer = _tokenizer(folder, None)
    published = load_belonging(folder, tokenizer)
    labels = labels_of(published)
    return Published(
        published.model, tokenizer, labels, _run_config(published.config, labels, folder, published.theirs)
    )


def load_belonging(folder: Path, tokenizer: Tokenizer) -> Foreign:
    """The model of a folder, where this tokenizer can be its own."""
    foreign = load_model(folder)
    if strange := reasons_against(tokenizer, foreign, folder):
        raise ConfigError(
            f"The tokenizer in {folder} does not belong to its model: {'; '.join(strange)}. Its ids would "
            "mean other words; restore the tokenizer that the model was published with."
        )
    return foreign


def _tokenizer(source: Path, given: str | Path | None) -> Tokenizer:
    """The one that is given, or that of the folder; of a family of pictures a class token and patches."""
    theirs = read_json(source / CONFIG) if (source / CONFIG).is_file() else {}
    if given is None and family_of(theirs, source).pictured:
        return patches()
    try:
        return load_tokenizer(source if given is None else given)
    except ConfigError as error:
        if given is not None:
            raise
        raise ConfigError(f"{error} Give the model's tokenizer with --tokenizer PATH.") from error


def _write_run(target: Path, foreign: Foreign, own: Tokenizer, certificate: Certificate, source: str) -> None:
    folder = RunFolder(target)
    labels = labels_of(foreign)
    config = _run_config(foreign.config, labels, Path("tokenizer.json"), foreign.theirs)
    with folder.opened(config, resume=False, versions=versions()), folder.recorded():
        own.save(target)
        converted = Checkpoint(weights_of(foreign.model), {}, {"step": 0}, answer(foreign.model))
        save_checkpoint(folder.checkpoints, 0, converted)
        folder.note(
            status="converted",
            step=0,
            tokenizer=own.fingerprint,
            source={"name": source, "config": foreign.theirs},
            certificate=certificate.as_json(),
            labels=asdict(labels),
        )


def labels_of(foreign: Foreign) -> Labels:
    """The labels of a head for labels."""
    head = foreign.model.head
    if isinstance(head, Span):
        return TARGETS["answer"].draft()
    if isinstance(head, TokenClassification):
        return named_labels(foreign.theirs, "tags", head.classes)
    return labels_in(foreign.theirs, head.classes) if isinstance(head, Classification) else Labels()


def _run_config(model: ModelSettings, labels: Labels, tokenizer: Path, theirs: Theirs) -> Config:
    """The record of a model that was not trained here: what it was trained on is not known."""
    data: dict[str, Any] = {"tokenizer": {"kind": "file", "path": str(tokenizer)}, "length": model.length}
    if model.picture is not None:
        apart = model.picture.apart
        data["encoding"] = {
            "kind": "image_apart" if apart else "image",
            "fit": "crop" if apart else "stretch",
        }
    if labels.kind == "answer":
        data["encoding"] = {"kind": "question", "types": model.token_types > 1}
    task: dict[str, Any] = {"kind": task_of(labels) or USUAL_TASKS[model.family]}
    if model.picture is not None and model.picture.apart:
        task = {"kind": "similarity", "objective": "symmetric", "temperature": 1.0}
    if labels.kind == "answer" and isinstance(theirs.get(NULL_THRESHOLD), int | float):
        task["threshold"] = -float(theirs[NULL_THRESHOLD])
    return config_of({"model": plain(model), "data": data, "task": task})


def export_onnx(trained: Model, settings: ModelSettings, target: Path) -> Certificate:
    """A file that onnxruntime runs, and was asked there."""
    model, config = _without_folds(trained, settings)
    difference = write_onnx(model, target, length=config.length, typed=config.token_types > 1)
    names = tuple(name for name, _ in model.named_parameters())
    return Certificate(
        family="onnx",
        architecture=target.name,
        parameters=sum(p.numel() for p in model.parameters()),
        dtype="float32",
        loaded=names,
        library="onnxruntime",
        notes=(
            f"onnxruntime gives the same scores, to {difference:.1g} of the largest",
            "its inputs are ids and where they are real, padded on the right",
        ),
    )


def _without_folds(trained: Model, settings: ModelSettings) -> tuple[Model, ModelSettings]:
    """The same function in a form that others have too, and its settings."""
    plain_settings, weights = folded(trained, plain(with_rows(settings, trained)))
    equal: ModelSettings = section_of("model", plain_settings)
    model = built_with(equal, weights)
    grid = equal.picture
    if grid is None:
        difference = differs(model, answer(trained))
    else:
        pixels = drawn_pictures(grid)
        own, other = picture_scores(trained, grid, pixels), picture_scores(model, grid, pixels)
        difference = "" if torch.allclose(own, other, rtol=1e-3, atol=1e-3) else "pictures get other scores"
    assert not difference, difference
    return model, equal


def with_rows(settings: ModelSettings, model: Model) -> ModelSettings:
    """The settings of a model with as many rows as its tables have."""
    tables = model.trunk.tables()
    if tables[0] is not tables[-1]:
        settings = replace(settings, source_vocabulary=tables[-1].num_embeddings)
    return replace(settings, vocabulary=model.vocabulary)


def refuse_separate(model: Model) -> None:
    """No layout of others has a vocabulary for sources and another one for targets."""
    tables = model.trunk.tables()
    if tables[0] is not tables[-1]:
        raise ConfigError(
            "Sources and targets of this model have vocabularies of their own "
            f"({tables[-1].num_embeddings:,} and {tables[0].num_embeddings:,} tokens), and no published "
            "layout holds two. A model that is trained with --set data.target_tokenizer=shared can be "
            "exported; this one can be written for onnxruntime: attnlab convert RUN model.onnx."
        )


@dataclass(frozen=True)
class ExportPlan:
    """Whose files a model will become; or what stands against it."""

    library: str = ""
    architecture: str = ""
    steps: str = ""
    """What comes after the trunk, where the class has no head of its own."""
    refused: ConfigError | None = None
    class_settings: str = ""
    """What makes it a model of one class of transformers, head and all, where it is none."""


def export_plan(model: Model, settings: ModelSettings, labels: Labels) -> ExportPlan:
    """What `attnlab convert` will make of a run with this model, known before it is trained."""
    merges = model.adapter is None or model.adapter.merges
    plain_settings, _ = folded(model, plain(with_rows(counted(settings, labels), model)))
    equal: ModelSettings = section_of("model", plain_settings)
    try:
        refuse_separate(model)
        _, head, _ = (layout_of if merges else class_layout_of)(equal)
    except ConfigError as error:
        return ExportPlan(refused=error)
    if not isinstance(head, SentenceHead):
        return ExportPlan("transformers" if merges else "peft", head.architecture)
    try:
        class_layout_of(equal)
    except NoLayoutError as error:
        return ExportPlan(
            "sentence-transformers", head.architecture, head.steps, class_settings=error.settings
        )
    except ConfigError:  # no class has such a head, whatever the settings
        return ExportPlan("sentence-transformers", head.architecture, head.steps)
    raise AssertionError("a class goes before modules")


def export_model(
    trained: Model,
    settings: ModelSettings,
    tokenizer: Tokenizer,
    target: Path,
    *,
    base: Theirs,
    labels: Labels,
    length: int,
    threshold: float | None = None,
) -> Certificate:
    """A folder that transformers' `from_pretrained` loads, tokenizer included.

    `base` is the config.json that the model came with; empty for a model that was trained here. `length`
    is how many tokens of a text the run reads, and `threshold` the margin above which an answer is given,
    where the model answers questions.
    """
    refuse_separate(trained)
    model, equal = _without_folds(trained, settings)
    facts: dict[str, Any] = {"tokenizer": tokenizer.fingerprint}
    known = {**_special_ids(tokenizer, settings), **base, **labels_out(labels)}
    if ID2LABEL in known:
        facts["labels"] = list(labels.names)
    if threshold is not None:
        facts["threshold"] = threshold
        known[NULL_THRESHOLD] = -threshold
    if settings.picture is not None and settings.picture.apart:
        known = with_text_ids(known, tokenizer, layout_of(equal)[0].model_type)
    certificate = save_model(target, model, equal, base=known, facts=facts, length=length)
    save_tokenizer(tokenizer, target, model, length=settings.length, typed=settings.token_types > 1)
    if model.writes:
        _write_json(target / GENERATION, {name: known[name] for name in GENERATION_IDS if name in known})
    return certificate


def with_text_ids(known: Theirs, tokenizer: Tokenizer, model_type: str) -> Theirs:
    """Facts with the ids by which an encoder of texts finds the end of one, in their section."""
    ends = {"bos_token_id": tokenizer.specials.start, "eos_token_id": (*tokenizer.form.end, None)[0]}
    text = {name: number for name, number in ends.items() if number is not None}
    return {**known, "model_type": model_type, "text_config": {**text, **known.get("text_config", {})}}


def _write_json(file: Path, value: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _special_ids(tokenizer: Tokenizer, settings: ModelSettings) -> Theirs:
    """The ids that their generation needs."""
    specials = tokenizer.specials
    ids = {"pad": specials.pad, "bos": specials.start, "eos": specials.stop}
    special: Theirs = {f"{role}_token_id": number for role, number in ids.items() if number is not None}
    if settings.family == "encoder_decoder":
        special["decoder_start_token_id"] = tokenizer.first
    return special


@torch.no_grad()
def folded(model: Model, settings: Settings) -> tuple[Settings, dict[str, Tensor]]:
    """Settings and weights of an equal model whose embedding has no scale and whose positions are a table."""
    weights = {name: p.detach() for name, p in model.named_parameters(remove_duplicate=False)}
    settings = dict(settings)
    if isinstance(model.trunk, TwoEncoders):
        return settings, without_patch_vector(weights, "trunk.image.embedding.")
    trunk = transformer_of(model.trunk)
    scale = trunk.embedding_scale
    if scale != 1:
        settings["embedding_scale"] = 1.0
        if get(settings, "output.tied") and not _divide_last_norm(model, weights, scale):
            settings["output"] = settings["output"] | {"tied": False}  # the head keeps the table as it was
        learned = settings["positions"]["kind"] == "learned"
        scaled = ["tokens", "types"] + ["positions.table", "positions.rows", "positions.columns"] * learned
        for name in list(weights):
            if name.endswith(tuple(f".embedding.{part}.weight" for part in scaled)):
                weights[name] = weights[name] * scale
    if settings["positions"]["kind"] == "sinusoidal":
        settings["positions"] = {"kind": "learned", "offset": 0}
        table = sinusoids(torch.arange(settings["length"]), settings["width"])
        for stack in trunk.stacks():
            weights[f"trunk.{stack}.embedding.positions.table.weight"] = table
    return in_order(settings, weights)


def _divide_last_norm(model: Model, weights: dict[str, Tensor], scale: float) -> bool:
    """Make what the head's table is multiplied with `scale` times smaller; False where no norm does that.

    So the scores stay the same with a table that is larger, and the table can stay tied.
    """
    transform = language_head(model.head).transform
    norm = transform[-1] if isinstance(transform, nn.Sequential) else transformer_of(model.trunk).last_norm
    own = {id(parameter) for parameter in norm.parameters()}
    for name, parameter in model.named_parameters():
        if id(parameter) in own:
            weights[name] = weights[name] / scale
    return bool(own)
