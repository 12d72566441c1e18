"""Bits per byte of every task, encoding and batching, against decoded text and one row at a time."""

import json
import math
import random

import pytest
import torch
from tokenizers import processors

from attnlab.data.batching import BATCHING
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.evaluation.documents import document_losses
from attnlab.evaluation.evaluator import Evaluator
from attnlab.model.contracts.small_models import loosen
from tests.training import small_run
from tests.training.small_run import set_up

LENGTH = 12
TEXT = ("document", "document(long=cut)", "single", "single(cut=start)")
PAIR = ("pair", "pair(shorten=first, cut=start)", "pair(shorten=second)")
TARGET = ("prefix", "prefix(cut=start)")
CASES = [
    *(("causal", encoding) for encoding in (*TEXT, *PAIR, *TARGET)),
    *(("denoising", encoding) for encoding in TEXT),
    *(("seq2seq", encoding) for encoding in ("translation", "translation(cut=start)")),
]
KINDS = ("padded(batch_size=5)", "longest_first(batch_size=7)", "bucketed(tokens=96)", "packed(batch_size=4)")
FORMS = ("closed", "open")
"""Whether a start stands before each text, or its first token is text: GPT-2's form."""


def words(pick):
    return " ".join(
        pick.choices(("a", "of", "tree", "wind", "over,", "running.", " x"), k=pick.randint(1, 14))
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Texts of which most are longer than a row, alone, in pairs and with targets; and two tokenizers."""
    made, pick = tmp_path_factory.mktemp("bytes"), random.Random(0)
    for name in ("text", "pair", "target"):
        rows = [
            {"text": f"{n} {words(pick)}"} | ({} if name == "text" else {name: words(pick)})
            for n in range(60)
        ]
        (made / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pick = random.Random(1)
    closed = TOKENIZERS.build("bpe(vocabulary=300)").make(words(pick) for _ in range(300))
    closed.save(made / "closed.json")
    closed.inner.post_processor = processors.ByteLevel(trim_offsets=False)
    closed.save(made / "open.json")
    return made


def set_up_for(folder, task, encoding, form):
    kind = encoding.partition("(")[0]
    name = {"pair": "pair", "prefix": "target", "translation": "target"}.get(kind, "text")
    family = "decoder" if task == "causal" else "encoder_decoder"
    data = {
        "corpus": str(folder / f"{name}.jsonl"),
        "tokenizer": str(folder / f"{form}.json"),
        "dev_share": 0.5,
    }
    data |= {"encoding": encoding, "length": LENGTH, "batching": "padded(batch_size=5)"}
    model = {"length": LENGTH + 1, "family": family, "dropout": 0.0, "token_types": 2, "layers": 1}
    setup = set_up(small_run.config(folder, task=task, data=data, model=model))
    loosen(setup.model, seed=3)
    setup.model.double()
    return setup


def predicted(setup, row):
    """The ids that a row's model is to say, by what the task is said to predict."""
    rows, task = setup.dataset.rows("dev"), type(setup.task).__name__
    if task == "SequenceToSequence":
        return rows.ragged("target", row).tolist()[1:]
    ids = rows.ragged("ids", row).tolist()
    return ids if task == "Denoising" and ids[0] != setup.dataset.tokenizer.specials.start else ids[1:]


def bytes_of(setup, row):
    return len(setup.dataset.tokenizer.decode(predicted(setup, row)).encode())


def causal_nats(setup, row):
    rows = setup.dataset.rows("dev")
    ids = torch.tensor([rows.ragged("ids", row).tolist()])
    types = torch.tensor([rows.ragged("types", row).tolist()]) if rows.has("types") else None
    with torch.no_grad():
        logits = setup.model.head(setup.model.eval().trunk(ids, types=types))[0, :-1]
    return float(torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("task", "encoding"), CASES)
def test_bits_per_byte_are_those_of_the_decoded_text(folder, double, task, encoding, form):
    setup = set_up_for(folder, task, encoding, form)
    rows = setup.dataset.rows("dev")
    sizes = [bytes_of(setup, row) for row in range(len(rows))]
    targets = sum(len(predicted(setup, row)) for row in range(len(rows)))
    nats = sum(causal_nats(setup, row) for row in range(len(rows))) if task == "causal" else None
    assert setup.dataset.cuts["dev"].cut > 10 or encoding == "document"
    for batching in KINDS if setup.task.packs and not rows.has("target") else KINDS[:3]:
        for side in ("right", "left"):
            loader = setup.dataset.loader("dev", seed=4, batching=BATCHING.build(batching, length=LENGTH))
            loader.side = side
            evaluator = Evaluator(model=setup.model, task=setup.task, loader=loader, seed=9)
            whole, each = evaluator(), document_losses(evaluator)
            paid = whole.loss * targets if nats is None else nats
            bits = pytest.approx(paid / math.log(2) / sum(sizes), rel=1e-9)
            assert whole.scores["targets"] == targets == each.targets.sum()
            assert whole.scores["bits_per_byte"] == bits and each.bits_per_byte == bits
            texts = rows.scalars("example")
            assert each.bytes.tolist() == [
                sum(size for size, text in zip(sizes, texts, strict=True) if text == number)
                for number in range(len(each))
            ]
