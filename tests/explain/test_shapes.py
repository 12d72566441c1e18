"""Softmax, given queries, masks, padding, masking and positions, against numbers worked out by hand."""

import json
import math

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from attnlab.cli import app
from attnlab.config.values import Choice, ConfigError
from attnlab.data.batch import Batch
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.explain.given_query import given_query
from attnlab.explain.masking_statistics import masking_statistics
from attnlab.explain.padded_batch import padded_batch
from attnlab.explain.position_products import PositionSizes, position_products
from attnlab.explain.query_answers import EXAMPLE
from attnlab.explain.softmax_shape import softmax_shape
from attnlab.model.attention.linear import Linear
from attnlab.model.pairs import Pairs
from attnlab.model.positions import POSITIONS
from attnlab.model.tokens import Tokens
from attnlab.tasks import TASKS
from attnlab.tasks.vocabulary import Vocabulary


def command(*words):
    return CliRunner().invoke(app, ["explain", *words], env={"COLUMNS": "80"}, catch_exceptions=False)


def told(*words):
    return json.loads(command(*words, "--json").stdout)


# ---------------------------------------------------------------- softmax
def test_softmax_goes_from_argmax_to_equal_shares():
    shape = softmax_shape([3, 1, 1, -3])
    total = math.exp(3) + 2 * math.e + math.exp(-3)
    assert shape.by_temperature[1.0] == pytest.approx([math.exp(s) / total for s in (3, 1, 1, -3)])
    entropies = [row["entropy"] for row in shape.as_json()["temperatures"]]
    assert entropies == sorted(entropies) and entropies[-1] < math.log(4)
    assert shape.limit.tolist() == [1, 0, 0, 0] and softmax_shape([2, 2, 1]).limit.tolist() == [0.5, 0.5, 0]


def test_without_its_scale_the_softmax_saturates_with_width():
    widths = softmax_shape([1, 0]).widths
    for one in widths:
        assert one.spread == pytest.approx(one.width**0.5, rel=0.06)
    scaled, plain = [one.scaled for one in widths], [one.plain for one in widths]
    assert max(scaled) - min(scaled) < 0.1 and plain == sorted(plain, reverse=True) and plain[-1] < 0.15
    assert widths[-1].plain_slope < 0.25 * widths[-1].scaled_slope


# ---------------------------------------------------------------- a query of one's own
def weights_at(answer, factor):
    return answer.scaled[factor].round(3).tolist()


def test_scaling_up_the_mean_of_two_keys_is_refuted():
    answer = given_query(EXAMPLE, "(k0+k1)/2", target=[0.5, 0.5, 0, 0])
    assert [weights_at(answer, f)[:2] for f in (10.0, 100.0, 1000.0)] == [
        [0.495, 0.505],
        [0.446, 0.554],
        [0.104, 0.896],
    ]
    assert answer.highest == [1] and answer.error(answer.scaled[1000.0]) == pytest.approx(0.396, abs=5e-4)
    assert "0 and 1 score 0.00215 apart" in answer.remark
    equal = given_query(EXAMPLE, "0.55478,0.57520,0.00672", target=[0.5, 0.5, 0, 0])
    assert equal.error(equal.scaled[100.0]) < 0.01


def test_known_queries_give_known_weights():
    assert given_query(EXAMPLE, "mean").weights["softmax"].round(3).tolist() == [0.228, 0.286, 0.24, 0.246]
    assert given_query(EXAMPLE, "0").weights["softmax"].tolist() == [0.25] * 4
    assert given_query(EXAMPLE, "1e5*k0").weights["softmax"].tolist() == [1, 0, 0, 0]
    assert given_query(EXAMPLE, "-(k1 - 2*k0)/1").query == pytest.approx(
        2 * np.array(EXAMPLE[0]) - EXAMPLE[1]
    )


def test_the_worked_example_of_argmax_with_its_values():
    keys, values = "0,1,2; 1,1,2; -1,1,-2; 0,-1,-2", "3,2,-4; 3,-2,4; 3,2,0; 3,2,0"
    answer = told("query", "--query=-2,1,1", "--keys", keys, "--values", values)
    assert answer["scores"] == [3, 1, 1, -3] and answer["outputs"]["argmax"] == [3, 2, -4]
    mixed = np.array([[3, 2, -4], [3, -2, 4], [3, 2, 0], [3, 2, 0]]).T @ answer["weights"]["softmax"]
    assert answer["outputs"]["softmax"] == pytest.approx(mixed.tolist())


def test_linear_weights_are_those_of_the_models_rule(double):
    keys, query = torch.tensor(EXAMPLE).double(), torch.tensor([0.3, -1.0, 2.0]).double()
    pairs = Pairs(Tokens.of(1), Tokens.of(4))
    rule = Linear().weights(query[None, None, None], keys[None, None], pairs).flatten()
    assert given_query(EXAMPLE, "0.3,-1,2").weights["linear"] == pytest.approx(rule.tolist())


BAD = ["k9", "k0*k1", "1,2", "1,2,3,4", "__import__('os')", "k0+1", "k0/0", "k0**2", "(", "'a'", "5"]


@pytest.mark.parametrize("query", BAD)
def test_what_is_no_query_is_refused(query):
    with pytest.raises(ConfigError, match="is not a query of 3 numbers"):
        given_query(EXAMPLE, query)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ([], "Give --target"),
        (["--target", "all", "--values", "1;2;3;4"], "--values are what a --query reads"),
        (["--query", "k0", "--values", "1;2"], "2 values and 4 keys"),
        (["--query", "k0", "--target", "each"], "judged by one"),
        (["--query", "k0", "--keys", "1,2;3"], "not rows of as many numbers"),
    ],
)
def test_options_of_a_query_that_do_not_go_together(words, wrong):
    with pytest.raises(ConfigError, match=wrong):
        command("query", *words)


# ---------------------------------------------------------------- masks and padding
PREFIX = [[0] * 5 + [1] * 4] * 5 + [[0] * n + [1] * (9 - n) for n in (6, 7, 8, 9)]


def test_unilms_three_masks_are_in_one_picture_with_words_at_both_sides():
    masks = told("mask", "--masks", "unilm")["masks"]
    masked = {name: [[int(not may) for may in row] for row in rows] for name, rows in masks.items()}
    assert masked["prefix"] == PREFIX and masked["bidirectional"] == [[0] * 9] * 9
    assert masked["causal"] == [[0] * (n + 1) + [1] * (8 - n) for n in range(9)]
    assert "0 Jill         0   0   0" in command("mask", "--masks", "bidirectional", "--numbers").stdout
    shown = command("mask", "--set", "model.mask=prefix", "--numbers").stdout.splitlines()
    rows = {
        line.split()[1]: line.split()[2:] for line in shown if line[:1].isdigit() and len(line.split()) == 11
    }
    assert [list(map(int, row)) for row in rows.values()][-1] == PREFIX[-1] and len(rows["was"]) == 9
    (first,) = (n for n, line in enumerate(shown) if line.startswith("0 Jill"))
    upright = [line[len("4 activities") :] for line in shown[first - 11 : first - 1]]
    words = ["".join(line[4 * n + 3 : 4 * n + 4] for line in upright).strip() for n in range(9)]
    assert words == ["Jill", "Birt", "[MASK]", "outdoor", "activities", "He", "was", "[MASK]", "hiking"]


def test_a_batch_is_padded_to_its_longest_row():
    batch = told("padding", "4,7,9,15,23,18", "2,8,10", "3,13,2,8")
    assert batch["ids"] == [[4, 7, 9, 15, 23, 18], [2, 8, 10, 0, 0, 0], [3, 13, 2, 8, 0, 0]]
    assert batch["mask"] == [[1] * 6, [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0]]
    assert batch["waste"] == pytest.approx(5 / 18)
    left = padded_batch([[4, 7], [2]], pad=9, side="left")
    assert left.padded == [[4, 7], [9, 2]] and left.mask == [[1, 1], [0, 1]]
    assert "row 1   2   8  10   0   0   0" in command("padding").stdout
    assert " 2235 " in command("padding", "101,2235,7").stdout, "an id has no thousands"
    for words, wrong in (
        (["a b"], "is not a row of ids"),
        (["1,2", "--tokenizer", "bpe"], "a kind to train"),
    ):
        with pytest.raises(ConfigError, match=wrong):
            command("padding", *words)


# ---------------------------------------------------------------- masking
TEXT = "the unbelievable lowest towers stand slowly beside newer untold walls of grass " * 30


def hidden(kind, **options):
    tokenizer = TOKENIZERS.build("bpe(vocabulary=290)").make([TEXT] * 3)
    ids = torch.tensor(tokenizer.encode(TEXT))
    rows = ids[: len(ids) // 128 * 128].view(-1, 128)
    batch = Batch(ids=rows, real=torch.ones_like(rows, dtype=torch.bool), sizes=torch.ones_like(rows))
    task = TASKS.build(Choice(kind, options), vocabulary=Vocabulary.of(tokenizer))
    return masking_statistics(task, [batch] * 20)


def test_spans_are_whole_words_of_drawn_lengths():
    found = hidden("span")
    assert found.drawn_mean == pytest.approx(3.80, abs=0.005), "SpanBERT's own"
    assert found.share == pytest.approx(0.15, abs=0.01) and found.cut == found.touching == 0
    assert max(found.words) <= 10 and sum(n * c for n, c in found.pieces.items()) == found.hidden
    shares = {name: count / found.hidden for name, count in found.replaced.items()}
    assert shares["the mask token"] == pytest.approx(0.8, abs=0.05)


def test_single_tokens_cut_words_and_whole_words_do_not():
    plain, whole = hidden("masked"), hidden("masked", whole_words=True)
    assert plain.cut > 0.5 * plain.stretches and whole.cut == 0
    assert plain.drawn == () and plain.drawn_mean is None


def test_a_task_that_hides_nothing_is_refused():
    with pytest.raises(ConfigError, match="bert-mini"):
        hidden("causal")


# ---------------------------------------------------------------- positions
def products(kind, length=12, **sizes):
    sizes = {"width": 16, "heads": 4, "head_width": 8} | sizes
    scheme = POSITIONS.build(kind, layers=1, length=16, **sizes)
    return position_products(scheme, PositionSizes(**sizes), scheme=kind, length=length)


def test_sinusoids_and_rotations_depend_on_the_distance_alone(double):
    (vectors,) = products("sinusoidal").curves
    rates = [10_000 ** (-n / 16) for n in range(0, 16, 2)]
    expected = [sum(math.cos(rate * distance) for rate in rates) for distance in range(12)]
    assert list(vectors.mean) == pytest.approx(expected) and list(vectors.low) == pytest.approx(expected)
    (turned,) = products("rotary").curves
    rates = [10_000 ** (-n / 8) for n in range(0, 8, 2)]
    assert list(turned.mean) == pytest.approx([sum(math.cos(r * d) for r in rates) / 4 for d in range(12)])
    assert "depends on the distance alone" in products("sinusoidal").remark


def test_alibi_falls_with_distance_at_each_heads_rate(double):
    found = products("alibi")
    assert found.what == "bias" and len(found.curves) == 4
    assert list(found.curves[1].mean) == pytest.approx([-(2.0**-4) * d for d in range(12)])
    with pytest.raises(ConfigError, match="gives tokens no position"):
        products("none")


def test_learned_positions_differ_by_place():
    found = told("positions", "--set", "model.positions=learned", "--length", "8")
    (curve,) = found["curves"]
    assert curve["high"][0] > curve["low"][0] and found["what"] == "vectors"
    assert "Shown as it begins" in products("learned").remark
    assert "as it begins" not in products("sinusoidal").remark
