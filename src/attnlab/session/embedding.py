"""Vectors of texts, by any model that reads: an encoder, a decoder, the encoder of an encoder-decoder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.config.pictures import PictureGrid
from attnlab.config.values import ConfigError
from attnlab.data.batch import collate
from attnlab.data.encode.encoding import Cut
from attnlab.data.encode.pictures import Image
from attnlab.data.example import Example
from attnlab.data.images.decoding import Fit
from attnlab.data.images.picture import Picture
from attnlab.data.labels import UNREAD
from attnlab.data.rows import in_memory
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.generation.decoder import padded
from attnlab.model.heads.labels import pooled
from attnlab.model.heads.sentence import Sentence
from attnlab.model.model import Model, hidden_states
from attnlab.model.tokens import Tokens
from attnlab.tasks.task import tokens_of
from attnlab.training.trace import digest, initial_weights

if TYPE_CHECKING:
    from attnlab.session.trained import Trained

Pooling = Literal["trained", "first", "mean", "last"]
"""How a text's vectors become one; `trained` is as the model was trained, the mean where it was not."""


@dataclass(frozen=True)
class Embedder:
    """A model that gives a text one vector of length 1: near ones are alike in meaning, if trained so."""

    model: Model
    tokenizer: Tokenizer
    length: int
    """Tokens that it reads."""
    pooling: str
    pictures: PictureGrid | None = None
    """Those that it reads, beside texts or alone; None where it reads none."""
    fit: Fit = "pad"

    @classmethod
    def of(cls, trained: Trained, pooling: Pooling = "trained") -> Embedder:
        """Of a run."""
        parts = trained.model, trained.tokenizer, trained.config.longest_text
        fit = trained.config.data.encoding.options.get("fit", "pad")
        return cls(*parts, pooling_of(trained.model, pooling), trained.config.model.picture, fit)

    @property
    def reads_pictures(self) -> bool:
        return self.pictures is not None

    @cached_property
    def identity(self) -> str:
        """A hash of all that decides a vector: weights, tokenizer, length and pooling."""
        parts = [initial_weights(self.model), self.tokenizer.fingerprint, self.length, self.pooling]
        if self.pictures is not None:
            parts += [self.pictures.size, self.pictures.patch, self.fit]
        return digest(json.dumps(parts, sort_keys=True).encode())[:16]

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str], *, batch: int = 32, cut: Cut = "refuse") -> Tensor:
        """(N, D). `cut` is what happens to a text that is longer than the model reads."""
        form = self.tokenizer.form
        room = self.length - form.single_room
        encoded = self.tokenizer.encode_many(list(texts))
        rows = [form.single(fitting(ids, room, cut)) or [self.tokenizer.first] for ids in encoded]
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))  # alike in length, little padding
        vectors = torch.empty(len(rows), self.model.trunk.width)
        for start in range(0, len(rows), batch):
            chosen = order[start : start + batch]
            ids, real = padded([rows[row] for row in chosen], side="right")
            tokens = Tokens.of(ids.shape[1], real=real)
            vectors[chosen] = pooled(self.hidden(ids, tokens), tokens, self.pooling).float()
        return torch.nn.functional.normalize(vectors, dim=-1)

    def hidden(self, ids: Tensor, tokens: Tokens) -> Tensor:
        """(B,T,D) of the stack that reads a text."""
        model = self.model.eval()
        if model.trunk.reads_source:
            return model.encode(ids, tokens)
        hidden: Tensor = model(ids, tokens, objective=hidden_states)
        return hidden

    @torch.inference_mode()
    def picture_vectors(self, pictures: Sequence[Picture], *, batch: int = 64) -> NDArray[np.float32]:
        """(N, D) of pictures."""
        if self.pictures is None:
            raise ConfigError("This model reads no pictures (model.inputs is text); give texts.")
        encoding = Image(self.tokenizer, self.length, reader=UNREAD, pictures=self.pictures, fit=self.fit)
        parts = [np.zeros((0, self.model.trunk.width), np.float32)]
        for start in range(0, len(pictures), batch):
            examples = [
                Example("", image=picture, place=picture.name) for picture in pictures[start : start + batch]
            ]
            rows = in_memory(encoding.rows(examples), vocabulary=self.tokenizer.size)
            read = collate(rows, list(np.arange(len(rows))[:, None]), pad=self.tokenizer.pad)
            tokens = tokens_of(read)
            hidden: Tensor = self.model.eval()(
                read.ids, tokens, vectors=read.vectors, objective=hidden_states
            )
            vectors = torch.nn.functional.normalize(pooled(hidden, tokens, self.pooling).float(), dim=-1)
            parts.append(vectors.numpy())
        return np.concatenate(parts)

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The same as an array, long texts without their end."""
        return self(texts, cut="end").numpy()


def pooling_of(model: Model, wanted: Pooling) -> str:
    if wanted != "trained":
        return wanted
    return str(model.head.pooling) if isinstance(model.head, Sentence) else "mean"


def fitting(ids: Sequence[int], room: int, cut: Cut) -> list[int]:
    """As much of a text as is read."""
    lost = max(len(ids) - room, 0)
    if lost and cut == "refuse":
        raise ConfigError(
            f"A text of {len(ids)} tokens is longer than the {room} that this model reads; split it, "
            'or let it be shortened: embed(…, cut="end") or cut="start".'
        )
    return list(ids[lost:] if cut == "start" else ids[: len(ids) - lost])
