"""The dependency probe: what the outputs of a model depend on, against what they may depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.checks.batch_leaks import company_leak, ids_leak
from attnlab.checks.measure import Leak, Measured, measure_model, worst_leak
from attnlab.checks.module_subject import SLACK, ModuleSubject
from attnlab.checks.subject import LENGTH, LONGEST, Subject
from attnlab.checks.wording import sentences
from attnlab.config.values import Choice
from attnlab.model.masks import Mask
from attnlab.runs.typed import Value


@dataclass(frozen=True)
class Probe:
    """What a probe measured. `leaks` are forbidden dependences; `mixing` is one on another text of the batch,
    after which nothing else is measured; `gap` is how far scores move when later tokens are cut off."""

    measurements: tuple[Measured, ...]
    leaks: tuple[Leak, ...]
    gap: float
    length: int
    mixing: Leak | None = None
    equal: float = SLACK

    @property
    def sound(self) -> bool:
        """Whether nothing depends on what it may not see."""
        return not self.leaks and self.mixing is None and self.gap <= self.equal

    @property
    def dead(self) -> tuple[tuple[int, int], ...]:
        """Permitted dependences that nothing uses."""
        return tuple(sorted({pair for measured in self.measurements for pair in measured.dead}))

    @property
    def pairs(self) -> int:
        """How many pairs of positions were looked at."""
        return sum(measured.pairs for measured in self.measurements)

    @property
    def leaking(self) -> int:
        """How many pairs of positions are joined that may not be, each counted once, however many paths show
        it; at least one where there is a leak."""
        pairs = {
            (id(measured.path.entrance), *pair) for measured in self.measurements for pair in measured.leaking
        }
        return max(len(pairs), int(bool(self.leaks)))

    @property
    def ahead(self) -> int:
        """How far ahead an output sees at most, in tokens."""
        pairs = {(leak.query, leak.key) for leak in self.leaks}
        pairs |= {pair for measured in self.measurements for pair in measured.leaking}
        return max((key - query for query, key in pairs), default=0)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(measured.path.name for measured in self.measurements)

    @property
    def values(self) -> dict[str, Value]:
        """What was measured, as a finding holds it."""
        worst = self.mixing or max(self.leaks, key=lambda leak: leak.size, default=None)
        dead = self.dead
        return {
            "leak": None if worst is None else worst.values,
            "mixing": self.mixing is not None,
            "sound": self.sound,
            "gap": self.gap,
            "pairs": self.pairs,
            "length": self.length,
            "paths": list(self.paths),
            "dead": len(dead),
            "first_dead": list(dead[0]) if dead else [0, 0],
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
    length: int = LENGTH,
    whole: int = LONGEST,
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
    subject = ModuleSubject(
        model,
        mask,
        vocabulary=vocabulary,
        forward=forward,
        length=length,
        whole=whole,
        source=source,
        layers=layers,
    )
    return probe_subject(subject)


def probe_subject(subject: Subject) -> Probe:
    """Every path through a model, in the order in which a person understands a leak best."""
    subject.refuse_unusable()
    mixing = company_leak(subject)
    if mixing is not None:
        return Probe((), (), 0.0, subject.length, mixing, subject.equal)
    model, vocabulary = subject.model, subject.vocabulary
    measurements = tuple(measure_model(model, path, vocabulary) for path in subject.paths())
    worst = (worst_leak(model, measured, vocabulary) for measured in measurements)
    leaks = tuple(leak for leak in worst if leak is not None)
    if not leaks:
        leaks = tuple(filter(None, [ids_leak(subject)]))
    gap = 0.0 if leaks else prefix_gap(subject)
    return Probe(measurements, leaks, gap, subject.length, equal=subject.equal)


@torch.no_grad()
def prefix_gap(subject: Subject) -> float:
    """How far scores move when what follows is cut off, of the largest; 0 where they may see all of it."""
    if subject.sees_later:
        return 0.0
    subject.model.eval()
    length = min(subject.length, LENGTH)
    ids = torch.randint(subject.vocabulary, (1, length), generator=torch.Generator().manual_seed(1))
    prompt = int(length * subject.prompt_share)

    def scores(part: Tensor) -> Tensor:
        outputs = subject.scores_by_place(part, prompt=prompt, source=ids.flip(1))[0]
        return outputs.masked_fill(outputs.isinf(), 0.0)

    whole = scores(ids)
    ends = range(max(prompt, 1), length + 1)
    gaps = [(scores(ids[:, :end])[-1] - whole[end - 1]).abs().max() for end in ends]
    return float(torch.stack(gaps).max().nan_to_num(torch.inf) / whole.abs().max().clamp(min=1e-30))
