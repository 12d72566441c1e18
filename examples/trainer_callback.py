"""transformers' Trainer with attnlab's checks: before the first step, at every evaluation and at the end.

What fails is warned of, and stands in checks.json of the output folder; `Soundness(stop=True)` ends training.
"""

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from attnlab.interop.transformers import Soundness
from attnlab.runs.findings import Findings, read_findings

STEPS, OUT = 60, "trainer-out"


class Rows(torch.utils.data.Dataset):
    """Rows of random tokens; the label is whether there are more small than large ones."""

    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, 100, (count, 16), generator=generator)
        self.labels = ((self.ids < 50).float().mean(1) > 0.5).long()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, n):
        return {"input_ids": self.ids[n], "labels": self.labels[n]}


if __name__ == "__main__":
    from pathlib import Path

    sizes = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = BertForSequenceClassification(BertConfig(**sizes, intermediate_size=64, num_labels=2))
    arguments = TrainingArguments(
        OUT,
        max_steps=STEPS,
        per_device_train_batch_size=32,
        learning_rate=1e-3,
        eval_strategy="steps",
        eval_steps=STEPS // 2,
        report_to=[],
    )
    data = {"train_dataset": Rows(2000, seed=0), "eval_dataset": Rows(200, seed=1)}
    Trainer(model, arguments, callbacks=[Soundness()], **data).train()
    print(Findings(read_findings(Path(OUT))))
