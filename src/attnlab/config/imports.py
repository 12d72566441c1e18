"""Code of a person's own: files and modules that register parts.

It runs when the person names it (`--import mine.py`, or Python's own import) and at no other time. What used
it records it with a hash of the file, and asks for it again when it is opened.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shlex
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Required, TypedDict

from attnlab.config.registry import TABLES, table
from attnlab.config.schema import SECTIONS, Config
from attnlab.config.values import Choice, ConfigError

PACKAGE = __name__.partition(".")[0]


class CodeRecord(TypedDict, total=False):
    """Code of a person's own as run.json and study.json hold it, with the parts of it that were used."""

    module: Required[str]
    file: Required[str]
    hash: Required[str]
    parts: list[list[str]]


@dataclass(frozen=True)
class OwnCode:
    """A module of a person's own. `file` is empty where it has none, as in a notebook."""

    module: str
    file: str
    hash: str

    @property
    def name(self) -> str:
        return Path(self.file).name or self.module

    def __str__(self) -> str:
        return f"{self.name} (hash {self.hash})" if self.file else self.name


IMPORTED: dict[str, OwnCode] = {}
"""What was named in this session, by file: every run from here on records it."""
_EXECUTED: dict[str, str] = {}
"""The hash of each file whose code was run here, as it was then."""


# ---------------------------------------------------------------- named by a person
def import_code(source: str | Path) -> OwnCode:
    """Run the code of a file or module that a person named; once, unless the file has changed."""
    code = find(str(source), Path.cwd())
    if code is None:
        raise ConfigError(f"--import {source}: there is neither a file nor a module of that name.")
    if loaded_from(code.file) is None or _EXECUTED.get(code.file, code.hash) != code.hash:
        _execute(code)
    IMPORTED[code.file] = code
    return code


def find(source: str, beside: Path) -> OwnCode | None:
    """The code of a name: a file, one of that name in the folder `beside`, or a module. Nothing is run."""
    if source.endswith(".py") or os.sep in source:
        file = beside / Path(source).expanduser()
        return _code(file.stem, file) if file.is_file() else None
    if (file := beside / f"{source}.py").is_file():
        return _code(source, file)
    if named := [code for code in IMPORTED.values() if code.module == source]:
        return named[0]
    place = _spec_of(source)
    return _code(source, Path(place.origin)) if place and place.has_location and place.origin else None


def _code(module: str, file: Path) -> OwnCode:
    return OwnCode(module, str(file.resolve()), hashlib.sha256(file.read_bytes()).hexdigest()[:16])


def _spec_of(module: str) -> ModuleSpec | None:
    """Where a module is. importlib's own find_spec would run the packages above it."""
    spec: ModuleSpec | None = None
    path: Sequence[str] | None = None
    for depth, _ in enumerate(parts := module.split("."), start=1):
        spec = PathFinder.find_spec(".".join(parts[:depth]), path)
        if spec is None or (depth < len(parts) and spec.submodule_search_locations is None):
            return None
        path = spec.submodule_search_locations
    return spec


def loaded_from(file: str) -> ModuleType | None:
    """The module of a file, if it has been imported in this process, by whatever means."""
    for module in list(sys.modules.values()):
        own = vars(module).get("__file__") if isinstance(module, ModuleType) else None
        if isinstance(own, str) and Path(own).name == Path(file).name and str(Path(own).resolve()) == file:
            return module
    return None


def _execute(code: OwnCode) -> None:
    there = sys.modules.get(code.module)
    ours = there is not None and vars(there).get("__file__") in _EXECUTED
    if there is not None and not ours:
        raise ConfigError(
            f'{code.file} would be the module "{code.module}", and there is one of that name already; rename '
            "the file."
        )
    folder = str(Path(code.file).parent)
    sys.path.append(folder)  # for what stands beside it
    try:
        _run(code)
    except Exception as error:
        sys.modules.pop(code.module, None)
        raise ConfigError(_own_code_message(error, [code.file]) or f"{code.file}: {_named(error)}") from error
    finally:
        sys.path.remove(folder)
    _EXECUTED[code.file] = code.hash


def fault_in_own_code(error: Exception) -> str:
    """The line of a person's own code in which an error arose, and the error; nothing for any other."""
    return "" if isinstance(error, ConfigError) else _own_code_message(error, IMPORTED)


def _own_code_message(error: Exception, files: Collection[str]) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    return f"{frames[-1].filename}, line {frames[-1].lineno}: {_named(error)}" if frames else ""


def _named(error: Exception) -> str:
    return str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"


def _run(code: OwnCode) -> None:
    spec = _spec_of(code.module)
    if spec is not None and spec.origin == code.file and code.module not in sys.modules:
        importlib.import_module(code.module)  # a module of a package, whose imports may be relative
        return
    module = ModuleType(code.module)
    module.__file__ = code.file
    sys.modules[code.module] = module
    exec(compile(Path(code.file).read_bytes(), code.file, "exec"), vars(module))


def registers(code: OwnCode) -> bool:
    """Whether this code put a part into a table."""
    loaded = [table(of) for of, path in TABLES.items() if path.partition(":")[0] in sys.modules]
    return any(
        registry[name].__module__ == code.module for registry in loaded for name in registry.registered
    )


# ---------------------------------------------------------------- asked for by a file
def refuse_unseen(names: Any, asker: str | Path, *, beside: Path, key: str = "imports") -> None:
    """Stop where a config or study asks for code that the person has not imported: nothing of it is run."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f'{asker}: {key} takes a list of files or modules, such as ["mine"], not {names!r}.'
        )
    unseen = []
    for name in names:
        code = find(name, beside)
        if code is None:
            raise ConfigError(
                f'{asker}: {key} asks for "{name}", and there is neither a file '
                f"{name.removesuffix('.py')}.py in its folder nor a module of that name."
            )
        if loaded_from(code.file) is None:
            unseen.append(code)
        else:
            IMPORTED[code.file] = code
    if unseen:
        raise ConfigError(f"{asker} asks to run the code of {listed(unseen)}. {consent(unseen)}")


def consent(codes: Iterable[OwnCode]) -> str:
    """How a person agrees to code that something asks for."""
    return f"Read it, and agree with {import_options(codes)} (in Python, import it first)."


def import_options(codes: Iterable[OwnCode]) -> str:
    """The options that name this code on a command line."""
    return shlex.join(import_words(codes))


def import_words(codes: Iterable[OwnCode]) -> list[str]:
    return [word for code in codes for word in ("--import", shown(code))]


def shown(code: OwnCode) -> str:
    """The file as a person would type it here."""
    file = Path(code.file)
    if not file.is_file():
        return code.name
    return str(file.relative_to(Path.cwd())) if file.is_relative_to(Path.cwd()) else str(file)


def listed(codes: Iterable[OwnCode]) -> str:
    return " and ".join(map(str, codes))


# ---------------------------------------------------------------- recorded with what used it
def code_of(*configs: Config) -> list[CodeRecord]:
    """The own code that these configs use, and what else was named in this session, for their record."""
    used: dict[OwnCode, set[tuple[str, str]]] = {code: set() for code in IMPORTED.values()}
    for of, name in {part for config in configs for part in own_parts(config)}:
        used.setdefault(module_of(table(of)[name]), set()).add((of, name))
    return [
        CodeRecord(module=code.module, file=code.file, hash=code.hash, parts=sorted(map(list, parts)))
        for code, parts in used.items()
    ]


def own_parts(config: Config) -> Iterator[tuple[str, str]]:
    """Every (table, name) of a config that the package itself does not have."""
    for f in fields(Config):
        holder = getattr(config, f.name)
        inner = fields(SECTIONS[f.name]) if f.name in SECTIONS else ()
        chosen = [(i.metadata.get("table"), getattr(holder, i.name)) for i in inner]
        for of, choice in [*chosen, (f.metadata.get("table"), holder)]:
            if of is not None:
                yield from ((of, kind) for kind in kinds(choice) if is_own(of, kind))
    yield from (("listeners", name) for name in config.training.listeners if is_own("listeners", name))


def kinds(choice: Any) -> Iterator[str]:
    """The names of a choice and of those within it."""
    if isinstance(choice, Choice):
        yield choice.kind
        for option in choice.options.values():
            yield from kinds(option)
    elif isinstance(choice, (tuple, list)):
        for item in choice:
            yield from kinds(item)


def is_own(of: str, name: str) -> bool:
    return name in table(of) and not of_package(table(of)[name].__module__)


def of_package(module: str) -> bool:
    return module == PACKAGE or module.startswith(f"{PACKAGE}.")


def module_of(variant: type) -> OwnCode:
    """The code that a class is from."""
    file = vars(sys.modules.get(variant.__module__, sys)).get("__file__")
    if variant.__module__ == "__main__" or not file or not Path(file).is_file():
        return OwnCode(variant.__module__, "", "")
    return IMPORTED.get(str(Path(file).resolve())) or _code(variant.__module__, Path(file))


def import_again(records: Iterable[CodeRecord]) -> None:
    """In a process that works for this one: the code that the person named there, as it was there."""
    for record in records:
        code = _recorded(record)
        if loaded_from(code.file) is None:
            now = _code(code.module, Path(code.file))
            if now.hash != code.hash:
                raise ConfigError(f"{code.file} was changed while a study was running; run it again.")
            _execute(code)
        IMPORTED[code.file] = code


def refuse_loose(records: Iterable[CodeRecord]) -> None:
    """Stop where a process of its own could not import what is used."""
    loose = [part for record in records if not record["file"] for part in record["parts"]]
    if loose:
        parts = " and ".join(f'{of} "{name}"' for of, name in loose)
        raise ConfigError(
            f"{parts}: registered in a notebook or script, which the processes of a study cannot import. Put "
            "the class and its register line into a file, and import that."
        )


# ---------------------------------------------------------------- asked for again
class MissingCodeError(ConfigError):
    """What was recorded needs own code that is not here."""


def require_code(records: Iterable[CodeRecord], asker: str | Path) -> None:
    """Stop where something that was recorded needs own code that is not here."""
    missing = [record for record in records if _here(record) is None]
    loose = [part for record in missing if not record["file"] for part in record["parts"]]
    if loose:
        parts = " and ".join(f'{of} "{name}"' for of, name in loose)
        raise MissingCodeError(
            f"{asker} uses {parts}, which a notebook or script registered. Put the class and its register "
            "line into a file, and name it with --import FILE (in Python, import it first)."
        )
    if missing:
        codes = [_recorded(record) for record in missing]
        raise MissingCodeError(f"{asker} uses the code of {listed(codes)}. {consent(codes)}")


def changed_code(records: Iterable[CodeRecord]) -> list[str]:
    """A sentence for each file that is another than when it was recorded."""
    pairs = [(_recorded(record), _here(record)) for record in records]
    return [
        f"{now.name} has changed since it was recorded (hash {before.hash}, now {now.hash}): what it does "
        "here may not be what was trained."
        for before, now in pairs
        if now is not None and before.hash and now.hash != before.hash
    ]


def _recorded(record: CodeRecord) -> OwnCode:
    return OwnCode(record["module"], record["file"], record["hash"])


def _here(record: CodeRecord) -> OwnCode | None:
    """The code of this session that stands for a recorded one: of the same file, or with the same parts."""
    before = _recorded(record)
    named = [code for code in IMPORTED.values() if before.file and code.name == before.name]
    same = [code for code in named if code.file == before.file]
    if same or named:
        return (same or named)[0]
    parts = [table(of)[name] for of, name in record["parts"] if of in TABLES and name in table(of)]
    if parts and len(parts) == len(record["parts"]):
        return module_of(parts[0])
    if before.file and Path(before.file).is_file() and loaded_from(before.file) is not None:
        return _code(before.module, Path(before.file))
    return None
