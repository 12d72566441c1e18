"""The folders of runs and studies below the served one."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from attnlab.runs.record import RECORD
from attnlab.runs.summary import STUDY_FILE
from attnlab.web.addresses import address_of

DEEPEST = 8
"""Folders inside each other that are looked through."""
LEFT_OUT = ("checkpoints", "cache")
SETTLED = 2_000_000_000
"""Nanoseconds after which a folder's time is sure to tell it from how it was before."""


@dataclass(frozen=True)
class ListedFolder:
    """What a folder held when it was listed: whether it is a run's or a study's, and the folders in it."""

    time: int
    kind: str
    inside: tuple[str, ...]
    address: str
    place: Path


class Folders:
    """The folders below a root. One is listed anew where its time says that something came or went."""

    def __init__(self, root: Path):
        self.root = root
        self._known: dict[str, ListedFolder] = {}

    def found(self) -> dict[str, tuple[Path, bool]]:
        """Every run and study: its folder by its address, and whether it is a study. Links between folders
        are not followed."""
        found: dict[str, tuple[Path, bool]] = {}
        seen: dict[str, ListedFolder] = {}
        waiting = [(str(self.root), 0)]
        while waiting:
            folder, depth = waiting.pop()
            listed = self._listed(folder)
            if listed is None:
                continue
            seen[folder] = listed
            if listed.kind and depth:
                found[listed.address] = listed.place, listed.kind == STUDY_FILE
            if listed.kind != RECORD and depth < DEEPEST:
                waiting += [(f"{folder}/{name}", depth + 1) for name in reversed(listed.inside)]
        self._known = seen
        return found

    def _listed(self, folder: str) -> ListedFolder | None:
        try:
            changed = os.stat(folder).st_ctime_ns  # which no copy sets back, as it may the time of change
            known = self._known.get(folder)
            if known is not None and known.time == changed:
                return known
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            return None
        names = {entry.name for entry in listed}
        kind = STUDY_FILE if STUDY_FILE in names else RECORD if RECORD in names else ""
        inside = [
            entry.name
            for entry in listed
            if entry.name not in LEFT_OUT and not entry.name.startswith(".") and _is_folder(entry)
        ]
        # a clock has ticks: what comes in the same one is not seen
        settled = changed if time.time_ns() - changed > SETTLED else 0
        place = Path(folder)
        further = () if kind == RECORD else tuple(inside)
        return ListedFolder(settled, kind, further, address_of(self.root, place), place)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder that can have an address: a name that is not UTF-8 has none."""
    try:
        entry.name.encode()
        return entry.is_dir(follow_symlinks=False)
    except (OSError, UnicodeEncodeError):
        return False
