"""An attention rule of your own, held to the contracts of attnlab's parts, and then judged by a study.

The study's processes import this file by its name, so the rule stands in a module, not in a notebook.
"""

from pathlib import Path

import torch

import attnlab as lab
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.rule import Rule
from attnlab.testing import assert_contract

SEEDS, TOKENS = 5, 200_000


class Distance(Rule):
    """Distance: keys near the query in space get the weight.

    Formula: softmax(−rate·|q − k|²) V.
    """

    def __init__(self, masking="-inf", dropout=0.0, *, rate: float = 0.5):
        super().__init__(masking, dropout)
        self.rate = rate

    def scores(self, q, k):
        return -self.rate * torch.cdist(q, k).square()


if __name__ != "__main__":  # imported: by the lines below, and by the study's processes
    ATTENTION.register("distance", Distance)
else:
    import own_attention_rule

    assert_contract(own_attention_rule.Distance, rate=1.0)
    study = Path("distance.toml")
    study.write_text(f"""\
name = "distance"
question = "Is attention by distance as good as by dot products?"
imports = ["own_attention_rule"]
base = "mini-gpt"
seeds = {SEEDS}
budget = {{ tokens = {TOKENS} }}

[set]
model.width = 64

[arms.dot]

[arms.distance]
model.attention = "distance"
""")
    print(lab.study(study).run("runs/distance").outcome.verdict)
