"""What the callback for transformers' Trainer adds to a training: the whole of it, and each step."""

from __future__ import annotations

import tempfile
import time
import warnings

import torch

from benchmarks.measure import row

STEPS, ROWS, LENGTH, VOCABULARY = 60, 8, 128, 8000
MOST = 0.1
"""The share of a training of 1,000 steps that the checks may add."""


def rows() -> list[dict[str, object]]:
    try:
        import transformers
    except ImportError:
        return []
    transformers.utils.logging.set_verbosity_error()
    plain = min(_seconds(watched=False) for _ in range(3))
    watched = min(_seconds(watched=True) for _ in range(3))
    each = plain / STEPS
    share = (watched - plain) / (1000 * each)
    return [
        row(
            "checks of a Trainer's run, as a share of 1,000 steps",
            share,
            f"at most {MOST}",
            share <= MOST,
            f"{watched - plain:.1f} s beside {each * 1e3:.0f} ms a step",
        )
    ]


def _seconds(*, watched: bool) -> float:
    import transformers

    from attnlab.interop.transformers import Soundness

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=256,
        n_layer=4,
        n_head=4,
        n_positions=LENGTH,
        bos_token_id=0,
        eos_token_id=0,
    )
    texts = torch.randint(1, VOCABULARY, (ROWS * STEPS, LENGTH))
    data = [{"input_ids": text, "labels": text} for text in texts]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            max_steps=STEPS,
            per_device_train_batch_size=ROWS,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            use_cpu=not torch.cuda.is_available(),
        )
        trainer = transformers.Trainer(
            model=transformers.GPT2LMHeadModel(config),
            args=arguments,
            train_dataset=data,
            callbacks=[Soundness()] if watched else [],
        )
        began = time.perf_counter()
        trainer.train()
        return time.perf_counter() - began
