"""The bytes of a text file, unpacked where it is packed, and never more of them at once than memory holds."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import IO, Any

from attnlab.config.memory import machine_bytes
from attnlab.data.errors import DataError

CHUNK = 1 << 20
SHARE = 4
"""A line is held about so many times while it is read: its bytes, its characters, and a row of them."""


def opened(file: Path) -> IO[bytes]:
    if file.exists() and not file.is_file():  # without an end, or without a beginning to go back to
        raise DataError(
            f"{file} is a folder, pipe or device; give a file, or write what comes out of it to one."
        )
    return gzip.open(file) if file.suffix.lower() == ".gz" else file.open("rb")  # type: ignore[return-value]


def bounded(file: Path, stream: IO[bytes], *, whole: bool = False) -> io.BufferedReader:
    """The same bytes, refused where a line of them, or the `whole`, is more than memory can hold: a few
    megabytes of gzip may be many gigabytes of one line."""
    return io.BufferedReader(Bounded(file, stream, machine_bytes() // SHARE, whole=whole), CHUNK)


class Bounded(io.RawIOBase):
    def __init__(self, file: Path, stream: IO[bytes], most: int, *, whole: bool):
        self.file, self.stream, self.most, self.whole = file, stream, most, whole
        self.held = 0
        """Bytes since the last end of a line."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self.stream.read(len(buffer))
        buffer[: len(read)] = read
        end = -1 if self.whole else max(read.rfind(b"\n"), read.rfind(b"\r"))
        self.held = self.held + len(read) if end < 0 else len(read) - end - 1
        if self.most and self.held > self.most:
            what = "is" if self.whole else "has a line of"
            raise DataError(
                f"{self.file} {what} more than {self.most / 2**30:,.1f} GiB, too much for this machine's "
                f"memory; divide it{'' if self.whole else ', with fewer words to a line'}."
            )
        return len(read)
