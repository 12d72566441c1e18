"""What an output really depends on, measured: by changing inputs, and by gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from attnlab.checks.paths import Path
from attnlab.model.draws import seed_everything

ROUNDING = 1e-11
"""In float64, of the largest output: what is below is no dependence, but arithmetic."""
AT_ONCE = 4_000_000
"""Scores that are held at a time."""


@dataclass(frozen=True)
class LeakOrigin:
    """The first module whose output moved, by its name and class; none where no module shows it.

    `joins` says that nothing it was given had moved at that position: it joins positions itself.
    `caller` is the module whose own code calls it.
    """

    module: str = ""
    joins: bool = False
    caller: str = ""


@dataclass(frozen=True)
class Leak:
    """Output `query` depends on input `key`, which it may not see. `size` is relative to the outputs."""

    path: str
    query: int
    key: int
    size: float
    origin: LeakOrigin = field(default_factory=LeakOrigin)

    @property
    def values(self) -> dict[str, str | int | float]:
        """It as a finding holds it; `module` is where it begins, where that is known."""
        named: dict[str, str | int | float] = {"path": self.path, "module": self.origin.module}
        named |= {"query": self.query, "key": self.key, "size": self.size}
        return named | {"joins": self.origin.joins, "caller": self.origin.caller}


@dataclass(frozen=True)
class Measured:
    """One path: how much each output (T) moves with each input (S), relative to the largest output."""

    path: Path
    changes: Tensor
    gradients: Tensor

    @property
    def dependence(self) -> Tensor:
        return torch.maximum(self.changes, self.gradients)

    @property
    def worst(self) -> tuple[float, int, int] | None:
        """The largest forbidden dependence: its size, output and input."""
        forbidden = torch.where(self.path.reach | ~self.path.judged[:, None], 0.0, self.dependence)
        size = float(forbidden.max())
        if size <= ROUNDING:  # false of nan, which is no proof of anything
            return None
        place = int(forbidden.argmax())
        return size, place // forbidden.shape[1], place % forbidden.shape[1]

    @property
    def pairs(self) -> int:
        """How many pairs were looked at."""
        if self.path.sees_all and not self.path.exhaustive:
            return 0
        return self.changes.shape[0] * (len(self.path.keys) or self.changes.shape[1])

    @property
    def leaking(self) -> set[tuple[int, int]]:
        """The pairs (output, input) that are joined and may not be."""
        forbidden = ~self.path.reach & self.path.judged[:, None]
        return {(int(i), int(j)) for i, j in ((self.dependence > ROUNDING) & forbidden).nonzero()}

    @property
    def dead(self) -> list[tuple[int, int]]:
        """Pairs that one layer may join and nothing does."""
        if not self.path.exhaustive:
            return []
        still = (self.dependence == 0) & self.path.near & self.path.judged[:, None]
        return [(int(i), int(j)) for i, j in still.nonzero()]


def measure_model(model: nn.Module, path: Path, vocabulary: int) -> Measured:
    """A path in the mode that it is about."""
    if model.training != path.training:  # of a deep model, setting it takes as long as a forward
        model.train(path.training)
    return measure(path, vocabulary)


def worst_leak(model: nn.Module, measured: Measured, vocabulary: int) -> Leak | None:
    """The largest leak of a path, and where it begins."""
    if measured.worst is None:
        return None
    size, query, key = measured.worst
    model.train(measured.path.training)
    return Leak(measured.path.name, query, key, size, origin(model, measured.path, query, key, vocabulary))


@contextmanager
def seeded() -> Iterator[None]:
    """The same random numbers each time, and the global ones as they were."""
    with torch.random.fork_rng():
        seed_everything(0)
        yield


def measure(path: Path, vocabulary: int) -> Measured:
    """Both measures of one path, or as much of them as can find something.

    Where every output may see every input nothing can leak: then a row is run once, and inputs are changed
    only where the gradient leaves open whether a pair is dead.
    """
    still = torch.zeros(path.reach.shape, dtype=torch.float64)
    if not path.sees_all:
        return Measured(path, changed(path, vocabulary), sloped(path) if path.exhaustive else still)
    if not path.exhaustive:
        with torch.no_grad():
            run(path, path.ids)  # that it can be read is part of what is asked
        return Measured(path, still, still)
    by_gradient = Measured(path, still, sloped(path))
    return replace(by_gradient, changes=changed(path, vocabulary)) if by_gradient.dead else by_gradient


@torch.no_grad()
def changed(path: Path, vocabulary: int) -> Tensor:
    """(T,S): how far each output moves when one input is replaced, by two other tokens in turn."""
    plain, drawless = run_noting_draws(path)
    scale = float(plain[plain.isfinite()].abs().amax()) if bool(plain.isfinite().any()) else 1.0
    moved = torch.zeros(plain.shape[1], path.ids.shape[1], dtype=torch.float64)
    variants = list(replaced(path, vocabulary))
    # rows of one batch draw different dropout: only where nothing is drawn may they be run together
    rows = max(AT_ONCE // plain.numel(), 1) if drawless else 1
    for start in range(0, len(variants), rows):
        some = variants[start : start + rows]
        together = torch.cat([path.ids, *(ids for _, ids in some)]) if rows > 1 else some[0][1]
        outputs = run(path, together)
        base, others = (outputs[:1], outputs[1:]) if rows > 1 else (plain, outputs)
        gaps = distance(others, base).double().cpu().nan_to_num(torch.inf) / (scale or 1.0)
        for (key, _), gap in zip(some, gaps, strict=True):
            moved[:, key] = torch.maximum(moved[:, key], gap)
    return moved


def distance(some: Tensor, other: Tensor) -> Tensor:
    """(…,T): how far apart scores (…,T,V) are at most, of each output. −inf that stays −inf has not moved."""
    if bool(other.isfinite().all()):
        return (some - other).abs_().amax(-1)
    return torch.where(some == other, 0.0, (some - other).abs()).amax(-1)


def replaced(path: Path, vocabulary: int) -> Iterator[tuple[int, Tensor]]:
    """Each input that is changed, with the ids (1,S) in which it is another token."""
    for key in path.keys or range(path.ids.shape[1]):
        for other in sorted(replacements(int(path.ids[0, key]), vocabulary)):
            ids = path.ids.clone()
            ids[0, key] = other
            yield key, ids


def run_noting_draws(path: Path) -> tuple[Tensor, bool]:
    """The path's scores, and whether they were computed without a random number."""
    with seeded():
        before = torch.get_rng_state()
        return path.forward(path.ids), bool(torch.equal(torch.get_rng_state(), before))


def replacements(token: int, vocabulary: int) -> set[int]:
    return {(token + 1) % vocabulary, (token + vocabulary // 2) % vocabulary} - {token}


def sloped(path: Path) -> Tensor:
    """(T,S): the gradient of each output with respect to each input vector, relative to the largest.

    The row is there once for each output, which alone counts in it: one backward gives all.
    """
    with torch.enable_grad(), opened(path.entrance) as leaves:
        outputs = len(path.judged)
        scores = run(path, path.ids.expand(outputs, -1)).diagonal(dim1=0, dim2=1).T
        scores = scores.masked_fill(scores.isinf(), 0.0)  # of a token that is never said
        weights = torch.randn(scores.shape[-1], generator=torch.Generator().manual_seed(0))
        total = (scores @ weights.to(scores)).sum()
    vectors = next((leaf for leaf in leaves if leaf.shape[:2] == (outputs, path.ids.shape[1])), None)
    if vectors is None or not total.requires_grad:
        return torch.zeros(outputs, path.ids.shape[1], dtype=torch.float64)
    (slope,) = torch.autograd.grad(total, vectors, allow_unused=True, materialize_grads=True)
    slopes = slope.abs().amax(-1).double().cpu().nan_to_num(torch.inf)
    return slopes / (float(slopes.max()) or 1.0)


@contextmanager
def opened(entrance: nn.Module) -> Iterator[list[Tensor]]:
    """Makes the entrance's output a leaf, so that gradients can be taken there."""
    tensors: list[Tensor] = []

    def cut(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        tensors.append(output.detach().requires_grad_())
        return tensors[-1]

    handle = entrance.register_forward_hook(cut)
    try:
        yield tensors
    finally:
        handle.remove()


def run(path: Path, ids: Tensor) -> Tensor:
    """The path's scores, with the same random numbers (dropout) whatever the ids."""
    with seeded():
        return path.forward(ids)


@torch.no_grad()
def origin(model: nn.Module, path: Path, query: int, key: int, vocabulary: int) -> LeakOrigin:
    """The first module, in order of computing, whose output at `query` moves with input `key`."""
    ids = path.ids.clone()
    ids[0, key] = min(replacements(int(ids[0, key]), vocabulary))

    def at(output: Tensor) -> Tensor | None:
        return output[..., query, :] if output.ndim >= 3 and output.shape[-2] > query else None

    return first_moved(model, lambda: run(path, path.ids), lambda: run(path, ids), at)


def first_moved(
    model: nn.Module,
    plain: Callable[[], object],
    other: Callable[[], object],
    part: Callable[[Tensor], Tensor | None],
) -> LeakOrigin:
    """The first module of which that `part` of its output differs between two computations."""
    for before, after in zip(recorded(model, plain), recorded(model, other), strict=True):
        if not moved(before.output, after.output, part):
            continue
        inputs = [moved(*pair, part) for pair in zip(before.inputs, after.inputs, strict=True)]
        known = [one for one in inputs if one is not None]
        joins = bool(known) and not any(known)
        return LeakOrigin(titled(model, before.name), joins, titled(model, caller_of(model, before.name)))
    return LeakOrigin(caller=titled(model, ""))


def moved(before: Tensor, after: Tensor, part: Callable[[Tensor], Tensor | None]) -> bool | None:
    """Whether that part of a tensor differs; None where it has no such part."""
    old, new = part(before), part(after)
    if before.shape != after.shape or old is None or new is None:
        return None
    return float((old - new).abs().max()) > ROUNDING * max(float(before.abs().max()), 1.0)


def caller_of(model: nn.Module, name: str) -> str:
    """The module around one whose code calls it: lists of modules call nothing."""
    outer = name.rpartition(".")[0]
    while outer and isinstance(model.get_submodule(outer), nn.ModuleList | nn.ModuleDict):
        outer = outer.rpartition(".")[0]
    return outer


def titled(model: nn.Module, name: str) -> str:
    """A module's name with its class; the model itself has only that."""
    kind = type(model.get_submodule(name)).__name__
    return f"{name} ({kind})" if name else kind


@dataclass(frozen=True)
class ModuleCall:
    """What a module was given, and what it returned: tensors of floating point alone."""

    name: str
    inputs: tuple[Tensor, ...]
    output: Tensor


def recorded(model: nn.Module, work: Callable[[], object]) -> list[ModuleCall]:
    """Every module's call, in the order in which they are done."""
    calls: list[ModuleCall] = []

    def note(name: str) -> Callable[..., None]:
        def hook(
            module: nn.Module, args: tuple[object, ...], given: dict[str, object], output: object
        ) -> None:
            first = output[0] if isinstance(output, (tuple, list)) and output else output
            if isinstance(first, Tensor) and first.is_floating_point():
                inputs = [value for value in (*args, *given.values()) if isinstance(value, Tensor)]
                kept = tuple(value.detach().clone() for value in inputs if value.is_floating_point())
                calls.append(ModuleCall(name, kept, first.detach().clone()))

        return hook

    handles = [
        module.register_forward_hook(note(name), with_kwargs=True)
        for name, module in model.named_modules()
        if name
    ]
    try:
        work()
    finally:
        for handle in handles:
            handle.remove()
    return calls
