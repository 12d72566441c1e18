"""Whether a tokenizer belongs to a model: sizes and special tokens, compared before ids mean other words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnlab.config.untrusted import read_json
from attnlab.config.values import ConfigError
from attnlab.data.tokenizers.specials import NAMES
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_files import load

ROLES = ("pad", "bos", "eos", "unk", "cls", "sep", "mask")
NAMED_IN = ("special_tokens_map.json", "tokenizer_config.json")


def moved(tokenizer: Tokenizer, folder: Path, fingerprint: object) -> Iterator[str]:
    """Whether words stand elsewhere than in the tokenizer that the folder holds, or was written with."""
    try:
        own = load(folder)
    except ConfigError:
        return  # the one that was given is all there is
    if fingerprint is not None and fingerprint != own.fingerprint:
        yield f"the folder's fingerprint is {own.fingerprint}, and the weights were saved with {fingerprint}"
    for token, number in own.inner.get_vocab().items():
        if tokenizer.id(token) != number:
            yield f"its {token!r} is {tokenizer.id(token)}, and that of the folder's own is {number}"
            return


def strangeness(
    tokenizer: Tokenizer, vocabulary: int, theirs: Mapping[str, Any], named: Mapping[str, str]
) -> Iterator[str]:
    """Why a tokenizer cannot be that of a model with this vocabulary and config.json; nothing if it can.

    `named` are its special tokens by role, as its other files name them (see `special_names`).
    """
    if tokenizer.size > vocabulary:
        yield f"it has {tokenizer.size:,} tokens, and the model {vocabulary:,}"
    elif vocabulary - tokenizer.size > max(128, vocabulary // 16):
        yield (
            f"it has {tokenizer.size:,} tokens, and the model {vocabulary:,}: more than rounding up explains"
        )
    for role in ROLES:
        yield from _misplaced(tokenizer, role, named.get(role), theirs.get(f"{role}_token_id"), vocabulary)


def _misplaced(
    tokenizer: Tokenizer, role: str, name: str | None, number: object, vocabulary: int
) -> Iterator[str]:
    """A special token that the folder's files name, and that stands elsewhere in the vocabulary."""
    place = None if name is None else tokenizer.id(name)
    if name is not None and place is None:
        yield f"the folder's {role} token is {name}, which it does not have"
        return
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < vocabulary:
        return  # a list, or a default that was left standing in a small model
    if place is not None and place != number:
        yield f"config.json has {role}_token_id {number}, and its {name} is {place}"
    elif place is None and not is_special(tokenizer, number):
        ordinary = tokenizer.token(number)
        yield f"config.json has {role}_token_id {number}, which is its ordinary token {ordinary!r}"


def is_special(tokenizer: Tokenizer, number: int) -> bool:
    added = tokenizer.inner.get_added_tokens_decoder().get(number)
    known = {name for names in NAMES.values() for name in names}
    return (added is not None and added.special) or tokenizer.token(number) in known


def special_names(folder: Path) -> dict[str, str]:
    """The special tokens that a folder's files name, by role."""
    names = {}
    for file in NAMED_IN:
        settings = read_json(folder / file) if (folder / file).is_file() else {}
        for role in ROLES:
            value = settings.get(f"{role}_token")
            content = value.get("content") if isinstance(value, Mapping) else value
            if isinstance(content, str) and content:
                names[role] = content
    return names
