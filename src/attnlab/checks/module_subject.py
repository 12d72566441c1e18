"""A torch module of any project as a subject of checks: what it claims to see, and how it is called."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor, nn

from attnlab.checks.paths import Path, allows, closure, spread_over
from attnlab.checks.subject import (
    LENGTH,
    LONGEST,
    WHOLE,
    Continuation,
    OwnSubject,
    Side,
    Subject,
    UnaskableError,
    Writing,
    weighted,
)
from attnlab.checks.wording import sentences
from attnlab.config.values import Choice, ConfigError
from attnlab.generation.decoder import padded
from attnlab.model.masks import MASKS, Mask
from attnlab.model.model import Model
from attnlab.model.reach import combined_reach
from attnlab.runs.findings import When
from attnlab.runs.typed import Value

Claim = Literal["causal", "bidirectional"]
Forward = Callable[[nn.Module, Tensor], Any]
"""Takes the model and ids (rows, tokens), gives its scores or what holds them."""
SLACK = 1e-4
"""Of the largest score: what two ways to it may differ by, since many models compute in float32 inside."""
COPIED = 500_000_000
"""Parameters up to which a module is copied in float64."""
SOURCE = 5
"""Tokens of the source that an encoder reads, other than any row is long."""
CAUSAL = ("ForCausalLM", "LMHeadModel")
"""How classes of transformers end that say that they continue a text, whatever their config.json says."""


class TooLargeError(UnaskableError):
    """A module that is not copied, by its number of parameters."""

    kind = "too_large"

    def __init__(self, parameters: int):
        self.counts: dict[str, Value] = {"parameters": parameters, "most": COPIED}
        super().__init__(sentences("dependency", self.kind, self.counts).found)

    @property
    def values(self) -> Mapping[str, Value]:
        return self.counts


def subject_of(
    module: nn.Module,
    *,
    vocabulary: int | None = None,
    mask: Claim | None = None,
    forward: Forward | None = None,
    length: int = LENGTH,
    whole: int = LONGEST,
    when: When = "before",
) -> Subject:
    """Any module. One of ours is asked in its own ways, unless another mask is claimed of it."""
    if not isinstance(module, nn.Module):
        raise ConfigError(f"A check takes a torch.nn.Module, and this is {type(module).__name__}.")
    refuse_too_large(module)
    if isinstance(module, Model) and forward is None and mask in (None, claimed_mask(module)):
        return OwnSubject(module, vocabulary=vocabulary, length=length, whole=whole, when=when)
    claim = mask or claimed_mask(module)
    subject = ModuleSubject(
        module, claim, vocabulary=vocabulary, forward=forward, length=length, whole=whole, when=when
    )
    subject.claim = {"asked_mask": claim, "asked_source": subject.reads_source}
    return subject


class ModuleSubject(Subject):
    """A module of another project, called as transformers' models are, or by `forward`.

    What its outputs may depend on is a claim: a mask that each of `layers` layers applies, or any number of
    them; the first `source` tokens are the source of a prefix.
    """

    equal = SLACK
    learned = True
    room = LONGEST
    prompts = (7, 10)

    def __init__(
        self,
        module: nn.Module,
        mask: str | Choice | Mask = "causal",
        *,
        vocabulary: int | None = None,
        forward: Forward | None = None,
        length: int = LENGTH,
        whole: int = LONGEST,
        source: int = 0,
        layers: int | None = None,
        when: When = "before",
    ):
        if not isinstance(module, nn.Module):
            raise ConfigError(f"A probe takes a torch.nn.Module, and this is {type(module).__name__}.")
        config = getattr(module, "config", None)
        self.mask = mask if isinstance(mask, Mask) else MASKS.build(mask)
        self.forward, self.length, self.whole, self.when = forward, length, whole, when
        self.source, self.applied = source, layers
        self.takes = frozenset(inspect.signature(module.forward).parameters)
        self.reads_source = bool(getattr(config, "is_encoder_decoder", False))
        self.pad = first_id(getattr(config, "pad_token_id", None))
        self.model = copied_apart(module).eval()
        self.vocabulary = 2  # ids that any model can read, until it is known
        self.vocabulary = self.own_vocabulary() if vocabulary is None else vocabulary

    def own_vocabulary(self) -> int:
        """How many tokens the module knows: as it says, or the rows of the table that its scores are as wide
        as."""
        if isinstance(self.model, Model):
            return self.model.vocabulary
        entrance = getattr(self.model, "get_input_embeddings", lambda: None)()  # as models of transformers
        if isinstance(entrance, nn.Embedding):
            return entrance.num_embeddings
        tables = [part for part in self.model.modules() if isinstance(part, nn.Embedding)]
        try:
            width = self.answers(torch.tensor([[0, 1]])).shape[-1]
        except UnaskableError:
            width = 0
        if width in {table.num_embeddings for table in tables}:
            return width
        raise ConfigError("Say how many tokens the model knows: vocabulary=…, a whole number.")

    def call(self, ids: Tensor, real: Tensor | None = None, *, places: bool = False, **more: Any) -> Any:
        """What the module returns. With `places` it is told the position of each token, without padding."""
        given: dict[str, Any] = {"use_cache": False} if "use_cache" in self.takes else {}
        if real is not None and "attention_mask" in self.takes and not self.reads_source:
            given["attention_mask"] = real.long()
        if places:
            kept = torch.ones_like(ids) if real is None else real.long()
            given["position_ids"] = (kept.cumsum(1) - 1).clamp(min=0)
        given |= more
        try:
            if self.forward is not None:
                return self.forward(self.model, ids)
            if self.reads_source:
                given |= {"input_ids": self.source_rows(len(ids)), "decoder_input_ids": ids}
                return self.model(**given)
            return self.model(ids, **given)
        except UnaskableError:
            raise
        except Exception as error:  # whatever another project's model raises
            mode = " in training" if self.model.training else ""
            raise UnaskableError(
                f"The model cannot read {ids.shape[1]} tokens below {self.vocabulary}{mode}: {error}. Give "
                "its own `vocabulary`, and a `length` that it takes."
            ) from error

    def answers(self, ids: Tensor) -> Tensor:
        """The scores of each place (N,T,V), or of each text (N,C)."""
        with torch.no_grad():
            return answers_of(self.call(ids))

    def random_ids(self, count: int, generator: torch.Generator) -> Tensor:
        """None of them is padding's, which some models look for."""
        ids = super().random_ids(count, generator)
        return torch.where(ids == self.pad, (ids + 1) % self.vocabulary, ids)

    def source_rows(self, rows: int) -> Tensor:
        return torch.stack(self.random_rows([SOURCE], seed=7)).expand(rows, -1)

    @torch.no_grad()
    def refuse_unusable(self) -> None:
        if self.vocabulary < 2:
            raise UnaskableError(
                f"vocabulary is {self.vocabulary}; with fewer than 2 tokens no input can be changed."
            )
        if not 2 <= self.length <= LONGEST:
            raise UnaskableError(
                f"length is {self.length}; every pair of 2 to {LONGEST} positions can be looked at."
            )
        if not 0 <= self.source <= self.length:
            raise UnaskableError(f"source is {self.source}; it is a number of the {self.length} tokens.")
        self.model.eval()
        row = self.row(self.length)
        scores = row.forward(row.ids)
        if bool(scores.isnan().any()):
            first = int(scores.isnan().any(-1)[0].nonzero()[0])
            raise UnaskableError(
                f"The model's scores are no numbers (nan) from position {first} on; mend that first."
            )

    @cached_property
    def answers_by_place(self) -> bool:
        return self.answers(torch.stack(self.random_rows([4]))).ndim == 3

    @property
    def sees_later(self) -> bool:
        return bool(allows(self.mask, self.length, self.source).triu(1).any())

    def row(self, count: int, *, training: bool = False) -> Path:
        """A row of so many random tokens."""
        near = allows(self.mask, count, min(self.source, count))
        return Path(
            name="training" if training else "evaluation",
            ids=torch.randint(self.vocabulary, (1, count), generator=torch.Generator().manual_seed(0)),
            forward=lambda ids: logits_of(self.call(ids)),
            near=near,
            reach=closure(near) if self.applied is None else combined_reach([near] * self.applied),
            judged=torch.ones(count, dtype=torch.bool),
            entrance=self.entrance,
            training=training,
        )

    @cached_property
    def entrance(self) -> nn.Module:
        """Where ids become vectors."""
        if isinstance(self.model, Model):
            return self.model.trunk.entrances()[0]
        tables = [part for part in self.model.modules() if isinstance(part, nn.Embedding)]
        large = [table for table in tables if table.num_embeddings >= self.vocabulary]
        if not large:
            raise UnaskableError(
                f"No embedding of {self.vocabulary} tokens is in this model; is the vocabulary right?"
            )
        return large[0]

    def plain_paths(self, length: int, *, training: bool = False) -> Iterator[Path]:
        yield self.row(length, training=training)

    def paths(self) -> Iterator[Path]:
        yield self.row(self.length, training=True)
        yield self.row(self.length)
        longest = self.longest_read()
        if longest > self.length:
            yield replace(self.row(longest), name=f"a row of {longest} tokens", keys=spread_over(longest))

    @torch.no_grad()
    def longest_read(self) -> int:
        """How many tokens it reads, up to `whole`: by halving, since some refuse and some do not say."""
        self.model.eval()
        low, high = self.length, max(self.length, self.whole)
        count = high  # most models read all of it
        while low < high:
            try:
                self.call(torch.zeros(1, count, dtype=torch.long))
                low = count
            except UnaskableError:
                high = count - 1
            count = (low + high + 1) // 2
        return low

    def outputs_of(self, ids: Tensor) -> Tensor:
        return self.answers(ids[:, None]).flatten(1).double()

    def scores_by_place(self, ids: Tensor, *, prompt: int, source: Tensor) -> Tensor:
        return logits_of(self.call(ids))

    @cached_property
    def padding_sides(self) -> tuple[Side, ...]:
        masked = "attention_mask" in self.takes and self.forward is None
        if not masked and self.sees_later:
            return ()
        placed = masked and "position_ids" in self.takes and not self.reads_source
        return ("right", "left") if placed and self.answers_by_place else ("right",)

    def scores_of_rows(self, rows: Sequence[Tensor], side: Side) -> tuple[list[Tensor], Tensor]:
        ids, real = padded([row.tolist() for row in rows], side=side)
        kept = torch.ones_like(ids, dtype=torch.bool) if real is None else real
        ids = torch.where(kept, ids, self.pad)
        self.model.eval()
        scores = answers_of(self.call(ids, real, places=side == "left"))
        if scores.ndim == 2:
            return list(scores.detach()), weighted(scores)
        return [row[where].detach() for row, where in zip(scores, kept, strict=True)], weighted(scores[kept])

    @property
    def why_not_written(self) -> str:
        writes = not self.sees_later and {"past_key_values", "use_cache"} <= self.takes
        return "" if writes else "no_cache"

    def writing(self, texts: Sequence[Continuation]) -> Writing:
        return ModuleWriting(self, texts)

    def read(self, text: Continuation, *, last: int) -> Tensor:
        return self.answers(torch.tensor([[*text.prompt, *text.new]]))[0, -last:]


class ModuleWriting:
    """Texts of one length that a module of transformers writes, with the past that it returns."""

    def __init__(self, subject: ModuleSubject, texts: Sequence[Continuation]):
        self.subject, self.kept = subject, dict[str, Any]()
        self.next = self._read(torch.tensor([text.prompt for text in texts]))

    def _read(self, ids: Tensor) -> Tensor:
        output = self.subject.call(ids, use_cache=True, **self.kept)
        past = item_of(output, "past_key_values")
        if past is None:
            raise UnaskableError("The model takes past_key_values and returns none.")
        self.kept = {"past_key_values": past}
        return answers_of(output)[:, -1]

    def step(self, chosen: Tensor) -> Tensor:
        self.next = self._read(chosen[:, None])
        return self.next

    def select(self, rows: Tensor) -> None:
        raise UnaskableError("The rows of another project's cache cannot be reordered.")


def refuse_too_large(module: nn.Module) -> None:
    count = sum(parameter.numel() for parameter in module.parameters())
    if count > COPIED:
        raise TooLargeError(count)


def copied_apart(model: nn.Module) -> nn.Module:
    """A copy in float64, on the CPU."""
    try:
        return copy.deepcopy(model).double().cpu()
    except (RuntimeError, TypeError) as error:
        raise ConfigError(
            f"A probe works on a copy, and this model cannot be copied: {error}. Give a fresh one that holds "
            "no results."
        ) from error


def logits_of(output: Any) -> Tensor:
    """Scores (N,T,V) of whatever a model returns: they are the result, its first item, or under a name."""
    scores = answers_of(output)
    if scores.ndim != 3:
        raise_no_logits()
    return scores


def answers_of(output: Any) -> Tensor:
    """The scores of whatever a model returns: for each place (N,T,V), or for each text (N,C)."""
    scores = scores_of(output)
    if scores is None or scores.ndim not in (2, 3):
        raise_no_logits()
    return scores


def scores_of(output: Any) -> Tensor | None:
    """The scores in what a model returned: the result itself, its first tensor of at least two axes (a loss
    may stand before it), or under a name; None where there are none."""
    start, end = (item_of(output, name) for name in ("start_logits", "end_logits"))
    if isinstance(start, Tensor) and isinstance(end, Tensor):
        return torch.stack([start, end], -1)
    named = (item_of(output, name) for name in ("logits", "prediction_logits", "last_hidden_state"))
    scores = next((item for item in named if item is not None), output)
    if isinstance(scores, (tuple, list)):
        scores = next((item for item in scores if isinstance(item, Tensor) and item.ndim >= 2), None)
    return scores if isinstance(scores, Tensor) and scores.ndim >= 2 and scores.is_floating_point() else None


def item_of(output: Any, name: str) -> Any:
    """What a model returned under a name, in a dictionary or as an attribute; None where there is none."""
    return output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)


def raise_no_logits() -> NoReturn:
    raise UnaskableError(
        "A probe needs logits (rows, positions, vocabulary) from the model; give `forward`, which takes "
        "the model and ids (rows, positions) and returns them."
    )


def claimed_mask(module: nn.Module) -> Claim:
    """What a module says that it sees: by its class where that is one of transformers', else by its mask."""
    if isinstance(module, Model):
        return "bidirectional" if module.trunk.sees == "all" else "causal"
    config = getattr(module, "config", None)
    if config is None:
        return "causal"
    named = type(module).__name__.endswith(CAUSAL)
    attends = any(getattr(part, "is_causal", False) is True for part in module.modules())
    decodes = any(getattr(config, name, False) for name in ("is_decoder", "is_encoder_decoder"))
    return "causal" if named or attends or decodes else "bidirectional"


def first_id(number: object) -> int:
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else 0


def own_length(model: nn.Module) -> int:
    """How many tokens a model says that it reads, up to WHOLE; LONGEST where it does not say."""
    if isinstance(model, Model):
        return int(min(model.trunk.longest, WHOLE))
    config = getattr(model, "config", None)
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "block_size")
    said = (getattr(config, name, None) for name in names)
    return min(next((n for n in said if isinstance(n, int) and n > 1), LONGEST), WHOLE)
