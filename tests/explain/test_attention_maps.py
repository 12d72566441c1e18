"""The maps of every rule, each head beside what the output loses without it; and the page of them."""

import base64
import gzip
import json
import re

import pytest
import torch

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.documents.terminal import as_text
from attnlab.explain.ablation import effects
from attnlab.explain.attention_maps import RowOfText, attention_maps
from attnlab.model.attention import ATTENTION
from attnlab.model.combinations import examples
from attnlab.model.contracts.small_models import loosen
from tests.browser import CHROMIUM, chromium

WORDS = ["the", "cat", "<b>", "sat", ".", "the", "cat", "ran"]
IDS = torch.tensor([[3, 4, 5, 6, 7, 3, 4, 8]])


def model_of(family="decoder", **settings):
    sizes = {"vocabulary": 23, "length": 64, "width": 16, "heads": 4, "layers": 2, "positions": "rotary"}
    model = getattr(lab, family)(**sizes | settings).eval()
    loosen(model)
    return model


def row(**inputs):
    return RowOfText({"ids": IDS, **inputs}, WORDS, [word == "." for word in WORDS])


@pytest.mark.parametrize("choice", examples(ATTENTION), ids=str)
def test_every_rule_has_maps_and_effects(choice):
    found = attention_maps(model_of(attention=choice), row())
    assert len(found.heads) == 8 and all(layer.weights.shape == (4, 8, 8) for layer in found.layers)
    for layer in found.layers:
        assert not layer.weights.triu(1).any()
        total = layer.weights.sum(-1)
        if choice.options.get("feature") == "relu":  # features may all be 0: then nothing is read
            total = torch.where(total == 0, 1, total)
        torch.testing.assert_close(total, torch.ones(4, 8))
    assert all(head.effect > 0 for head in found.heads)


@torch.no_grad()
def test_a_heads_effect_is_the_divergence_after_zeroing_its_columns_by_hand():
    model, by_hand = model_of(), model_of()
    by_hand.trunk.main.attentions()[1].output.weight[:, 8:12] = 0
    usual, without = model(IDS)[0].log_softmax(-1), by_hand(IDS)[0].log_softmax(-1)
    expected = torch.nn.functional.kl_div(without, usual, log_target=True, reduction="none").sum(-1).mean()
    found = {str(head.name): head.effect for head in attention_maps(model, row()).heads}
    assert found["layer 1, head 2"] == pytest.approx(float(expected), rel=1e-4)


@torch.no_grad()
def test_of_a_model_that_scores_no_words_the_effect_is_relative():
    model = model_of("encoder", output={"kind": "features", "pooling": "mean"})
    by_hand = model_of("encoder", output={"kind": "features", "pooling": "mean"})
    by_hand.trunk.main.attentions()[0].output.weight[:, :4] = 0
    expected = (by_hand(IDS) - model(IDS)).norm() / model(IDS).norm()
    found = effects(model, {"ids": IDS}, {"layers.0.heads": 4})
    assert next(iter(found.values())) == pytest.approx(float(expected), rel=1e-4)


def test_an_encoder_decoder_has_both_sides_and_cross_attention():
    model = model_of("encoder_decoder", positions="none")
    read = RowOfText({"ids": IDS, "source": IDS[:, :5]}, WORDS, [False] * 8, ["a", "b", "c", "d", "e"])
    found = attention_maps(model, read)
    names = [layer.name for layer in found.layers]
    assert names[0] == "encoder layer 0" and "cross-attention layer 1" in names
    cross = found.layers[names.index("cross-attention layer 1")]
    assert cross.weights.shape == (4, 8, 5) and len(found.heads) == 24
    assert {head.distance is None for head in found.heads if "cross" in str(head.name)} == {True}
    aligning = [head for head in found.ranked if head.name.crosses]
    assert found.chosen is aligning[0], "alignment first"
    assert attention_maps(model, read, layer=0, head=2).chosen.name.place == "encoder.layers.0.heads.2"
    shown = as_text(*found.parts()).splitlines()
    assert any(line.lstrip().startswith("cross-attention layer 1 ") for line in shown), "no name is cut"
    assert shown[0].startswith("Alignment by cross-attention layer")


def test_the_head_that_is_asked_for_is_shown_and_another_refused():
    model = model_of()
    assert str(attention_maps(model, row(), layer=1, head=3).chosen.name) == "layer 1, head 3"
    with pytest.raises(ConfigError, match="no layer 2: layers are 0 to 1, heads 0 to 3"):
        attention_maps(model, row(), layer=2)


def packed(page, name):
    held = re.search(rf'<script type="application/gzip" id="{name}">(.*?)</script>', page, re.DOTALL).group(1)
    return gzip.decompress(base64.b64decode(held))


def test_the_page_holds_every_weight_to_four_thousandths():
    found = attention_maps(model_of(), row())
    page = found.html()
    stored = torch.tensor(list(packed(page, "weights"))).view(2, 4, 8, 8)
    weights = torch.stack([layer.weights for layer in found.layers])
    allowed = torch.ones(8, 8, dtype=torch.bool).tril().expand(2, 4, 8, 8)
    assert ((stored == 255) == ~allowed).all(), "what the causal mask forbids, and nothing else"
    assert float(((stored / 254) ** 2 - weights)[allowed].abs().max()) < 0.004
    assert json.loads(packed(page, "maps"))["layers"][0]["keys"] == WORDS
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert 'sandbox="allow-scripts"' in found._repr_html_()


def test_the_largest_page_stays_below_three_megabytes():
    """12 layers of 12 heads on 128 tokens, with weights that hardly compress."""
    found = attention_maps(model_of(layers=1), row())
    layer = found.layers[0]
    torch.manual_seed(0)
    noisy = torch.randn(12, 128, 128).softmax(-1)
    words = [f"word{n}" for n in range(128)]
    large = type(layer)(layer.name, layer.heads, noisy, words, words)
    made = type(found)([large] * 12, found.heads, found.effect)
    assert len(made.html()) < 3e6


@pytest.mark.skipif(CHROMIUM is None, reason="not run: no Chromium")
def test_a_browser_draws_it_and_fetches_nothing(tmp_path):
    file = tmp_path / "maps.html"
    found = attention_maps(model_of(), row(), layer=1, head=2)
    found.save(file)
    with chromium() as tab:
        tab.size(1200, 1600)
        tab.open(file)
        tab.until("document.querySelectorAll('.small-row canvas').length === 8")
        tab.until("document.querySelectorAll('#listed tr').length === 8")
        assert tab.run("document.querySelector('.small-row [aria-pressed=true]').dataset.head") == "1,2"
        tab.run("(document.querySelector('#head').value = '0', document.querySelector('#head')"
                ".dispatchEvent(new Event('change')))")  # fmt: skip
        assert tab.run("document.querySelector('.small-row [aria-pressed=true]').dataset.head") == "1,0"
        assert "without it" in tab.run("document.querySelector('#measured').textContent")
        assert tab.run("document.querySelectorAll('#lines line').length") > 5
        assert tab.errors == [] and [url for url in tab.requests if not url.startswith("file:")] == []
