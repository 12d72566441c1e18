"""The embedded corpora are there without a download, and their labels mean something."""

import ast
from collections import Counter

import pytest

from attnlab.config.values import ConfigError
from attnlab.data.corpora import CORPORA
from attnlab.data.corpora.embedded import statements


def test_python_docs_hold_the_language_reference() -> None:
    examples = CORPORA.build("python_docs(docstrings=false)").read()
    text = "\n".join(e.text for e in examples)
    assert "Boolean operations" in text
    assert 400_000 < len(text) < 1_000_000


def test_docstrings_are_labelled_by_their_package() -> None:
    examples = list(CORPORA.build("docstrings(packages=[email, logging])").read())
    counts = Counter(e.label for e in examples)
    assert set(counts) == {"email", "logging"} and min(counts.values()) > 100
    texts = [e.text for e in examples]
    assert len(texts) == len(set(texts))
    formatter = next(e for e in examples if e.text.startswith("Formatter instances are used to convert"))
    assert formatter.label == "logging"


def test_source_is_one_document_a_module() -> None:
    found = {e.place: e.text for e in CORPORA.build("python_source").read()}
    assert "def dumps(" in found["json"]
    assert not any(name.startswith(("test.", "tkinter")) for name in found)


def test_fingerprints_tell_corpora_and_units_apart() -> None:
    choices = ["docstrings", "docstrings(packages=[email])", "python_source", "python_source(unit=line)"]
    assert len({CORPORA.build(c).fingerprint() for c in choices}) == len(choices)
    assert CORPORA.build("docstrings").fingerprint() == CORPORA.build("docstrings").fingerprint()


def test_a_misspelt_corpus_is_named_with_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r'neither a file nor a corpus "pyhton-docs"\. Did you mean "python_docs"'
    ):
        CORPORA.resolve("pyhton-docs", "data.corpus")


def test_an_unknown_package_is_refused() -> None:
    with pytest.raises(ConfigError, match='no package "nonsense"'):
        CORPORA.build("docstrings(packages=[nonsense])")


def test_statements_are_those_of_a_walk_without_their_expressions() -> None:
    code = "try:\n  def a(): 'x'\nexcept E:\n  class B:\n    def c(self): 'y'\n"
    code += "else:\n  if y:\n    def d(): pass\n"
    code += "match x:\n  case 1:\n    async def e(): 'z'\nif f(lambda: 1):\n  def g(): 'w'\n"
    tree = ast.parse(code)
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = [[n.name for n in walk(tree) if isinstance(n, scopes)] for walk in (statements, ast.walk)]
    assert names[0] == names[1] and sorted(names[0]) == ["B", "a", "c", "d", "e", "g"]
