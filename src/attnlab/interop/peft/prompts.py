"""Prompt and prefix adapters in peft's files: one tensor, `prompt_embeddings`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnlab.config.values import ConfigError
from attnlab.interop.peft.layout import Config, NamedModel, Tensors
from attnlab.model.adapters.prefix import Prefix
from attnlab.model.adapters.prompt import Prompt
from attnlab.model.projections import Projections

NAME = "prompt_embeddings"


def prompt_in(layout: NamedModel, config: Config, tensors: Tensors) -> Prompt:
    """peft keeps n vectors for each stack of an encoder-decoder, and uses those of the encoder alone."""
    _refuse_prompt(layout)
    n = _count(config)
    vectors = _embeddings(tensors)
    stacks = len(layout.trunk.stacks())
    if vectors.shape[0] not in (n, n * stacks):
        raise ConfigError(f"{NAME} has {vectors.shape[0]} rows, and num_virtual_tokens is {n}.")
    adapter = Prompt(tokens=n)
    adapter.before.vectors = nn.Parameter(vectors[:n].clone())
    return adapter


def prompt_out(layout: NamedModel, adapter: Prompt) -> tuple[Config, Tensors]:
    _refuse_prompt(layout)
    vectors = adapter.before.vectors.detach()
    return {
        "peft_type": "PROMPT_TUNING",
        "num_virtual_tokens": len(vectors),
        "num_transformer_submodules": 1,
        "token_dim": vectors.shape[1],
        "num_attention_heads": _projections(layout).heads,
        "num_layers": layout.trunk.layers,
    }, {NAME: vectors}


def _refuse_prompt(layout: NamedModel) -> None:
    output = layout.head.output
    if output.get("pooling") == "first" or output["kind"] == "sentence_pair":
        raise ConfigError(
            f"With a prompt, peft's {layout.head.architecture} looks at the first virtual token, and this "
            "head at the first token of the text: the same vectors would give other answers. "
            "Use prefix or lora."
        )


def prefix_in(layout: NamedModel, config: Config, tensors: Tensors) -> Prefix:
    """Whatever network made them (`prefix_projection`), the file holds the keys and values themselves."""
    _refuse_prefix(layout)
    n = _count(config)
    layers, heads, width = _sizes(layout)
    flat = _embeddings(tensors)
    if tuple(flat.shape) != (n, 2 * layers * heads * width):
        raise ConfigError(
            f"{NAME} has shape {list(flat.shape)}, and {n} keys and values of this model make "
            f"[{n}, {2 * layers * heads * width}]: 2 · {layers} layers · {heads} heads · {width}."
        )
    slots = flat.view(n, 2 * layers, heads, width).permute(1, 2, 0, 3)
    places = torch.tensor(_places(layout))
    adapter = Prefix(tokens=n)
    adapter.before.keys = nn.Parameter(slots[places].clone())
    adapter.before.values = nn.Parameter(slots[places + 1].clone())
    return adapter


def prefix_out(layout: NamedModel, adapter: Prefix) -> tuple[Config, Tensors]:
    _refuse_prefix(layout)
    layers, heads, width = _sizes(layout)
    keys, values = adapter.before.keys.detach(), adapter.before.values.detach()
    slots = keys.new_zeros(2 * layers, *keys.shape[1:])
    places = _places(layout)
    for layer, place in enumerate(places):
        first = places.index(place)
        if not (torch.equal(keys[layer], keys[first]) and torch.equal(values[layer], values[first])):
            raise ConfigError(
                f"In an encoder-decoder of {layers} layers, an even number, peft reads the prefix of layers "
                f"{first} and {layer} from the same numbers, and here they differ; "
                "its file cannot hold this adapter."
            )
        slots[place], slots[place + 1] = keys[layer], values[layer]
    return {
        "peft_type": "PREFIX_TUNING",
        "num_virtual_tokens": keys.shape[2],
        "num_transformer_submodules": len(layout.trunk.stacks()),
        "token_dim": heads * width,
        "num_attention_heads": heads,
        "num_layers": layers,
        "encoder_hidden_size": heads * width,
        "prefix_projection": False,
    }, {NAME: slots.permute(2, 0, 1, 3).reshape(keys.shape[2], -1)}


def _places(layout: NamedModel) -> list[int]:
    """Where the file holds each layer's keys; the values follow.

    For an encoder-decoder peft doubles the row and deals it out by fours, of which the decoder's
    self-attention takes two: layer l reads 4l, counted around the row. With an even number of layers
    half of the row is then never read, and the other half twice.
    """
    layers, stacks = layout.trunk.layers, len(layout.trunk.stacks())
    return [2 * stacks * layer % (2 * layers) for layer in range(layers)]


def _refuse_prefix(layout: NamedModel) -> None:
    if layout.family.model_type == "distilbert":
        raise ConfigError(
            "peft has no prefix tuning for DistilBERT, whose class takes no keys from outside; "
            "use prompt or lora."
        )


def _sizes(layout: NamedModel) -> tuple[int, int, int]:
    projections = _projections(layout)
    return layout.trunk.layers, projections.key_heads, projections.head_width


def _projections(layout: NamedModel) -> Projections:
    return next(iter(layout.trunk.attentions().values())).projections


def _count(config: Config) -> int:
    n = config.get("num_virtual_tokens")
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ConfigError(f"adapter_config.json has num_virtual_tokens = {n!r}; it must be at least 1.")
    return n


def _embeddings(tensors: Tensors) -> Tensor:
    if NAME not in tensors:
        raise ConfigError(f"The adapter's file lacks {NAME}, which holds all that such an adapter is.")
    embeddings = tensors.pop(NAME)
    if embeddings.ndim != 2:
        raise ConfigError(f"{NAME} has shape {list(embeddings.shape)}; it must have rows and columns.")
    return embeddings
