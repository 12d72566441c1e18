"""The query solver: worked examples to the digit, brute force on random keys, and what cannot be reached."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special

from attnlab.config.values import ConfigError
from attnlab.explain.query_answers import EXAMPLE, one_hot, query_answers, targets_of
from attnlab.explain.query_solver import argmax_query, argmax_weights, best_query, linear_query, weights_of
from attnlab.explain.superposition import oblique_extraction, orthogonal_extraction, superposition
from tests.session.commands import answer, command

KEYS = np.array(EXAMPLE)


def test_a_huge_query_selects_one_value_or_each_at_once_without_overflow():
    assert weights_of(KEYS, 1e5 * KEYS[0]).tolist() == [1, 0, 0, 0]
    np.testing.assert_array_equal(weights_of(KEYS, 1e5 * KEYS), np.eye(4))


def test_the_mean_of_the_keys_does_not_average_and_no_query_at_all_does():
    np.testing.assert_allclose(weights_of(KEYS, KEYS.mean(0)), [0.228, 0.286, 0.240, 0.246], atol=5e-4)
    found = best_query(KEYS, [0.25] * 4)
    assert found.how == "exact" and not found.query.any() and found.error < 1e-12


def test_the_scaled_mean_of_two_keys_parts_them_and_the_solved_query_does_not():
    naive = (KEYS[0] + KEYS[1]) / 2
    for scale, weights in {10: (0.495, 0.505), 100: (0.446, 0.554), 1000: (0.104, 0.896)}.items():
        np.testing.assert_allclose(weights_of(KEYS, scale * naive)[:2], weights, atol=1e-3)
    apart = KEYS[0] - KEYS[1]
    level = naive - apart * (naive @ apart) / (apart @ apart)
    np.testing.assert_allclose(level, (0.5548, 0.5752, 0.0067), atol=1e-4)
    np.testing.assert_allclose(weights_of(KEYS, 1000 * level)[:2], 0.5, atol=1e-9)
    found = best_query(KEYS, [0.5, 0.5, 0, 0])
    assert found.how == "limit"
    assert found.margin >= min((KEYS[0] - KEYS[j]) @ level / np.linalg.norm(level) for j in (2, 3))
    for scale in (10, 1000, 1e6):
        np.testing.assert_allclose(
            weights_of(KEYS, found.query + scale * found.direction)[:2], 0.5, atol=1e-4
        )


def test_orthonormal_keys_average_two_values_as_beta_grows():
    """q = β(k_a + k_b) tends to half of each; the solver finds that direction and the β for a tolerance."""
    keys = np.eye(4)
    np.testing.assert_allclose(weights_of(keys, 50 * (keys[0] + keys[1])), [0.5, 0.5, 0, 0], atol=1e-12)
    found = best_query(keys, [0.5, 0.5, 0, 0], tolerance=0.001)
    np.testing.assert_allclose(found.weights, [0.5, 0.5, 0, 0], atol=0.001)
    less = weights_of(keys, found.query - 0.01 * found.direction)
    assert np.abs(less - found.target).max() > 0.001  # a smaller scale is not enough


def test_argmax_takes_one_value_to_the_digit():
    keys = np.array([(0, 1, 2), (1, 1, 2), (-1, 1, -2), (0, -1, -2)], float)
    values = np.array([(3, 2, -4), (3, -2, 4), (3, 2, 0), (3, 2, 0)], float)
    query = np.array((-2, 1, 1), float)
    assert (keys @ query).tolist() == [3, 1, 1, -3]
    assert (argmax_weights(keys, query) @ values).tolist() == [3, 2, -4]
    found = argmax_query(keys, one_hot([0], 4))
    assert found.reached and (argmax_weights(keys, found.query) @ values).tolist() == [3, 2, -4]
    assert "spread over several" in argmax_query(keys, one_hot([0, 1], 4)).reason


def test_linear_attention_reaches_mixtures_of_its_features_and_cannot_select():
    rng = np.random.default_rng(0)
    keys, query = rng.normal(size=(5, 3)), rng.normal(size=3)

    def features(x):
        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))

    own = features(keys) @ features(query)
    found = linear_query(keys, own / own.sum())
    np.testing.assert_allclose(found.weights, own / own.sum(), atol=1e-4)
    by_query = features(keys) @ features(found.query)
    np.testing.assert_allclose(by_query / by_query.sum(), found.weights, atol=1e-6)
    assert "no key can lose its weight" in linear_query(keys, one_hot([0], 5)).reason


def test_a_key_inside_the_hull_of_others_cannot_be_selected_and_it_is_said_why():
    answers = query_answers([[-1.0], [0.0], [1.0]], targets_of("one:1", 3))
    found = answers.answers[0].found
    assert found.how == "closest" and found.divergence == pytest.approx(np.log(3))
    assert "Key 1 lies in the convex hull of keys 0 and 2" in answers.summary
    assert not answers.answers[0].argmax.reached
    corners = query_answers([[0.0, 0], [1, 0], [0, 1], [1, 1]], targets_of("subset:0,3", 4))
    assert corners.answers[0].found.between == (1, 2)
    too_many = query_answers([[0.0], [1.0], [2.0]], {"x": [0.2, 0.6, 0.2]})
    assert too_many.answers[0].found.how == "closest" and "linear function" in too_many.summary


def test_two_equal_keys_share_their_weight():
    found = best_query(np.array([[1.0, 0], [1, 0], [0, 1]]), [1, 0, 0])
    np.testing.assert_allclose(found.best, [0.5, 0.5, 0])
    assert found.how == "closest" and found.between == (1,)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 3), st.booleans())
def test_nothing_comes_nearer_than_the_solver(seed, count, width, sparse):
    """Brute force: gradient descent from several starts never finds less, and comes as near as it can."""
    rng = np.random.default_rng(seed)
    keys, target = rng.normal(size=(count, width)), rng.dirichlet(np.ones(count))
    if sparse:
        target = np.where(np.arange(count) < rng.integers(1, count), target, 0)
        target /= target.sum()
    found = best_query(keys, target)

    def divergence(query):
        logits = keys @ query
        known = target > 0
        return (target[known] * np.log(target[known])).sum() - target @ (logits - special.logsumexp(logits))

    tried = [
        optimize.minimize(divergence, start, method="BFGS", options={"gtol": 1e-7})
        for start in (np.zeros(width), *rng.normal(size=(2, width)) * 3)
    ]
    brute = min(one.fun for one in tried)
    assert found.divergence <= brute + 1e-7
    assert brute <= found.divergence + 5e-3
    assert np.abs(found.weights - found.best).max() <= found.tolerance + 1e-6
    if found.how != "closest":
        assert found.error <= found.tolerance + 1e-6


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(2, 4))
def test_a_query_of_ones_own_is_found_again(seed, count, width):
    rng = np.random.default_rng(seed)
    keys, query = rng.normal(size=(count, width)), rng.normal(size=width)
    found = best_query(keys, weights_of(keys, query, 0.5), scale=0.5)
    assert found.how == "exact" and found.error < 1e-6


def test_extraction_from_superposition():
    """M = 2AAᵀ gives M·½(v_a + v_b) = v_a for orthogonal bases, and is off by the cosine of the angle."""
    rng = np.random.default_rng(1)
    both = np.linalg.qr(rng.normal(size=(7, 5)))[0]
    a, b = both[:, :2], both[:, 2:]
    v_a, v_b = a @ rng.normal(size=2), b @ rng.normal(size=3)
    np.testing.assert_allclose(orthogonal_extraction(a) @ (v_a + v_b) / 2, v_a)
    np.testing.assert_allclose(orthogonal_extraction(a), 2 * a @ a.T)
    found = superposition(a, b)
    assert found.error < 1e-12 and found.angle == pytest.approx(90)
    for angle, error, norm in found.curve:
        assert error == pytest.approx(np.cos(np.radians(angle)), abs=1e-9)
        assert norm == pytest.approx(2 / np.sin(np.radians(angle)))
    skew = rng.normal(size=(7, 3))
    w = skew @ rng.normal(size=3)
    np.testing.assert_allclose(oblique_extraction(a, skew) @ (v_a + w) / 2, v_a, atol=1e-9)
    with pytest.raises(ConfigError, match="share a direction"):
        superposition(a, np.hstack([a[:, :1], b[:, :1]]))


def test_the_commands(tmp_path):
    told = answer("explain", "query", "--target", "0.5,0.5,0,0")
    assert told["targets"][0]["how"] == "limit" and told["targets"][0]["error"] <= 0.0101
    file = tmp_path / "keys.csv"
    file.write_text("x,y\n" + "\n".join(",".join(map(str, row)) for row in KEYS[:, :2]))
    told = answer("explain", "query", "--keys", file, "--target", "each", "--tolerance", 0.1)
    assert len(told["targets"]) == 4
    page = tmp_path / "query.html"
    shown = command("explain", "query", "--target", "all", "--html", page)
    assert "reached exactly" in shown.stdout and 'class="share"' in page.read_text()
    assert "script-src &#39;none&#39;" in page.read_text()
    assert answer("explain", "superposition")["orthogonal"]["error"] < 1e-12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "0.5,0.5"], "2 weights, and there are 4 keys"),
        (["--target", "0.5,0.6,0,0"], "add up to 1.1"),
        (["--target", "one:7"], "from 0 to 3"),
        (["--target", "one:" + "9" * 5000], "from 0 to 3"),
        (["--target", "some"], "not understood"),
        (["--target", "all", "--tolerance", "2"], "between 0 and 1"),
        (["--target", "all", "--text", "hello"], "one of the two"),
        (["--target", "all", "--keys", "nowhere.csv"], "does not exist"),
    ],
)
def test_bad_input_is_answered(options, message):
    result = command("explain", "query", *options)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    "content", [b"\xe2\x28\xa1 1 2\n", b"1 2 nan\n1 2 3\n1 inf 3\n", b"1 2\n1 2 3\n", b"1 1e308\n1 2\n"]
)
def test_a_file_of_no_numbers_is_answered(tmp_path, content):
    (tmp_path / "keys.txt").write_bytes(content)
    result = command("explain", "query", "--target", "all", "--keys", tmp_path / "keys.txt")
    assert "keys.txt" in str(result.exception) and isinstance(result.exception, ConfigError)
