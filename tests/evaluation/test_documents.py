"""The loss text by text: told apart and put together again, whatever shared a batch."""

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from safetensors.numpy import save

from attnlab.data.batching import BATCHING
from attnlab.data.columns import Row
from attnlab.data.loader import Loader
from attnlab.data.rows import in_memory
from attnlab.evaluation.documents import document_losses
from attnlab.evaluation.evaluator import Evaluator
from attnlab.evaluation.spread import influences_of
from attnlab.evaluation.statistics import loss_interval
from attnlab.metrics import METRICS
from attnlab.model.contracts.small_models import loosen
from attnlab.model.losses import LossSum
from attnlab.model.model import hidden_states
from attnlab.studies.run_measures import columns_of, read_documents
from attnlab.tasks import TASKS
from attnlab.training.machine import autocast_of
from tests.training.small_run import config, for_task, merged, set_up

CPU = torch.device("cpu")
SHORT = {"data": {"length": 8}, "model": {"length": 8}}  # texts of up to 11 tokens: many are cut over rows
KINDS = ["packed(batch_size=4)", "bucketed(tokens=96)", "padded(batch_size=5)", "longest_first(batch_size=7)"]


def made(folder, task="causal", **changes):
    """The parts of a small run, with weights that say something."""
    setup = set_up(config(folder, **merged(for_task(task, folder), changes)))
    loosen(setup.model, seed=3)
    return setup


def evaluator(setup, loader, *, seed=0, autocast=nullcontext):
    chosen = {"model": setup.model, "task": setup.task, "loader": loader}
    return Evaluator(**chosen, seed=seed, autocast=autocast)


def losses(setup, loader, **chosen):
    return document_losses(evaluator(setup, loader, **chosen))


@pytest.mark.parametrize("task", TASKS)
def test_texts_add_up_to_the_whole(tmp_path, task):
    setup = made(tmp_path, task, model={"layers": 1})
    for batching in KINDS if setup.task.packs else KINDS[1:]:
        for precision in ("float32", "bfloat16"):
            length = setup.config.data.length
            adds_up(setup, BATCHING.build(batching, length=length), autocast_of(precision, CPU))
    assert setup.model.training


def adds_up(setup, batching, autocast):
    loader = setup.dataset.loader("dev", seed=4, batching=batching)
    whole = evaluator(setup, loader, seed=9, autocast=autocast)()
    each = losses(setup, loader, seed=9, autocast=autocast)
    assert len(each) == len(list(setup.dataset.splits.read("dev"))) > 30
    assert each.targets.sum() == whole.scores["targets"]
    assert each.loss == pytest.approx(whole.loss, rel=1e-6)
    for name in setup.task.metrics:
        metric = METRICS.build(name)
        if name in whole.scores:
            assert metric.value(each.examples) == pytest.approx(whole.scores[name], rel=1e-5), name
        else:
            assert name == "loss" or not metric.applies(each.examples), name
    if "bits_per_byte" in whole.scores:
        assert each.bits_per_byte == pytest.approx(whole.scores["bits_per_byte"], rel=1e-6)
    else:
        assert each.bytes.sum() == 0 and np.isnan(each.bits_per_byte)


@pytest.mark.parametrize("batching", KINDS)
def test_every_text_is_scored_as_if_alone(tmp_path, batching, double):
    """Against the slow way: the rows of each text one by one, in a batch of their own."""
    setup = made(tmp_path, **SHORT)
    setup.model.double()
    rows = setup.dataset.rows("dev")
    loader = setup.dataset.loader("dev", seed=1, batching=BATCHING.build(batching, length=8))
    found = losses(setup, loader)
    texts = list(setup.dataset.splits.read("dev"))
    assert len(rows) > len(texts) == len(found)
    for number in range(len(texts)):
        nats = targets = 0
        predicted = list[int]()
        for row in np.flatnonzero(rows.scalars("example") == number):
            ids = torch.tensor([rows.ragged("ids", row).tolist()])
            with torch.no_grad():
                p = setup.model.eval()(ids).log_softmax(-1)[0, :-1]
            nats -= float(p.gather(1, ids[0, 1:, None]).sum())
            targets += ids.shape[1] - 1
            predicted += ids[0, 1:].tolist()
        assert found.targets[number] == targets
        assert found.nats[number] == pytest.approx(nats, abs=1e-9)
        assert found.bytes[number] == spoken_bytes(setup.dataset.tokenizer, predicted, texts[number].text)


def spoken_bytes(tokenizer, predicted, text):
    """Of these words and of the one space before each but the text's first."""
    words = [tokenizer.token(i) for i in predicted if i not in tokenizer.special_ids]
    return sum(len(word.encode()) + 1 for word in words) - (words[0] == text.split()[0])


@pytest.mark.parametrize("task", ["masked", "span"])
def test_hidden_words_count_to_their_own_text(tmp_path, task):
    """Texts of one word each, and a loss that is the word's own number: it says whose it is."""
    setup = made(tmp_path, task)
    vocabulary, special = setup.dataset.tokenizer.size, 6
    texts = [[special + n] * 7 for n in range(10)]
    rows = in_memory([Row(ids, n, [1] * 7) for n, ids in enumerate(texts)], vocabulary=vocabulary)
    loader = Loader(rows, BATCHING.build("packed(batch_size=2)", length=24), seed=0, pad=0)
    told = setup.task.head_loss

    def by_target(head, hidden, prepared, *, training):
        whole = told(head, hidden, prepared, training=training)
        return LossSum(whole.total, whole.count, each=prepared.targets[prepared.targets >= 0].double())

    setup.task.head_loss = by_target
    found = losses(setup, loader)
    assert found.targets.sum() > 0
    assert found.nats.tolist() == [(special + n) * int(found.targets[n]) for n in range(10)]


def test_the_boundary_part_counts_to_its_own_place(tmp_path, double):
    """Spans are drawn in any order; each target's two parts must meet again."""
    setup = made(tmp_path, "span")
    model = setup.model.double().eval()
    loader = setup.dataset.loader("dev", seed=0)
    prepared = setup.task.prepare(loader.load(loader.plan(0), 0), 5)
    s = prepared.spans
    assert not torch.equal(s.row * 1000 + s.place, (s.row * 1000 + s.place).sort().values)
    with torch.no_grad():
        hidden = model(**prepared.inputs, objective=hidden_states)
        each = setup.task.loss(model, prepared).each
        head = model.head
        inside = -head(hidden).log_softmax(-1)
        guess = head.boundary(hidden, s.row, s.start, s.end, s.place)
        outside = -(guess @ head.table.weight.T).log_softmax(-1)
    of_place = {(int(r), int(p)): n for n, (r, p) in enumerate(zip(s.row, s.place, strict=True))}
    places = (prepared.targets >= 0).nonzero().tolist()
    assert len(places) == len(each) == len(of_place)
    for number, (row, place) in enumerate(places):
        target = prepared.targets[row, place]
        wanted = inside[row, place, target] + outside[of_place[row, place], target]
        assert float(each[number]) == pytest.approx(float(wanted))


def test_perplexity_is_of_the_hidden_words_alone(tmp_path):
    """Not of the sum of two losses, in training's evaluation, in the intervals and in what a study keeps."""
    setup = made(tmp_path, "span")
    loader = setup.dataset.loader("dev", seed=0)
    whole = evaluator(setup, loader)()
    masked, boundary = whole.scores["masked"], whole.scores["boundary"]
    assert whole.loss == pytest.approx(masked + boundary)
    assert whole.scores["perplexity"] == pytest.approx(math.exp(masked))
    each = losses(setup, loader)
    assert each.loss == pytest.approx(whole.loss) and each.perplexity == pytest.approx(math.exp(masked))
    found = loss_interval(each, "perplexity")
    assert found.low < each.perplexity < found.high < math.exp(whole.loss)
    (tmp_path / "kept").write_bytes(save(columns_of(each)))
    kept = read_documents(tmp_path / "kept")
    assert kept.perplexity == each.perplexity and kept.loss == each.loss
    assert np.allclose(*influences_of([kept, each.of_words], "perplexity"))


def test_an_task_that_tells_no_more_than_its_sum_is_refused(tmp_path):
    setup = made(tmp_path)
    setup.task.head_loss = lambda *_, **__: LossSum(torch.tensor(1.0), torch.tensor(1))
    with pytest.raises(ValueError, match=r"Causal gives its loss as a whole only.*LossSum\.each"):
        losses(setup, setup.dataset.loader("dev", seed=0))
