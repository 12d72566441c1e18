"""Leaks that one row does not show: from other texts of the batch, and for some token ids only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from attnlab.checks.measure import AT_ONCE, ROUNDING, Leak, LeakOrigin, distance, first_moved, run
from attnlab.checks.paths import Path
from attnlab.checks.subject import Subject

SHORT, TRIED = 4, 320
"""Tokens of a row, and how many token ids are tried in such rows."""
LOW, HIGH = 64, 16
"""Ids that are always among them: special tokens are the first or the last of a vocabulary."""


@torch.no_grad()
def company_leak(subject: Subject) -> Leak | None:
    """Whether a text's outputs move when only another text of its batch is changed."""
    leaks = [
        company(subject.model, path, subject.vocabulary)
        for training in (True, False)
        for path in subject.plain_paths(subject.length, training=training)
    ]
    return max((leak for leak in leaks if leak is not None), key=lambda leak: leak.size, default=None)


def company(model: nn.Module, path: Path, vocabulary: int) -> Leak | None:
    model.train(path.training)
    generator = torch.Generator().manual_seed(4)
    batch, changed_batch = (
        torch.cat([path.ids, torch.randint(vocabulary, path.ids.shape, generator=generator)])
        for _ in range(2)
    )
    plain, changed = run(path, batch)[0], run(path, changed_batch)[0]
    size = relative_distance(plain, changed, plain)
    if not float(size.max()) > ROUNDING:
        return None
    query = int(size.argmax())

    def own(output: Tensor) -> Tensor | None:
        return output[0] if output.shape[0] == len(batch) else None

    place = first_moved(model, lambda: run(path, batch), lambda: run(path, changed_batch), own)
    return Leak(path.name, query, -1, float(size.max()), place)


@torch.no_grad()
def ids_leak(subject: Subject) -> Leak | None:
    """The largest leak in short rows of many token ids: some may be treated otherwise than the rest."""
    subject.model.eval()
    ids = spread_ids(subject.vocabulary)
    leaks = [leak for path in subject.plain_paths(SHORT) for leak in leaks_of(subject.model, path, ids)]
    return max(leaks, key=lambda leak: leak.size, default=None)


@torch.no_grad()
def leaks_of(model: nn.Module, path: Path, rows: Tensor) -> Iterator[Leak]:
    """Leaks of a path whose row is each of these (N,S) in turn; as many at once as memory allows."""
    if bool(path.reach.all()):
        return
    together = max(AT_ONCE // run(path, rows[:1]).numel(), 1)
    other = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(5))]
    for some, new in zip(rows.split(together), other.split(together), strict=True):
        plain = run(path, some)
        for key in (~path.reach).any(0).nonzero()[:, 0].tolist():  # what all outputs may see cannot leak
            changed = some.clone()
            changed[:, key] = new[:, key]
            size = torch.where(path.reach[:, key], 0.0, relative_distance(plain, run(path, changed), plain))
            if float(size.max()) > ROUNDING:
                row, query = divmod(int(size.argmax()), size.shape[1])
                place = moved_at(model, path, some[row : row + 1], changed[row : row + 1], query)
                yield Leak(f"token ids {some[row].tolist()}", query, key, float(size.max()), place)


def moved_at(model: nn.Module, path: Path, ids: Tensor, changed: Tensor, query: int) -> LeakOrigin:
    length = ids.shape[1]

    def at(output: Tensor) -> Tensor | None:
        return output[..., query, :] if output.ndim >= 3 and output.shape[-2] == length else None

    path = replace(path, ids=ids)
    return first_moved(model, lambda: run(path, ids), lambda: run(path, changed), at)


def spread_ids(vocabulary: int) -> Tensor:
    """Rows (N, SHORT) that hold every token id of a small vocabulary, and many of a large one, each at two
    places: what comes after the last of a row cannot leak."""
    ends = sorted({*range(min(LOW, vocabulary)), *range(max(vocabulary - HIGH, 0), vocabulary)})
    shuffled = torch.randperm(vocabulary, generator=torch.Generator().manual_seed(6))
    ids = torch.cat([torch.tensor(ends), shuffled])[:TRIED]
    short = -len(ids) % SHORT
    whole = torch.cat([ids, shuffled.repeat(SHORT)[:short]])
    return torch.cat([whole, whole.roll(SHORT // 2)]).view(-1, SHORT)


def relative_distance(own: Tensor, other: Tensor, scale: Tensor) -> Tensor:
    """(…,T): how far outputs (…,T,D) are from each other, of the largest; no number is infinitely far."""
    gap = distance(own, other).nan_to_num(torch.inf)
    largest = float(scale[scale.isfinite()].abs().amax()) if bool(scale.isfinite().any()) else 1.0
    return gap / (largest or 1.0)
