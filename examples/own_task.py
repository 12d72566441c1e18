"""A task of your own: how many commas has a sentence? Its labels are made from the text itself.

A task says what a model reads and what it is to predict. Its baseline, metrics with intervals, checks and
predictions are then those of any task.
"""

import pydoc
from pathlib import Path

import attnlab as lab
from attnlab.tasks import TASKS
from attnlab.tasks.regression import Regression

STEPS = 400


class Commas(Regression):
    """Commas: a number for each text, the commas that it has.

    Formula: (s − y)², with y of mean 0 and deviation 1 over the training texts.
    """

    def label_of(self, example):
        return float(example.text.count(","))


TASKS.register("commas", Commas)

if __name__ == "__main__":
    text = Path("sentences.txt")
    if not text.exists():
        pages = [pydoc.plain(pydoc.render_doc(kind)) for kind in (str, list, dict, set, int, float, type)]
        lines = (" ".join(line.split()) for page in pages for line in page.splitlines())
        text.write_text("\n".join(dict.fromkeys(line for line in lines if len(line) > 20)))
    run = lab.train(
        "classifier-mini",
        set={
            "task": "commas",
            "data.corpus": {"kind": "files", "path": str(text), "unit": "line"},
            "training.budget": {"steps": STEPS},
            "model.width": 64,
        },
        out="runs/commas",
    )
    print(run.evaluate())
    print(run.predict(["one, two, three, four", "none at all"]))
