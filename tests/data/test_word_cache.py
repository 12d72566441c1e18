"""Words tokenised apart give exactly the ids of the whole text."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnlab.data.errors import DataError
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.data.tokenizers import word_cache as module
from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.word_cache import CUT, beside_words

TEXTS = [
    "the  cat   sat \n\n on\tthe mat. It's the cats' 1,234 mats!  \n",
    "  indented\n    code = 1\n",
    "Naïve CAFÉ 你好 ß",
] * 9
KINDS = (
    "bpe(vocabulary=400)",
    "wordpiece(vocabulary=120, lowercase=true)",
    "wordpiece(vocabulary=120)",
    "unigram(vocabulary=60)",
    "word(lowercase=true, minimum_count=1)",
    "character",
)
MADE: dict[str, Tokenizer] = {kind: TOKENIZERS.build(kind).make(TEXTS) for kind in KINDS}
BPE = MADE[KINDS[0]]
SPACES = " \n\t\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u180e\u2003\u2028\u200b\u202f\u205f\u3000"
WORDS = ("a", "the", "cat's", "'ll", "1", "!", "é", "É", "İ", "Σ", "你", "🙂", "\u0301", "▁", "<STOP>")
SPACED = st.lists(st.sampled_from([*WORDS, *SPACES, "  "]))
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=50) | SPACED.map("".join)


@pytest.mark.parametrize("kind", KINDS)
def test_the_ids_are_those_of_the_whole_text(kind: str) -> None:
    tokenizer = MADE[kind]
    assert tokenizer._words is not None

    @settings(max_examples=200)
    @given(texts=st.lists(ANY_TEXT, min_size=2, max_size=5))
    @example(texts=["a  b", "a   b", " a ", "a \nb", "a\n b", "a \n b", "\n ", "a \u180e b", "a\u180e b"])
    @example(texts=["a \x1cb", "", " ", "  ", "   ", "  a", "   a", "a  ", " \u0301e", "ΟΔΟΣ ΟΔΟΣ"])
    def any_texts(texts: list[str]) -> None:
        whole = [tokenizer.inner.encode(text, add_special_tokens=False).ids for text in texts]
        assert tokenizer.encode_many(texts) == whole

    any_texts()


@pytest.mark.parametrize("kind", KINDS)
def test_the_sizes_are_those_of_the_whole_text(kind: str) -> None:
    """Remembered words against offsets in the text: the same sizes, and all of the text."""
    tokenizer = MADE[kind]

    @settings(max_examples=200)
    @given(texts=st.lists(ANY_TEXT, min_size=2, max_size=5))
    @example(texts=["a  b", "a   b ", " ", " a ", "a \nb", "   ", "  你好  é", "naïve  "])
    def any_texts(texts: list[str]) -> None:
        for text, found in zip(texts, tokenizer.encode_sized(texts), strict=True):
            (alone,) = tokenizer.encode_sized([text])
            assert found == alone and found.ids == tokenizer.encode(text)
            assert sum(found.sizes) == (len(text.encode()) if found.ids else 0)
            assert all(size >= 0 for size in found.sizes)

    any_texts()


@given(text=ANY_TEXT)
def test_the_size_of_a_byte_level_beginning_is_that_of_its_text(text: str) -> None:
    """Against decoding, which knows nothing of offsets; in the middle of a character it cannot tell."""
    (found,) = BPE.encode_sized([text])
    for count in range(len(found) + 1):
        begun = BPE.decode(found.ids[:count])
        if "\ufffd" not in begun:
            assert sum(found.sizes[:count]) == len(begun.encode())


@given(ANY_TEXT)
def test_the_parts_are_the_text_and_quickly_found_ones_are_no_others(text: str) -> None:
    assert " ".join(beside_words(text)) == text
    assert beside_words(text) == CUT.split(text) or text.startswith(
        " "
    )  # an empty first part is no other text


def test_memory_is_bounded_and_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CHARACTERS", 50)
    texts = [f"word{i} the word{i + 1} cat" for i in range(40)]
    before = [BPE.encode(text) for text in texts]
    for begin in range(0, 40, 4):
        assert BPE.encode_many(texts[begin : begin + 4]) == before[begin : begin + 4]
        assert BPE._words is not None and BPE._words.characters <= 50 + sum(
            map(len, texts[begin : begin + 4])
        )


def test_text_without_spaces_is_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of Chinese is one long word that never comes again."""
    monkeypatch.setattr(module, "MOST_CHARACTERS", 5000)
    tokenizer = MADE["character"]
    for number in range(30):
        tokenizer.encode_many(["你好" * 500 + str(number), "a"])
    assert tokenizer._words is not None
    assert sum(len(key[0]) for key in tokenizer._words.numbers if isinstance(key, tuple)) < 8000


def test_a_text_that_fails_leaves_the_rest_as_it_was() -> None:
    whole = BPE.encode("one more cat")
    with pytest.raises(DataError):
        BPE.encode_many(["one more\ud83d cat", "one more cat"])
    assert BPE.encode_many(["one more cat", "cat"])[0] == whole


def test_only_tokenizers_whose_words_are_independent_do_this() -> None:
    import tokenizers as library
    from tokenizers import models, normalizers, pre_tokenizers

    def refused(tokenizer: library.Tokenizer) -> bool:
        return module.parts_of(tokenizer) is None

    whole = library.Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))  # LLaMA's form: no splitter at all
    whole.normalizer = normalizers.Replace(" ", "▁")
    assert refused(whole)
    prefixed = library.Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    prefixed.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    assert refused(prefixed)
    composed = library.Tokenizer(models.WordLevel(vocab={"a": 0}, unk_token="a"))
    composed.pre_tokenizer = pre_tokenizers.Whitespace()
    assert not refused(composed)
    composed.normalizer = normalizers.NFKC()  # what it does may reach over a space
    assert refused(composed)
    composed.normalizer = normalizers.Lowercase()
    composed.add_tokens(["two words"])
    assert refused(composed)


def test_an_unusable_text_is_still_named_by_its_own_number() -> None:
    with pytest.raises(DataError, match="Text 2 of 3 cannot be tokenised: it has a lone surrogate"):
        BPE.encode_many(["fine", "bro\ud83dken here", "fine too"])
