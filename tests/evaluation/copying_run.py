"""The config of a run that learns to write its source again, and whose texts are scored."""

import json

from tests.training.small_run import for_task, merged, settings

STEPS = 120
PREFIXED = {
    "task": "prefix",
    "data": {"encoding": "prefix"},
    "model": {"family": "decoder", "mask": "prefix"},
}
"""The changes that make it a decoder alone, which reads a source and writes its target in the same row."""


def copying(folder, **training):
    """Sentences are written again, word by word: the pairs of the small run, the right way round."""
    given = merged(settings(folder), for_task("seq2seq", folder))
    lines = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
    same = "".join(json.dumps({"text": one["text"], "target": one["text"]}) + "\n" for one in lines)
    (folder / "same.jsonl").write_text(same)
    given["data"]["corpus"] = str(folder / "same.jsonl")
    given["training"] |= {
        "budget": {"steps": STEPS},
        "evaluate_every": 60,
        "generate_every": 120,
        "generate_examples": 8,
        "optimizer": {"kind": "adamw", "learning_rate": 1e-2},
    }
    return merged(given, {"training": training})
