"""`make demo`: a study on real text, of one famous mistake, from its question to its report.

Two models that differ in one setting learn Python's own documentation. One forbids the future
before the softmax (−inf), the other after it (zero): its loss is lower, and it is not real.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from rich.panel import Panel

from attnlab.cli.console import err, out
from attnlab.cli.run import show
from attnlab.documents.nodes import strong
from attnlab.studies.live_view import live
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import default_folder, run_study
from attnlab.studies.study_files import adjusted, load_study

ACTIVATE = Path(sys.prefix) / "bin" / "activate"
NEXT = (
    f"source {shlex.quote(os.path.relpath(ACTIVATE))}",
    "attnlab list studies",
    "attnlab show masking",
    "attnlab explain counts gpt2",
    "attnlab train mini-gpt --out runs/first",
    'attnlab generate runs/first "Return a"',
)


def main() -> None:
    study = adjusted(load_study("masking"), quick=True)
    out.print(
        Panel(
            f"{study.question}\n\nTwo language models learn Python's own documentation, with "
            f"{len(study.all_seeds)} seeds each: a few minutes.\nStop with Ctrl-C; make demo continues it."
        )
    )
    resolved = resolve(study)
    with live(err) as view:
        ended = run_study(
            resolved, default_folder(resolved), resume=True, view=view, again="attnlab run masking --quick"
        )
    show(ended)
    out.print("\nNext, to paste (the first line puts `attnlab` on the path):\n")
    for line in NEXT:
        out.say(strong(f"  {line}"))


if __name__ == "__main__":
    main()
