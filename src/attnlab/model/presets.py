"""Published architectures as settings of the one trunk: what a config holds, and no code of their own."""

from __future__ import annotations

from typing import Any

from attnlab.config.values import Choice


def _gpt2() -> dict[str, Any]:
    """GPT-2 small: 124,439,808 parameters (Radford et al. 2019)."""
    return {
        "family": "decoder",
        "vocabulary": 50_257,
        "embedding_scale": 1.0,
        "length": 1024,
        "width": 768,
        "layers": 12,
        "heads": 12,
        "positions": "learned",
        "norm": Choice("layer", {"eps": 1e-5}),
        "feedforward": Choice("gelu", {"approximate": "tanh"}),
    }


def _bert() -> dict[str, Any]:
    """BERT base, with its masked-language-model head (Devlin et al. 2018)."""
    return {
        "family": "encoder",
        "vocabulary": 30_522,
        "embedding_scale": 1.0,
        "length": 512,
        "width": 768,
        "layers": 12,
        "heads": 12,
        "positions": "learned",
        "norm": Choice("layer", {"eps": 1e-12}),
        "residual": "post",
        "token_types": 2,
        "embedding_norm": True,
        "output": Choice("language_model", {"bias": True, "transform": "dense"}),
    }


def _roberta() -> dict[str, Any]:
    """RoBERTa base: BERT with positions from 2 on, and one token type (Liu et al. 2019)."""
    return _bert() | {
        "vocabulary": 50_265,
        "positions": Choice("learned", {"offset": 2}),
        "norm": Choice("layer", {"eps": 1e-5}),
        "token_types": 1,
    }


def _distilbert() -> dict[str, Any]:
    """DistilBERT: half of BERT's layers, and no token types (Sanh et al. 2019)."""
    return _bert() | {"layers": 6, "token_types": 0}


def _llama() -> dict[str, Any]:
    """LLaMA 7B: rotary positions, RMS norm, SwiGLU, no biases, untied (Touvron et al. 2023)."""
    return {
        "family": "decoder",
        "vocabulary": 32_000,
        "embedding_scale": 1.0,
        "length": 2048,
        "width": 4096,
        "layers": 32,
        "heads": 32,
        "positions": "rotary",
        "norm": Choice("rms", {"eps": 1e-6}),
        "feedforward": Choice("swiglu", {"expand": 11_008 / 4096}),
        "output": Choice("language_model", {"tied": False}),
        "bias": False,
    }


def _qwen2() -> dict[str, Any]:
    """Qwen2.5 0.5B: LLaMA's parts with grouped heads, biases of q, k and v, tied: 494,032,768 parameters."""
    return _llama() | {
        "vocabulary": 151_936,
        "length": 32_768,
        "width": 896,
        "layers": 24,
        "heads": 14,
        "positions": Choice("rotary", {"base": 1_000_000.0}),
        "projections": Choice("grouped", {"shared": 2}),
        "feedforward": Choice("swiglu", {"expand": 4864 / 896}),
        "output": "language_model",
        "bias": ("query_key_value",),
    }


def _t5() -> dict[str, Any]:
    """T5 small: unscaled scores, one bucketed bias for all layers, no biases (Raffel et al. 2019)."""
    return {
        "family": "encoder_decoder",
        "vocabulary": 32_128,
        "embedding_scale": 1.0,
        "length": 512,
        "width": 512,
        "layers": 6,
        "heads": 8,
        "head_width": 64,
        "attention": Choice("dot", {"scale": 1.0}),
        "cross_attention": Choice("dot", {"scale": 1.0}),
        "positions": Choice("bucketed", {"buckets": 32, "distance": 128}),
        "norm": Choice("rms", {"eps": 1e-6}),
        "feedforward": "relu",
        "output": Choice("language_model", {"scale": "inverse_root"}),
        "bias": False,
    }


def _vit() -> dict[str, Any]:
    """ViT base for pictures of 224 pixels in patches of 16: 86,567,656 parameters for 1,000 classes
    (Dosovitskiy et al. 2020)."""
    return {
        "family": "encoder",
        "vocabulary": 2,
        "embedding_scale": 1.0,
        "length": 197,
        "width": 768,
        "layers": 12,
        "heads": 12,
        "inputs": Choice("image", {"size": 224, "patch": 16}),
        "positions": Choice("learned", {"patches": "order"}),
        "norm": Choice("layer", {"eps": 1e-12}),
        "output": "classification",
    }


def _clip() -> dict[str, Any]:
    """CLIP with ViT-B/32: 151,277,313 parameters (Radford et al. 2021)."""
    tower = {
        "projection": 512,
        "image_width": 768,
        "image_layers": 12,
        "image_heads": 12,
        "image_expand": 4.0,
    }
    return {
        "family": "encoder",
        "trunk": Choice("two_encoders", tower),
        "vocabulary": 49_408,
        "embedding_scale": 1.0,
        "length": 77,
        "width": 512,
        "layers": 12,
        "heads": 8,
        "mask": "causal",
        "inputs": [Choice("image", {"size": 224, "patch": 32}), "text"],
        "positions": Choice("learned", {"patches": "order"}),
        "norm": Choice("layer", {"eps": 1e-5}),
        "feedforward": Choice("gelu", {"approximate": "sigmoid"}),
        "output": "contrast",
    }


PRESETS: dict[str, dict[str, Any]] = {
    "gpt2": _gpt2(),
    "bert": _bert(),
    "roberta": _roberta(),
    "distilbert": _distilbert(),
    "llama": _llama(),
    "qwen2": _qwen2(),
    "t5": _t5(),
    "vit": _vit(),
    "clip": _clip(),
}
