"""Train a small language model on a text of yours, see what it writes, and whether its numbers are real.

python train_on_your_text.py notes.txt
"""

import pydoc
import sys
from pathlib import Path

import attnlab as lab

STEPS = 400
TEXT = Path(sys.argv[1] if len(sys.argv) > 1 else "text.txt")

if not TEXT.exists():  # a text to begin with: the help of Python's own types
    TEXT.write_text("\n".join(pydoc.plain(pydoc.render_doc(kind)) for kind in (str, list, dict, set, int)))

run = lab.train(
    "mini-gpt",
    corpus=str(TEXT),
    set={
        "training.budget": {"steps": STEPS},
        "training.evaluate_every": STEPS // 2,
        "model.width": 64,
        "data.dev_share": 0.1,
    },
    out="runs/my-text",
)

print(run.generate("Return a"))
print(run.evaluate(probes=["Return a copy of the list."]))  # each number with its interval and definition
if run.unsound:
    print("Not sound:", ", ".join(run.unsound))
