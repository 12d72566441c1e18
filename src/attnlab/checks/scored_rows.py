"""Which rows a score is of, by their content: those that were trained on, or that something was chosen by?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from attnlab.data.dataset import Dataset
from attnlab.data.example import Example
from attnlab.runs.findings import Finding, Outcome
from attnlab.runs.typed import Value

MANY = 0.01
"""The share of scored rows from which on it is said that they are others, too."""
LARGEST = 32 << 20
"""Bytes of text beyond which it is not hashed again."""


def identify(
    texts: Iterable[Example], dataset: Dataset | None, *, split: str | None, chosen: Sequence[str]
) -> Finding:
    """Whether rows that were scored, as a split of this name or as a file (None), were trained on, or are
    those of dev, by which this was `chosen`: the step, the threshold, the learning rate."""
    about = {"check": "scored_rows", "when": "evaluation"}
    if dataset is None or (dataset.corpus.size or 0) > LARGEST:
        return Finding(outcome=Outcome.NOT_APPLICABLE, kind="unknown_rows", **about)  # type: ignore[arg-type]
    own_keys = None if split is None else keys_in(dataset, split)
    scored = own_keys or [key for example in texts for key in keys_of(example)]
    known = {name: keys_in(dataset, name) for name in dataset.splits.names if name in ("train", "dev")}
    shares = {name: sum(key in keys for key in scored) / max(1, len(scored)) for name, keys in known.items()}
    own = {"train": ("train",), "dev": ("dev",)}.get(split or "", ())
    values: dict[str, Value] = {"n": len(scored), "chosen": list(chosen), "split": split or ""}
    values |= {"train": shares.get("train", 0.0), "dev": shares.get("dev", 0.0)}
    outcome = Outcome.WARN
    if split != "train" and shares.get("train", 0.0) >= MANY:
        kind = "trained_on"
    elif not own and shares.get("dev", 0.0) >= MANY:
        kind = "chosen_on"
    else:
        outcome = Outcome.PASS
        kind = {"train": "train_by_name", "dev": "dev_by_name"}.get(split or "", "apart")
    number = max((share for name, share in shares.items() if name not in own), default=0.0)
    return Finding(outcome=outcome, kind=kind, values=values, number=number, **about)  # type: ignore[arg-type]


def keys_in(dataset: Dataset, split: str) -> frozenset[str]:
    """The content of all rows of a split, hashed once and kept."""

    def made() -> list[str]:
        return sorted({key for example in dataset.examples(split) for key in keys_of(example)})

    return frozenset(dataset.kept(f"content-{split}", made))


def keys_of(example: Example) -> list[str]:
    """A hash of what is read of an example; of plain text one of each line, since texts may be cut
    elsewhere."""
    if example.pair is not None or example.label is not None or example.target is not None:
        return [hashed(example.text, example.pair or "", example.target or "")]
    return [hashed(line) for line in example.text.splitlines() if line.strip()]


def hashed(*parts: str) -> str:
    text = "\x1f".join(" ".join(part.split()) for part in parts)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
