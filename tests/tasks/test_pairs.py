"""Every task's (input, target) pairs, on examples small enough to check by eye."""

import itertools

import numpy as np
import pytest
import torch

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.model.losses import IGNORE
from attnlab.tasks import TASKS
from attnlab.tasks.vocabulary import word_characters
from tests.tasks.examples import (
    FIRST,
    MASK,
    PAD,
    SEPARATOR,
    SIZE,
    START,
    STOP,
    batch,
    equal,
    shown,
    text,
    vocabulary,
)

NONE = IGNORE


def task(choice, parts=()):
    return TASKS.build(choice, vocabulary=vocabulary(parts))


# ---------------------------------------------------------------- causal
def test_causal_targets_are_the_next_tokens_shifted_once():
    prepared = task("causal").prepare(batch([START, 7, 8, STOP], [START, 9, STOP]), 0)
    assert prepared.ids.tolist() == [[START, 7, 8, STOP], [START, 9, STOP, PAD]]
    assert prepared.targets.tolist() == [[7, 8, STOP, NONE], [9, STOP, NONE, NONE]]
    assert prepared.count == 5


def test_causal_does_not_predict_across_packed_documents():
    prepared = task("causal").prepare(batch([START, 7, STOP], [8, 9, STOP], packed=True), 0)
    assert prepared.ids.tolist() == [[START, 7, STOP, 8, 9, STOP]]
    assert prepared.targets.tolist() == [[7, STOP, NONE, 9, STOP, NONE]]


def test_causal_with_left_padding():
    prepared = task("causal").prepare(batch([START, 7, 8, STOP], [START, STOP], side="left"), 0)
    assert prepared.targets.tolist() == [[7, 8, STOP, NONE], [NONE, NONE, STOP, NONE]]
    assert prepared.tokens.real is not None  # left padding would be seen, right padding is not


def test_right_padding_that_nobody_sees_changes_nothing(double):
    """Leaving the padding mask out keeps the fast path, and gives what rows alone give."""
    model = lab.decoder(vocabulary=SIZE, width=16, layers=2, heads=2, length=12).double()
    chosen = task("causal")
    rows = [text(9, 1), text(4, 2), text(6, 3)]
    together = chosen.prepare(batch(*rows), 0)
    assert together.tokens.real is None
    alone = [chosen.loss(model, chosen.prepare(batch(row), 0)).total for row in rows]
    torch.testing.assert_close(chosen.loss(model, together).total, sum(alone))


# ---------------------------------------------------------------- masked
def test_masked_targets_are_the_original_tokens_at_the_masked_places():
    rows = [text(22, 1), text(12, 2)]
    prepared = task("masked(mask=1.0, random=0.0)").prepare(batch(*rows), 3)
    for row, ids, targets in zip(rows, prepared.ids.tolist(), prepared.targets.tolist(), strict=True):
        chosen = [i for i, t in enumerate(targets) if t != NONE]
        assert len(chosen) == round(0.15 * (len(row) - 2))
        for i, original in enumerate(row):
            assert ids[i] == (MASK if i in chosen else original)
            assert targets[i] == (original if i in chosen else NONE)


def test_special_tokens_and_padding_are_never_masked():
    for seed in range(20):
        prepared = task("masked(share=1.0)").prepare(batch(text(9), [START, 7, SEPARATOR, STOP]), seed)
        assert shown(prepared)[1] and len(shown(prepared)[1]) == 1
        assert len(shown(prepared)[0]) == 7
        assert {t for row in shown(prepared) for _, t in row}.isdisjoint({PAD, START, STOP, SEPARATOR, MASK})


def test_masked_replaces_eighty_ten_ten():
    row = text(4002)
    prepared = task("masked(share=0.5)").prepare(batch(row), 1)
    pairs = shown(prepared)[0]
    masked = np.mean([i == MASK for i, _ in pairs])
    kept = np.mean([i == t for i, t in pairs])
    assert len(pairs) == 2000
    assert masked == pytest.approx(0.8, abs=0.03)
    assert kept == pytest.approx(0.1 + 0.1 / (SIZE - FIRST), abs=0.025)  # a random token may be the same
    assert min(i for i, _ in pairs) == MASK  # what is random is never a special token


def test_masked_is_a_function_of_the_seed():
    data = batch(text(40), text(30, 1))
    chosen = task("masked")
    assert equal(chosen.prepare(data, 5), chosen.prepare(data, 5))
    assert not equal(chosen.prepare(data, 5), chosen.prepare(data, 6))


def test_whole_words_are_masked_together_or_not_at_all():
    # 20 and 21 go on with the word before them: words are (7 20 21), (8), (9 20), (10), …
    row = [START, 7, 20, 21, 8, 9, 20, 10, 11, 12, 21, 13, 14, STOP]
    words = [[1, 2, 3], [4], [5, 6], [7], [8], [9, 10], [11], [12]]
    seen = set()
    for seed in range(60):
        prepared = task("masked(share=0.3, whole_words=true)", (20, 21)).prepare(batch(row), seed)
        hit = {i for i, t in enumerate(prepared.targets[0].tolist()) if t != NONE}
        for word in words:
            assert hit.isdisjoint(word) or hit.issuperset(word)
            seen |= {tuple(word)} if hit.issuperset(word) else set()
        assert 3 <= len(hit) <= 5
    assert len(seen) == len(words)


def test_words_are_read_off_every_kind_of_vocabulary():
    opens, _ = word_characters(["play", "##ing", "##", "the"])
    assert opens.tolist() == [False, True, False, False]
    opens, closes = word_characters(["Ġthe", "re", ".", "Ġ", "x1"])
    assert opens.tolist() == [False, True, False, False, True]
    assert closes.tolist() == [True, True, False, False, True]
    assert not word_characters(["the", "cat"])[0].any()


# ---------------------------------------------------------------- span
def spans_of(prepared):
    s = prepared.spans
    return sorted(set(zip(s.row.tolist(), s.start.tolist(), s.end.tolist(), strict=True)))


def test_spans_are_whole_apart_and_between_observed_tokens():
    for seed in range(30):
        rows = [text(30, seed), text(20, seed + 1)]
        data = batch(*rows, packed=seed % 2 == 0)
        prepared = task("span(mask=1.0, random=0.0)").prepare(data, seed)
        hidden = prepared.targets != NONE
        for row, start, end in spans_of(prepared):
            assert hidden[row, start : end + 1].all()
            for neighbour in (start - 1, end + 1):  # observed, so never in another span
                assert not hidden[row, neighbour] and data.real[row, neighbour]
                if data.document is not None:
                    assert data.document[row, neighbour] == data.document[row, start]
        s = prepared.spans
        assert len(s.place) == int(hidden.sum()) == prepared.count
        assert (prepared.targets[s.row, s.place] == data.ids[s.row, s.place]).all()


def test_span_lengths_follow_the_geometric_distribution():
    chosen = task("span")
    lengths = []
    for seed in range(6):
        generator = np.random.default_rng(seed)
        length = 6000
        flags = np.ones(length, bool)
        spans = chosen.spans(flags, flags, np.arange(length), np.zeros(length, np.int64), generator)
        lengths += [end - start + 1 for start, end in spans]
    counts = np.bincount(lengths, minlength=11)[1:]
    expected = chosen.lengths * len(lengths)
    assert np.mean(lengths) == pytest.approx(3.8, abs=0.15) and max(lengths) == 10
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert chi_squared < 27.9  # the 0.1% point of 9 degrees of freedom
    assert sum(lengths) == 6 * 900  # 15%, to the token


def test_spans_are_whole_words():
    row = [START, *[7, 20, 21, 8, 20] * 12, STOP]  # words of three tokens and of two
    for seed in range(20):
        prepared = task("span", (20, 21)).prepare(batch(row), seed)
        for _, start, end in spans_of(prepared):
            assert row[start] in (7, 8) and row[end + 1] in (7, 8, STOP)
            assert end - start + 1 <= 10


def test_tokens_of_one_span_share_their_fate():
    kinds = set()
    for seed in range(40):
        data = batch(text(60, seed))
        prepared = task("span(random=0.2, mask=0.6)").prepare(data, seed)
        for row, start, end in spans_of(prepared):
            read, was = prepared.ids[row, start : end + 1], data.ids[row, start : end + 1]
            kind = "mask" if bool((read == MASK).all()) else "kept" if torch.equal(read, was) else "random"
            assert kind != "random" or not bool((read == MASK).any())
            kinds.add(kind)
    assert kinds == {"mask", "kept", "random"}


def test_the_boundary_task_sees_the_boundaries_and_nothing_else():
    """By gradient: of all vectors, only those right before and right after a span matter to its guess."""
    model = lab.encoder(vocabulary=SIZE, width=16, layers=1, heads=2, length=64, output="span_boundary")
    data = batch(text(40, 3), text(40, 4))
    prepared = task("span").prepare(data, 1)
    s = prepared.spans
    hidden = torch.randn(2, 40, 16, requires_grad=True)
    wanted = prepared.targets[s.row, s.place]
    model.head.boundary_loss(hidden, s.row, s.start, s.end, s.place, wanted).total.backward()
    touched = hidden.grad.abs().sum(-1) > 0
    expected = torch.zeros_like(touched)
    expected[s.row, s.start - 1] = expected[s.row, s.end + 1] = True
    assert torch.equal(touched, expected)


def test_both_parts_of_the_span_loss_are_shown():
    model = lab.encoder(vocabulary=SIZE, width=16, layers=1, heads=2, length=64, output="span_boundary")
    chosen = task("span")
    loss = chosen.loss(model, chosen.prepare(batch(text(40, 3)), 1))
    assert set(loss.parts) == {"masked", "boundary"}
    torch.testing.assert_close(loss.total, loss.parts["masked"] + loss.parts["boundary"])
    assert loss.count == chosen.prepare(batch(text(40, 3)), 1).count


# ---------------------------------------------------------------- prefix, UniLM
def test_prefix_predicts_the_target_alone():
    data = batch([START, 7, 8, SEPARATOR, 9, 10, STOP], source=[4])
    prepared = task("prefix").prepare(data, 0)
    assert prepared.targets.tolist() == [[NONE, NONE, NONE, 9, 10, STOP, NONE]]
    assert prepared.tokens.source.tolist() == [[True] * 4 + [False] * 3]


def test_prefix_cuts_plain_text_at_a_random_place():
    cuts = set()
    for seed in range(30):
        prepared = task("prefix").prepare(batch([START, 7, 8, 9, STOP], [10, 11, 12], packed=True), seed)
        source, targets = prepared.tokens.source[0].tolist(), prepared.targets[0].tolist()
        first, second = sum(source[:5]), sum(source[5:])
        assert source == [True] * first + [False] * (5 - first) + [True] * second + [False] * (3 - second)
        whole = [7, 8, 9, STOP, NONE, 11, 12, NONE]
        predicted = [i + 1 for i, t in enumerate(targets) if t != NONE]
        assert all(not source[i] for i in predicted)
        assert all(t in (w, NONE) for t, w in zip(targets, whole, strict=True))
        assert len(predicted) == (5 - max(first, 1)) + (3 - max(second, 1))
        cuts.add((first, second))
    assert len(cuts) > 5


def test_unilm_mixes_three_masks():
    kinds = {"bidirectional": 0, "causal": 0, "prefix": 0}
    data = batch(*[text(20, i) for i in range(30)])
    for seed in range(20):
        prepared = task("unilm").prepare(data, seed)
        for source in prepared.tokens.source.tolist():
            kind = "bidirectional" if all(source) else "prefix" if any(source) else "causal"
            assert source == sorted(source, reverse=True)
            kinds[kind] += 1
    assert all(150 < n < 250 for n in kinds.values())
    assert prepared.count == 30 * round(0.15 * 18)  # the targets are masked tokens, under every mask


# ---------------------------------------------------------------- encoder-decoder
def test_seq2seq_is_taught_with_the_target_shifted_once():
    data = batch([START, 7, 8, STOP], [START, 9, STOP], target=[[START, 17, STOP], [START, 18, 19, STOP]])
    prepared = task("seq2seq").prepare(data, 0)
    assert prepared.source.tolist() == [[START, 7, 8, STOP], [START, 9, STOP, PAD]]
    assert prepared.source_tokens.real.tolist() == [[True] * 4, [True] * 3 + [False]]
    assert prepared.ids.tolist() == [[START, 17, STOP], [START, 18, 19]]
    assert prepared.targets.tolist() == [[17, STOP, NONE], [18, 19, STOP]]


def test_smoothing_is_for_training_and_not_for_the_reported_loss():
    model = lab.encoder_decoder(vocabulary=SIZE, width=16, layers=1, heads=2, length=16)
    data = batch([START, 7, STOP], target=[[START, 17, STOP]])
    plain, smooth = task("seq2seq"), task("seq2seq(smoothing=0.3)")
    losses = {}
    for name, mode in (("train", True), ("eval", False)):
        model.train(mode)
        losses[name] = [float(o.loss(model, o.prepare(data, 0)).total.detach()) for o in (plain, smooth)]
    assert losses["train"][0] != losses["train"][1] and losses["eval"][0] == losses["eval"][1]


def test_denoising_replaces_stretches_by_one_mask_and_wants_the_whole_text():
    row = text(42, 5)
    holes = 0
    for seed in range(20):
        prepared = task("denoising").prepare(batch(row, row[1:]), seed)
        assert prepared.ids[0].tolist() == row[:-1] and prepared.targets[0].tolist() == row[1:]
        assert prepared.ids[1].tolist()[:1] == [START]  # a later part of a text begins like any other
        source = [i for i in prepared.source[0].tolist() if i != PAD]
        assert source[0] == START and source[-1] == STOP
        kept = [i for i in source if i != MASK]
        assert len(row) - len(kept) == 12  # 30% of 40
        position = -1
        for token in kept:  # what is left stands in its order
            position = row.index(token, position + 1)
        assert not any(a == b == MASK for a, b in itertools.pairwise(source))
        holes += source.count(MASK)
    assert 12 / 3.6 < holes / 20 < 12 / 2.2  # about 3 tokens a hole


# ---------------------------------------------------------------- what is refused
MODEL = {"vocabulary": SIZE, "width": 16, "layers": 1, "heads": 2, "length": 16}


@pytest.mark.parametrize(
    ("choice", "family", "changes", "message"),
    [
        ("causal", "encoder", {}, "the loss would mean"),
        ("prefix", "encoder", {}, "the loss would mean"),
        ("masked", "decoder", {"mask": "prefix"}, "marks none"),
        ("unilm", "encoder", {}, 'use model.mask = "prefix"'),
        ("seq2seq", "decoder", {}, "set model.family to encoder_decoder"),
        ("masked", "encoder_decoder", {}, "set model.family to decoder or encoder"),
        ("masked", "encoder", {"output": "classification"}, "predicts words"),
        ("span", "encoder", {"output": "span_boundary(longest=4)"}, "span_boundary"),
    ],
)
def test_models_that_cannot_learn_this_are_refused(choice, family, changes, message):
    model = getattr(lab, family)(**MODEL, **changes)
    with pytest.raises(ConfigError, match=message):
        task(choice).check(model)


@pytest.mark.parametrize(
    "choice",
    [
        "masked(share=1.5)",
        "masked(mask=0.8, random=0.3)",
        "span(p=0.0)",
        "span(longest=0)",
        "prefix(least=0.9, most=0.1)",
        "unilm(causal=0.8, bidirectional=0.8)",
        "seq2seq(smoothing=1.0)",
        "denoising(mean=0.0)",
    ],
)
def test_wrong_options_are_refused(choice):
    with pytest.raises(ConfigError, match="task"):
        task(choice)


def test_a_tokenizer_without_a_mask_token_is_refused():
    from dataclasses import replace

    for choice in ("masked", "span", "unilm", "denoising"):
        with pytest.raises(ConfigError, match="no mask token"):
            TASKS.build(choice, vocabulary=replace(vocabulary(), mask=None))
