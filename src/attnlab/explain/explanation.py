"""What every explanation is: a sentence, and tables, figures and grids that a terminal, a page and a notebook
show alike."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnlab.documents.nodes import DocumentPage, Node
from attnlab.documents.notebook import SelfShowing
from attnlab.runs.atomic import replace_bytes


class Explanation(SelfShowing):
    """Data that shows itself: printed by a command, saved as a page, drawn in a notebook."""

    kind: str
    """What is explained, for the page's head."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """The answer in a sentence or two."""

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
        return DocumentPage(self.kind, self.summary, self.page_parts())

    def html(self) -> str:
        """A page of one file."""
        from attnlab.documents.html import page

        return page(self.document())

    def save(self, file: str | Path) -> None:
        """Write the page, whole or not at all."""
        replace_bytes(Path(file), self.html().encode())
