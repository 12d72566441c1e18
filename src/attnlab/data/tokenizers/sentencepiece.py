"""SentencePiece's own files (LLaMA's tokenizer.model, T5's spiece.model): read exactly, or refused.

Of cuts of a text that Unigram finds equally likely, the library may take another one than SentencePiece.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers as library
from tokenizers import decoders, models, normalizers, processors

from attnlab.data.errors import DataError, reason_of
from attnlab.data.tokenizers.tokenizer import Tokenizer

SPACE = "▁"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE = 1, 2
BYTES = {f"<0x{byte:02X}>" for byte in range(256)}
CONVERT = "convert it to tokenizer.json first (transformers' AutoTokenizer does, with save_pretrained)"


@dataclass
class Spec:
    """What of a model file decides ids; the defaults are the format's, where a field is not written."""

    pieces: list[tuple[str, float, int]] = field(default_factory=list)
    algorithm: int = UNIGRAM
    byte_fallback: bool = False
    suffix: bool = False
    start: int = 1
    stop: int = 2
    charsmap: bytes = b""
    prefix: bool = True
    squeeze: bool = True
    escape: bool = True


SETTINGS = {
    2: {3: "algorithm", 24: "suffix", 35: "byte_fallback", 41: "start", 42: "stop"},
    3: {2: "charsmap", 3: "prefix", 4: "squeeze", 5: "escape"},
}
"""The format's fields by number, in its parts on training and on normalising, and their names here."""


def sentencepiece(file: Path, settings: dict[str, Any]) -> Tokenizer:
    """The tokenizer of a model file; `settings` (tokenizer_config.json) say what stands round a text."""
    if file.name == "sentencepiece.bpe.model":
        raise DataError(
            f"{file} has XLM-RoBERTa's name, whose ids are not the file's (its own come first); {CONVERT}."
        )
    spec = spec_of(file)
    tokenizer = library.Tokenizer(algorithm_of(spec, file))
    if steps := normalizing(spec):
        tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            *([decoders.Strip(" ", 1, 0)] if spec.prefix else []),
        ]
    )
    tokenizer.add_special_tokens([p for p, _, kind in spec.pieces if kind in (UNKNOWN, CONTROL)])
    tokenizer.post_processor = round_texts(spec, settings)
    return Tokenizer(tokenizer)


def algorithm_of(spec: Spec, file: Path) -> models.Model:
    """The library's model of the same pieces; what it could not do exactly is refused."""
    pieces = [piece for piece, _, _ in spec.pieces]
    unknown = [number for number, (_, _, kind) in enumerate(spec.pieces) if kind == UNKNOWN]
    other = [piece for piece, _, kind in spec.pieces if kind in (USER_DEFINED, UNUSED)]
    reasons = {
        "it holds no pieces": not pieces,
        "it holds a piece twice": len(set(pieces)) < len(pieces),
        "it has not one piece for what is unknown": len(unknown) != 1,
        f"it holds pieces of special treatment ({', '.join(map(repr, other[:3]))})": bool(other),
        "it marks the end of words, not the start": spec.suffix,
        "it leaves spaces as they are": not spec.escape,
        "it is neither BPE nor Unigram": spec.algorithm not in (BPE, UNIGRAM),
        "it falls back to bytes that are not all there": spec.byte_fallback and not set(pieces) >= BYTES,
    }
    if reason := next((said for said, true in reasons.items() if true), None):
        raise DataError(f"{file} is a SentencePiece model that cannot be read here: {reason}; {CONVERT}.")
    if spec.algorithm == UNIGRAM:
        scored = [(piece, score) for piece, score, _ in spec.pieces]
        return models.Unigram(scored, unknown[0], spec.byte_fallback)
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    return models.BPE(
        vocab=vocabulary,
        merges=merges_of(spec),
        unk_token=pieces[unknown[0]],
        fuse_unk=True,
        byte_fallback=spec.byte_fallback,
    )


def merges_of(spec: Spec) -> list[tuple[str, str]]:
    """Which pieces are joined before which: the file says only how good the result is."""
    scores = {piece: score for piece, score, kind in spec.pieces if kind == NORMAL}
    merges = [
        (-score, -cut, piece[:cut], piece[cut:])
        for piece, score in scores.items()
        for cut in range(1, len(piece))
        if piece[:cut] in scores and piece[cut:] in scores
    ]
    return [(left, right) for _, _, left, right in sorted(merges)]


def normalizing(spec: Spec) -> list[normalizers.Normalizer]:
    """What happens to a text before it is cut into pieces."""
    steps: list[normalizers.Normalizer] = []
    if spec.charsmap:
        steps.append(normalizers.Precompiled(spec.charsmap))
    if spec.squeeze:
        steps.append(normalizers.Replace(library.Regex("^ +| +$"), ""))
        steps.append(normalizers.Replace(library.Regex(" +"), " "))
    if spec.prefix:
        steps.append(normalizers.Prepend(SPACE))
    return [*steps, normalizers.Replace(" ", SPACE)]


def round_texts(spec: Spec, settings: dict[str, Any]) -> processors.PostProcessor:
    """Start before a text (LLaMA's way), or where there is no start, stop after it (T5's)."""
    names = dict(enumerate(piece for piece, _, _ in spec.pieces))
    start, stop = names.get(spec.start), names.get(spec.stop)
    has_start = start is not None and settings.get("add_bos_token") is not False
    has_stop = stop is not None and settings.get("add_eos_token", start is None) is True
    special = [(start, spec.start)] * has_start + [(stop, spec.stop)] * has_stop
    parts = [f"{start} " if has_start else "", f" {stop}" if has_stop else ""]
    single, second = "$A".join(parts), "$B:1".join(parts)
    return processors.TemplateProcessing(single=single, pair=f"{single} {second}", special_tokens=special)


def spec_of(file: Path) -> Spec:
    """A model file, parsed."""
    spec = Spec()
    try:
        for number, value in fields(file.read_bytes()):
            if number == 1:
                values = dict(fields(value))
                (score,) = struct.unpack("<f", values.get(2, b"\0\0\0\0"))
                spec.pieces.append((values[1].decode("utf-8"), score, values.get(3, NORMAL)))
            elif number in SETTINGS:
                names = SETTINGS[number]
                for part, content in fields(value):
                    if part in names:
                        kind = type(getattr(spec, names[part]))
                        setattr(spec, names[part], kind(signed(content)))
    except (IndexError, KeyError, ValueError, TypeError, AttributeError, struct.error) as error:
        raise DataError(
            f"{file} is not a SentencePiece model that can be read: {reason_of(error)}."
        ) from error
    return spec


def signed(value: int | bytes) -> int | bytes:
    """A number below zero (there is no such token) is written as its complement to 2⁶⁴."""
    return value - (1 << 64) if isinstance(value, int) and value >> 63 else value


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The numbered fields of a protocol buffer: numbers, or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
            yield number, value
            continue
        if kind == 2:
            size, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}[kind]
        if at + size > len(data):
            raise ValueError("it ends in the middle of a field")
        yield number, data[at : at + size]
        at += size


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits per byte, the lowest first; the number, and where what follows begins."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number in it has no end")
