"""The sound files that a soak begins from, made by attnlab itself in a folder."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from pathlib import Path

from tests.crash.commands import Commands
from tests.training.small_run import merged, of_column, settings

TINY = {
    "model": {"layers": 1, "heads": 2, "width": 16},
    "training": {
        "budget": {"steps": 2},
        "evaluate_every": 2,
        "evaluate_batches": 1,
        "checkpoint_every": 1,
    },
}


def make(folder: Path, attnlab: Commands) -> Path:
    """Everything, once; gives the folder."""
    if (folder / "ready").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    base = merged(settings(folder), TINY)
    write_json(folder / "tiny.json", base)
    study = {
        "question": "Is linear attention as good?",
        "base": base,
        "seeds": 2,
        "budget": {"steps": 2},
        "arms": {"dot": {}, "linear": {"model.attention": "linear"}},
        "probes": ["the cat sees a dog ."],
        "sentence": "the old man likes the bird .",
    }
    write_json(folder / "question.json", study)
    write_json(folder / "labels.json", merged(base, {"task": "classification"} | of_column(folder, "verb")))
    ask(attnlab, "train", folder / "tiny.json", "--out", folder / "run")
    ask(attnlab, "train", folder / "labels.json", "--out", folder / "classifier")
    gpt2 = {"preset": "gpt2", "layers": 1, "width": 16, "heads": 2, "length": 24, "vocabulary": "tokenizer"}
    small = base | {"model": gpt2, "data": base["data"] | {"tokenizer": "bpe(vocabulary=300)"}}
    write_json(folder / "gpt2.json", small)
    ask(attnlab, "train", folder / "gpt2.json", "--out", folder / "gpt2")
    ask(attnlab, "convert", folder / "gpt2", folder / "transformers")
    tuned = ("--set", f"start={folder / 'gpt2'}", "--set", "adapter=lora(rank=2, shared_down=true)")
    ask(attnlab, "train", folder / "gpt2.json", *tuned, "--out", folder / "tuned")
    ask(attnlab, "convert", folder / "tuned", folder / "peft", "--adapter")
    ask(attnlab, "run", folder / "question.json", "--out", folder / "study", "--jobs", 1)
    shutil.copytree(folder.parent / "cache", folder / "cache")
    write_data(folder / "data")
    searched = ("--in", folder / "data" / "plain.txt", "--index", folder / "index")
    ask(attnlab, "search", folder / "gpt2", "the tower", *searched)
    write_tokenizers(folder / "tokenizers")
    (folder / "ready").touch()
    return folder


def ask(attnlab: Commands, *argv: object) -> None:
    ended = attnlab(*argv)
    assert ended.code == 0 or "Done after" in ended.said, ended.said  # two steps teach a classifier nothing


def write_json(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=1), encoding="utf-8")


def rows() -> list[dict[str, str]]:
    kinds = ("pos", "neg", "mixed")
    return [{"text": f"row {n} says “café” 你好, twice {n * 7}", "label": kinds[n % 3]} for n in range(60)]


def write_data(folder: Path) -> None:
    """One file of each format."""
    import pyarrow
    import pyarrow.parquet

    folder.mkdir()
    table = rows()
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ["text", "label"])
        writer.writeheader()
        writer.writerows(table)
    (folder / "rows.tsv").write_text(
        "text\tlabel\n" + "".join(f"{r['text']}\t{r['label']}\n" for r in table), encoding="utf-8"
    )
    lines = "".join(json.dumps(row) + "\n" for row in table)
    (folder / "rows.jsonl").write_text(lines, encoding="utf-8")
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    (folder / "plain.txt").write_text("\n\n".join(r["text"] for r in table), encoding="utf-8")
    passage = "The tower is in Paris, and the bridge in London."
    asked = {"id": "1", "question": "Where is the tower?", "answers": [{"text": "Paris", "answer_start": 16}]}
    articles = [
        {"title": f"T{n}", "paragraphs": [{"context": passage, "qas": [asked | {"id": str(n)}]}]}
        for n in range(12)
    ]
    write_json(folder / "squad.json", {"version": "v2.0", "data": articles})
    write_json(folder / "list.json", table)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(table), folder / "rows.parquet")


def write_tokenizers(folder: Path) -> None:
    """One of each form that is read: tokenizer.json, GPT-2's two files, BERT's words, sentencepiece."""
    import tokenizers
    from tokenizers import models, pre_tokenizers, trainers

    texts = [row["text"] for row in rows()]
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    for name in ("whole", "gpt2", "bert"):
        (folder / name).mkdir(parents=True)
    made.save(str(folder / "whole" / "tokenizer.json"))
    made.model.save(str(folder / "gpt2"))
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *sorted({word for text in texts for word in text.split()}),
    ]
    letters = sorted({c for text in texts for c in text})
    content = "\n".join(dict.fromkeys([*words, *letters, *(f"##{c}" for c in letters)]))
    (folder / "bert" / "vocab.txt").write_text(content, encoding="utf-8")
    write_sentencepiece(folder / "sentencepiece", texts)


def write_sentencepiece(folder: Path, texts: list[str]) -> None:
    import sentencepiece

    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=80,
        model_type="unigram",
        minloglevel=2,
    )
    (folder / "tokenizer.vocab").unlink()
