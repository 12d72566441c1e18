"""Two encoders, one of pictures and one of texts, whose outputs are mapped to one width."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.config.ranges import Count, Multiple
from attnlab.config.schema import ModelSettings
from attnlab.config.values import Choice, ConfigError
from attnlab.model import stack_counts
from attnlab.model.blocks import Attention
from attnlab.model.cache import Cache, coordinates
from attnlab.model.masks import Bidirectional, Mask
from attnlab.model.products import LinearMap
from attnlab.model.refinement import embedded, refined
from attnlab.model.stack import Stack
from attnlab.model.terms import Term, linear
from attnlab.model.tokens import Tokens
from attnlab.model.trunks.transformer import stack_of
from attnlab.model.trunks.trunk import Sees, Way


class TwoEncoders(nn.Module):
    """Two encoders: one reads pictures and another one texts, and both give vectors of one width.

    Formula: W_i·encoder_i(class token, patches) for rows with a picture, W_t·encoder_t(words) for all others.
    The settings of [model] are those of the encoder of texts; `image_width`, `image_layers`, `image_heads`
    and `image_expand` those of the other one, which is else like it and sees all patches.

    Cost: the parameters of both; each row goes through one of them.

    When it helps: search by words in pictures (task similarity with data.encoding = "image_apart", head
    contrast); CLIP's form.

    Paper: Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision".
    """

    def __init__(
        self,
        image: Stack,
        text: Stack,
        *,
        projection: Count = 64,
        image_width: Count = 64,
        image_layers: Count = 3,
        image_heads: Count = 4,
        image_expand: Multiple = 4.0,
    ):
        super().__init__()
        self.image, self.text, self.width = image, text, projection
        self.layers = max(image_layers, len(text.blocks))
        sizes = image.width, image_heads, image_expand
        assert sizes[0] == image_width, sizes
        self.image_projection = LinearMap(image_width, projection, bias=False)
        self.text_projection = LinearMap(text.width, projection, bias=False)

    @classmethod
    def from_settings(cls, settings: ModelSettings) -> TwoEncoders:
        """The encoder of texts by the settings of a model, that of pictures by the trunk's options."""
        from attnlab.model.masks import MASKS
        from attnlab.model.trunks import TRUNKS

        options = TRUNKS.resolve(settings.trunk).options
        choices = settings.inputs if isinstance(settings.inputs, tuple) else (settings.inputs,)
        if settings.picture is None or settings.family != "encoder" or settings.fusion.kind != "early":
            raise ConfigError(
                "trunk two_encoders is of an encoder of pictures and one of texts, which meet in no layer; "
                'set model.family = "encoder", model.inputs = ["image", "text"], and leave model.fusion out.'
            )
        plain = replace(settings, trunk=Choice("transformer"), inputs=Choice("text"))
        picture = replace(
            plain,
            inputs=next(choice for choice in choices if choice.kind == "image"),
            vocabulary=2,
            length=settings.picture.patches + 1,
            width=options["image_width"],
            layers=options["image_layers"],
            heads=options["image_heads"],
            head_width="even",
            feedforward=widened(settings.feedforward, options["image_expand"]),
            positions=settings.positions,
            embedding_norm=True,
            mask=Choice("bidirectional"),
        )
        image = stack_of(picture, Bidirectional())
        entrance = image.embedding.vectors
        assert entrance is not None
        image.embedding.vectors = LinearMap(entrance.in_features, entrance.out_features, bias=False)
        mask: Mask = MASKS.build(settings.mask)
        return cls(image, stack_of(plain, mask), **options)

    def stacks(self) -> dict[str, Stack]:
        return {"image": self.image, "text": self.text}

    @property
    def longest(self) -> float:
        """Of a text."""
        return getattr(self.text.positions, "length", torch.inf)

    sees: Sees = "all"
    reads_source = False
    asks_for_source = False
    writes = False

    def entrances(self) -> list[nn.Module]:
        return [self.text.embedding]

    def tables(self) -> list[nn.Embedding]:
        return [self.text.embedding.tokens]

    def attentions(self) -> dict[str, Attention]:
        return {
            f"{name}, layer {number}": attention
            for name, stack in self.stacks().items()
            for number, attention in enumerate(stack.attentions())
        }

    def ways(self, tokens: Tokens, source_tokens: Tokens | None = None) -> list[Way]:
        return [self.text.way(tokens)] if tokens.patch is None else []

    def contexts(
        self,
        ids: Tensor,
        tokens: Tokens,
        types: Tensor | None = None,
        source: Tensor | None = None,
        source_tokens: Tokens | None = None,
    ) -> list[Hashable]:
        return refined(self.text, embedded(self.text.positions, ids, tokens, types), tokens)

    def parameter_terms(self) -> list[Term]:
        maps = {"image projection": self.image_projection, "text projection": self.text_projection}
        both = [linear(name, m.in_features, m.out_features, False, "D·E") for name, m in maps.items()]
        return [*stack_counts.parameter_terms(self.stacks()), *both]

    def flop_terms(self, length: int, source_length: int) -> list[Term]:
        """Of a text."""
        flops = 2 * length * self.text.width * self.width
        return [
            *stack_counts.flop_terms({"text": self.text}, length, source_length),
            Term("text projection", "2N·D·E", flops),
        ]

    def activation_terms(self, length: int, source_length: int) -> list[Term]:
        return stack_counts.activation_terms({"text": self.text}, length, source_length)

    def cache(self) -> Cache:
        raise ValueError("Two encoders write no text: there is nothing to cache.")

    def encode(self, source: Tensor, tokens: Tokens, types: Any = None, vectors: Any = None) -> Tensor:
        raise ValueError("Two encoders have no decoder beside them: give their rows as `ids`.")

    def forward(
        self,
        ids: Tensor,
        tokens: Tokens | None = None,
        *,
        types: Tensor | None = None,
        vectors: Tensor | None = None,
    ) -> Tensor:
        """ids (B,T) -> (B,T,D). Of a picture its class token and patches; zero at other tokens."""
        tokens = coordinates(ids, None) if tokens is None else tokens
        if vectors is None or tokens.patch is None:
            hidden: Tensor = self.text_projection(self.text(ids, tokens, types=types))
            return hidden
        begin, end = self._picture(tokens)
        patch = tokens.patch[:, begin:end]
        own = Tokens.of(end - begin, patch=patch)
        rows = (patch > 0).long().expand(len(ids), -1)
        read = self.image_projection(self.image(rows, own, vectors=vectors[:, begin:end]))
        out: Tensor = read.new_zeros(*ids.shape, self.width)
        out[:, begin:end] = read
        return out

    @staticmethod
    def _picture(tokens: Tokens) -> tuple[int, int]:
        """Where the class token and the patches stand, in all rows alike."""
        assert tokens.patch is not None
        places = (tokens.patch[0] > 0).nonzero()[:, 0]
        first, last = int(places[0]), int(places[-1])
        if first < 1 or not bool((tokens.patch[:, first] == 1).all()):
            raise ValueError("A picture needs a token before its patches, which stand alike in all rows.")
        return first - 1, last + 1


def widened(feedforward: Choice, expand: float) -> Choice:
    return Choice(feedforward.kind, {**feedforward.options, "expand": expand})
