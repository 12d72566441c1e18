"""The dependency probe for any module that maps token ids to logits, built here or elsewhere."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.checks.batch_leaks import SHORT, leaks_of, spread_ids
from attnlab.checks.measure import Leak, Measured, measure, origin
from attnlab.checks.paths import Path, allows, closure, spread_over
from attnlab.checks.wording import sentences
from attnlab.config.values import Choice, ConfigError
from attnlab.model.masks import MASKS, Mask
from attnlab.model.model import Model
from attnlab.model.reach import combined_reach

SLACK = 1e-4
"""Of the largest score: what prefixes may differ by, since many models compute in float32 inside."""

LONGEST = 512
"""Positions whose pairs are all looked at within minutes."""


@dataclass(frozen=True)
class Probe:
    """What a probe found. `leaks` are forbidden dependences, `dead` permitted ones that nothing uses."""

    leaks: tuple[Leak, ...]
    dead: tuple[tuple[int, int], ...]
    pairs: int
    paths: tuple[str, ...]
    gap: float
    length: int

    @property
    def sound(self) -> bool:
        """Whether nothing depends on what it may not see."""
        return not self.leaks and self.gap <= SLACK

    @property
    def values(self) -> dict[str, Any]:
        """What was measured, as a finding holds it."""
        worst = max(self.leaks, key=lambda one: one.size, default=None)
        return {
            "leak": None if worst is None else worst.values,
            "sound": self.sound,
            "gap": self.gap,
            "pairs": self.pairs,
            "length": self.length,
            "paths": list(self.paths),
            "dead": len(self.dead),
            "first_dead": list(self.dead[0]) if self.dead else [0, 0],
        }

    @property
    def found(self) -> str:
        """It in one sentence."""
        return sentences("probe", "probe", self.values).found

    def show(self) -> None:
        """Print what was found."""
        from attnlab.documents.nodes import Tone, toned
        from attnlab.documents.terminal import PlainConsole

        PlainConsole().say(toned(Tone.GOOD if self.sound else Tone.WRONG, self.found))


def probe(
    model: nn.Module,
    vocabulary: int | None = None,
    mask: str | Choice | Mask = "causal",
    *,
    length: int = 12,
    whole: int = 512,
    source: int = 0,
    layers: int | None = None,
    forward: Callable[[nn.Module, Tensor], Any] | None = None,
) -> Probe:
    """Declared mask against measured dependence, at every pair of `length` positions, in float64; and at some
    pairs of a row as long as the model reads (up to `whole`), and of short rows of many token ids.

    `forward(model, ids)` gives the logits (N,T,V) of ids (N,T), or what holds them; by default the model is
    called with the ids, and logits are the result itself, its `.logits`, or its first item. The first
    `source` tokens are the source of a prefix. `layers` is how often the mask is applied: without it, what
    any number of layers may pass on is permitted, so that a window cannot be told from no window.
    """
    given = mask if isinstance(mask, Mask) else MASKS.build(mask)
    size = vocabulary_of(model) if vocabulary is None else vocabulary
    refuse_unusable(model, size, length, source)
    copied = copied_apart(model)
    call = forward or called(copied)
    first = entrance(copied, size)

    def row(count: int) -> Path:
        """A row of so many random tokens, in evaluation."""
        near = allows(given, count, min(source, count))
        reach = closure(near) if layers is None else combined_reach([near] * layers)
        ids = torch.randint(size, (1, count), generator=torch.Generator().manual_seed(0))
        return path_of(copied, ids, near, reach, first, call)

    short = row(length)
    refuse_broken(copied, call, short.ids, size)
    paths = [replace(short, name="training", training=True), short]
    measurements = [asked_of(copied, path, size) for path in paths]
    leaks = tuple(leak for leak in (worst(copied, one, size) for one in measurements) if leak is not None)
    if not leaks:
        leaks = tuple(leaks_of(copied.eval(), row(SHORT), spread_ids(size)))[:1]
    longest = length if leaks else longest_read(copied, call, length, whole)
    if longest > length:
        long = replace(row(longest), name=f"a row of {longest} tokens", keys=spread_over(longest))
        measurements.append(asked_of(copied, long, size))
        leaks = tuple(filter(None, [worst(copied, measurements[-1], size)]))
    dead = tuple(sorted({pair for one in measurements for pair in one.dead}))
    gap = 0.0 if bool(short.near.triu(1).any()) else cut_gap(copied, short.ids, call)
    names = tuple(one.path.name for one in measurements)
    return Probe(leaks, dead, sum(one.pairs for one in measurements), names, gap, length)


def refuse_unusable(model: object, vocabulary: int, length: int, source: int) -> None:
    if not isinstance(model, nn.Module):
        raise ConfigError(f"A probe takes a torch.nn.Module, and this is {type(model).__name__}.")
    if vocabulary < 2:
        raise ConfigError(f"vocabulary is {vocabulary}; with fewer than 2 tokens no input can be changed.")
    if not 2 <= length <= LONGEST:
        raise ConfigError(f"length is {length}; every pair of 2 to {LONGEST} positions can be looked at.")
    if not 0 <= source <= length:
        raise ConfigError(f"source is {source}; it is a number of the {length} tokens.")


def copied_apart(model: nn.Module) -> nn.Module:
    """A copy in float64, on the CPU."""
    try:
        return copy.deepcopy(model).double().cpu()
    except (RuntimeError, TypeError) as error:
        raise ConfigError(
            f"A probe works on a copy, and this model cannot be copied: {error}. Give a fresh one that holds "
            "no results."
        ) from error


@torch.no_grad()
def refuse_broken(
    model: nn.Module, call: Callable[[nn.Module, Tensor], Any], ids: Tensor, vocabulary: int
) -> None:
    """A model that cannot be asked, or that answers with no numbers, is neither sound nor unsound."""
    model.eval()
    try:
        scores = logits_of(call(model, ids))
    except ConfigError:
        raise
    except Exception as error:  # whatever another project's model raises
        raise ConfigError(
            f"The model cannot read {ids.shape[1]} tokens below {vocabulary}: {error}. Give its own "
            "`vocabulary`, and a `length` that it takes."
        ) from error
    if bool(scores.isnan().any()):
        first = int(scores.isnan().any(-1)[0].nonzero()[0])
        raise ConfigError(
            f"The model's scores are no numbers (nan) from position {first} on; mend that first."
        )


def path_of(
    model: nn.Module,
    ids: Tensor,
    near: Tensor,
    reach: Tensor,
    entrance: nn.Module,
    call: Callable[[nn.Module, Tensor], Any],
) -> Path:
    return Path(
        name="evaluation",
        ids=ids,
        forward=lambda ids: logits_of(call(model, ids)),
        near=near,
        reach=reach,
        judged=torch.ones(ids.shape[1], dtype=torch.bool),
        entrance=entrance,
    )


@torch.no_grad()
def longest_read(model: nn.Module, call: Callable[[nn.Module, Tensor], Any], least: int, most: int) -> int:
    """How many tokens the model reads, up to `most`: by halving, since some refuse and some do not say."""
    model.eval()
    low, high = least, max(least, most)
    count = high  # most models read all of it
    while low < high:
        try:
            call(model, torch.zeros(1, count, dtype=torch.long))
            low = count
        except Exception:  # whatever another project's model raises
            high = count - 1
        count = (low + high + 1) // 2
    return low


def asked_of(model: nn.Module, path: Path, vocabulary: int) -> Measured:
    """`measured`, of a model that may raise what it likes."""
    try:
        return measure_model(model, path, vocabulary)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"The model cannot be run in {path.name}: {error}") from error


def measure_model(model: nn.Module, path: Path, vocabulary: int) -> Measured:
    """A path in the mode that it is about."""
    if model.training != path.training:  # of a deep model, setting it takes as long as a forward
        model.train(path.training)
    return measure(path, vocabulary)


def worst(model: nn.Module, found: Measured, vocabulary: int) -> Leak | None:
    """The largest leak of a path, and where it begins."""
    if found.worst is None:
        return None
    size, query, key = found.worst
    model.train(found.path.training)
    return Leak(found.path.name, query, key, size, origin(model, found.path, query, key, vocabulary))


@torch.no_grad()
def cut_gap(
    model: nn.Module, ids: Tensor, call: Callable[[nn.Module, Tensor], Any], *, shortest: int = 1
) -> float:
    """How far scores move when everything after them is cut off, of the largest."""
    model.eval()

    def finite(ids: Tensor) -> Tensor:
        scores = logits_of(call(model, ids))[0]
        return scores.masked_fill(scores.isinf(), 0.0)

    whole = finite(ids)
    ends = range(shortest, ids.shape[1] + 1)
    gaps = [(finite(ids[:, :end])[-1] - whole[end - 1]).abs().max() for end in ends]
    return float(torch.stack(gaps).max().nan_to_num(torch.inf) / whole.abs().max().clamp(min=1e-30))


def called(model: nn.Module) -> Callable[[nn.Module, Tensor], Any]:
    """How a model is asked: without a cache, where it has one."""
    takes = inspect.signature(model.forward).parameters
    extra = {"use_cache": False} if "use_cache" in takes else {}
    return lambda model, ids: model(ids, **extra)


def logits_of(output: Any) -> Tensor:
    """Scores (N,T,V) of whatever a model returns: they are the result, its first item, or under a name."""
    names = [name for name in ("logits", "prediction_logits", "last_hidden_state") if hasattr(output, name)]
    logits = getattr(output, names[0]) if names else output
    logits = logits[0] if isinstance(logits, (tuple, list)) else logits
    if not isinstance(logits, Tensor) or logits.ndim != 3:
        raise ConfigError(
            "A probe needs logits (rows, positions, vocabulary) from the model; give `forward`, which takes "
            "the model and ids (rows, positions) and returns them."
        )
    return logits


def vocabulary_of(model: object) -> int:
    if isinstance(model, Model):
        return model.vocabulary
    entrance = getattr(model, "get_input_embeddings", lambda: None)()  # as models of transformers have it
    if isinstance(entrance, nn.Embedding):
        return entrance.num_embeddings
    raise ConfigError("Say how many tokens the model knows: vocabulary=…, a whole number.")


def entrance(model: nn.Module, vocabulary: int) -> nn.Module:
    """Where ids become vectors."""
    if isinstance(model, Model):
        return model.trunk.entrances()[0]
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding) and m.num_embeddings >= vocabulary]
    if not tables:
        raise ConfigError(f"No embedding of {vocabulary} tokens is in this model; is the vocabulary right?")
    return tables[0]
