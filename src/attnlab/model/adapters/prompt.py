"""Prompt tuning."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.config.ranges import Count
from attnlab.model.adapters.adapter import Adapter, check_sizes, generator_for
from attnlab.model.model import Model
from attnlab.model.stack import Stack
from attnlab.model.terms import Term
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.transformer import transformer_of
from attnlab.model.virtual import Virtual


class Prompt(Adapter):
    """Prompt: trained embeddings stand before the input.

    Formula: [p_1 … p_n ; E x], with positions 0 … n − 1 for p; the text moves on by n. They start as the
    vectors of words drawn at random, and the model's output is given for the text alone.

    Cost: n·D parameters, and n tokens more in every row. In an encoder-decoder they stand before the source.

    When it helps: many tasks with one model, whose weights stay as they are; large models most. n = 128
    and a head of two classes make 130·D + 2.

    Paper: Lester et al. 2021, "The Power of Scale for Parameter-Efficient Prompt Tuning".
    """

    examples: ClassVar[tuple[dict[str, object], ...]] = ({"tokens": 3},)
    stands_before = True

    def __init__(self, *, tokens: Count = 20):
        super().__init__()
        self.before = PromptTokens(tokens)

    def insert(self, model: Model, seed: int) -> None:
        stack = read_stack(model)
        self.before.begin(stack.embedding.tokens, seed)
        stack.accept(self.before.to(stack.embedding.tokens.weight))

    def remove(self, model: Model) -> None:
        read_stack(model).virtual = None

    def own(self) -> list[nn.Parameter]:
        return list(self.before.parameters())

    def terms(self) -> list[Term]:
        return [Term("prompt", "n·D", self.before.vectors.numel())]


def read_stack(model: Model) -> Stack:
    """The stack that reads the input: the encoder where there is one."""
    trunk = transformer_of(model.trunk)
    return trunk.main if trunk.encoder is None else trunk.encoder


class PromptTokens(Virtual):
    """Virtual tokens that go through the blocks as words do."""

    def __init__(self, count: int):
        super().__init__(count)
        self.vectors = nn.Parameter(torch.empty(0))

    def begin(self, words: nn.Embedding, seed: int) -> None:
        """As wide as the words, and drawn from them unless they are there already."""
        if self.vectors.numel():
            return check_sizes("prompt", self.vectors, (self.count, words.embedding_dim))
        self.refuse_many(words.embedding_dim)
        chosen = torch.randint(
            words.num_embeddings, (self.count,), generator=generator_for(seed, "adapter.prompt")
        )
        self.vectors = nn.Parameter(words.weight.detach()[chosen.to(words.weight.device)].clone())
        return None

    def placed(self, text: Tokens) -> tuple[Tokens, Tokens]:
        row = self._row(text)
        return row, row

    def embedded(self, x: Tensor, types: Tensor | None) -> tuple[Tensor, Tensor | None]:
        x = torch.cat([self.vectors.expand(len(x), -1, -1).to(x.dtype), x], 1)
        return x, None if types is None else F.pad(types, (self.count, 0))
