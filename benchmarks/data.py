"""Tokenising against transformers' fast tokenizer, memory over a large file, and the cost of batching."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.data.batching import BATCHING
from attnlab.data.corpora import CORPORA
from attnlab.data.encode import ENCODINGS
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_files import load
from benchmarks.measure import high_water, interleaved, row

LARGE = 300 * 2**20
KINDS = ("bpe", "wordpiece", "unigram", "word")


def rows(corpus: str = "python_docs") -> list[dict[str, object]]:
    texts = [example.text for example in CORPORA.build(corpus).read()]
    made = {kind: TOKENIZERS.build(f"{kind}(vocabulary=8000)").make(texts) for kind in KINDS}
    timed = [tokenising(texts, kind, tokenizer) for kind, tokenizer in made.items()]
    return [*timed, waste(), memory(texts, made["bpe"])]


def tokenising(texts: list[str], kind: str, made: Tokenizer) -> dict[str, object]:
    """The same tokenizer and the same settings: ids of every text, special tokens round it, nothing cut."""
    tokenizer, peer = both(made)
    encoding = ENCODINGS.build("document", tokenizer=tokenizer, length=1 << 30)
    examples = list(map(as_example, texts))

    def theirs(size: int) -> list[list[int]]:
        """As its users call it: everything at once, or in the thousands of `datasets.map`."""
        batches = (texts[begin : begin + size] for begin in range(0, len(texts), size))
        return [ids for batch in batches for ids in peer(batch, return_attention_mask=False)["input_ids"]]

    def forgetful(work: Callable[[], Any]) -> Callable[[], Any]:
        """Ours remembers words from text to text, but not from round to round."""
        return lambda: (vars(tokenizer).pop("_words", None), work())[1]

    works = {
        "into rows": forgetful(lambda: [found.ids for found in encoding.rows(examples)]),
        "to ids": forgetful(lambda: tokenizer.encode_many(texts)),
        "transformers": lambda: theirs(len(texts)),
        "transformers in thousands": lambda: theirs(1000),
    }
    assert works["into rows"]() == works["transformers"](), "both must give the same ids"
    seconds = interleaved(works, rounds=5, warmups=1)
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    detail = ", ".join(f"{name} {megabytes / s:.1f} MB/s" for name, s in seconds.items())
    peers = min(seconds["transformers"], seconds["transformers in thousands"])
    ratio = peers / max(seconds["into rows"], seconds["to ids"])
    work = f"tokenising, {kind}, {megabytes:.1f} MB, over transformers' fast tokenizer"
    return row(work, ratio, "above 1", ratio > 1, detail)


def as_example(text: str) -> Any:
    from attnlab.data.example import Example

    return Example(text)


def both(made: Tokenizer) -> tuple[Tokenizer, Any]:
    """Ours and theirs from one file: a float that is written and read again may differ in its last bit."""
    from transformers import PreTrainedTokenizerFast

    with tempfile.TemporaryDirectory() as folder:
        file = made.save(folder)
        return load(file), PreTrainedTokenizerFast(tokenizer_file=str(file))


def waste() -> dict[str, object]:
    """Padding of random against bucketed batches on log-normal lengths."""
    drawn = np.random.default_rng(7).lognormal(3.5, 0.8, 100_000)
    lengths = np.clip(drawn, 1, 512).astype(np.int64)
    found = {
        kind: BATCHING.build(kind, length=512).plan(lengths, seed=0, epoch=0).waste(lengths)
        for kind in BATCHING
    }
    ratio = found["padded"] / found["bucketed"]
    detail = ", ".join(f"{kind} {share:.2%}" for kind, share in found.items())
    return row(
        "padding of random over bucketed batches, log-normal lengths", ratio, "above 5", ratio > 5, detail
    )


def memory(texts: list[str], tokenizer: Tokenizer, size: int = LARGE) -> dict[str, object]:
    """Peak memory of tokenising a large file into shards, over that of a tenth of it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        saved = tokenizer.save(place)
        peaks = {}
        for name, goal in (("tenth", size // 10), ("whole", size)):
            file = place / f"{name}.txt"
            repeat("\n\n".join(texts), file, goal)
            command = [
                sys.executable,
                "-m",
                "benchmarks.data",
                "--shard",
                str(file),
                "--tokenizer",
                str(saved),
            ]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            peaks[name], tokens = int(answer[0]), int(answer[1])
    ratio = peaks["whole"] / peaks["tenth"]
    peak = f"peak {peaks['whole']} MB, a tenth of it {peaks['tenth']} MB"
    detail = f"{size / 2**20:.0f} MB, {tokens:,} tokens: {peak}"
    return row("memory for a large file over a tenth of it", ratio, "at most 1.3", ratio <= 1.3, detail)


def repeat(text: str, file: Path, size: int) -> None:
    """The text again and again, up to a size, numbered so that the copies differ."""
    with file.open("w", encoding="utf-8") as stream:
        number = 0
        while stream.tell() < size:
            stream.write(f"\n\nCopy {number}\n\n{text}")
            number += 1


def shard(file: str, tokenizer: str) -> None:
    """Tokenise a file into shards in this process, and print its peak memory (MB) and the tokens."""
    from attnlab.config.files import section_of
    from attnlab.data.dataset import Dataset

    settings = {"corpus": file, "tokenizer": tokenizer, "dev_share": 0.0, "test_share": 0.0}
    with tempfile.TemporaryDirectory() as cache:
        made = Dataset(section_of("data", settings), cache=Path(cache)).rows("train")
        tokens = int(made.lengths.sum())
    print(high_water() // 1024, tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="?", default="python_docs", help="a text file, or a corpus by name")
    parser.add_argument("--shard", help=argparse.SUPPRESS)
    parser.add_argument("--tokenizer", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    if chosen.shard:
        return shard(chosen.shard, chosen.tokenizer)
    for found in rows(chosen.corpus):
        print(f"{found['work']}: {found['ratio']} ({found['target']}); {found['detail']}")
    return None


if __name__ == "__main__":
    main()
