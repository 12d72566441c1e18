"""`attnlab convert`: what a source is decides the direction, and a run is opened before it is exported."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attnlab.config.untrusted import read_json
from attnlab.config.values import ConfigError
from attnlab.data.labels import Labels
from attnlab.interop.certificate import Certificate
from attnlab.interop.class_names import counted, in_unit, to_unit
from attnlab.interop.exchange import export_model, export_onnx, import_model
from attnlab.interop.families import FAMILIES
from attnlab.interop.foreign import CONFIG, class_layout_of, fetch
from attnlab.interop.peft.adapter_files import write_adapter
from attnlab.interop.read_back import ByOnnx, adapter_read_back, read_back
from attnlab.runs.findings import Finding
from attnlab.runs.record import RECORD
from attnlab.session.export_checks import confirm_export
from attnlab.session.stored import model_folder, without_adapter
from attnlab.session.trained import Trained
from attnlab.targets import TARGETS
from attnlab.tasks.answer_spans import AnswerSpans


def convert(
    source: str | Path,
    target: str | Path,
    *,
    output: Any = None,
    tokenizer: str | Path | None = None,
    accept: Collection[str] = (),
    vocabulary: int | None = None,
    length: int | None = None,
) -> Certificate:
    """Import a folder of transformers (or owner/name of the hub), or export a run of ours; certified."""
    place, out = model_folder(source), Path(target)
    choices: dict[str, Any] = {
        "output": output,
        "tokenizer": tokenizer,
        "accept": accept,
        "vocabulary": vocabulary,
        "length": length,
    }
    refuse_taken(out)
    if is_run(place):
        if any(choices.values()):
            raise ConfigError(
                f"{place} is a run, which is exported unchanged; --head, --vocabulary, --length and "
                "--accept are for importing."
            )
        return _export_run(place, out)
    if out.suffix == ".onnx":
        raise ConfigError(
            f"Only a run can be exported as ONNX; import {source} first: attnlab convert {source} FOLDER"
        )
    if (place / CONFIG).is_file():
        return import_model(place, out, **choices)
    if place.exists():
        raise ConfigError(f"{place} holds neither a run ({RECORD}) nor a checkpoint ({CONFIG}).")
    return import_model(fetch(str(source)), out, **choices)


def is_run(source: str | Path) -> bool:
    """Whether a source is a run of ours, or a checkpoint of one: it is exported, all else is imported."""
    place = model_folder(source)
    return (place / RECORD).is_file() or place.parent.name == "checkpoints"


def refuse_taken(out: Path) -> None:
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise ConfigError(f"{out} already exists and is not empty; give a new folder.")


def _export_run(run: Path, target: Path) -> Certificate:
    trained = Trained.at(run)
    model, settings = without_adapter(trained.model, run), trained.config.model
    labels = trained.labels
    model, settings = in_unit(model, labels), counted(settings, labels)
    if target.suffix == ".onnx":
        certificate = export_onnx(model, settings, target)
        return certificate.with_notes(*notes_of(confirm_export(run, target, lambda: ByOnnx(target))))
    base = read_json(trained.folder / RECORD).get("source", {}).get("config", {})
    task = trained.deciding
    threshold = task.threshold if isinstance(task, AnswerSpans) and task.threshold != "dev" else None
    certificate = export_model(
        model,
        settings,
        trained.tokenizer,
        target,
        base=base,
        labels=labels,
        length=trained.config.data.length,
        threshold=threshold,
    )
    return certificate.with_notes(*notes_of(confirm_export(run, target, lambda: read_back(target))))


def loading_lines(certificate: Certificate, target: Path) -> list[str]:
    """How others load what was exported."""
    folder = json.dumps(str(target))
    if certificate.library == "sentence-transformers":
        return [
            f"model = sentence_transformers.SentenceTransformer({folder})",
            "scores = model.encode(texts)",
        ]
    if certificate.library == "transformers":
        return [
            f"model = transformers.{certificate.architecture}.from_pretrained({folder})",
            *loading_inputs(certificate, folder),
        ]
    return [f"session = onnxruntime.InferenceSession({folder})"]


def loading_inputs(certificate: Certificate, folder: str) -> list[str]:
    """How what goes in is prepared."""
    family = FAMILIES[certificate.family]
    tokenizer = f"tokenizer = transformers.AutoTokenizer.from_pretrained({folder})"
    processor = f"processor = transformers.AutoImageProcessor.from_pretrained({folder})"
    return [*[tokenizer] * (not family.pictured), *[processor] * (family.colours is not None)]


def notes_of(findings: Iterable[Finding]) -> list[str]:
    """What was found of an export, with what to do about it."""
    return [f"{finding.found}. {finding.fix}".strip(". ") for finding in findings]


def export_adapter(run: str | Path, target: str | Path) -> ExportedAdapter:
    """Write what a run trained on its start, and its head, as peft's files."""
    place, out = Path(run), Path(target)
    refuse_taken(out)
    trained = Trained.at(place)
    adapter, labels = trained.model.adapter, trained.labels
    if adapter is None:
        raise ConfigError(f"{place} has no adapter; export the whole model: attnlab convert {place} {out}")
    settings = counted(trained.config.model, labels)
    to_unit(trained.model, labels)
    try:
        family, head, _ = class_layout_of(settings)
    except ConfigError as error:
        merged = f" Or merge it into the weights: attnlab convert {place} {out}." if adapter.merges else ""
        raise ConfigError(
            f"peft's files are for models that a class of transformers holds, head and all. {error}{merged}"
        ) from error
    named = {"family": family.model_type, "architecture": head.architecture}
    names = write_adapter(out, adapter, **named, base=trained.config.start)
    outputs = 0 if TARGETS[labels.kind].of_words else labels.outputs
    with base_folder(trained.config.start) as base:
        findings = confirm_export(
            place,
            out,
            lambda: adapter_read_back(out, base, run=trained.model, outputs=outputs, **named),
        )
    notes = tuple(notes_of(findings))
    return ExportedAdapter(tuple(names), head.architecture, trained.config.start, labels, notes)


@contextmanager
def base_folder(start: str) -> Iterator[Path]:
    """What an adapter is for, in transformers' layout: a run of ours is exported for the time being."""
    place = model_folder(start)
    if (place / CONFIG).is_file():
        yield place
        return
    with TemporaryDirectory() as folder:
        base = Path(folder, "base")
        _export_run(place, base)
        yield base


@dataclass(frozen=True)
class ExportedAdapter:
    """What was written, and how it is loaded with peft."""

    tensors: tuple[str, ...]
    architecture: str
    start: str
    labels: Labels
    notes: tuple[str, ...] = ()

    def lines(self, target: Path) -> list[str]:
        sized = f", num_labels={self.labels.outputs}" if not TARGETS[self.labels.kind].of_words else ""
        named = f" Classes, in order: {', '.join(self.labels.names)}." if self.labels.names else ""
        base = str(model_folder(self.start))
        theirs = (Path(base) / CONFIG).is_file()
        first = "" if theirs else f"The base in transformers' layout: attnlab convert {base} BASE"
        return [
            f"{len(self.tensors)} tensors for {self.architecture}.{named}",
            *([first] if first else []),
            f'base = transformers.{self.architecture}.from_pretrained("{base if theirs else "BASE"}"{sized})',
            f'model = peft.PeftModel.from_pretrained(base, "{target}")',
            *(f"{note[:1].upper()}{note[1:]}." for note in self.notes),
        ]
