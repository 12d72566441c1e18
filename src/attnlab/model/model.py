"""A trunk with a head: what is trained, saved and asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from attnlab.model.cache import coordinates
from attnlab.model.heads.head import Head
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.trunk import Trunk

if TYPE_CHECKING:
    from attnlab.model.adapters.adapter import Adapter
    from attnlab.model.capture import Taps


class Model(nn.Module):
    """The whole model. Calling it gives the head's scores."""

    def __init__(self, trunk: Trunk, head: Head):
        super().__init__()
        self.trunk, self.head = trunk, head
        self.adapter: Adapter | None = None
        self.taps: Taps | None = None  # of the blocks that capture or patch it now

    @property
    def vocabulary(self) -> int:
        """How many token ids it knows."""
        return self.trunk.tables()[0].num_embeddings

    @property
    def writes(self) -> bool:
        """Whether it goes on with a text, token by token."""
        return self.head.scores_words and self.trunk.writes

    def forward(self, ids: Tensor, tokens: Tokens | None = None, **inputs: Any) -> Tensor:
        """The head's scores for ids (B,T); `inputs` go to the trunk (types, source, cache, …)."""
        tokens = coordinates(ids, inputs.get("cache")) if tokens is None else tokens
        return self.head(self.trunk(ids, tokens, **inputs), tokens)
