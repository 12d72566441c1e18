"""Publish a study as one file, and repeat it from that file: elsewhere, by others, with the same numbers.

python publish_and_repeat.py runs/attentions       # a study's folder; see compare_two_attentions.py
"""

import sys
import zipfile
from pathlib import Path

import attnlab as lab
from attnlab.studies.publishing import publish

STUDY = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/attentions")

published = publish(STUDY, Path("study.zip"), with_data=True)  # data only where you may pass them on
print("In study.zip:", *zipfile.ZipFile("study.zip").namelist())
print("Named by their hashes alone:", *published.left_out)

again = lab.study("study.zip").run("runs/again")  # or: attnlab run study.zip
first = lab.study(STUDY).run(STUDY, resume=True)  # nothing is trained anew
for mine, theirs in zip(again.outcome.comparisons, first.outcome.comparisons, strict=True):
    print(f"{mine.arm}: {mine.difference:+.6f} again, {theirs.difference:+.6f} before")
