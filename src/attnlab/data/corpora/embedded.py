"""Text that every CPython brings along, so that nothing needs a download."""

from __future__ import annotations

import ast
import functools
import gc
import hashlib
import os
import sysconfig
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attnlab.data.corpora.corpus import Corpus
from attnlab.data.corpora.units import Unit, divided
from attnlab.data.errors import DataError, unusable
from attnlab.data.example import Example
from attnlab.data.workers import in_order

OPTIONAL = {"test", "tests", "idlelib", "lib2to3", "tkinter", "turtledemo", "distutils", "ensurepip"}
"""Packages that distributions leave out or that newer Pythons dropped: the corpus goes without them."""

PACKAGES = (
    *("asyncio", "email", "http", "importlib", "logging", "multiprocessing"),
    *("unittest", "urllib", "xml"),
)
"""The classes of labelled docstrings."""

FILES = 40
"""Source files that a process parses at a time."""

INSTALLED = {"site-packages", "dist-packages", "__pycache__"}


class PythonDocs(Corpus):
    """Python's language reference, with the standard library's docstrings.

    About 2 million characters of technical English with code, from the running Python itself:
    no download. Good for a first language model; its text depends on the Python version, which
    the fingerprint shows. `leave_out` names packages whose docstrings are left out, such as those
    that a model will be judged on later.
    """

    def __init__(self, *, unit: Unit = "document", docstrings: bool = True, leave_out: tuple[str, ...] = ()):
        refuse_unknown(leave_out)
        self.unit, self.docstrings, self.leave_out = unit, docstrings, leave_out

    def read(self, split: str = "train") -> Iterator[Example]:
        self.check_given(split)
        for name, text in sorted(topics().items()):
            yield from parts(text, self.unit, place=f"topic {name}")
        if self.docstrings:
            for module, text in docstrings_of(standard_library()):
                if module.split(".")[0] not in self.leave_out:
                    yield from parts(text, self.unit, place=module)

    def fingerprint(self) -> str:
        texts = "\0".join(f"{name}\0{text}" for name, text in sorted(topics().items()))
        source = source_hash(standard_library()) if self.docstrings else ""
        return digest("python_docs", self.unit, texts, source, *self.leave_out)


class PythonSource(Corpus):
    """The standard library's source code: one document a module, about 10 million characters.

    Code has long-range structure (names, indentation, brackets) that a small model can be seen
    to learn or to miss.
    """

    def __init__(self, *, unit: Unit = "document"):
        self.unit = unit

    def read(self, split: str = "train") -> Iterator[Example]:
        self.check_given(split)
        for module, file in standard_library():
            yield from parts(file.read_text(encoding="utf-8", errors="replace"), self.unit, place=module)

    def fingerprint(self) -> str:
        return digest("python_source", self.unit, source_hash(standard_library()))


class Docstrings(Corpus):
    """Docstrings labelled by the package they come from: embedded data for classification.

    About 2000 examples in 9 classes of uneven size, so that the majority share is not the
    chance level. Each text occurs once; one that occurs in two packages is left out.
    """

    def __init__(
        self,
        *,
        packages: tuple[str, ...] = PACKAGES,
    ):
        refuse_unknown(packages)
        self.packages = packages

    def read(self, split: str = "train") -> Iterator[Example]:
        self.check_given(split)
        seen: dict[str, set[str]] = {}
        for module, text in docstrings_of(self._files()):
            seen.setdefault(text, set()).add(module.split(".")[0])
        for text, packages in seen.items():
            if len(packages) == 1:
                yield Example(text, label=next(iter(packages)))

    def fingerprint(self) -> str:
        return digest("docstrings", *self.packages, source_hash(self._files()))

    def _files(self) -> tuple[tuple[str, Path], ...]:
        return tuple(f for f in standard_library() if f[0].split(".")[0] in self.packages)


class DocstringPairs(Docstrings):
    """Docstrings in two: the first paragraph, and the rest as its second text. Embedded data for similarity.

    About 700 pairs of the packages of `docstrings`; the first is to find the second. Those with fewer than 4
    words before, or 8 after, are left out, and each text is there once.
    """

    def read(self, split: str = "train") -> Iterator[Example]:
        self.check_given(split)
        seen: set[str] = set()
        for module, text in docstrings_of(self._files()):
            first, _, rest = (part.strip() for part in text.partition("\n\n"))
            known = first in seen or rest in seen
            if not known and len(first.split()) >= 4 and len(rest.split()) >= 8:
                seen |= {first, rest}
                yield Example(first, pair=rest, place=module)

    def fingerprint(self) -> str:
        return digest("docstring_pairs", super().fingerprint())


class Summaries(Corpus):
    """Docstrings to summarise: the body is the source, and the first sentence that stood above it the target.

    About 2000 pairs from the whole standard library. Those with fewer than 4 or more than 40 words in the
    summary, or fewer than 8 in the body, are left out, and each text is there once.
    """

    def read(self, split: str = "train") -> Iterator[Example]:
        self.check_given(split)
        seen: set[str] = set()
        for module, text in docstrings_of(standard_library()):
            first, _, body = (part.strip() for part in text.partition("\n\n"))
            summary = " ".join(first.split())
            fits = 4 <= len(summary.split()) <= 40 and len(body.split()) >= 8
            if fits and not {summary, body} & seen:
                seen |= {summary, body}
                yield Example(body, target=summary, place=module)

    def fingerprint(self) -> str:
        return digest("summaries", source_hash(standard_library()))


def refuse_unknown(packages: Iterable[str]) -> None:
    known = {module.split(".")[0] for module, _ in standard_library()} if packages else set()
    for package in packages:
        if package not in known:
            raise DataError(f'The standard library has no package "{package}" here; leave it out.')


def parts(text: str, unit: Unit, place: str) -> Iterator[Example]:
    for part in divided(text, unit):
        yield Example(part, place=place)


def digest(*parts: object) -> str:
    """A short hash of the parts' text, in order."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "replace")).hexdigest()[:16]


def topics() -> dict[str, str]:
    """The language reference, by topic."""
    from pydoc_data.topics import topics as found

    return {name: text for name, text in found.items() if text.strip()}


@functools.cache
def standard_library() -> tuple[tuple[str, Path], ...]:
    """Every module of the standard library with its file, sorted by name."""
    root = sysconfig.get_path("stdlib")
    files = []
    for folder, within, names in os.walk(root):
        packages = Path(folder).relative_to(root).parts
        left_out = OPTIONAL | INSTALLED  # not gone into: there may be many more files there than here
        within[:] = [n for n in within if n not in left_out and (packages or not n.startswith("config-"))]
        for name in names:
            if name.endswith(".py"):
                module = ".".join((*packages, name.removesuffix(".py"))).removesuffix(".__init__")
                files.append((module, Path(folder, name)))
    return tuple(sorted(files))


@functools.cache
def source_hash(files: tuple[tuple[str, Path], ...]) -> str:
    total = hashlib.sha256()
    for module, file in files:
        total.update(module.encode())
        total.update(file.read_bytes())
    return total.hexdigest()


@functools.cache
def docstrings_of(files: tuple[tuple[str, Path], ...]) -> tuple[tuple[str, str], ...]:
    """(module, docstring) of every module, class and function that has one, in source order."""
    together = [files[start : start + FILES] for start in range(0, len(files), FILES)]
    return tuple(found for some in in_order(_docstrings, together) for found in some)


def _docstrings(files: Iterable[tuple[str, Path]]) -> list[tuple[str, str]]:
    docstrings = []
    with uncollected():
        for module, file in files:
            with warnings.catch_warnings():  # old escapes in the library's own strings are not our matter
                warnings.simplefilter("ignore")
                tree = ast.parse(file.read_bytes())
            for node in statements(tree):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    text = ast.get_docstring(node)
                    if text and text.strip() and not unusable(text):
                        docstrings.append((module, text))
    return docstrings


@contextmanager
def uncollected() -> Iterator[None]:
    """Without garbage collection: trees hold no cycles, and a pass looks through all that torch imported."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The module and the statements in it in the order of `ast.walk`, without their expressions."""
    waiting: deque[ast.AST] = deque([tree])
    while waiting:
        node = waiting.popleft()
        yield node
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            waiting.extend(getattr(node, field, ()))
