"""Statements of the standard library whose names are labelled by what they stand for."""

from __future__ import annotations

import ast
import functools
import io
import keyword
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path

from attnlab.data.corpora.corpus import Corpus
from attnlab.data.corpora.embedded import (
    PACKAGES,
    digest,
    refuse_unknown,
    source_hash,
    standard_library,
    uncollected,
)
from attnlab.data.errors import unusable
from attnlab.data.example import Example, Word

LONGEST = 40
"""Words of a statement at the most; longer ones are left out."""
LEAST = 3

Place = tuple[int, int]
"""A line and a column, in characters."""


class PythonNames(Corpus):
    """Statements of the standard library, their names tagged by what they stand for: data for tagging.

    Classes: FUNCTION and CLASS where they are defined, PARAMETER, MODULE (what is imported), CALL (what is
    called). `os . path . join` is one entity of five words. Python's own grammar says which is which (`ast`);
    the same name is now the one, now the other. About 14,000 statements of 140,000 words; each is there once,
    and those of a file stay in one split.
    """

    def __init__(self, *, packages: tuple[str, ...] = PACKAGES):
        refuse_unknown(packages)
        self.packages = packages

    def read(self, split: str = "train") -> Iterator[Example]:
        self.check_given(split)
        yield from labelled_statements(self._files())

    def fingerprint(self) -> str:
        return digest("python_names", *self.packages, source_hash(self._files()))

    def _files(self) -> tuple[tuple[str, Path], ...]:
        return tuple(f for f in standard_library() if f[0].split(".")[0] in self.packages)


@functools.cache
def labelled_statements(files: tuple[tuple[str, Path], ...]) -> tuple[Example, ...]:
    """The statements of all files, each once. A run asks for them four times, and each parses every file."""
    statements: dict[str, Example] = {}
    with uncollected():
        for module, file in files:
            for example in statements_of(module, file):
                statements.setdefault(example.text, example)
    return tuple(statements.values())


def statements_of(module: str, file: Path) -> Iterator[Example]:
    """The logical lines of a file that hold a name of a class."""
    source = file.read_text(encoding="utf-8", errors="replace")
    with warnings.catch_warnings():  # old escapes in the library's own strings are not our matter
        warnings.simplefilter("ignore")
        tags = tags_by_place(ast.parse(source), source)
    tokens: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING):
            tokens.append(token)
        elif token.type == tokenize.NEWLINE:
            if LEAST <= len(tokens) <= LONGEST and any(one.start in tags for one in tokens):
                yield from example_of(tokens, tags, f"{module} line {tokens[0].start[0]}", module)
            tokens = []


def example_of(
    tokens: list[tokenize.TokenInfo], tags: dict[Place, str], place: str, group: str
) -> Iterator[Example]:
    words, parts, at = [], [], 0
    for token in tokens:
        shown = '""' if token.type == tokenize.STRING else token.string  # what a text says is no name
        words.append(Word(at, at + len(shown), tags.get(token.start, "O")))
        parts.append(shown)
        at += len(shown) + 1
    text = " ".join(parts)
    if not unusable(text):
        yield Example(text, words=tuple(words), group=group, place=place)


def tags_by_place(tree: ast.Module, source: str) -> dict[Place, str]:
    """The tag of every labelled token, by where it begins."""
    places = NamePlaces(source)
    places.visit(tree)
    return places.tags


class NamePlaces(ast.NodeVisitor):
    """Finds the places of names by what they stand for."""

    def __init__(self, source: str):
        self.lines = source.splitlines()
        self.tags: dict[Place, str] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.mark(node.lineno, self.after(node, "def"), node.name, "FUNCTION")
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - of ast

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.mark(node.lineno, self.after(node, "class"), node.name, "CLASS")
        self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        self.mark(node.lineno, self.column(node), node.arg, "PARAMETER")
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.mark(alias.lineno, self.column(alias), alias.name, "MODULE")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module and not node.level:
            self.mark(node.lineno, self.after(node, "from"), node.module, "MODULE")

    def visit_Call(self, node: ast.Call) -> None:
        name = dotted(node.func)
        if name:
            self.mark(node.func.lineno, self.column(node.func), name, "CALL")
        self.generic_visit(node)

    def column(self, node: ast.expr | ast.stmt | ast.alias | ast.arg) -> int:
        """Where a node begins, in characters: ast counts bytes."""
        line = self.lines[node.lineno - 1]
        return len(line.encode()[: node.col_offset].decode())

    def after(self, node: ast.stmt, word: str) -> int:
        """Where the name begins that stands after a keyword of the node's first line."""
        line = self.lines[node.lineno - 1]
        at = line.index(word, self.column(node)) + len(word)
        return at + len(line[at:]) - len(line[at:].lstrip())

    def mark(self, line: int, column: int, name: str, label: str) -> None:
        """Tag the words of a dotted name, where it is written in one piece."""
        if keyword.iskeyword(name) or not self.lines[line - 1].startswith(name, column):
            return
        for number, part in enumerate(name.replace(".", " . ").split()):
            self.tags.setdefault((line, column), f"{'I' if number else 'B'}-{label}")
            column += len(part)


def dotted(node: ast.expr) -> str:
    """The name of what is called, where it is nothing but names and dots."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""
