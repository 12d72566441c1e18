"""Where text comes from: one file a kind of corpus, one line here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.config.registry import Registry
from attnlab.config.values import Choice, choice_of, unknown_name

if TYPE_CHECKING:
    from attnlab.data.corpora.corpus import Corpus  # noqa: F401 - used in the base class below, quoted


class Corpora(Registry["Corpus"]):
    """A table that also takes paths, globs and `hub:owner/name`, and hyphens for underscores."""

    def read(self, value: Any, where: str) -> Choice:
        if not isinstance(value, str) or "(" in value:
            return choice_of(value, where)
        name = value.strip().replace("-", "_")
        if name in self:
            return Choice(name)
        if value.startswith("hub:"):
            return Choice("hub", {"name": value.removeprefix("hub:")})
        if name.isidentifier() and not Path(value).exists():
            raise unknown_name(where, value, self, "neither a file nor a corpus")
        return Choice("files", {"path": value})


CORPORA = Corpora(
    "corpora",
    base="attnlab.data.corpora.corpus:Corpus",
    default="python_docs",
    kept=("unit",),
    variants={
        "python_docs": "attnlab.data.corpora.embedded:PythonDocs",
        "python_source": "attnlab.data.corpora.embedded:PythonSource",
        "docstrings": "attnlab.data.corpora.embedded:Docstrings",
        "docstring_pairs": "attnlab.data.corpora.embedded:DocstringPairs",
        "summaries": "attnlab.data.corpora.embedded:Summaries",
        "number_words": "attnlab.data.corpora.spelled_out:NumberWords",
        "dates": "attnlab.data.corpora.spelled_out:Dates",
        "python_names": "attnlab.data.corpora.python_names:PythonNames",
        "files": "attnlab.data.corpora.own_files:Files",
        "hub": "attnlab.data.corpora.hub:Hub",
        "copy": "attnlab.data.corpora.synthetic:Copy",
        "reverse": "attnlab.data.corpora.synthetic:Reverse",
        "sorting": "attnlab.data.corpora.synthetic:Sorting",
        "recall": "attnlab.data.corpora.synthetic:Recall",
        "pairs": "attnlab.data.corpora.synthetic:PairRecall",
        "induction": "attnlab.data.corpora.synthetic:Induction",
        "modular_addition": "attnlab.data.corpora.synthetic:ModularAddition",
        "facts": "attnlab.data.corpora.facts:Facts",
        "shapes": "attnlab.data.corpora.shapes:Shapes",
    },
)
