"""Read the results of a study with pandas: a row a run, a row a comparison, and curves by step.

python results_with_pandas.py runs/attentions        # a study's folder; see compare_two_attentions.py
"""

import json
import sys
from pathlib import Path

import pandas as pd

STUDY = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/attentions")

runs = pd.read_csv(STUDY / "runs.csv")  # what report.html shows, unrounded
print(runs.groupby("arm")["loss"].agg(["mean", "std", "count"]))

comparisons = pd.read_csv(STUDY / "comparisons.csv")
print(comparisons[["arm", "baseline", "verdict", "difference", "low", "high"]].to_string(index=False))

results = json.loads((STUDY / "results.json").read_text())  # everything, as records
print(results["verdict"])

events = [
    {"arm": file.parts[-3], "seed": file.parts[-2], **json.loads(line)}
    for file in sorted(STUDY.glob("runs/*/*/metrics.jsonl"))
    for line in file.read_text().splitlines()
]
steps = pd.DataFrame([event for event in events if event["event"] == "stepped"])
print(steps.pivot_table(index="step", columns="arm", values="loss").tail())
