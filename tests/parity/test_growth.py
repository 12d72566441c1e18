"""More words and positions: what was known stays bit for bit, what is new begins sensibly."""

from __future__ import annotations

import pytest
import torch

from attnlab.config.values import ConfigError
from attnlab.session.convert import convert
from attnlab.session.trained import Trained
from tests.parity.folders import WORDS, published, tokenizer
from tests.parity.theirs import ALL, LENGTH, V

IDS = torch.tensor([[5, 9, 33, 12, 60, 8]])


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "roberta", "t5", "bert, untied", "t5, gated"])
def test_known_words_are_scored_as_before_and_new_ones_near_the_mean(name, tmp_path):
    published(tmp_path / "theirs", name)
    convert(tmp_path / "theirs", tmp_path / "plain")
    found = convert(tmp_path / "theirs", tmp_path / "grown", vocabulary=V + 13)
    assert any(note.startswith(f"words: {V} before, {V + 13} now") for note in found.notes)
    plain, grown = Trained.at(tmp_path / "plain").model, Trained.at(tmp_path / "grown").model
    source = {"source": IDS} if name.startswith("t5") else {}
    with torch.no_grad():
        before, after = plain(IDS, **source), grown(IDS, **source)
    torch.testing.assert_close(after[..., :V], before, rtol=1e-6, atol=1e-6)
    new, mean = after[..., V:], before.mean(-1, keepdim=True)
    assert new.shape[-1] == 13
    assert float((new - mean).abs().max()) < 0.2 * float(before.std())
    assert len(new[0, 0].unique()) == 13  # and yet each its own
    convert(tmp_path / "grown", tmp_path / "out")
    theirs = ALL[name].kind.from_pretrained(tmp_path / "out").eval()
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS} if source else {"input_ids": IDS}
    with torch.no_grad():
        torch.testing.assert_close(theirs(**inputs).logits, after, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["gpt2", "bert", "roberta", "distilbert"])
def test_positions_are_repeated_or_cut(name, tmp_path):
    theirs = published(tmp_path / "theirs", name)
    convert(tmp_path / "theirs", tmp_path / "longer", length=2 * LENGTH + 5)
    convert(tmp_path / "theirs", tmp_path / "shorter", length=8)
    longer, shorter = Trained.at(tmp_path / "longer"), Trained.at(tmp_path / "shorter")
    with torch.no_grad():
        expected = theirs(IDS).logits
        for trained in (longer, shorter):
            torch.testing.assert_close(trained.model(IDS), expected, rtol=1e-4, atol=2e-5)
        late = longer.model(torch.arange(3, 63).repeat(2)[None, : 2 * LENGTH + 5])
    assert late.isfinite().all()
    offset = 2 if name == "roberta" else 0
    table = longer.model.trunk.main.positions.table.weight
    assert torch.equal(table[offset : offset + LENGTH], table[offset + LENGTH : offset + 2 * LENGTH])
    with pytest.raises(ValueError, match="positions end at 8"):
        shorter.model(torch.arange(3, 20)[None])
    convert(tmp_path / "longer", tmp_path / "out")
    again = ALL[name].kind.from_pretrained(tmp_path / "out")
    assert again.config.max_position_embeddings == 2 * LENGTH + 5 + offset


def test_a_tokenizer_with_more_words_needs_rows_for_them_and_the_old_ids(tmp_path):
    published(tmp_path / "theirs", "gpt2")
    tokenizer("gpt2", [*WORDS[: V - 4], "new", "newer"], size=V + 2).save(str(tmp_path / "more.json"))
    with pytest.raises(ConfigError, match="it has 69 tokens, and the model 67"):
        convert(tmp_path / "theirs", tmp_path / "ours", tokenizer=tmp_path / "more.json")
    with pytest.raises(ConfigError, match=r"some ids would have none. Add rows for them: --vocabulary 69"):
        more = tmp_path / "more.json"
        convert(tmp_path / "theirs", tmp_path / "ours", tokenizer=more, accept=["tokenizer"])
    convert(tmp_path / "theirs", tmp_path / "ours", tokenizer=tmp_path / "more.json", vocabulary=V + 2)
    assert Trained.at(tmp_path / "ours").prompt("w1 new") == [5, V]
    tokenizer("gpt2", [*WORDS[1 : V - 3], "new", "newer"], size=V + 2).save(str(tmp_path / "moved.json"))
    with pytest.raises(ConfigError, match=r"its 'w\d+' is (\d+|None), and that of the folder's own is \d+"):
        convert(tmp_path / "theirs", tmp_path / "no", tokenizer=tmp_path / "moved.json", vocabulary=V + 2)
    with pytest.raises(ConfigError, match="it has 67 tokens, and the model 60"):
        convert(tmp_path / "theirs", tmp_path / "no", vocabulary=60)
    with pytest.raises(ConfigError, match="is a run, which is exported unchanged"):
        convert(tmp_path / "ours", tmp_path / "no", vocabulary=100)
