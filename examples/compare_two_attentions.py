"""Is additive attention better than dot products? Two arms, five seeds, one verdict with its interval.

Everything but the attention is the same: data and order, the initial weights that both have, the budget.
"""

from pathlib import Path

import attnlab as lab

SEEDS, TOKENS = 5, 200_000

Path("attentions.toml").write_text(f"""\
name = "attentions"
question = "Is additive attention better than dot products?"
hypothesis = "Additive attention is slower and not better."
base = "mini-gpt"
seeds = {SEEDS}
budget = {{ tokens = {TOKENS} }}

[set]
model.width = 64
data.corpus = {{ kind = "python_docs", unit = "sentence" }}     # or a file of yours

[arms.dot]

[arms.additive]
model.attention = "additive"
""")

ended = lab.study("attentions.toml").run("runs/attentions", resume=Path("runs/attentions").exists())
print(ended.outcome.verdict)
for comparison in ended.outcome.comparisons:
    print(f"{comparison.arm}: {comparison.difference:+.4f} ({comparison.low:+.4f} to {comparison.high:+.4f})")
ended.report("attentions.html")
