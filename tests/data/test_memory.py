"""Memory stays flat however large a file is, and tokenising it does not load torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a process's own peak is read from /proc")

MEGABYTE = 1 << 20
SIZES = (5, 15)
ALLOWED = 20
"""Megabytes of noise; what 10 MB more of text come to as lists of ids is several times that."""

WORK = """
import json, sys
from pathlib import Path
from attnlab.config.files import section_of
from attnlab.data.dataset import Dataset
from attnlab.data.tokenizers import word_cache as words

words.MOST_CHARACTERS = 1 << 16  # reached by both files

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024

tokenizer, *files = sys.argv[1:]
peaks = []
for file in files:
    settings = {"corpus": file, "tokenizer": tokenizer, "dev_share": 0.0, "test_share": 0.0}
    rows = Dataset(section_of("data", settings), cache=CACHE).rows("train")
    peaks.append(peak())
print(json.dumps({"peaks": peaks, "torch": "torch" in sys.modules, "rows": len(rows)}))
"""


def write(file: Path, size: int) -> None:
    """Paragraphs of words that come again, and of numbers that never do."""
    words = "of the many words that a text repeats, and of those that it does not, " * 4
    with file.open("w") as stream:
        number = 0
        while stream.tell() < size:
            numbers = range(number, number + 1000)
            stream.writelines(f"{n} {words}{n * 7919 % 9_999_991}.\n\n" for n in numbers)
            number += 1000


def peaks_of(tmp_path: Path, cache: str) -> dict[str, object]:
    from attnlab.data.tokenizers import TOKENIZERS

    files = [tmp_path / "small.txt", tmp_path / "large.txt"]
    for file, size in zip(files, SIZES, strict=True):
        write(file, size * MEGABYTE)
    texts = ["of the many words that a text repeats, and of those it does not. 0123456789"] * 9
    tokenizer = TOKENIZERS.build("bpe(vocabulary=400)").make(texts).save(tmp_path)
    command = [sys.executable, "-c", WORK.replace("CACHE", cache), str(tokenizer), *map(str, files)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    found = peaks_of(tmp_path, f"Path({str(tmp_path)!r})")
    small, large = found["peaks"]
    assert large - small < ALLOWED, f"peaks of {small:.0f} and {large:.0f} MB for {SIZES} MB of text"
    assert small < 200 and not found["torch"]


@pytest.mark.slow
def test_the_measure_notices_rows_that_are_held(tmp_path: Path) -> None:
    small, large = peaks_of(tmp_path, "None")["peaks"]
    assert large - small > 2 * ALLOWED
