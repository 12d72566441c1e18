"""What other projects, and earlier versions of this one, call a setting: answered with its name here."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from attnlab.config.values import Choice, ConfigError, unknown_name


@dataclass(frozen=True)
class OurSetting:
    """A setting of ours that stands for one of theirs.

    Their value is written in `form`, unless it is one of `values`; without a form it is no value of ours,
    and `example` is shown in its place. `note` says how ours is meant where that differs. In settings that
    begin with `but_in` their word means something else.
    """

    settings: tuple[str, ...]
    form: str = "{}"
    values: Mapping[Any, str] = field(default_factory=dict)
    example: str = "…"
    note: str = ""
    but_in: str = "-"

    def written(self, value: Any) -> str:
        """Their value as ours is written."""
        if isinstance(value, (str, int, float)) and value in self.values:
            return self.values[value]
        text = _plain(value)
        return self.form.format(text) if self.form and text else self.example

    def answer(self, value: Any) -> str:
        """What it is called here, and how to set it."""
        if not self.settings:
            return self.note
        note = f", {self.note}" if self.note else ""
        commands = [f"--set {shlex.quote(f'{setting}={self.written(value)}')}" for setting in self.settings]
        return f"it is called {' and '.join(self.settings)} here{note}: {' '.join(commands)}"


def _plain(value: Any) -> str:
    """A value that a person can write on the command line, as TOML has it; nothing for any other."""
    if isinstance(value, Choice):
        return str(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        numbers = all(isinstance(item, (int, float)) for item in value)
        return f"[{', '.join(map(_plain, value))}]" if numbers and value else ""
    return str(value) if isinstance(value, (str, int, float)) else ""


LENGTH = OurSetting(("model.length", "data.length"))
LEARNING_RATE = OurSetting(("training.optimizer.learning_rate",))
WEIGHT_DECAY = OurSetting(("training.optimizer.weight_decay",), but_in="training.schedule")
BATCH_SIZE = OurSetting(("data.batching.batch_size",))
WIDTH, LAYERS, HEADS = (
    OurSetting(("model.width",)),
    OurSetting(("model.layers",)),
    OurSetting(("model.heads",)),
)
KEY_HEADS = OurSetting(("model.projections",), "grouped(shared={})")
HIDDEN = OurSetting(("model.feedforward.expand",), "", example="4", note="a multiple of model.width")
DROPOUT, ATTENTION_DROPOUT = OurSetting(("model.dropout",)), OurSetting(("model.attention_dropout",))
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu(approximate=tanh)",
    "gelu_pytorch_tanh": "gelu(approximate=tanh)",
    "relu": "relu",
    "silu": "swiglu",
    "swish": "swiglu",
}
ACTIVATION = OurSetting(("model.feedforward",), "", ACTIVATIONS, "gelu")
NORM_EPS, TIED = OurSetting(("model.norm.eps",)), OurSetting(("model.output.tied",))
STEPS, EPOCHS = OurSetting(("training.budget.steps",)), OurSetting(("training.budget.epochs",))
ACCUMULATE = OurSetting(("training.accumulate",), note="batches of one step")
CLIP = OurSetting(("training.clip",), values={0: "off"})
WARMUP_STEPS = OurSetting(("training.schedule.warmup",), "", example="0.02", note="a share of the budget")
WARMUP = OurSetting(("training.schedule.warmup",))
SCHEDULES = {
    "cosine": "cosine",
    "linear": "linear",
    "constant": "constant",
    "constant_with_warmup": "constant",
    "warmup_stable_decay": "wsd",
}
SCHEDULE = OurSetting(("training.schedule",), "", SCHEDULES, "cosine")
EVALUATE_EVERY, CHECKPOINT_EVERY = (
    OurSetting(("training.evaluate_every",)),
    OurSetting(("training.checkpoint_every",)),
)
EVERY_STEP = OurSetting((), note="every step is written to metrics.jsonl of the run's folder")
BETAS = OurSetting(("training.optimizer.betas",))
BETA = OurSetting(("training.optimizer.betas",), "", example="[0.9, 0.95]", note="both of them")
EPS = OurSetting(("training.optimizer.eps",))
HALF = {True: "bfloat16", False: "float32"}
BFLOAT16 = OurSetting(("training.precision",), "", HALF, "bfloat16")
FLOAT16 = OurSetting(("training.precision",), "", HALF, "bfloat16", "float32 or bfloat16")
DTYPES = {name: name for name in ("float32", "bfloat16")}
DTYPE = OurSetting(("training.precision",), "", DTYPES, "bfloat16", "float32 or bfloat16")
CHECKPOINTING = OurSetting(("training.gradient_checkpointing",))
TRACKERS = {name: f'["{name}"]' for name in ("tensorboard", "wandb", "mlflow")}
LISTENERS = OurSetting(("training.listeners",), "", TRACKERS, '["tensorboard"]')
LABELS = OurSetting((), note="the number of classes is that of the labels in the data")
OUT = OurSetting((), note="the folder of a run is given with --out DIR")

ELSEWHERE: dict[str, OurSetting] = {
    **dict.fromkeys(("d_model", "hidden_size", "n_embd", "dim", "embed_dim"), WIDTH),
    **dict.fromkeys(("n_layer", "n_layers", "num_layers", "num_hidden_layers"), LAYERS),
    **dict.fromkeys(("n_head", "n_heads", "num_heads", "num_attention_heads"), HEADS),
    **dict.fromkeys(("n_kv_head", "n_kv_heads", "num_kv_heads", "num_key_value_heads"), KEY_HEADS),
    "head_dim": OurSetting(("model.head_width",)),
    **dict.fromkeys(("block_size", "max_seq_len", "max_seq_length", "max_length", "seq_len"), LENGTH),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "context_length"), LENGTH),
    "vocab_size": OurSetting(("data.tokenizer.vocabulary",)),
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "n_inner"), HIDDEN),
    **dict.fromkeys(("hidden_dropout_prob", "resid_pdrop", "embd_pdrop", "dropout_rate"), DROPOUT),
    **dict.fromkeys(("attn_pdrop", "attention_probs_dropout_prob"), ATTENTION_DROPOUT),
    **dict.fromkeys(("hidden_act", "activation_function"), ACTIVATION),
    "rope_theta": OurSetting(("model.positions",), "rotary(base={})"),
    "rms_norm_eps": OurSetting(("model.norm",), "rms(eps={})"),
    **dict.fromkeys(("layer_norm_eps", "layer_norm_epsilon", "norm_eps"), NORM_EPS),
    **dict.fromkeys(("tie_word_embeddings", "tie_embeddings"), TIED),
    **dict.fromkeys(("lr", "learning_rate", "rate"), LEARNING_RATE),
    **dict.fromkeys(("weight_decay", "decay"), WEIGHT_DECAY),
    "adamw_rate": OurSetting(("training.optimizer",), "muon(adamw_learning_rate={})"),
    **dict.fromkeys(("betas", "adam_betas"), BETAS),
    **dict.fromkeys(("beta1", "beta2", "adam_beta1", "adam_beta2"), BETA),
    **dict.fromkeys(("eps", "adam_epsilon"), EPS),
    **dict.fromkeys(("max_steps", "max_iters", "num_steps", "train_steps", "steps"), STEPS),
    **dict.fromkeys(("num_train_epochs", "num_epochs", "max_epochs", "epochs"), EPOCHS),
    **dict.fromkeys(("batch_size", "per_device_train_batch_size", "train_batch_size", "rows"), BATCH_SIZE),
    **dict.fromkeys(("gradient_accumulation_steps", "accumulate_grad_batches"), ACCUMULATE),
    **dict.fromkeys(("grad_clip", "max_grad_norm", "gradient_clip_val"), CLIP),
    **dict.fromkeys(("warmup_steps", "warmup_iters", "num_warmup_steps"), WARMUP_STEPS),
    **dict.fromkeys(("warmup", "warmup_ratio"), WARMUP),
    **dict.fromkeys(("lr_scheduler_type", "lr_scheduler"), SCHEDULE),
    **dict.fromkeys(("eval_interval", "eval_steps"), EVALUATE_EVERY),
    **dict.fromkeys(("save_steps", "save_interval"), CHECKPOINT_EVERY),
    **dict.fromkeys(("logging_steps", "log_interval"), EVERY_STEP),
    "save_total_limit": OurSetting(("training.keep",)),
    "early_stopping_patience": OurSetting(("training.patience",)),
    "bf16": BFLOAT16,
    "fp16": FLOAT16,
    **dict.fromkeys(("dtype", "torch_dtype"), DTYPE),
    "torch_compile": OurSetting(("training.compile",)),
    **dict.fromkeys(("gradient_checkpointing", "activation_checkpointing", "recompute"), CHECKPOINTING),
    "report_to": LISTENERS,
    **dict.fromkeys(("output_dir", "out_dir"), OUT),
    **dict.fromkeys(("num_labels", "num_classes"), LABELS),
    "objective": OurSetting(("task",)),
}
"""Their names. A name of ours is here too where people write it in another place than its own."""


def unknown_setting(where: str, word: str, value: Any, known: Iterable[object]) -> ConfigError:
    """The error for a setting that does not exist: what it is called here, or the nearest of those known."""
    ours = ELSEWHERE.get(word)
    if ours is None or where.startswith(ours.but_in):
        return unknown_name(where, word, known)
    return ConfigError(f'{where}: there is no "{word}"; {ours.answer(value)}')
