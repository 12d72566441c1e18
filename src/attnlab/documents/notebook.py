"""Results that show themselves: drawn in a notebook, as text elsewhere."""

from __future__ import annotations

from abc import abstractmethod
from hashlib import sha256
from typing import TYPE_CHECKING

from attnlab.documents.nodes import DocumentPage, Frame, Sentence

if TYPE_CHECKING:
    from markupsafe import Markup

FITTED = """(() => {
  const frame = document.getElementById("%s");
  addEventListener("message", (event) => {
    if (frame && event.source === frame.contentWindow && event.data && event.data.attnlabHeight)
      frame.style.height = `${Math.ceil(event.data.attnlabHeight)}px`;
  });
})();"""
"""A page inside a notebook says how high it is; where scripts of outputs do not run, its estimate stays."""


class SelfShowing:
    """What shows itself by its document."""

    @abstractmethod
    def document(self) -> DocumentPage:
        """What a person looks at first."""

    def __repr__(self) -> str:
        from attnlab.documents.terminal import as_text

        document = self.document()
        return as_text(Sentence(document.headline), *document.lead, *document.nodes)

    def _repr_html_(self) -> str:
        return fragment(self.document())


def fragment(document: DocumentPage) -> str:
    """A document for a notebook, on its own ground, whatever the notebook's is; one with scripts stands in a
    frame as high as its content."""
    from attnlab.documents.html import blocks, inline, page
    from attnlab.documents.markup import shared_template
    from attnlab.documents.palette import variables

    frames = [node for node in document.nodes if isinstance(node, Frame)]
    if frames:
        return str(_framed(page(document), document.kind, sum(frame.height for frame in frames)))
    return shared_template("fragment.html").render(
        headline=inline(document.headline),
        body=blocks([*document.lead, *document.nodes]),
        palette=[variables(dark=False), variables(dark=True)],
    )


def _framed(page: str, kind: str, height: int) -> Markup:
    from markupsafe import Markup

    from attnlab.documents.markup import element

    name = f"attnlab-{sha256(page.encode()).hexdigest()[:12]}"
    style = f"width:100%;height:{height}px;border:0;border-radius:8px"
    frame = element("iframe", id=name, sandbox="allow-scripts", style=style, title=kind, srcdoc=page)
    return frame + element("script", Markup(FITTED % name))  # our own text and a digest
