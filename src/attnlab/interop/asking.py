"""A torch module of another project: what it claims to see, and how it is asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnlab.checks.probing import copied_apart, logits_of, vocabulary_of
from attnlab.checks.wording import sentences
from attnlab.config.values import ConfigError
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens

Claim = Literal["causal", "bidirectional"]
COPIED = 500_000_000
"""Parameters up to which a module is copied in float64."""
SOURCE = 5
"""Tokens of the source that an encoder reads, other than any row is long."""
CAUSAL = ("ForCausalLM", "LMHeadModel")
"""How classes of transformers end that say that they continue a text, whatever their config.json says."""


class TooLargeError(ConfigError):
    """A module that is not copied, by its number of parameters."""

    def __init__(self, parameters: int):
        self.values = {"parameters": parameters, "most": COPIED}
        super().__init__(sentences("dependency", "too_large", self.values).found)


@dataclass(frozen=True, kw_only=True)
class AskedModule:
    """A copy of a module in float64, with what is known of it.

    `scores(module, ids, real)` gives the logits of ids (N,T), of which those are padding that are not real:
    (N,T,V) for each place, or (N,C) for each text as a whole.
    """

    module: nn.Module
    vocabulary: int
    mask: Claim
    name: str
    pad: int
    takes: frozenset[str]
    reads_source: bool = False
    forward: Callable[[nn.Module, Tensor], Any] | None = None

    @classmethod
    def of(
        cls,
        module: nn.Module,
        *,
        vocabulary: int | None = None,
        mask: Claim | None = None,
        forward: Callable[[nn.Module, Tensor], Any] | None = None,
    ) -> AskedModule:
        if not isinstance(module, nn.Module):
            raise ConfigError(f"A check takes a torch.nn.Module, and this is {type(module).__name__}.")
        count = sum(parameter.numel() for parameter in module.parameters())
        if count > COPIED:
            raise TooLargeError(count)
        config = getattr(module, "config", None)
        return cls(
            module=copied_apart(module).eval(),
            vocabulary=vocabulary_of(module) if vocabulary is None else vocabulary,
            mask=mask or claimed_mask(module),
            name=type(module).__name__,
            pad=first_id(getattr(config, "pad_token_id", None)),
            takes=frozenset(inspect.signature(module.forward).parameters),
            reads_source=(
                module.trunk.reads_source
                if isinstance(module, Model)
                else bool(getattr(config, "is_encoder_decoder", False))
            ),
            forward=forward,
        )

    @property
    def masks_padding(self) -> bool:
        return "attention_mask" in self.takes or isinstance(self.module, Model)

    @property
    def places_padding(self) -> bool:
        """Whether positions can be told, so that padding may stand on the left."""
        return "position_ids" in self.takes and not self.reads_source

    def random_rows(self, lengths: Sequence[int], seed: int = 2) -> list[Tensor]:
        """Rows of random tokens, none of them padding: some models look for its id."""
        drawn = torch.Generator().manual_seed(seed)
        rows = [torch.randint(self.vocabulary, (length,), generator=drawn) for length in lengths]
        return [torch.where(row == self.pad, (row + 1) % self.vocabulary, row) for row in rows]

    def source_rows(self, rows: int) -> Tensor:
        return torch.stack(self.random_rows([SOURCE], seed=7)).expand(rows, -1)

    def call(self, ids: Tensor, real: Tensor | None = None, *, places: bool = False, **more: Any) -> Any:
        """What the module returns. With `places` it is told the position of each token, without padding."""
        given: dict[str, Any] = {"use_cache": False} if "use_cache" in self.takes else {}
        if real is not None and "attention_mask" in self.takes and not self.reads_source:
            given["attention_mask"] = real.long()
        if places:
            kept = torch.ones_like(ids) if real is None else real.long()
            given["position_ids"] = (kept.cumsum(1) - 1).clamp(min=0)
        if isinstance(self.module, Model):
            source = {"source": self.source_rows(len(ids))} if self.reads_source else {}
            return self.module(ids, Tokens.of(ids.shape[1], real=real), **source)
        if self.reads_source:
            given |= {"input_ids": self.source_rows(len(ids)), "decoder_input_ids": ids}
            return self.module(**given | more)
        return self.module(ids, **given | more)

    @torch.no_grad()
    def scores(self, ids: Tensor, real: Tensor | None = None, *, places: bool = False) -> Tensor:
        if self.forward is not None:
            return answers_of(self.forward(self.module, ids))
        return answers_of(self.call(ids, real, places=places))

    def each_place(self) -> bool:
        """Whether there is an answer for each place, and not one for a whole text."""
        return self.scores(torch.stack(self.random_rows([4]))).ndim == 3

    def probed(self, module: nn.Module, ids: Tensor) -> Tensor:
        """How the dependency probe asks."""
        if self.forward is not None:
            return logits_of(self.forward(module, ids))
        return logits_of(answers_of(self.call(ids)))


def answers_of(output: Any) -> Tensor:
    """The scores of an output: for each place (N,T,V), or for each text (N,C)."""
    if hasattr(output, "start_logits"):
        return torch.stack([output.start_logits, output.end_logits], -1)
    logits = getattr(output, "logits", output)
    return logits if isinstance(logits, Tensor) and logits.ndim == 2 else logits_of(output)


def claimed_mask(module: nn.Module) -> Claim:
    """What a module says that it sees: by its class where that is one of transformers', else by its mask."""
    if isinstance(module, Model):
        return "bidirectional" if module.trunk.sees == "all" else "causal"
    config = getattr(module, "config", None)
    if config is None:
        return "causal"
    named = type(module).__name__.endswith(CAUSAL)
    attends = any(getattr(part, "is_causal", False) is True for part in module.modules())
    decodes = any(getattr(config, name, False) for name in ("is_decoder", "is_encoder_decoder"))
    return "causal" if named or attends or decodes else "bidirectional"


def first_id(number: object) -> int:
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else 0


def facts_of(config: object) -> Mapping[str, Any]:
    """A config of transformers as what its config.json holds."""
    to_dict = getattr(config, "to_dict", None)
    return dict(to_dict()) if callable(to_dict) else {}
