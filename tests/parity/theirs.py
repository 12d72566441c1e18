"""Tiny random models of transformers, saved as it saves them: every family, every head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import transformers

V, WIDTH, LAYERS, HEADS, LENGTH = 67, 24, 2, 4, 40

SIZES = {
    "vocab_size": V,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 44,
}
STILL = {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
BERT = SIZES | STILL | {"max_position_embeddings": LENGTH}
ROBERTA = (
    SIZES | STILL | {"max_position_embeddings": LENGTH + 2, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
)
DISTIL = {
    "vocab_size": V,
    "dim": WIDTH,
    "n_layers": LAYERS,
    "n_heads": HEADS,
    "hidden_dim": 44,
    "max_position_embeddings": LENGTH,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "seq_classif_dropout": 0.0,
    "qa_dropout": 0.0,
}
GPT2 = {
    "vocab_size": V,
    "n_embd": WIDTH,
    "n_layer": LAYERS,
    "n_head": HEADS,
    "n_positions": LENGTH,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA = SIZES | {"num_key_value_heads": 2, "max_position_embeddings": LENGTH}
QWEN2 = LLAMA | {"bos_token_id": 1, "eos_token_id": 2}
T5 = {
    "vocab_size": V,
    "d_model": WIDTH,
    "d_kv": 6,
    "d_ff": 44,
    "num_layers": LAYERS,
    "num_heads": HEADS,
    "dropout_rate": 0.0,
    "n_positions": LENGTH,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "decoder_start_token_id": 0,
}


@dataclass(frozen=True)
class Case:
    """A model of theirs: its class, its settings, and which of its outputs is the head's."""

    architecture: str
    settings: dict[str, Any]
    output: str = "logits"

    def make(self, seed: int = 0, **changes: Any) -> Any:
        """Weights far from the usual start: biases and gains are not 0 and 1, so that each one counts."""
        kind = getattr(transformers, self.architecture)
        torch.manual_seed(seed)
        model = kind(kind.config_class(**self.settings | changes))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.15)
            if self.architecture == "BertForMaskedLM":  # untied, this has a second bias that nothing reads
                model.cls.predictions.bias.copy_(model.cls.predictions.decoder.bias)
        return model.eval()

    @property
    def kind(self) -> Any:
        return getattr(transformers, self.architecture)


CAUSAL = {
    "gpt2": Case("GPT2LMHeadModel", GPT2),
    "gpt2, untied, erf, wide": Case(
        "GPT2LMHeadModel", GPT2 | {"tie_word_embeddings": False, "activation_function": "gelu", "n_inner": 50}
    ),
    "llama": Case("LlamaForCausalLM", LLAMA),
    "llama, tied, own head width, biases": Case(
        "LlamaForCausalLM",
        LLAMA
        | {
            "tie_word_embeddings": True,
            "head_dim": 8,
            "attention_bias": True,
            "mlp_bias": True,
            "num_key_value_heads": 4,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        },
    ),
    "llama, biases of attention alone": Case("LlamaForCausalLM", LLAMA | {"attention_bias": True}),
    "qwen2": Case("Qwen2ForCausalLM", QWEN2),
    "qwen2, tied, all heads": Case(
        "Qwen2ForCausalLM",
        QWEN2
        | {
            "tie_word_embeddings": True,
            "num_key_value_heads": HEADS,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        },
    ),
}
MASKED = {
    "bert": Case("BertForMaskedLM", BERT),
    "bert, untied": Case("BertForMaskedLM", BERT | {"tie_word_embeddings": False}),
    "bert, pretraining": Case("BertForPreTraining", BERT, output="prediction_logits"),
    "roberta": Case("RobertaForMaskedLM", ROBERTA),
    "distilbert": Case("DistilBertForMaskedLM", DISTIL),
}
SEQ2SEQ = {
    "t5": Case("T5ForConditionalGeneration", T5),
    "t5, gated": Case("T5ForConditionalGeneration", T5 | {"feed_forward_proj": "gated-gelu"}),
    "t5, gated, unscaled": Case(
        "T5ForConditionalGeneration", T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    ),
}
OTHERS = {
    "bert, next sentence": Case("BertForNextSentencePrediction", BERT),
    "bert, classes": Case("BertForSequenceClassification", BERT | {"num_labels": 3}),
    "bert, tags": Case("BertForTokenClassification", BERT | {"num_labels": 3}),
    "bert, answers": Case("BertForQuestionAnswering", BERT, output="span"),
    "bert, bare": Case("BertModel", BERT, output="pooler_output"),
    "roberta, classes": Case("RobertaForSequenceClassification", ROBERTA | {"num_labels": 4}),
    "roberta, tags": Case("RobertaForTokenClassification", ROBERTA | {"num_labels": 4}),
    "roberta, answers": Case("RobertaForQuestionAnswering", ROBERTA, output="span"),
    "roberta, bare": Case("RobertaModel", ROBERTA, output="pooler_output"),
    "distilbert, classes": Case("DistilBertForSequenceClassification", DISTIL | {"num_labels": 3}),
    "distilbert, tags": Case("DistilBertForTokenClassification", DISTIL | {"num_labels": 3}),
    "distilbert, answers": Case("DistilBertForQuestionAnswering", DISTIL, output="span"),
    "distilbert, bare": Case("DistilBertModel", DISTIL, output="last_hidden_state"),
    "gpt2, bare": Case("GPT2Model", GPT2, output="last_hidden_state"),
    "llama, bare": Case("LlamaModel", LLAMA, output="last_hidden_state"),
    "qwen2, bare": Case("Qwen2Model", QWEN2, output="last_hidden_state"),
    "t5, encoder": Case("T5EncoderModel", T5, output="last_hidden_state"),
}
ALL = CAUSAL | MASKED | SEQ2SEQ | OTHERS


def scores(case: Case, output: Any) -> torch.Tensor:
    """What the head gives, in our shape."""
    if case.output == "span":
        return torch.stack([output.start_logits, output.end_logits], -1)
    return getattr(output, case.output)
