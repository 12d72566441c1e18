"""Freed memory goes back to the system where glibc would keep it."""

import subprocess
import sys

import pytest

KEPT = """
import sys
from pathlib import Path
import torch
from attnlab.training.machine import return_freed_memory

def resident():
    line = next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmRSS"))
    return int(line.split()[1]) >> 10

torch.ones(2 << 20)  # from here on blocks of this size come from the heap
freed = [torch.ones(1 << 18) for _ in range(200)]
in_use = freed[9::10]
before = resident()
del freed
kept = resident()
return_freed_memory()
print(before - kept, kept - resident())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_what_lies_between_blocks_in_use_is_given_back():
    done = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, check=True)
    freed, given_back = map(int, done.stdout.split())
    assert freed < 50 and given_back > 150, "of 200 MiB"
