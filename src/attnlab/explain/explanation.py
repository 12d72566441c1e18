"""What every explanation is: a sentence, and tables, figures and grids that a terminal, a page and a notebook
show alike."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnlab.documents.nodes import DocumentPage, Node, Sentence
from attnlab.documents.notebook import SelfShowing
from attnlab.runs.atomic import replace_bytes


class Explanation(SelfShowing):
    """Data that shows itself: printed by a command, saved as a page, drawn in a notebook."""

    kind: str
    """What is explained, for the page's head."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """The answer, in at most 160 characters."""

    @property
    def remark(self) -> str:
        """What belongs to the answer, in a sentence or two; nothing where it says all."""
        return ""

    @property
    def summary(self) -> str:
        """The answer with what belongs to it."""
        return f"{self.headline} {self.remark}".rstrip()

    @abstractmethod
    def parts(self) -> list[Node]:
        """What stands behind it."""

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
        """Every number of it."""

    def page_parts(self) -> Sequence[Node]:
        """What a page shows, where that is not the same."""
        return self.parts()

    def document(self) -> DocumentPage:
        lead = [Sentence(self.remark, "prose")] if self.remark else []
        return DocumentPage(self.kind, self.headline, self.page_parts(), lead=lead)

    def html(self) -> str:
        """A page of one file."""
        from attnlab.documents.html import page

        return page(self.document())

    def save(self, file: str | Path) -> None:
        """Write the page, whole or not at all."""
        replace_bytes(Path(file), self.html().encode())
