"""Results that show themselves: drawn in a notebook, as text elsewhere."""

from __future__ import annotations

from abc import abstractmethod

from attnlab.documents.nodes import DocumentPage, Frame, Sentence

HEIGHT = 900
"""Of a page inside a notebook."""


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
    """A document for a notebook, which has a page of its own; one with scripts stands in a page apart."""
    from attnlab.documents.html import blocks, inline, page
    from attnlab.documents.markup import element, shared_template
    from attnlab.documents.palette import variables

    if any(isinstance(node, Frame) for node in document.nodes):
        whole = {"sandbox": "allow-scripts", "style": f"width:100%;height:{HEIGHT}px;border:0"}
        return str(element("iframe", **whole, title=document.kind, srcdoc=page(document)))
    return shared_template("fragment.html").render(
        headline=inline(document.headline), body=blocks(document.nodes), palette=variables(dark=False)
    )
