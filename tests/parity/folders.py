"""Folders as other projects publish them: a tiny model with a tokenizer that belongs to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers as library
from tokenizers import models, pre_tokenizers, processors

from tests.parity.theirs import ALL, V

SPECIALS = {
    "gpt2": ["<pad>", "<s>", "</s>", "<unk>"],
    "llama": ["<pad>", "<s>", "</s>", "<unk>"],
    "qwen2": ["<pad>", "<s>", "</s>", "<unk>"],
    "bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    "distilbert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    "t5": ["<pad>", "</s>", "<unk>"],
}
WORDS = [f"w{number}" for number in range(V)]


def tokenizer(family: str, words: list[str] = WORDS, size: int = V) -> library.Tokenizer:
    """Words by their number, with a family's special tokens where its config.json says they are."""
    specials = SPECIALS[family]
    names = [*specials, *words][:size]
    unknown = next(name for name in specials if "unk" in name.lower())
    made = library.Tokenizer(models.WordLevel(vocab={n: i for i, n in enumerate(names)}, unk_token=unknown))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(specials)
    if "[CLS]" in specials:
        made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    elif family == "roberta":
        made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    elif family == "t5":
        made.post_processor = processors.TemplateProcessing(
            single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
        )
    return made


def published(folder: Path, name: str, **changes: Any) -> Any:
    """A model of theirs in a folder, tokenizer and all."""
    model = ALL[name].make(**changes)
    model.save_pretrained(folder)
    tokenizer(model.config.model_type).save(str(folder / "tokenizer.json"))
    kind = {"tokenizer_class": "PreTrainedTokenizerFast"}  # or they would guess one by the model's type
    (folder / "tokenizer_config.json").write_text(json.dumps(kind))
    return model
