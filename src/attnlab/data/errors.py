"""What is wrong with a person's text, in words for that person."""

from __future__ import annotations

from attnlab.config.values import ConfigError


class DataError(ConfigError):
    """Text, a file or a label that cannot be used: the rule, the value and the fix."""


def reason_of(error: BaseException) -> str:
    """What a library says, for the middle of a sentence of ours."""
    return str(error).strip().rstrip(".")


def unusable(text: str) -> str:
    """Why no tokenizer can take this text; empty when it can."""
    if "\0" in text:
        return f"it has a NUL character (position {text.index(chr(0))}); remove it"
    if text.isascii():
        return ""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        broken = f"U+{ord(text[error.start]):04X}"
        return (
            f"it has a lone surrogate ({broken} at position {error.start}), which is half of a character; "
            "write the file again from the original text"
        )
    return ""
