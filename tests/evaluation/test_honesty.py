"""Parallel and token-by-token loss: equal for a sound model at every token, for every kind of prediction."""

import pytest
import torch

import attnlab as lab
from attnlab.checks.wording.of_scores import honest_meaning
from attnlab.data.columns import Row
from attnlab.data.rows import in_memory
from attnlab.evaluation.honesty import honesty, thinned
from attnlab.evaluation.texts import Text, nats_alone, nats_token_by_token
from attnlab.model.contracts.small_models import loosen
from attnlab.model.losses import IGNORE
from attnlab.tasks import TASKS
from attnlab.tasks.vocabulary import Vocabulary

ROWS = [[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8], [1, 4, 1, 4, 2, 1]]
CAUSAL = TASKS.build("causal", vocabulary=Vocabulary.draft(23))


def small(**settings):
    model = lab.decoder(vocabulary=23, width=16, heads=4, layers=2, length=40, **settings)
    loosen(model, seed=5)
    return model.eval()


def text(ids):
    ids = torch.tensor(ids)
    targets = torch.cat([ids[1:], torch.tensor([IGNORE])])
    return Text(0, 0, torch.arange(len(ids)), ids, targets)


TEXTS = [text(row) for row in ROWS]

ARMS = [
    (attention, positions)
    for attention in ("dot", "additive", "argmax", "linear", "group", "window(size=3)")
    for positions in ("sinusoidal", "learned", "relative", "rotary", "alibi")
    if not (attention == "linear" and positions in ("relative", "alibi"))
]


@pytest.mark.parametrize(("attention", "positions"), ARMS)
def test_both_losses_agree_for_a_sound_model(attention, positions):
    found = honesty(small(attention=attention, positions=positions), CAUSAL, TEXTS)
    assert found.sound and found.largest < 1e-12
    assert found.parallel.tokens == found.token_by_token.tokens == sum(len(r) - 1 for r in ROWS)
    assert found.texts == 3


@pytest.mark.parametrize("attention", ["dot", "additive", "linear"])
def test_zero_masking_is_found(attention):
    found = honesty(small(attention=attention, masking="zero"), CAUSAL, TEXTS)
    assert not found.sound and abs(found.difference) > 0.01
    low, high = found.interval
    assert low < found.difference < high


def test_each_text_has_both_of_its_losses():
    model = small(attention="dot", masking="zero")
    found = honesty(model, CAUSAL, TEXTS)
    exact = model.double().eval()
    for text, (parallel, alone) in zip(TEXTS, found.by_text, strict=True):
        cuts = [(text, int(place), int(place) + 1) for place in text.asked]
        assert parallel == pytest.approx(float(nats_alone(exact, text).mean()))
        assert alone == pytest.approx(float(nats_token_by_token(exact, cuts).mean()))
    assert any(abs(parallel - alone) > 0.01 for parallel, alone in found.by_text)


def test_differences_that_cancel_are_found():
    """A leak that helps one token and hurts the next: the means agree, the tokens do not."""
    model = small().double()
    one = TEXTS[0]
    cut = nats_token_by_token(model, [(one, place, place + 1) for place in range(7)])

    class Swapped(torch.nn.Module):
        """Scores that are right for the text as a whole only: two places change theirs."""

        def __init__(self, head):
            super().__init__()
            self.head = head

        def forward(self, hidden, tokens=None):
            scores = self.head(hidden, tokens)
            if tokens is not None and tokens.length == 8 and scores.shape[-2] == 7:
                scores = scores.clone()
                for place, change in ((2, 0.5), (4, -0.5)):
                    target = int(one.targets[place])
                    p = scores[0, place].softmax(-1)[target]
                    wanted = (-p.log() + change).neg().exp()
                    shift = (wanted / (1 - wanted)).log() - (p / (1 - p)).log()
                    scores[0, place, target] += shift
            return scores

    model.head = Swapped(model.head)
    whole = nats_alone(model, one)
    assert float((whole - cut).sum()) == pytest.approx(0, abs=1e-9)
    found = honesty(model, CAUSAL, [one])
    assert abs(found.difference) < 1e-9 and found.largest == pytest.approx(0.5)
    assert not found.sound and "single tokens differ" in honest_meaning(found.values)


@torch.no_grad()
def test_nothing_later_is_read():
    """Each loss equals the one written out for the text that is cut right before its target."""
    model = small().double()
    for one in TEXTS:
        for place in range(len(one.ids) - 1):
            logs = model(one.ids[None, : place + 1])[0, -1].log_softmax(-1)
            found = nats_token_by_token(model, [(one, place, place + 1)])
            assert float(found) == pytest.approx(-float(logs[one.targets[place]]))


def test_long_texts_are_thinned_evenly():
    cuts = [[(None, place, place + 1) for place in range(100)] for _ in range(4)]
    some = thinned(cuts, 2000)
    assert all(8 <= len(one) <= 11 for one in some) and some[0] != some[1]
    assert 1000 < sum(end for one in some for _, _, end in one) < 3000
    assert thinned(cuts, 10**9) == cuts and thinned([[]], 5) == []


def test_a_batch_of_other_tokens_than_its_rows_is_misread():
    import numpy as np

    from attnlab.data.batch import collate
    from attnlab.evaluation.texts import MisreadError, texts_of

    rows = in_memory([Row(ids, n, [1] * len(ids)) for n, ids in enumerate(ROWS)], vocabulary=23)
    batch = collate(rows, [np.array([0, 1]), np.array([2])], pad=0, packed=True)
    texts = texts_of(batch, CAUSAL.prepare(batch, 0), rows)
    assert [one.ids.tolist() for one in texts] == ROWS and [one.row for one in texts] == [0, 1, 2]
    wrong = batch.changed(ids=batch.ids.flip(1))
    with pytest.raises(MisreadError, match="other tokens than row 0"):
        texts_of(wrong, CAUSAL.prepare(wrong, 0), rows)
    marks = batch.changed(document=torch.ones_like(batch.ids))  # a mark that joins texts parts none here
    assert [one.ids.tolist() for one in texts_of(marks, CAUSAL.prepare(marks, 0), rows)] == ROWS
