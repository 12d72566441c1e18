"""Look inside a pretrained model: where a head looks, and what the model says without it.

python look_inside.py              # MiniLM; or a run, or a folder in transformers' layout
"""

import sys

import torch

import attnlab as lab

MODEL = sys.argv[1] if len(sys.argv) > 1 else "minilm"
TEXT = "The animal did not cross the street because it was too tired."

trained = lab.open(MODEL)
maps = trained.attention(TEXT)  # every head of every layer; in a notebook a picture
for head in sorted(maps.heads, key=lambda head: -head.effect)[:5]:
    print(
        f"{head.name.heads}.{head.name.number}: {head.kind}; without it the output moves by {head.effect:.1%}"
    )

model, ids = trained.model, torch.tensor(trained.prompt(TEXT))[None]
with torch.no_grad(), lab.capture(model, "layers.*.attention.weights", "final") as seen:
    model.trunk(ids)
weights, before = seen["layers.0.attention.weights"][0], seen["final"]  # (H,T,S) and (1,T,D)
print("Layer 0: entropy of each head's weights, in nats")
print([round(float(-(head * head.clamp(min=1e-9).log()).sum(-1).mean()), 2) for head in weights])

changes = {}
for head in range(len(weights)):
    without = lab.patch(model, {f"layers.0.heads.{head}": 0.0})
    with torch.no_grad(), without, lab.capture(model, "final") as patched:
        model.trunk(ids)
    changes[head] = float((patched["final"] - before).norm() / before.norm())
most = max(changes, key=changes.get)
print(f"Without head {most} of layer 0 the output moves most: by {changes[most]:.1%} of its size")
