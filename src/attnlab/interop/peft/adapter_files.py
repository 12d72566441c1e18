"""Reading and writing a folder of peft's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from attnlab.config.untrusted import read_json
from attnlab.config.values import ConfigError
from attnlab.interop.peft.layout import Config, NamedModel, Tensors
from attnlab.interop.peft.lora import lora_in, lora_out
from attnlab.interop.peft.prompts import prefix_in, prefix_out, prompt_in, prompt_out
from attnlab.interop.weights import TYPES, Safe
from attnlab.model.adapters.adapter import Adapter
from attnlab.model.adapters.lora import Lora
from attnlab.model.adapters.prefix import Prefix
from attnlab.model.adapters.prompt import Prompt
from attnlab.model.model import Model

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
READERS = {"PROMPT_TUNING": prompt_in, "PREFIX_TUNING": prefix_in, "LORA": lora_in}
INNER = {"PROMPT_TUNING": "base_model.", "PREFIX_TUNING": "base_model.", "LORA": "base_model.model."}
"""What stands before the names of the model's modules."""
UNDERSTOOD = {
    *("peft_type", "task_type", "num_virtual_tokens", "token_dim", "num_attention_heads", "num_layers"),
    *("num_transformer_submodules", "encoder_hidden_size", "prefix_projection", "modules_to_save"),
    *("r", "lora_alpha", "lora_dropout", "rank_pattern", "alpha_pattern", "use_rslora", "bias"),
    *("target_modules", "fan_in_fan_out", "init_lora_weights"),
    # how it was begun, chosen or run, which its tensors show or which changes no answer
    *(
        "base_model_name_or_path",
        "revision",
        "peft_version",
        "auto_mapping",
        "inference_mode",
        "init_weights",
    ),
    *("prompt_tuning_init", "prompt_tuning_init_text", "tokenizer_name_or_path", "tokenizer_kwargs"),
    *("exclude_modules", "layers_to_transform", "layers_pattern", "eva_config", "ensure_weight_tying"),
    *("megatron_core", "qalora_group_size", "runtime_config"),
}
"""Everything else in the config must be off: it would change what the adapter does."""


def read_adapter(folder: Path, model: Model, *, family: str, architecture: str) -> Adapter:
    """The adapter in a folder of peft's, ready to attach to this model of that family and class."""
    config = read_json(folder / CONFIG)
    kind = config.get("peft_type")
    if not isinstance(kind, str) or kind not in READERS:
        raise ConfigError(f"{folder / CONFIG} is of peft_type {kind!r}; known here are {', '.join(READERS)}.")
    for name, value in config.items():
        if name not in UNDERSTOOD and value not in (None, False, {}, [], ""):
            raise ConfigError(f"{folder / CONFIG} asks for {name} = {value!r}, which no adapter here does.")
    layout = NamedModel.of(model, family, architecture)
    tensors = _tensors(folder, INNER[kind])
    adapter = READERS[kind](layout, config, tensors)
    adapter.learned = layout.head_in(tensors)
    if tensors:
        raise ConfigError(f"{folder / WEIGHTS} holds {sorted(tensors)[0]}, which nothing here takes.")
    return adapter


def _tensors(folder: Path, inner: str) -> Tensors:
    if not (folder / WEIGHTS).is_file():
        raise ConfigError(f"{folder} holds no {WEIGHTS}; have peft save it with safe_serialization.")
    stored = Safe([folder / WEIGHTS])
    for name in stored.names():
        if stored.dtype(name) not in TYPES.values():
            raise ConfigError(
                f"{name} is {stored.dtype(name)}, and what is trained is one of {', '.join(TYPES.values())}."
            )
    return {name.removeprefix(inner): stored.tensor(name) for name in stored.names()}


def write_adapter(
    folder: Path, adapter: Adapter, *, family: str, architecture: str, base: str = ""
) -> list[str]:
    """Write an attached adapter for a model of that family and class; gives the names of its tensors.

    `base` is the name or folder of the model that it is for.
    """
    layout = NamedModel.of(adapter.attached, family, architecture)
    config, tensors = _parts(layout, adapter)
    inner = INNER[config["peft_type"]]
    beside, modules = layout.head_out(adapter)
    named = {
        name if name == "prompt_embeddings" else inner + name: t for name, t in (tensors | beside).items()
    }
    common: dict[str, Any] = {
        "task_type": layout.task,
        "base_model_name_or_path": base or None,
        "inference_mode": True,
        "modules_to_save": modules or None,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(
        json.dumps(config | common, indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )
    whole = {name: t.clone(memory_format=torch.contiguous_format) for name, t in named.items()}
    save_file(whole, folder / WEIGHTS, metadata={"format": "pt"})
    return list(named)


def _parts(layout: NamedModel, adapter: Adapter) -> tuple[Config, Tensors]:
    match adapter:
        case Prompt():
            return prompt_out(layout, adapter)
        case Prefix():
            return prefix_out(layout, adapter)
        case Lora():
            return lora_out(layout, adapter)
    raise ConfigError(
        f"peft's files have no form for a {type(adapter).__name__.lower()} adapter; "
        "merge it and save the model, or use prompt, prefix or lora."
    )
