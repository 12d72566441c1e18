"""The words of attnlab with their meanings, read from the glossary that comes with the package.

`python -m attnlab.config.glossary` copies docs/glossary.md of a checkout into the package, where its words
are cards for whoever has no checkout; a test says when it must be done.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("glossary.md")


@dataclass(frozen=True)
class GlossaryWord:
    """A word, what it means, and the part of the glossary that it stands in."""

    name: str
    text: str
    section: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@cache
def glossary() -> tuple[GlossaryWord, ...]:
    """Every word: the headings of ideas with the text below them, and the rows of tables."""
    words = list[GlossaryWord]()
    for section in re.split(r"^## ", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        for idea in re.split(r"^### ", body, flags=re.MULTILINE)[1:]:
            name, _, text = idea.partition("\n")
            words.append(GlossaryWord(name.strip(), text.strip(), title))
        rows = re.findall(r"^\| (.+?) \| (.+) \|$", body, flags=re.MULTILINE)
        words += [GlossaryWord(name.strip("` "), text, title) for name, text in rows[1:]]
    return tuple(words)


def words_named(name: str) -> list[GlossaryWord]:
    """The words of a name, whatever its case, written with spaces, hyphens or underscores."""
    wanted = plain(name)
    return [word for word in glossary() if wanted in map(plain, [word.name, *word.name.split(", ")])]


def plain(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name.strip().lower())


if __name__ == "__main__":
    page = FILE.parents[3] / "docs" / "glossary.md"
    FILE.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
