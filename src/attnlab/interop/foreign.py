"""Models of other projects: from a folder of theirs to our model, certified, and back."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlab.checks.wording import sentences
from attnlab.config import schema
from attnlab.config.files import plain, section_of
from attnlab.config.memory import refuse_beyond_memory
from attnlab.config.streams import stream_seed
from attnlab.config.untrusted import read_json
from attnlab.config.values import ConfigError, unknown_name
from attnlab.interop.certificate import (
    Account,
    Certificate,
    account,
    fill,
    refuse,
    settle_ties,
    tensors_to_export,
    usual_type,
)
from attnlab.interop.families import FAMILIES
from attnlab.interop.family import Family, HeadOf, Misfit, misfits
from attnlab.interop.fields import Settings, Theirs
from attnlab.interop.picture_models import picture_entrance, take_processor, write_processor
from attnlab.interop.sentence_layout import SentenceHead, output_in, sentence_heads, with_dense, write_modules
from attnlab.interop.weights import WHOLE, Renamed, Weights, open_weights
from attnlab.model.assemble import build_model
from attnlab.model.model import Model
from attnlab.model.witness import answer, differs
from attnlab.runs.typed import Value
from attnlab.training.checkpoint import load_weights

CONFIG = "config.json"
WITNESS = "attnlab"
"""What our own files hold in their metadata: the answer to a fixed input, the tokenizer's fingerprint, the
names of classes in order, and the threshold of answers."""
ID2LABEL = "id2label"
NULL_THRESHOLD = "null_score_diff_threshold"
"""How far no answer must be above the best span to be given, −τ: so called in transformers' scripts."""


class ContradictionError(ConfigError):
    """A folder that does not hold what was exported to it, by the facts that were stored with its weights."""

    def __init__(self, folder: Path, kind: str, **values: Value):
        self.kind, self.values = kind, values
        words = sentences("export", kind, values)
        super().__init__(f"{folder} does not hold the model that was saved: {words.found}. {words.fix}")


@dataclass(frozen=True)
class Foreign:
    """A model from elsewhere, with what its folder says of it."""

    model: Model
    config: schema.ModelSettings
    certificate: Certificate
    theirs: Theirs
    witness: Mapping[str, Any]


def load_model(folder: Path, *, output: Any = None, accept: Collection[str] = (), seed: int = 0) -> Foreign:
    """The model of a folder in transformers' layout: every tensor accounted for, or an error that names it.

    With `output`, the trunk gets that head instead, new and untrained. `accept` names tensors that
    may be missing (they begin as new ones do), left over, or of another type.
    """
    theirs = read_json(folder / CONFIG)
    family = family_of(theirs, folder)
    head, weights = _head_in(folder, family, theirs, Renamed(open_weights(folder), family.today))
    config = _settings(family, head, theirs, weights, output)
    draft = _draft(config, folder)
    accounted = _accounted(family, head, config, draft, weights, accept, replaced=output is not None)
    refuse(accounted.problems, str(folder))
    refuse_beyond_memory(sum(p.numel() for p in draft.parameters()), str(folder))
    settle_ties(accounted, weights, head.copies)
    refuse(accounted.problems, str(folder))
    model = build_model(config, seed=seed) if accounted.new else draft
    fill(model, accounted, weights)
    notes = [*family.notes(theirs, head), *_pixels(family, folder, model)]
    witness = _witness(weights)
    if not accounted.new and output is None:
        refuse_contradictions(folder, model, theirs, witness)
    certificate = _certificate(family, head, model, accounted, weights, notes)
    return Foreign(model.eval(), config, certificate, theirs, witness)


def depth_of(config: schema.ModelSettings) -> int:
    """The layers of the deepest stack."""
    return max(config.layers, int(config.trunk.options.get("image_layers", 0)))


def _pixels(family: Family, folder: Path, model: Model) -> list[str]:
    """Make a model of pictures read those as they are read here; says what that changed."""
    if family.colours is None:
        return []
    entrance, positions = picture_entrance(model)
    note = take_processor(folder, entrance, positions, family.colours)
    return [note] if note else []


def refuse_contradictions(folder: Path, model: Model, theirs: Theirs, witness: Mapping[str, Any]) -> None:
    """Stop where a folder of ours says otherwise than it did when it was written. Classes may get other
    names; the same names in another order, or a threshold that is gone, change what it predicts."""
    if "answer" in witness and (difference := differs(model, list(witness["answer"]))):
        raise ContradictionError(folder, "other_answer", error=difference)
    named, stored = theirs.get(ID2LABEL), witness.get("labels")
    names = list(named_classes(named)) if isinstance(named, Mapping) else []
    if isinstance(stored, list) and names != stored and sorted(names) == sorted(map(str, stored)):
        raise ContradictionError(folder, "names_differ", own=stored, theirs=names)
    threshold = witness.get("threshold")
    if isinstance(threshold, float) and NULL_THRESHOLD not in theirs:
        raise ContradictionError(folder, "threshold_differs", own=threshold, theirs=None)


def named_classes(id2label: Mapping[Any, Any]) -> tuple[str, ...]:
    """The names of classes in the order of their numbers, which JSON holds as text."""
    by_number = {str(number): str(name) for number, name in id2label.items()}
    return tuple(by_number[str(number)] for number in range(len(by_number)) if str(number) in by_number)


def read_settings(folder: Path) -> schema.ModelSettings:
    """The settings of the model of such a folder, without its weights."""
    theirs = read_json(folder / CONFIG)
    family = family_of(theirs, folder)
    head, weights = _head_in(folder, family, theirs, Renamed(open_weights(folder), family.today))
    return _settings(family, head, theirs, weights, None)


def _head_in(folder: Path, family: Family, theirs: Theirs, weights: Weights) -> tuple[HeadOf, Weights]:
    """The head of a folder, and its tensors: scores that sentence-transformers computes after the trunk, or
    the class that config.json names. A folder that only pools is a trunk: what it is for is open."""
    output = output_in(folder)
    trunk = family.head_of(theirs)
    if output is None or output["kind"] != "classification" or trunk.output["kind"] != "features":
        return trunk, weights
    heads = {head.architecture: head for head in sentence_heads(family, output)}
    return heads[trunk.architecture], with_dense(folder, weights, output)


def resize(foreign: Foreign, *, vocabulary: int, length: int, seed: int = 0) -> Foreign:
    """The same model for more or fewer words and positions, as the certificate then says."""
    config = replace(foreign.config, vocabulary=vocabulary, length=length)
    if config == foreign.config:
        return foreign
    weights = {name: p.detach() for name, p in foreign.model.named_parameters()}
    model = built_with(config, resize_weights(weights, plain(config), seed=seed))
    certificate = replace(foreign.certificate, parameters=sum(p.numel() for p in model.parameters()))
    notes = [
        f"{what}: {before:,} before, {now:,} now ({how})"
        for what, before, now, how in (
            ("words", foreign.config.tokens, vocabulary, "new ones begin near the mean"),
            ("positions", foreign.config.length, length, "new ones repeat the first, where learned"),
        )
        if before != now
    ]
    return replace(foreign, model=model, config=config, certificate=certificate.with_notes(*notes))


def built_with(config: schema.ModelSettings, weights: Mapping[str, Tensor]) -> Model:
    """A model of these settings with these weights, ready to answer."""
    model = build_model(config, device="meta").eval()
    load_weights(model, {name: weights[name] for name, _ in model.named_parameters()})
    return model


def family_of(theirs: Theirs, folder: Path) -> Family:
    kind = theirs.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise unknown_name(f"{folder / CONFIG}: model_type", kind, FAMILIES)
    return FAMILIES[kind]


def _settings(
    family: Family, head: HeadOf, theirs: Theirs, weights: Weights, output: Any
) -> schema.ModelSettings:
    names = weights.names()
    largest = max([len(names), *(size for name in names for size in weights.shape(name))])
    ours = family.read(theirs, head, largest=largest, untied=_has_own_table(head, weights))
    if output is not None:
        ours["output"] = output
    settings: schema.ModelSettings = section_of("model", ours)
    return settings


def _has_own_table(head: HeadOf, weights: Weights) -> bool:
    if head.own_table is None or not set(head.own_table) <= set(weights.names()):
        return False
    own, tied = map(weights.tensor, head.own_table)
    return not torch.equal(own, tied)


def _draft(config: schema.ModelSettings, folder: Path) -> Model:
    """The model without memory, to compare shapes with."""
    try:
        return build_model(config, device="meta")
    except ConfigError as error:
        raise ConfigError(f"{folder / CONFIG}: {error}") from error


def _accounted(
    family: Family,
    head: HeadOf,
    config: schema.ModelSettings,
    draft: Model,
    weights: Weights,
    accept: Collection[str],
    *,
    replaced: bool,
) -> Account:
    names = weights.names()
    bare = not any(name.startswith(f"{family.prefix}.") for name in names)
    known = dict(draft.named_parameters(remove_duplicate=False))
    if replaced:  # only the trunk is theirs
        known = {name: p for name, p in known.items() if name.startswith("trunk.")}
    return account(
        weights,
        family.links(head, depth_of(config), known, bare=bare),
        draft,
        unused=lambda name: family.unused(name, head) or (replaced and family.of_a_head(name)),
        fresh=lambda name: replaced and name.startswith("head."),
        accept=accept,
    )


def _witness(weights: Weights) -> dict[str, Any]:
    try:
        witness = json.loads(weights.metadata.get(WITNESS, "{}"))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(witness, dict):
        return {}
    numbers = witness.get("answer")
    if not isinstance(numbers, list) or not all(isinstance(number, float) for number in numbers):
        witness.pop("answer", None)
    return witness


def _certificate(
    family: Family, head: HeadOf, model: Model, account: Account, weights: Weights, notes: list[str]
) -> Certificate:
    return Certificate(
        family=family.model_type,
        architecture=head.architecture,
        parameters=sum(p.numel() for p in model.parameters()),
        dtype=usual_type(weights.dtype(link.theirs) for link in account.loaded),
        loaded=tuple(link.theirs for link in account.loaded),
        tied=tuple(link.theirs for link, _ in account.tied),
        new=tuple(account.new),
        unused=tuple(account.unused),
        notes=tuple(notes),
    )


class NoLayoutError(ConfigError):
    """No layout holds a model; the nearest would with other settings."""

    def __init__(self, nearest: str, misfits: Sequence[Misfit]):
        self.nearest, self.misfits = nearest, tuple(misfits)
        super().__init__(
            f"No published layout holds this model. The nearest is {nearest}, but "
            f"{'; '.join(map(str, self.misfits[:6]))}. A model that is trained with {self.settings} can be "
            "exported; this one can be written for onnxruntime: attnlab convert RUN model.onnx."
        )

    @property
    def settings(self) -> str:
        """What makes a model fit, as a command takes it."""
        settings = dict.fromkeys(misfit.setting for misfit in self.misfits)
        return " ".join(f"--set {shlex.quote(setting)}" for setting in settings)


Layout = tuple[Family, HeadOf, Theirs]
"""A family, its head, and the config.json of a model."""


def layout_of(config: schema.ModelSettings, prefer: str = "") -> Layout:
    """The layout that holds such a model: a class of transformers, `prefer` before others, or its trunk with
    modules of sentence-transformers after it; or why none does."""
    output = plain(config)["output"]
    after = [(family, head) for family in FAMILIES.values() for head in sentence_heads(family, output)]
    return _fitting(
        config, [*sorted(_classes(output["kind"]), key=lambda c: c[1].architecture != prefer), *after]
    )


def class_layout_of(config: schema.ModelSettings) -> Layout:
    """The class of transformers that holds such a model, head and all; or why none does."""
    return _fitting(config, _classes(config.output.kind))


def _classes(output: str) -> list[tuple[Family, HeadOf]]:
    pairs = [(family, head) for family in FAMILIES.values() for head in family.heads]
    return [(family, head) for family, head in pairs if head.output["kind"] == output]


def _fitting(config: schema.ModelSettings, candidates: Sequence[tuple[Family, HeadOf]]) -> Layout:
    ours = plain(config)
    untied = ours["output"].get("tied") is False
    tried: list[tuple[list[Misfit], str]] = []
    for family, head in candidates:
        theirs = family.write(ours, head)
        reasons = list(misfits(ours, family.read(theirs, head, untied=untied)))
        if not reasons:
            return family, head, theirs
        tried.append((reasons, head.architecture))
    if not tried:
        raise ConfigError(
            f'No published layout has a head of the kind "{config.output.kind}". Write it for onnxruntime '
            "instead: attnlab convert RUN model.onnx."
        )
    reasons, nearest = min(tried, key=lambda entry: len(entry[0]))
    raise NoLayoutError(nearest, reasons)


def save_model(
    folder: Path,
    model: Model,
    config: schema.ModelSettings,
    *,
    base: Theirs | None = None,
    facts: Mapping[str, Any],
    length: int = 0,
) -> Certificate:
    """Write config.json and model.safetensors as transformers does; `facts` go into the file's metadata.
    `length` is how many tokens of a text are read, where that is less than the model could."""
    from safetensors.torch import save_file

    base = dict(base or {})
    named = base.get("architectures")
    family, head, theirs = layout_of(config, str(named[0]) if isinstance(named, list) and named else "")
    if base.get("model_type") == family.model_type:
        theirs = family.write(plain(config), head, base)
    elif "model_type" not in base:  # no config of theirs, but facts that ours are to hold
        theirs |= base
    weights = {name: p.detach() for name, p in model.named_parameters(remove_duplicate=False)}
    links = family.links(head, depth_of(config), weights)
    own = dict(model.named_parameters())
    tensors = tensors_to_export(weights, links, tied=lambda name: name not in own, copies=head.copies)
    covered = {name for link in links for name in link.ours}
    if left := sorted(own.keys() - covered):
        raise ConfigError(
            f"{left[0]} is no part of {family.model_type}'s layout; take an adapter off first: "
            "adapter.merge() or adapter.detach()."
        )
    folder.mkdir(parents=True, exist_ok=True)
    names, steps = tuple(tensors), None
    if isinstance(head, SentenceHead):
        steps = head.steps
        tensors = write_modules(folder, head, tensors, width=config.width, length=length or config.length)
    theirs["dtype"] = "float32"
    if family.colours is not None and config.picture is not None:
        write_processor(folder, config.picture.size, family.processor)
    (folder / CONFIG).write_text(json.dumps(theirs, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    witness = json.dumps({"answer": answer(model), **facts})
    save_file(tensors, folder / WHOLE, metadata={"format": "pt", WITNESS: witness})
    return Certificate(
        family=family.model_type,
        architecture=head.architecture,
        parameters=sum(p.numel() for p in own.values()),
        dtype="float32",
        loaded=names,
        tied=tuple(link.theirs for link in links if link.theirs not in names),
        library="transformers" if steps is None else "sentence-transformers",
        notes=() if steps is None else (f"computed as {head.architecture}, {steps}",),
    )


NOISE = 0.01
"""Of the rows' own spread: enough that new rows differ, too little to be heard."""


def with_words(table: Tensor, rows: int, *, seed: int) -> Tensor:
    """A table or bias with this many rows; new ones begin as the mean of the old, and a little noise.

    So a new word is at first as likely as words are on average, and disturbs nothing (Hewitt 2021,
    "Initializing New Word Embeddings for Pretrained Language Models").
    """
    if rows <= len(table):
        return table[:rows]
    drawn = torch.Generator().manual_seed(stream_seed(seed, "growth"))
    noise = torch.randn((rows - len(table), *table.shape[1:]), generator=drawn).to(table.dtype)
    new = table.mean(0, keepdim=True) + NOISE * table.std(0, keepdim=True) * noise
    return torch.cat([table, new])


def with_positions(table: Tensor, length: int, *, offset: int) -> Tensor:
    """A table of positions for this length; beyond its end it is repeated from its start.

    So a new position begins as one that attention knows: neighbours stay neighbours (Beltagy et al.
    2020, "Longformer"). The first `offset` rows, which stand for no position, stay.
    """
    apart, known = table[:offset], table[offset:]
    repeats = -(-length // len(known))
    return torch.cat([apart, known.repeat(repeats, 1)[:length]])


@torch.no_grad()
def resize_weights(weights: Mapping[str, Tensor], settings: Settings, *, seed: int) -> dict[str, Tensor]:
    """Every weight, with the tables of words and of learned positions in the sizes of these settings."""
    resized = dict(weights)
    learned = settings["positions"]["kind"] == "learned"
    for name, weight in weights.items():
        if name.endswith(".embedding.tokens.weight") or name in ("head.table.weight", "head.bias"):
            # one stream for all: tables that are tied stay so
            resized[name] = with_words(weight, settings["vocabulary"], seed=seed)
        elif learned and name.endswith(".embedding.positions.table.weight"):
            resized[name] = with_positions(weight, settings["length"], offset=settings["positions"]["offset"])
    return resized


# ---------------------------------------------------------------- a checkpoint of the hub by its name
FILES = ("*.json", "*.safetensors", "pytorch_model*.bin", "*.txt", "*.model")


def fetch(name: str) -> Path:
    """The local folder of owner/name, or a sentence on why it cannot be had."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) or name.startswith("."):
        raise ConfigError(f"{name} is neither a folder nor a name of the hub (owner/name).")
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import (
            HfHubHTTPError,
            LocalEntryNotFoundError,
            OfflineModeIsEnabled,
            RepositoryNotFoundError,
        )
    except ImportError as error:
        raise ConfigError(
            f"There is no folder {name}, and fetching it needs huggingface_hub: pip install huggingface_hub"
        ) from error
    try:
        return Path(snapshot_download(name, allow_patterns=list(FILES)))
    except RepositoryNotFoundError as error:
        raise ConfigError(f'There is no folder {name}, and the hub has no model "{name}" either.') from error
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HfHubHTTPError, OSError) as error:
        raise ConfigError(
            f"There is no folder {name}, and the hub cannot be reached from here. Connect, or download the "
            "model elsewhere and give its folder."
        ) from error
