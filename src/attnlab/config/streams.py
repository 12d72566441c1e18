"""Named random streams: every random number is a function of (seed, names), of nothing before it.

So arms of a study share what they have in common, evaluation never disturbs training, and a
run's place in its randomness is its step, with no generator state to save.
"""

from __future__ import annotations

import hashlib


def stream_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed for the stream with these names: `stream_seed(0, "init", "decoder.blocks.0")`."""
    text = "\x1f".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
