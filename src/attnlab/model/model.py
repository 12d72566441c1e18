"""A trunk with a head: what is trained, saved and asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from attnlab.model.cache import Cache, coordinates
from attnlab.model.heads.head import Head
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.trunk import Trunk
from attnlab.model.virtual import Virtual

if TYPE_CHECKING:
    from attnlab.model.adapters.adapter import Adapter
    from attnlab.model.capture import Taps


class Objective(Protocol):
    """What a forward gives in place of scores: a loss, a judgement, or the hidden states themselves.

    It is called inside the forward, where a model that is spread over processes has its weights at hand.
    `training` is the model's own flag: a loss adds smoothing and z-loss by it.
    """

    def __call__(self, head: Head, hidden: Tensor, tokens: Tokens, *, training: bool) -> Any: ...


class Model(nn.Module):
    """The whole model. Calling it gives the head's scores, or what an objective makes of its hidden states.

    Every step of training, evaluating and decoding is such a call, so that wrappers (DDP, FSDP2, hooks,
    compilers) see it.
    """

    def __init__(self, trunk: Trunk, head: Head):
        super().__init__()
        self.trunk, self.head = trunk, head
        self.adapter: Adapter | None = None
        self.taps: Taps | None = None  # of the blocks that capture or patch it now

    @property
    def vocabulary(self) -> int:
        """How many token ids it knows; of an encoder-decoder, its decoder."""
        return self.trunk.tables()[0].num_embeddings

    @property
    def common_vocabulary(self) -> int:
        """How many token ids it knows in the text and in its source."""
        return min(table.num_embeddings for table in self.trunk.tables())

    @property
    def writes(self) -> bool:
        """Whether it goes on with a text, token by token."""
        return self.head.scores_words and self.trunk.writes

    @property
    def stands_before(self) -> bool:
        """Whether learned tokens stand before every row: those of an adapter, or of a bottleneck."""
        return any(isinstance(module, Virtual) for module in self.modules())

    def forward(
        self,
        ids: Tensor,
        tokens: Tokens | None = None,
        *,
        types: Tensor | None = None,
        vectors: Tensor | None = None,
        source: Tensor | None = None,
        source_tokens: Tokens | None = None,
        source_types: Tensor | None = None,
        encoded: Tensor | None = None,
        cache: Cache | None = None,
        second: Tensor | None = None,
        second_tokens: Tokens | None = None,
        features: Tensor | None = None,
        places: Any = None,
        objective: Objective | None = None,
    ) -> Any:
        """The head's scores for ids (B,T), or what the objective makes of the hidden states (B,T,D).

        `vectors` (B,T,W) are read beside the ids, or beside the source where there is one. An encoder reads
        `source` (B,S), unless `encoded` or the cache holds what it made of it. `second` (B,U) is
        another text of each row: the head's vectors of both (B,2,D) are then scores and hidden states alike.
        `features` stand for the trunk's output. `places` index the hidden states: a head with a large
        vocabulary is asked only there.
        """
        tokens = coordinates(ids, cache) if tokens is None else tokens
        inputs = {
            "types": types,
            "vectors": vectors,
            "source": source,
            "source_tokens": source_tokens,
            "source_types": source_types,
            "encoded": encoded,
            "cache": cache,
        }
        given: dict[str, Any] = {name: value for name, value in inputs.items() if value is not None}
        hidden = self.trunk(ids, tokens, **given) if features is None else features
        if second is not None:
            other = coordinates(second, None) if second_tokens is None else second_tokens
            both = self.head(hidden, tokens), self.head(self.trunk(second, other), other)
            hidden = torch.stack(both, 1)
        if places is not None:
            hidden = hidden[places]
        if objective is not None:
            return objective(self.head, hidden, tokens, training=self.training)
        return self.head(hidden, tokens) if second is None else hidden

    def encode(self, source: Tensor, tokens: Tokens, vectors: Tensor | None = None) -> Tensor:
        """What the encoder of two stacks makes of a source, (B,S) -> (B,S,D)."""
        beside = {} if vectors is None else {"vectors": vectors}
        return self.trunk.encode(source, tokens, **beside)


def hidden_states(head: Head, hidden: Tensor, tokens: Tokens, *, training: bool) -> Tensor:
    """The objective of those who look inside: (B,T,D) as the head would get them."""
    return hidden
