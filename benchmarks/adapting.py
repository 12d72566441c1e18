"""Fine-tuning and prediction against transformers, which pads the same rows to the longest of each batch.

A MiniLM-sized encoder (6 layers of 384) on log-normal lengths of mean 60, at most 256 tokens; dropout 0.1.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnlab.config.files import config_of
from attnlab.config.schema import Config
from attnlab.data.batching import BATCHING
from attnlab.data.columns import Row
from attnlab.data.corpora import CORPORA
from attnlab.data.loader import Loader
from attnlab.data.rows import in_memory
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.evaluation.features import Features, keeps_features, unknown
from attnlab.model.adapters import ADAPTERS
from attnlab.model.assemble import build_model
from attnlab.session.adapting import BATCHES
from attnlab.session.convert import convert
from attnlab.session.predicting import FilePredictions, Predictor
from attnlab.session.trained import Trained
from attnlab.targets import TARGETS
from attnlab.targets.recipes import RECIPES
from attnlab.tasks import TASKS
from attnlab.tasks.vocabulary import Vocabulary
from attnlab.training.loop import Loop
from benchmarks.measure import high_water, interleaved, resident, row
from benchmarks.training import made, trained

LENGTH, VOCABULARY, BATCH = 256, 30_522, 32
MEAN, SPREAD = 60, 0.8
MODEL = {
    "preset": "bert",
    "vocabulary": VOCABULARY,
    "width": 384,
    "layers": 6,
    "heads": 12,
    "length": LENGTH,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "output": "classification(pooling=first, transform=tanh)",
}
EPOCHS = 20
"""Of a head alone."""

Results = list[dict[str, object]]


def rows() -> Results:
    return [*fine_tuning(256), head_alone(64), memory(), *predicting(384)]


# ---------------------------------------------------------------- the same work for both
def texts_of(count: int) -> list[list[int]]:
    """Rows of random tokens between [CLS] and [SEP], of log-normal lengths."""
    generator = np.random.default_rng(0)
    drawn = generator.lognormal(np.log(MEAN) - SPREAD**2 / 2, SPREAD, count)
    lengths = np.clip(drawn, 4, LENGTH).astype(int)
    return [[101, *generator.integers(1000, VOCABULARY, n - 2).tolist(), 102] for n in lengths]


def config_for(adapter: str) -> Config:
    training = RECIPES[adapter].training() | {"budget": {"epochs": 1e6}, "evaluate_every": "never"}
    data = {"batching": BATCHES, "length": LENGTH, "encoding": "single"}
    return config_of({"model": MODEL, "task": "classification", "data": data, "training": training})


def ours(texts: list[list[int]], adapter: str, folder: Path) -> Loop:
    """The loop of `attnlab adapt`: bucketed batches, an adapter, and of a fixed trunk its features."""
    config = config_for(adapter)
    task = TASKS.build(config.task, vocabulary=Vocabulary.draft(VOCABULARY), labels=TARGETS["class"].draft())
    held = (Row(ids, n, [1] * len(ids), label=n % 2) for n, ids in enumerate(texts))
    batching = BATCHING.build(config.data.batching, length=LENGTH)
    loader = Loader(in_memory(held, vocabulary=VOCABULARY), batching, seed=0, pad=0)
    model = build_model(config.model, labels=2)
    ADAPTERS.build(adapter).attach(model, train=["head"])
    loop = made(config, model, task, loader, folder)
    if keeps_features(model, task):
        loop.features = Features(model, task, loader, loop.autocast, folder)
    assert (loop.features is unknown) == (adapter != "head")
    return loop


def epoch(loop: Loop) -> None:
    for _ in range(len(loop.loader)):
        loop.step()


def theirs(texts: list[list[int]], *, frozen: bool = False) -> Callable[[], None]:
    """An epoch of transformers in random order, each batch padded to its longest row."""
    model = their_model()
    if frozen:
        model.bert.encoder.requires_grad_(False)
        model.bert.embeddings.requires_grad_(False)
    batches = list(padded(texts))
    held: dict[str, torch.Tensor] = {}
    step = trained(model, lambda: model(**held).loss)

    def run() -> None:
        for batch in batches:
            held.update(batch)
            step()

    return run


def their_model() -> Any:
    import transformers

    settings = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        max_position_embeddings=LENGTH,
    )
    return transformers.BertForSequenceClassification(settings)


def padded(texts: list[list[int]]) -> Iterator[dict[str, torch.Tensor]]:
    order = np.random.default_rng(1).permutation(len(texts))
    for begin in range(0, len(order), BATCH):
        chosen = order[begin : begin + BATCH]
        longest = max(len(texts[n]) for n in chosen)
        ids = torch.zeros(len(chosen), longest, dtype=torch.long)
        for line, n in enumerate(chosen):
            ids[line, : len(texts[n])] = torch.tensor(texts[n])
        yield {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": torch.tensor(chosen % 2)}


# ---------------------------------------------------------------- the rows of the table
def fine_tuning(count: int, rounds: int = 3) -> Results:
    """An epoch of full fine-tuning beside transformers', and of LoRA beside our full."""
    texts = texts_of(count)
    with tempfile.TemporaryDirectory() as folder:
        loops = {name: ours(texts, name, Path(folder)) for name in ("full", "lora")}
        works: dict[str, Callable[[], object]] = {n: lambda one=one: epoch(one) for n, one in loops.items()}
        seconds = interleaved(works | {"transformers": theirs(texts)}, rounds=rounds, warmups=1)
    full, lora = seconds["transformers"] / seconds["full"], seconds["full"] / seconds["lora"]
    detail = ", ".join(f"{name} {s:.2f} s" for name, s in seconds.items()) + f" for {count} rows"
    return [
        row("full fine-tuning over transformers", full, "at least 2 (stretch 3)", full >= 2, detail),
        row("LoRA over full fine-tuning, time of an epoch", lora, "at least 1", lora >= 1, detail),
    ]


def head_alone(count: int, epochs: int = EPOCHS, rounds: int = 2) -> dict[str, object]:
    """Whole trainings of the head on a frozen trunk, features computed once in each of ours."""
    texts = texts_of(count)
    their_epoch = theirs(texts, frozen=True)
    with tempfile.TemporaryDirectory() as folder:

        def our_training() -> None:
            loop = ours(texts, "head", Path(folder))
            for _ in range(epochs):
                epoch(loop)

        def their_training() -> None:
            for _ in range(epochs):
                their_epoch()

        works = {"ours": our_training, "transformers": their_training}
        seconds = interleaved(works, rounds=rounds, warmups=1)
    ratio = seconds["transformers"] / seconds["ours"]
    detail = f"{seconds['ours']:.2f} s and {seconds['transformers']:.2f} s for {count} rows"
    work = f"head only, {epochs} epochs, over transformers"
    return row(work, ratio, "at least 10 (stretch 18)", ratio >= 10, detail)


def memory() -> dict[str, object]:
    """Peak memory of two steps of each method, each in a process of its own."""
    peaks = {name: measured(name) for name in ("full", "lora")}
    ratio = peaks["lora"] / peaks["full"]
    detail = ", ".join(f"{name} {peak:,.0f} MiB" for name, peak in peaks.items())
    return row("LoRA over full fine-tuning, peak memory", ratio, "below 1", ratio < 1, detail)


def measured(adapter: str) -> float:
    command = [sys.executable, "-m", "benchmarks.adapting", adapter]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]) / 1024


def peak(adapter: str) -> int:
    """Kilobytes that model, optimizer and two steps of 32 rows of 128 tokens add to this process at most."""
    texts = [[101, *[2000] * 126, 102]] * (2 * BATCH)
    with tempfile.TemporaryDirectory() as folder:
        before = resident()
        high_water(anew=True)
        epoch(ours(texts, adapter, Path(folder)))
        return high_water() - before


def predicting(count: int, rounds: int = 4) -> Results:
    """A table of texts: ours from the file, theirs by the pipeline, in batches of 32 padded to their longest,
    or one by one, which pads nothing."""
    import transformers

    with tempfile.TemporaryDirectory() as place:
        folder, file = Path(place), Path(place) / "texts.csv"
        texts = classifier(folder / "theirs", count)
        file.write_text("text\n" + "\n".join(texts) + "\n")
        convert(folder / "theirs", folder / "run")
        predictor = Predictor(Trained.at(folder / "run"))
        pipe = transformers.pipeline("text-classification", model=str(folder / "theirs"), truncation=True)

        def ours_said() -> list[str]:
            return [str(one.answer) for _, one in FilePredictions(predictor, file)]

        def theirs_said(size: int) -> list[str]:
            return [one["label"] for one in pipe(texts, batch_size=size)]

        assert ours_said() == theirs_said(1), "both must predict the same"
        works = {"ours": ours_said, "one by one": lambda: theirs_said(1)}
        seconds = interleaved(works | {"batches": lambda: theirs_said(BATCH)}, rounds=rounds, warmups=1)
    detail = ", ".join(f"{name} {s:.2f} s" for name, s in seconds.items()) + f" for {count} texts"
    found = []
    for way in ("batches", "one by one"):
        ratio = seconds[way] / seconds["ours"]
        work = f"predicting a file, over transformers' pipeline, {way}"
        found.append(row(work, ratio, "at least 2", ratio >= 2, detail))
    return found


def classifier(folder: Path, count: int) -> list[str]:
    """Saves a classifier with its tokenizer, and gives texts of words that it knows, log-normal in length."""
    import transformers

    words = " ".join(one.text for one in CORPORA.build("python_docs").read()).replace('"', " ").split()
    tokenizer = TOKENIZERS.build("wordpiece(vocabulary=8000)").make([" ".join(words)])
    transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tokenizer.save(folder)), pad_token="<PAD>", model_max_length=LENGTH
    ).save_pretrained(folder)
    model = their_model()
    model.config.pad_token_id = tokenizer.pad
    model.resize_token_embeddings(tokenizer.size)
    model.save_pretrained(folder)
    generator = np.random.default_rng(2)
    drawn = generator.lognormal(np.log(MEAN / 1.5) - SPREAD**2 / 2, SPREAD, count)
    begins = generator.integers(0, len(words) - LENGTH, count)
    ends = begins + np.clip(drawn, 3, LENGTH // 2).astype(int)
    found = (" ".join(words[a:b]).replace(",", " ") for a, b in zip(begins, ends, strict=True))
    return list(found)


if __name__ == "__main__":
    torch.manual_seed(0)
    print(peak(sys.argv[1]))
