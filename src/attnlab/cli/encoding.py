"""Terminals that do not speak UTF-8: what they cannot show is written in letters that they can."""

from __future__ import annotations

import codecs
import os
import sys
import unicodedata
from io import TextIOWrapper

NAME = "attnlab.plain"
PLAIN = {
    "–": "-",
    "−": "-",
    "×": "x",
    "·": ".",
    "…": "...",
    "→": "->",
    "←": "<-",
    "≥": ">=",
    "≤": "<=",
    "≈": "~",
    "≠": "!=",
    "≡": "=",
    "±": "+-",
    "√": "sqrt",
    "∞": "inf",
    "Σ": "sum",
    "µ": "u",
    "°": " deg",
    "✓": "ok",
    "✗": "x",
    "●": "*",
    "•": "-",
    "▲": "^",
    "▼": "v",
    "■": "#",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
}


def plain(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that an encoding lacks: a sign like it, its letter without accents, or ?."""
    assert isinstance(error, UnicodeEncodeError)
    lost = error.object[error.start : error.end]
    return "".join(map(likeness, lost)), error.end


def likeness(sign: str) -> str:
    bare = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
    return PLAIN.get(sign) or bare or greek(sign) or "?"


def greek(sign: str) -> str:
    """The name of a Greek letter, as formulas have them: phi, Delta; nothing for other signs."""
    alphabet, _, name = unicodedata.name(sign, "").rpartition(" LETTER ")
    words = {"GREEK SMALL": name.lower(), "GREEK CAPITAL": name.capitalize()}
    return words.get(alphabet, "")


def is_utf8(stream: object) -> bool:
    return str(getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def open_what_was_closed() -> None:
    """Where a shell closed the standard streams (2>&-), files of a run would get their numbers, and what
    libraries below say would be written into them: they lead nowhere instead."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    sys.stdout, sys.stderr = sys.stdout or os.fdopen(1, "w"), sys.stderr or os.fdopen(2, "w")


def accept_any_terminal() -> None:
    """Let stdout and stderr write whatever comes, in what their encoding has."""
    open_what_was_closed()
    codecs.register_error(NAME, plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and not is_utf8(stream):
            stream.reconfigure(errors=NAME)
