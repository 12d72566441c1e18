"""One model over several processes: one file a strategy, one line here.

The loop knows a strategy and never torch.distributed. How to ask what processes really did:

- `strategy.processes` (rank, world, hosts, `gather(value)` by rank, `meet()`).
- Weights by process: `processes.gather(weight_hashes(loop.strategy.weights(loop.model)))` (trace.py);
  under ddp all are equal, under fsdp each process has its part of a tensor.
- Rows, targets and tokens of each part of the last step, in the order of parts and by rank: `loop.parts`, a
  tuple of `PartFacts` that is the same in every process.
- Steps taken: `loop.state.step`, by `gather`.
- A step's gradient against one process: the check `replayed_step` replays the first step of a process, and a
  late one, on the plain model with all parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnlab.config.registry import Registry
from attnlab.config.values import Choice

if TYPE_CHECKING:
    from attnlab.training.strategies.processes import Processes
    from attnlab.training.strategies.strategy import Strategy

STRATEGIES: Registry[Strategy] = Registry(
    "strategies",
    base="attnlab.training.strategies.strategy:Strategy",
    default="ddp",
    variants={
        "one": "attnlab.training.strategies.strategy:One",
        "ddp": "attnlab.training.strategies.ddp:DDP",
        "fsdp": "attnlab.training.strategies.fsdp:FSDP",
    },
)


def strategy_of(choice: Choice, processes: Processes) -> Strategy:
    """The strategy of a run: with one process there is nothing to share, whatever its config says."""
    chosen = choice if processes.world > 1 else Choice("one")
    return STRATEGIES.build(chosen, processes=processes)
