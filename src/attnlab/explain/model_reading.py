"""A model that can be looked into: texts as its own tokenizer gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnlab.config.schema import ModelSettings
from attnlab.config.values import ConfigError
from attnlab.data.encode.texts import ends
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.explain.attention_maps import AttentionMaps, RowOfText, attention_maps
from attnlab.model.capture import capture
from attnlab.model.isolation import undisturbed
from attnlab.model.model import Model, hidden_states
from attnlab.model.tokens import Tokens


@dataclass(frozen=True)
class Reading:
    """A model that can be looked into, with the tokenizer by which it reads."""

    model: Model
    tokenizer: Tokenizer
    settings: ModelSettings
    longest: int

    def words(self, ids: Sequence[int]) -> list[str]:
        """What it reads, token by token; of an encoder-decoder, what it writes."""
        return words_by(self.tokenizer.target, ids)

    def masked(self, text: str) -> tuple[int, list[int]]:
        """The mask token (-1 where there is none), and a text with [MASK] in it as ids."""
        mask = self.tokenizer.specials.mask
        written = text if mask is None else text.replace("[MASK]", self.tokenizer.token(mask))
        ids = self.tokenizer.form.single(self.tokenizer.encode(written, specials=True))
        self._fits(len(ids))
        return -1 if mask is None else mask, ids

    def row(self, text: str, pair: str = "") -> RowOfText:
        """A text, or two, as the model reads them. For an encoder-decoder they are source and target."""
        form, first = self.tokenizer.form, self.tokenizer.encode(text)
        if not first:
            raise ConfigError(f'"{text}" has no tokens to look at; give a text.')
        if self.model.trunk.reads_source:
            return self._translated(form.single(first), pair)
        second = self.tokenizer.encode(pair)
        ids = form.pair(first, second) if pair else form.single(first)
        self._fits(len(ids))
        inputs: dict[str, Any] = {"ids": torch.tensor([ids])}
        if pair and self.settings.token_types:
            inputs["types"] = torch.tensor([form.pair_types(len(first), len(second))])
        if self.model.trunk.asks_for_source:
            read = len(form.before) + len(first) + len(form.middle) if pair else len(ids) // 2
            inputs["tokens"] = Tokens.of(len(ids), source=(torch.arange(len(ids)) < read)[None])
        words = self.words(ids)
        return RowOfText(inputs, words, self._delimiters(ids, words))

    def _translated(self, source: list[int], target: str) -> RowOfText:
        if not target:
            raise ConfigError(
                "This model writes a target for a source that it reads; give both: --text SOURCE --pair "
                "TARGET."
            )
        start, stop = ends(self.tokenizer)
        ids = [start, *self.tokenizer.target.encode(target)]
        self._fits(max(len(ids), len(source)))
        inputs = {"ids": torch.tensor([ids]), "source": torch.tensor([source])}
        words = self.words(ids)
        written = [*words[1:], *self.words([stop])]
        read = words_by(self.tokenizer, source)
        return RowOfText(inputs, words, self._delimiters(ids, words), read, written)

    def _delimiters(self, ids: Sequence[int], words: Sequence[str]) -> list[bool]:
        """Special tokens, and words without a letter or a digit."""
        special = self.tokenizer.target.special_ids
        return [
            token in special or not any(map(str.isalnum, word))
            for token, word in zip(ids, words, strict=True)
        ]

    def _fits(self, length: int) -> None:
        if length > self.longest:
            raise ConfigError(
                f"The text has {length} tokens, and this model reads at most {self.longest}; shorten it."
            )

    def keys(self, text: str, layer: int, head: int) -> HeadKeys:
        """The keys of one head of self-attention on a text, as the last token's query meets them."""
        row = self.row(text)
        place = f"layers.{layer}.attention"
        patterns = f"{place}.keys", f"{place}.queries"
        with undisturbed(self.model), capture(self.model, *patterns) as seen:
            self.model(**row.inputs, objective=hidden_states)
        keys, queries = seen[f"{place}.keys"][0], seen[f"{place}.queries"][0]
        if head >= len(queries):
            raise ConfigError(f"There is no head {head}: heads are 0 to {len(queries) - 1}.")
        own = keys[head * len(keys) // len(queries)]
        scale = self.settings.attention_by_layer[layer].options.get("scale", "root")
        size = own.shape[-1] ** -0.5 if scale == "root" else float(scale)
        return HeadKeys(own.double().cpu().numpy(), list(row.words), size)

    def cut(self, text: str) -> str:
        """As much of a text as the model reads in one row."""
        room = self.longest - self.tokenizer.form.single_room
        ids = self.tokenizer.encode(text)
        return text if len(ids) <= room else self.tokenizer.decode(ids[:room])

    def attention(self, text: str, pair: str = "", *, layer: int = -1, head: int = -1) -> AttentionMaps:
        """The weights of every layer and head on a text or a pair, and what each head is worth there."""
        return attention_maps(self.model, self.row(text, pair), layer=layer, head=head)


def words_by(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Each token as a person reads it."""
    return [tokenizer.decode([token], specials=True).strip() or "␣" for token in ids]


@dataclass(frozen=True)
class HeadKeys:
    """The keys (T,K) of a head, the words they stand at, and what its scores are multiplied by."""

    keys: NDArray[np.float64]
    words: list[str]
    scale: float
