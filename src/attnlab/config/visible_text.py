"""Text of others, shown as text: what in it would act on a terminal, page or table is made visible."""

from __future__ import annotations

import re

CONTROLS = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡", 0x0A: "⏎", 0x09: "⇥"}
CONTROLS |= {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}
"""How control characters are shown: sent as they are, a text could colour, move and clear the terminal."""
DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
CONTROLS |= {code: f"\\u{code:04x}" for code in (*DIRECTIONS, 0x2028, 0x2029)}
"""Marks that turn the direction of what follows them, and ends of lines and paragraphs: a name could read as
another."""
CONTROLS |= {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}
"""Halves of characters, which no file or terminal takes."""
IN_LINES = {code: shown for code, shown in CONTROLS.items() if code not in (0x09, 0x0A)}
FORMULA = re.compile(r"[=+@\t\r]|-(?! [^\W\d][^|(!]*\Z)")
"""A cell that a spreadsheet computes; a dash, a space and words are how people begin a line."""


def visible(text: str) -> str:
    """On one line: control characters, ends of lines and turned directions as signs."""
    return text.translate(CONTROLS)


def visible_lines(text: str) -> str:
    """The same for text whose lines and tabs are ours."""
    return text.translate(IN_LINES)


def visible_json(text: str) -> str:
    """JSON that means the same and acts on no terminal: JSON itself escapes no more than it must."""
    return text.translate({code: f"\\u{code:04x}" for code in IN_LINES if code >= 0x7F})


def as_cell(value: object) -> object:
    """A value of a table that a spreadsheet shows, and does not compute: text that would be a formula is led
    by an apostrophe."""
    if not isinstance(value, str) or not FORMULA.match(value) or _is_number(value):
        return value
    return f"'{value}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
