"""How long a step should take on many devices: compute, bytes on the wire, and latency, each by a formula.

`python -m benchmarks.scale_model` prints the table of docs/scale.md. A device computes 6·N operations a token
for N parameters. To sum a tensor into parts, or to gather it, each of W devices sends (W−1)/W of it:
benchmarks/processes.py compares the bytes with those that processes really send.

- ddp: the gradient is summed and gathered once a step, while the last part's backward (2/3 of its time) runs;
  by trees, whose messages wait log₂ W times.
- fsdp: for each part of a step, weights are gathered twice and gradients summed into parts once; gathers of
  the next block run beside a block's own work, so that a part takes the longer of the two; by rings, whose
  messages wait W−1 times.
- fsdp(replicas=R): the same inside a machine of W/R devices; gradients of parts are summed between machines
  once a step, while the last part's backward runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

BUCKET = 25 * 2**20
"""Bytes of gradients that ddp sends at once."""


@dataclass(frozen=True)
class Wire:
    """What joins devices: bytes a second that each can send, and seconds that a message waits."""

    bandwidth: float
    latency: float

    def seconds(self, size: float, world: int, waits: float) -> float:
        """In which `size` bytes are summed into parts, or gathered from them, with so many waits."""
        return sent(size, world) / self.bandwidth + waits * self.latency


def sent(size: float, world: int) -> float:
    """Bytes that each of so many devices sends to sum `size` bytes into parts, or to gather them."""
    return (world - 1) / world * size


@dataclass(frozen=True)
class Model:
    """What is trained: its parameters, its blocks, and bytes of a number as it is sent."""

    name: str
    parameters: float
    blocks: int
    weight_bytes: int = 2
    gradient_bytes: int = 4


@dataclass(frozen=True)
class Machine:
    """Devices: operations a second that one reaches, how many share the fast wire, and bytes of memory."""

    rate: float
    devices: int
    inside: Wire
    between: Wire
    memory: float

    def wire(self, world: int) -> Wire:
        """What the slowest of so many devices in one ring are joined by."""
        return self.inside if world <= self.devices else self.between


def compute(model: Model, machine: Machine, tokens: float) -> float:
    """Seconds of a part with so many tokens on one device."""
    return 6 * model.parameters * tokens / machine.rate


def ddp(model: Model, machine: Machine, world: int, tokens: float, parts: int) -> float:
    """Seconds of a step in which each device takes `parts` parts."""
    size, part = model.gradient_bytes * model.parameters, compute(model, machine, tokens)
    waits = max(1.0, size / BUCKET) * math.log2(world)
    exchange = 2 * machine.wire(world).seconds(size, world, waits)
    return parts * part + max(0.0, exchange - 2 / 3 * part)


def fsdp(model: Model, machine: Machine, world: int, tokens: float, parts: int, replicas: int = 1) -> float:
    """The same where weights are spread over world / replicas devices."""
    group = world // replicas
    wire, waits = machine.wire(group), model.blocks * (group - 1)
    gathers = 2 * wire.seconds(model.weight_bytes * model.parameters, group, waits)
    sums = wire.seconds(model.gradient_bytes * model.parameters, group, waits)
    part = max(compute(model, machine, tokens), gathers + sums)
    own = model.gradient_bytes * model.parameters / group
    between = 2 * machine.between.seconds(own, replicas, model.blocks * math.log2(replicas))
    return parts * part + max(0.0, between - 2 / 3 * part)


def ddp_bytes(model: Model, world: int) -> float:
    """That each device sends a step."""
    return 2 * sent(model.gradient_bytes * model.parameters, world)


def fsdp_bytes(model: Model, world: int, parts: int, *, replicas: int = 1, sums: int = 1) -> float:
    """The same; `sums` is 2 where gradients are summed whole, and each device takes its part, as by gloo."""
    group, gradient = world // replicas, model.gradient_bytes * model.parameters
    gathered = 2 * sent(model.weight_bytes * model.parameters, group)
    return parts * (gathered + sums * sent(gradient, group)) + 2 * sent(gradient / group, replicas)


def held(model: Model, world: int = 1) -> float:
    """Bytes of weights, gradient and AdamW's two moments in float32, over so many devices."""
    return 16 * model.parameters / world


MODELS = (Model("124M", 124e6, 12), Model("1.3B", 1.3e9, 24), Model("7B", 6.7e9, 32))
GPUS = Machine(
    rate=400e12,
    devices=8,
    inside=Wire(bandwidth=300e9, latency=10e-6),
    between=Wire(bandwidth=40e9, latency=25e-6),
    memory=80e9,
)
TOKENS, PARTS, WORLDS = 16_384, 4, (8, 64, 512)


def shares(model: Model, world: int) -> dict[str, float | None]:
    """Of a step, the share that is compute, by strategy; None where the model does not fit."""
    least = PARTS * compute(model, GPUS, TOKENS)
    replicas = world // GPUS.devices
    room = GPUS.memory * 0.7  # the rest is for activations

    def share(seconds: float, spread: int) -> float | None:
        return least / seconds if held(model, spread) <= room else None

    return {
        "ddp": share(ddp(model, GPUS, world, TOKENS, PARTS), 1),
        "fsdp": share(fsdp(model, GPUS, world, TOKENS, PARTS), world),
        "fsdp(replicas)": share(fsdp(model, GPUS, world, TOKENS, PARTS, replicas), GPUS.devices),
    }


def table() -> str:
    """The shares for every model and number of devices, as Markdown."""
    lines = ["| model | GPUs | ddp | fsdp | fsdp, a replica a machine |", "|---|---|---|---|---|"]
    for model in MODELS:
        for world in WORLDS:
            cells = ["does not fit" if s is None else f"{s:.0%}" for s in shares(model, world).values()]
            lines.append(f"| {model.name} | {world} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
