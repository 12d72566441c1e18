"""Words tokenised apart give exactly the ids of the whole text."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnlab.data.errors import DataError
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.data.tokenizers import words as module
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.words import parts

BPE: Tokenizer = TOKENIZERS.build("bpe(vocabulary=400)").make(
    ["the  cat   sat \n\n on\tthe mat. It's the cats' 1,234 mats!  \n"] * 9
    + ["  indented\n    code = 1\n"] * 9
)
SPACES = " \n\t\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u180e\u2003\u2028\u200b\u202f\u205f\u3000"
SPACED = st.lists(
    st.sampled_from(["a", "the", "cat's", "'ll", "1", "!", "é", "你", "🙂", "\u0301", *SPACES, "  "])
)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=50) | SPACED.map("".join)


@settings(max_examples=400)
@given(texts=st.lists(ANY_TEXT, min_size=2, max_size=5))
@example(
    texts=["a  b", "a   b", " a ", "a \nb", "a\n b", "a \u180e b", "a\u180e b", "a \x1cb", "", " ", "  "]
)
def test_the_ids_are_those_of_the_whole_text(texts: list[str]) -> None:
    whole = [BPE.inner.encode(text, add_special_tokens=False).ids for text in texts]
    assert BPE.encode_many(texts) == whole


@given(ANY_TEXT)
def test_the_parts_are_the_text(text: str) -> None:
    assert " ".join(parts(text)) == text


def test_memory_is_bounded_and_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WORDS", 10)
    texts = [f"word{i} the word{i + 1} cat" for i in range(40)]
    before = [BPE.encode(text) for text in texts]
    for begin in range(0, 40, 4):
        assert BPE.encode_many(texts[begin : begin + 4]) == before[begin : begin + 4]
        assert BPE._words is not None and len(BPE._words.ids) <= 12


def test_only_tokenizers_whose_words_are_independent_do_this() -> None:
    for kind in ("word", "character", "unigram(vocabulary=20)", "wordpiece(vocabulary=20)"):
        assert TOKENIZERS.build(kind).make(["the cat sat", "on the mat"] * 5)._words is None


def test_an_unusable_text_is_still_named_by_its_own_number() -> None:
    with pytest.raises(DataError, match="Text 2 of 3 cannot be tokenised: it has a lone surrogate"):
        BPE.encode_many(["fine", "bro\ud83dken here", "fine too"])
