"""Every tensor accounted for: where each of theirs went, and where each of ours came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.config.values import ConfigError
from attnlab.config.wording import first_few
from attnlab.interop.names import Link
from attnlab.interop.weights import TYPES, Weights
from attnlab.model.initial import assign

SHOWN = 8
"""Problems that one message tells of."""


@dataclass(frozen=True)
class Certificate:
    """What became of every tensor. Names are theirs, except those of `new`, which only we have."""

    family: str
    architecture: str
    parameters: int
    dtype: str
    loaded: tuple[str, ...]
    tied: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    library: str = "transformers"
    """Whose files they are."""

    def with_notes(self, *notes: str) -> Certificate:
        return Certificate(**asdict(self) | {"notes": (*self.notes, *notes)})

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """A short summary, for a person."""
        yield (
            f"{self.architecture} ({self.family}), {self.parameters:,} parameters, {self.dtype}: "
            f"{len(self.loaded)} tensors loaded, {len(self.tied)} tied, {len(self.new)} new, "
            f"{len(self.unused)} unused."
        )
        if self.new:
            yield f"New, and not yet trained: {first_few(self.new, 4)}."
        if self.unused:
            yield f"In the file and not used: {first_few(self.unused, 4)}."
        for note in self.notes:
            yield f"{note[:1].upper()}{note[1:]}."


@dataclass
class Account:
    """A plan of what goes where, and all that stands against it."""

    loaded: list[Link] = field(default_factory=list)
    tied: list[tuple[Link, Link]] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def account(
    weights: Weights,
    links: Iterable[Link],
    model: nn.Module,
    *,
    unused: Callable[[str], bool],
    fresh: Callable[[str], bool],
    accept: Collection[str] = (),
) -> Account:
    """Compare a file's tensors with the parameters of a model, which may stand on "meta".

    `unused` says which tensors of theirs may stay behind, and `fresh` which parameters of ours may
    be new. `accept` are names or patterns of exceptions that a person has agreed to.
    """
    places = dict(model.named_parameters(remove_duplicate=False))
    there = set(weights.names())
    result = Account()
    known: set[str] = set()
    filled: set[int] = set()
    for group in _by_place(links, places).values():
        known |= {link.theirs for link in group}
        present = [link for link in group if link.theirs in there]
        filled |= {id(places[name]) for name in group[0].ours}
        if present:
            result.loaded.append(present[0])
            result.tied += [(link, present[0]) for link in present[1:]]
        elif _accepted((group[0].theirs, *group[0].ours), accept):
            result.new += group[0].ours
        else:
            result.problems.append(
                f"{group[0].theirs} is missing{_renamed(group[0], there, places, weights)}"
            )
    for name, parameter in model.named_parameters():
        if id(parameter) not in filled:
            assert fresh(name), f"{name} is unknown in this model family"
            result.new.append(name)
    for name in sorted(there - known):
        if unused(name) or _accepted((name,), accept):
            result.unused.append(name)
        else:
            result.problems.append(f"{name} is unused: no parameter takes it")
    for link in [*result.loaded, *(link for link, _ in result.tied)]:
        result.problems += _misshapen(link, places, weights)
    result.problems += _other_types(result, weights, accept)
    return result


def _by_place(links: Iterable[Link], places: dict[str, nn.Parameter]) -> dict[tuple[int, ...], list[Link]]:
    """Links that lead to the same parameters, in the order of the table: the first is the usual one."""
    by_place: dict[tuple[int, ...], list[Link]] = {}
    for link in links:
        by_place.setdefault(tuple(id(places[name]) for name in link.ours), []).append(link)
    return by_place


def _accepted(names: Iterable[str], accept: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in accept)


def _expected(link: Link, places: dict[str, nn.Parameter]) -> tuple[int, ...]:
    return link.shape([places[name].shape for name in link.ours])


def _misshapen(link: Link, places: dict[str, nn.Parameter], weights: Weights) -> Iterator[str]:
    wanted, shape = _expected(link, places), weights.shape(link.theirs)
    if wanted != shape:
        turned = " (it is transposed)" if wanted == shape[::-1] else ""
        yield f"{link.theirs} has shape {list(shape)}, and config.json asks for {list(wanted)}{turned}"


def _renamed(link: Link, there: set[str], places: dict[str, nn.Parameter], weights: Weights) -> str:
    """A hint, when a tensor of the right shape stands under a name that is nearly it."""
    import difflib

    close = difflib.get_close_matches(link.theirs, there, n=1, cutoff=0.9)
    if close and weights.shape(close[0]) == _expected(link, places):
        return f" ({close[0]} has its shape and nearly its name)"
    return ""


def _other_types(result: Account, weights: Weights, accept: Collection[str]) -> Iterator[str]:
    """A file has one type of numbers; a tensor of another came there by mistake."""
    types = {link.theirs: weights.dtype(link.theirs) for link in result.loaded}
    types |= {link.theirs: weights.dtype(link.theirs) for link, _ in result.tied}
    usual = usual_type(types.values())
    for name, kind in types.items():
        if kind not in TYPES.values():
            yield f"{name} is {kind}, and weights are float32, float16, bfloat16 or float64"
        elif kind != usual and not _accepted((name,), accept):
            yield f"{name} is {kind}, and the other tensors are {usual}"


def usual_type(types: Iterable[str]) -> str:
    counted = Counter(types).most_common(1)
    return counted[0][0] if counted else "float32"


def refuse(problems: Sequence[str], where: str) -> None:
    """Stop at anything that is not accounted for, and say how to go on in spite of it."""
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise ConfigError(
            f"{where} does not fit: {'; '.join(problems[:SHOWN])}{more}. If a missing, left-over "
            "or other-typed tensor is as it should be, name it: --accept NAME (or a pattern: pooler.*)."
        )


def settle_ties(result: Account, weights: Weights, copies: Collection[str]) -> None:
    """Compare what should be one and the same. Of `copies` only the first is ever used."""
    for copy, first in list(result.tied):
        if torch.equal(weights.tensor(copy.theirs), weights.tensor(first.theirs)):
            continue
        result.tied.remove((copy, first))
        if copy.theirs in copies:
            result.unused.append(copy.theirs)
        else:
            result.problems.append(f"{copy.theirs} differs from {first.theirs}, and config.json ties the two")


@torch.no_grad()
def fill(model: nn.Module, result: Account, weights: Weights) -> None:
    """Put every tensor in its place; half-precision numbers become those of the model.

    What needs no change stays in the file's own pages, which are read when they are first used and
    copied when they are first written to.
    """
    places: dict[str, Tensor] = dict(model.named_parameters(remove_duplicate=False))
    seen: set[int] = set()
    for link in result.loaded:
        parts = [places[name] for name in link.ours]
        tensors = link.inward(weights.tensor(link.theirs), [len(part) if part.ndim else 1 for part in parts])
        for name, part, tensor in zip(link.ours, parts, tensors, strict=True):
            own = tensor.to(part.dtype).contiguous()
            shared = own.data_ptr() in seen  # by two names in a pickle; parameters never share
            assign(model, {name: own.clone() if shared else own})
            seen.add(own.data_ptr())


@torch.no_grad()
def tensors_to_export(
    weights: dict[str, Tensor], links: Iterable[Link], *, tied: Callable[[str], bool], copies: Collection[str]
) -> dict[str, Tensor]:
    """Our weights under their names; of two names for one table only the first is written, and `copies`."""
    tensors: dict[str, Tensor] = {}
    written: set[tuple[str, ...]] = set()
    for link in links:
        once = link.ours not in written and not all(tied(name) for name in link.ours)
        if not once and link.theirs not in copies:
            continue
        written.add(link.ours)
        tensors[link.theirs] = link.outward([weights[name] for name in link.ours]).clone(
            memory_format=torch.contiguous_format
        )
    return tensors
