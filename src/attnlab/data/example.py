"""What a corpus yields."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, and where it begins in its passage, in characters."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text, from character to character, and its tag, which is empty where nobody said it."""

    start: int
    end: int
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """One item of a corpus; the fields that are there say what it can be used for.

    `pair` is a second sentence or a passage, `label` a name, several names, or a number as text,
    `target` what the text is to become, `words` its words with a tag each, `group` what
    must stay in one split (a question's article), `place` the file and line, for messages.
    """

    text: str
    pair: str | None = None
    target: str | None = None
    label: str | tuple[str, ...] | None = None
    answers: tuple[Answer, ...] = ()
    words: tuple[Word, ...] = ()
    group: str | None = None
    place: str = ""
