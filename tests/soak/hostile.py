"""What a person, a broken disk or an attacker could put in the place of a value or of some bytes."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

WHOLE = (-(2**63), -(10**6), -1, 0, 1, 2, 3, 4, 7, 8, 16, 24, 64, 1000, 10**6, 10**9)
WHOLE += (2**31, 2**32 + 1, 2**63 - 1, 2**63, 10**20, 10**400)
REAL = (float("nan"), float("inf"), float("-inf"), -0.5, -0.0, 1e-320, 1e-4, 0.1, 0.5, 0.999)
REAL += (1.0, 1.5, 1e12, 1e308)
TEXT = (
    "",
    " ",
    "x",
    "none",
    "true",
    "dot",
    "causal",
    "all",
    "../..",
    "/dev/null",
    "/dev/zero",
    "/proc/self/environ",
    "\x00",
    "\x1b[2J\x1b]0;title\x07",
    "\u202egnp.exe",
    "\ufeff",
    "\U0001f4a5" * 3,
    "<script>alert(1)</script>",
    "=1+1",
    "{{ 7 * 7 }}",
    "[bold red]",
    "%s%n",
    "a" * 5000,
    "(" * 400,
    "group(inner=" * 200 + "dot" + ")" * 200,
    "causal & " * 150 + "causal",
    "9" * 5000,
    "\ud800",
)
OTHER = (None, True, False, [], {}, [1], [[]], {"a": 1}, {"kind": "dot"}, {"kind": 5}, [None], ["x", 2])


def value(pick: Random) -> Any:
    """Any value that JSON and TOML can hold, more or less."""
    return copy.deepcopy(pick.choice(pick.choice((WHOLE, WHOLE, REAL, TEXT, OTHER))))


def nested(pick: Random) -> str:
    """Choices in each other, of any depth, as a person writes them."""
    depth = pick.choice((2, 3, 4, 5, 8, 15, 25, 60, 150, 300, 600, 2000))
    match pick.randrange(4):
        case 0:
            return "{kind='group',inner=" * depth + "'dot'" + "}" * depth
        case 1:
            kinds = [pick.choice(("group", "window", "group")) for _ in range(depth)]
            return "".join(f"{kind}(inner=" for kind in kinds) + "dot" + ")" * depth
        case 2:
            return f" {pick.choice('&|')} ".join(["causal"] * depth)
        case _:
            return pick.choice(("[" * depth + "]" * depth, "9" * depth, "{a=" * depth + "1" + "}" * depth))


def near(pick: Random, held: Any) -> Any:
    """Another value, often one of the same type."""
    if isinstance(held, bool) or pick.random() < 0.3:
        return value(pick)
    if isinstance(held, int):
        return pick.choice((*WHOLE, held + 1, held - 1, -held))
    if isinstance(held, float):
        return pick.choice((*REAL, -held, held * 1e6))
    if isinstance(held, str):
        return pick.choice((*TEXT, held + "x", held[:-1], held.upper()))
    return value(pick)


def places(held: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything inside a JSON value."""
    found = [path] if path else []
    items = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


def changed(pick: Random, held: Any, times: int = 1) -> Any:
    """A JSON value with fields of other values, missing, or added."""
    made = copy.deepcopy(held)
    for _ in range(times):
        found = places(made)
        if not found:
            return value(pick)
        *above, last = pick.choice(found)
        inner = made
        for key in above:
            inner = inner[key]
        match pick.randrange(5):
            case 0 if isinstance(inner, dict):
                del inner[last]
            case 1 if isinstance(inner, dict):
                inner[pick.choice(TEXT)] = value(pick)
            case 2 if isinstance(inner, list):
                inner.insert(last, value(pick))
            case _:
                inner[last] = near(pick, inner[last])
    return made


def as_text(held: Any) -> str:
    """JSON, lone surrogates and what is no number included."""
    return json.dumps(held)


def spoiled(pick: Random, content: bytes) -> bytes:
    """Bytes that were cut, flipped, doubled, taken out or written over."""
    content = bytearray(content)
    for _ in range(pick.choice((1, 1, 2, 5))):
        size = len(content)
        at, length = pick.randrange(size + 1), min(pick.choice((1, 1, 4, 40, 400)), size)
        match pick.randrange(8):
            case 0:
                del content[at:]
            case 1 | 2 if size:
                content[min(at, size - 1)] ^= 1 << pick.randrange(8)
            case 3:
                del content[at : at + length]
            case 4:
                content[at:at] = content[at : at + length]
            case 5:
                content[at : at + length] = pick.randbytes(length)
            case 6:
                content[at:at] = pick.choice(
                    (b"\x00", b"\xff\xfe", b"\n", b'"', b"{", b"[" * 300, b"\xed\xa0\x80")
                )
            case _:
                content[at : at + length] = pick.choice((b"", b"NaN", b"1e999", b"-1", b"null", b"9" * 5000))
    return bytes(content)
