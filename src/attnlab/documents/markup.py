"""HTML that is made of text and elements: whatever is not `Markup` is text, and shown as it is."""

from __future__ import annotations

from markupsafe import Markup, escape

from attnlab.config.visible_text import visible_lines

EMPTY = frozenset({"input", "br"})


def plain(value: object) -> str:
    """Text of others with what would turn or hide its neighbours made visible."""
    return visible_lines(str(value))


def text(value: object) -> Markup:
    """Markup as it is, everything else as text."""
    return value if isinstance(value, Markup) else escape(plain(value))


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """`class_` is class, `aria_label` is aria-label; None and "" leave one out, True gives it no value."""
    names = ((name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items())
    given = [
        Markup(" {}").format(name) if value is True else Markup(' {}="{}"').format(name, text(value))
        for name, value in names
        if value is not None and value is not False and value != ""
    ]
    opening = Markup("<{}{}>").format(tag, Markup("").join(given))
    if tag in EMPTY:
        return opening
    return opening + Markup("").join(map(text, children)) + Markup("</{}>").format(tag)


def joined(parts: list[Markup]) -> Markup:
    return Markup("\n").join(parts)
