"""Peak memory of a training step of every ready config, beside transformers' model of that shape."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from attnlab.config.files import load, ready_configs
from attnlab.session.session import Session
from attnlab.session.training import in_order
from attnlab.tasks.task import Prepared
from benchmarks.measure import high_water, resident, row
from benchmarks.training import Step, loop_of, trained
from tests.training.small_run import set_up

WORDS, LABELS = 0.5, 1.0
"""The most of transformers' memory that we may need: of models that predict words, whose scores it holds for
all of a batch at once, and of others, of which both have to keep much the same."""


def rows() -> list[dict[str, object]]:
    return [compared(name) for name in ready_configs()]


def compared(name: str) -> dict[str, object]:
    ours, theirs = measured(name, "ours"), measured(name, "transformers")
    model, inputs = PEERS[name]
    most = WORDS if inputs in (words, pairs) else LABELS
    detail = f"{ours:,.0f} MiB, transformers ({model.__name__}) {theirs:,.0f}"
    work = f"a step of {name}, peak memory, of transformers'"
    return row(work, ours / theirs, f"at most {most:g}", ours <= most * theirs, detail)


def measured(name: str, who: str) -> float:
    """MiB, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", name, who]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]) / 1024


def peak(name: str, who: str) -> int:
    """Kilobytes that model, optimizer and two steps, on the same two batches, add to this process at most."""
    import transformers  # noqa: F401 - loaded by both, so that it counts for neither

    with tempfile.TemporaryDirectory() as folder:
        setup = set_up(load(name), cache=Path(folder))
        batches = in_order(setup).forever()
        prepared = [setup.task.prepare(next(batches), step) for step in range(2)]
        before = resident()
        high_water(anew=True)
        step = loop_of(setup, Path(folder)).step if who == "ours" else peer_step(name, setup, prepared)
        step()
        step()
        return high_water() - before


# ---------------------------------------------------------------- transformers' models of the same shapes
def gpt2(setup: Session) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = setup.config.model
    dropouts = {"resid_pdrop": sizes.dropout, "embd_pdrop": sizes.dropout, "attn_pdrop": 0.0}
    named = {"n_embd": sizes.width, "n_layer": sizes.layers, "n_head": sizes.heads}
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=vocabulary(setup), n_positions=sizes.length, use_cache=False, **named, **dropouts
        )
    )


def llama(setup: Session) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    hidden = round(2.6875 * setup.config.model.width)
    settings = shared(setup) | {"intermediate_size": hidden, "tie_word_embeddings": True, "use_cache": False}
    return LlamaForCausalLM(LlamaConfig(**settings))


def bert(setup: Session) -> Any:
    """Also for spanbert-mini and unilm-mini, whose second objective and three masks it does without."""
    from transformers import BertForMaskedLM

    return BertForMaskedLM(bert_config(setup))


def bert_classifier(setup: Session) -> Any:
    from transformers import BertForSequenceClassification

    return BertForSequenceClassification(bert_config(setup, num_labels=setup.dataset.labels.outputs))


def bert_tagger(setup: Session) -> Any:
    from transformers import BertForTokenClassification

    return BertForTokenClassification(bert_config(setup, num_labels=setup.dataset.labels.outputs))


def bert_reader(setup: Session) -> Any:
    from transformers import BertForQuestionAnswering

    return BertForQuestionAnswering(bert_config(setup))


def bart(setup: Session) -> Any:
    from transformers import BartConfig, BartForConditionalGeneration

    sizes = setup.config.model
    of_a_side = {"layers": sizes.layers, "attention_heads": sizes.heads, "ffn_dim": 4 * sizes.width}
    sides = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in of_a_side.items()}
    named = {"d_model": sizes.width, "max_position_embeddings": sizes.length, "dropout": sizes.dropout}
    return BartForConditionalGeneration(
        BartConfig(vocab_size=vocabulary(setup), use_cache=False, **named, **sides)
    )


def bert_config(setup: Session, **labels: int) -> Any:
    from transformers import BertConfig

    sizes = setup.config.model
    dropouts = {"hidden_dropout_prob": sizes.dropout, "attention_probs_dropout_prob": 0.0}
    return BertConfig(**shared(setup), **dropouts, **labels, intermediate_size=4 * sizes.width)


def shared(setup: Session) -> dict[str, Any]:
    """Sizes under the names that most of transformers' configs have."""
    sizes = setup.config.model
    return {
        "vocab_size": vocabulary(setup),
        "hidden_size": sizes.width,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "max_position_embeddings": sizes.length,
    }


def vocabulary(setup: Session) -> int:
    return setup.dataset.tokenizer.size


# ---------------------------------------------------------------- what they are given
def words(prepared: Prepared) -> dict[str, Any]:
    """Ids, and labels with -100 for none; a causal model shifts them once more, which costs the same."""
    return {"input_ids": prepared.ids, "labels": prepared.targets}


def pairs(prepared: Prepared) -> dict[str, Any]:
    assert prepared.source_tokens is not None
    seen = {"input_ids": prepared.source, "attention_mask": prepared.source_tokens.real}
    return {**seen, "decoder_input_ids": prepared.ids, "labels": prepared.targets}


def labels(prepared: Prepared) -> dict[str, Any]:
    return {**words(prepared), "attention_mask": prepared.tokens.real}


def answers(prepared: Prepared) -> dict[str, Any]:
    first, last = prepared.targets.unbind(1)
    seen = {"input_ids": prepared.ids, "attention_mask": prepared.tokens.real}
    return {**seen, "token_type_ids": prepared.types, "start_positions": first, "end_positions": last}


def peer_step(name: str, setup: Session, prepared: list[Prepared]) -> Step:
    model_of, inputs = PEERS[name]
    model, batches = model_of(setup), iter(prepared)
    return trained(model, lambda: model(**inputs(next(batches))).loss)


PEERS: dict[str, tuple[Callable[[Session], Any], Callable[[Prepared], dict[str, Any]]]] = {
    "mini-gpt": (gpt2, words),
    "modern-mini": (llama, words),
    "bert-mini": (bert, words),
    "spanbert-mini": (bert, words),
    "unilm-mini": (bert, words),
    "seq2seq-mini": (bart, pairs),
    "classifier-mini": (bert_classifier, labels),
    "tagger-mini": (bert_tagger, labels),
    "answering-mini": (bert_reader, answers),
}

if __name__ == "__main__":
    torch.manual_seed(0)
    print(peak(*sys.argv[1:]))
