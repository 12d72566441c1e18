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
from attnlab.config.schema import ModelSettings
from attnlab.experiment.setup import Setup, in_order, set_up
from attnlab.tasks.task import Prepared
from benchmarks.measure import high_water, resident, row
from benchmarks.training import Step, loop_of, trained

BOUND = 0.5
"""The most of transformers' memory that we may need."""


def rows() -> list[dict[str, object]]:
    return [compared(name) for name in ready_configs()]


def compared(name: str) -> dict[str, object]:
    ours, work = measured(name, "ours"), f"a step of {name}, peak memory"
    if name not in PEERS:
        return row(f"{work}, MiB", ours, "–", True, f"{ours:,.0f} MiB; no comparable model")
    theirs = measured(name, "transformers")
    detail = f"{ours:,.0f} MiB, transformers {theirs:,.0f}"
    return row(
        f"{work}, of transformers'", ours / theirs, f"at most {BOUND:g}", ours <= BOUND * theirs, detail
    )


def measured(name: str, who: str) -> float:
    """MiB, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", name, who]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]) / 1024


def peak(name: str, who: str) -> int:
    """Kilobytes that model, optimizer and two steps add to this process at the most."""
    import transformers  # noqa: F401 - loaded by both, so that it counts for neither

    with tempfile.TemporaryDirectory() as folder:
        setup = set_up(load(name), cache=Path(folder))
        batch = next(in_order(setup).forever())
        prepared = setup.task.prepare(batch, 0)
        before = resident()
        high_water(anew=True)
        step = loop_of(setup, Path(folder)).step if who == "ours" else PEERS[name](setup, prepared)
        step()
        step()
        return high_water() - before


def gpt2(setup: Setup, prepared: Prepared) -> Step:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = setup.config.model
    dropouts = {"resid_pdrop": sizes.dropout, "embd_pdrop": sizes.dropout, "attn_pdrop": 0.0}
    named = {"n_embd": sizes.width, "n_layer": sizes.layers, "n_head": sizes.heads}
    settings = GPT2Config(
        vocab_size=vocabulary(setup), n_positions=sizes.length, use_cache=False, **named, **dropouts
    )
    return language_model(GPT2LMHeadModel(settings), prepared)


def llama(setup: Setup, prepared: Prepared) -> Step:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = setup.config.model
    settings = LlamaConfig(
        **shared(setup),
        intermediate_size=round(2.6875 * sizes.width),
        tie_word_embeddings=True,
        use_cache=False,
    )
    return language_model(LlamaForCausalLM(settings), prepared)


def bert(setup: Setup, prepared: Prepared) -> Step:
    from transformers import BertConfig, BertForMaskedLM

    sizes = setup.config.model
    dropouts = {"hidden_dropout_prob": sizes.dropout, "attention_probs_dropout_prob": 0.0}
    settings = BertConfig(**shared(setup), **dropouts, intermediate_size=4 * sizes.width)
    return language_model(BertForMaskedLM(settings), prepared)


def shared(setup: Setup) -> dict[str, Any]:
    """Sizes under the names that most of transformers' configs have."""
    sizes: ModelSettings = setup.config.model
    return {
        "vocab_size": vocabulary(setup),
        "hidden_size": sizes.width,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "max_position_embeddings": sizes.length,
    }


def vocabulary(setup: Setup) -> int:
    return setup.dataset.tokenizer.size


def language_model(model: Any, prepared: Prepared) -> Step:
    """Ids, and labels with -100 for none; a causal model shifts them once more, which costs the same."""
    return trained(model, lambda: model(input_ids=prepared.ids, labels=prepared.targets).loss)


PEERS: dict[str, Callable[[Setup, Prepared], Step]] = {
    "mini-gpt": gpt2,
    "modern-mini": llama,
    "bert-mini": bert,
}

if __name__ == "__main__":
    torch.manual_seed(0)
    print(peak(*sys.argv[1:]))
