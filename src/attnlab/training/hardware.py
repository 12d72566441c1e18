"""What a run is computed by: which processor and accelerator, on which machine."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch

from attnlab.runs.record import MachineKind


def hardware(device: torch.device) -> MachineKind:
    accelerator = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    accelerator = accelerator or (device.type if device.type != "cpu" else "")
    return {"node": platform.node(), "processor": processor(), "accelerator": accelerator}


def processor() -> str:
    """Its name as its maker has it, where the system tells; else its kind, such as x86_64."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def and_this(machines: Sequence[MachineKind], device: torch.device) -> list[MachineKind]:
    """The machines that a run was computed by, with this one: of one that is resumed, it may be another."""
    here = hardware(device)
    return [*machines] if here in machines else [*machines, here]
