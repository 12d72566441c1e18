"""Batches in a seeded order, with a place in it that can be saved and found again."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attnlab.data.batching import Batching, Index, Plan
from attnlab.data.errors import DataError
from attnlab.data.rows import Rows

if TYPE_CHECKING:
    from attnlab.data.batch import Batch, Side


KEPT_PLANS = 4
"""Orders of the same rows that are kept: each check goes through them with a loader of its own."""


class Loader:
    """Batches of encoded rows. Its whole position is (epoch, batch).

    `for batch in loader` gives what is left of the current epoch and then moves on to the next;
    `loader.forever()` goes on through the epochs. `state()` taken after a batch was handed out
    leads, through `restore`, to the batch after it.
    """

    def __init__(self, rows: Rows, batching: Batching, *, seed: int, pad: int, side: Side = "right"):
        if not len(rows):
            raise DataError("There are no rows to load: the split is empty. Give it text, or a larger share.")
        if batching.packs and any(rows.has(c) for c in ("label", "labels", "number", "start", "target")):
            raise DataError(
                "packed batching puts several texts in one line, but these have a label, answer or target "
                'each; use data.batching = "bucketed".'
            )
        longest = int(rows.lengths.max())
        if longest > batching.length:
            raise DataError(
                f"A row has {longest} tokens, but the batches are made for {batching.length}; "
                "encode and batch with the same data.length."
            )
        self.rows, self.batching, self.seed, self.pad, self.side = rows, batching, seed, pad, side
        self.epoch, self.batch = 0, 0

    def __iter__(self) -> Iterator[Batch]:
        plan = self.plan(self.epoch)
        while self.batch < len(plan):
            self.batch += 1  # before handing out: a state saved while working on it leads to the next
            yield self.load(plan, self.batch - 1)
        self.epoch, self.batch = self.epoch + 1, 0

    def __len__(self) -> int:
        """How many batches the current epoch has."""
        return len(self.plan(self.epoch))

    @property
    def epoch_tokens(self) -> int:
        """How many tokens an epoch has, targets included."""
        return sum(int(lengths.sum()) for lengths in self.rows.sizes)

    def waste(self, epoch: int = 0) -> float:
        """The share of places that padding takes over an epoch, targets included."""
        return self.plan(epoch).waste(*self.rows.sizes)

    def sizes(self, epoch: int = 0) -> tuple[Index, Index]:
        """The tokens of each batch of an epoch, and its places with padding, targets included."""
        return self.plan(epoch).sizes(*self.rows.sizes)

    def forever(self) -> Iterator[Batch]:
        while True:
            yield from self

    def take(self, wanted: bool) -> Batch | None:
        """The next batch, through the epochs; one that is not wanted is passed over unread."""
        if self.batch >= len(self):
            self.epoch, self.batch = self.epoch + 1, 0
        self.batch += 1
        return self.load(self.plan(self.epoch), self.batch - 1) if wanted else None

    def load(self, plan: Plan, number: int) -> Batch:
        from attnlab.data.batch import collate  # torch comes with it, which inspecting does not need

        places = plan.batch(number)
        return collate(self.rows, places, pad=self.pad, side=self.side, packed=self.batching.packs)

    def plan(self, epoch: int) -> Plan:
        """An epoch's batches: a pure function of the rows, the settings, the seed and the epoch."""
        key = json.dumps([self.batching.settings(), self.seed, epoch])
        if key not in self.rows.plans:
            while len(self.rows.plans) >= KEPT_PLANS:
                self.rows.plans.pop(next(iter(self.rows.plans)))
            self.rows.plans[key] = self.batching.plan(*self.rows.sizes, seed=self.seed, epoch=epoch)
        plan: Plan = self.rows.plans[key]
        return plan

    @functools.cached_property
    def fingerprint(self) -> str:
        """Equal for two loaders that give the same batches in the same order."""
        text = json.dumps([self.rows.fingerprint, self.batching.settings(), self.seed, self.pad, self.side])
        lengths = b"".join(column.tobytes() for column in self.rows.sizes)
        return hashlib.sha256(text.encode() + lengths).hexdigest()[:16]

    def state(self) -> dict[str, Any]:
        """The place in the data, as plain JSON."""
        return {"epoch": self.epoch, "batch": self.batch, "fingerprint": self.fingerprint}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved place; refused when the data or its order would be another."""
        if state["fingerprint"] != self.fingerprint:
            raise DataError(
                "The saved place belongs to other data, batching or seed "
                f"({state['fingerprint']}, here {self.fingerprint}); use the settings it was saved with."
            )
        self.epoch, self.batch = int(state["epoch"]), int(state["batch"])
