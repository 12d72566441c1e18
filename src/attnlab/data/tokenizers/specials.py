"""Special tokens by their role, under the names that different projects gave them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

OURS = {
    "pad": "<PAD>",
    "unknown": "<UNK>",
    "start": "<START>",
    "stop": "<STOP>",
    "separator": "<SEP>",
    "mask": "<MASK>",
}
"""The special tokens of every tokenizer trained here, in the order of their ids."""

NAMES = {
    "pad": ("<PAD>", "[PAD]", "<pad>", "<|finetune_right_pad_id|>"),
    "unknown": ("<UNK>", "[UNK]", "<unk>"),
    "start": ("<START>", "[CLS]", "<s>", "<|begin_of_text|>", "<bos>", "<|endoftext|>"),
    "stop": ("<STOP>", "[SEP]", "</s>", "<|end_of_text|>", "<eos>", "<|endoftext|>"),
    "separator": ("<SEP>", "[SEP]", "</s>", "<|endoftext|>"),
    "mask": ("<MASK>", "[MASK]", "<mask>"),
}


@dataclass(frozen=True)
class Specials:
    """Ids of the special tokens; None for a role that this tokenizer has no token for."""

    pad: int | None
    unknown: int | None
    start: int | None
    stop: int | None
    separator: int | None
    mask: int | None

    @classmethod
    def of(cls, id_of: Callable[[str], int | None]) -> Specials:
        """The roles that a vocabulary fills, by name."""
        roles = {}
        for role, names in NAMES.items():
            ids = (id_of(name) for name in names)
            roles[role] = next((i for i in ids if i is not None), None)
        return cls(**roles)
