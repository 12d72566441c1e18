"""Examples as rows of ids: forms, windows, offsets; every cut explicit and counted."""

import itertools
from collections.abc import Sequence

import pytest
import tokenizers as library
from hypothesis import given
from hypothesis import strategies as st

from attnlab.data.columns import Row
from attnlab.data.encode import ENCODINGS
from attnlab.data.encode.encoding import Encoding, windows
from attnlab.data.encode.texts import kept
from attnlab.data.errors import DataError
from attnlab.data.example import Answer, Example
from attnlab.data.rows import columns_of
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.data.tokenizers.tokenizer import Tokenizer

TEXT = "the quick brown fox jumps over the lazy dog while naïve 你好 people watch 🙂 and wait"
BPE: Tokenizer = TOKENIZERS.build("bpe(vocabulary=300)").make([TEXT] * 3)
WORD: Tokenizer = TOKENIZERS.build("word(minimum_count=1)").make([TEXT])
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def encoding(choice: str, length: int, tokenizer: Tokenizer = BPE, labels: Sequence[str] = ()) -> Encoding:
    return ENCODINGS.build(choice, tokenizer=tokenizer, length=length, labels=labels)


def rows(choice: str, length: int, *examples: Example, tokenizer: Tokenizer = BPE) -> list[Row]:
    return list(encoding(choice, length, tokenizer).rows(examples))


@given(texts=st.lists(ANY_TEXT, max_size=8), length=st.integers(2, 20))
def test_documents_lose_nothing_and_bytes_add_up(texts: list[str], length: int) -> None:
    made = rows("document", length, *map(Example, texts))
    assert all(1 <= len(row.ids) <= length for row in made)
    for number, text in enumerate(texts):
        mine = [row for row in made if row.example == number]
        whole = [i for row in mine for i in row.ids]
        assert whole == BPE.form.single(BPE.encode(text))
        assert BPE.decode(whole) == text
        assert sum(sum(row.sizes) for row in mine) == len(text.encode())


def test_documents_can_be_cut_or_refused_instead() -> None:
    cutting = encoding("document(long=cut)", 5, WORD)
    (row,) = cutting.rows([Example(TEXT)])
    assert row.ids == WORD.form.single(WORD.encode(TEXT))[:5]
    total = len(WORD.encode(TEXT)) + 2
    lost = {"examples": 1, "cut": 1, "tokens": total, "lost": total - 5, "longest": total}
    lost |= {"answers": 0, "inexact": 0, "split": 0}
    assert vars(cutting.cuts) == lost
    with pytest.raises(DataError, match=rf"A text at notes line 3 has {total} tokens where 5 fit"):
        rows("document(long=refuse)", 5, Example(TEXT, place="notes line 3"), tokenizer=WORD)


def closing(*, end: bool) -> Tokenizer:
    """A tokenizer that closes a text with a token that is no stop, or with none."""
    made = TOKENIZERS.build("word(minimum_count=1)").make([TEXT]).inner
    made.post_processor = library.processors.TemplateProcessing(
        single="<START> $A <SEP>" if end else "<START> $A",
        pair="<START> $A <SEP> $B",
        special_tokens=[(name, made.token_to_id(name)) for name in ("<START>", "<SEP>")],
    )
    return Tokenizer(made)


@pytest.mark.parametrize("tokenizer", [BPE, WORD, closing(end=True), closing(end=False)])
@pytest.mark.parametrize("long", ["split", "cut"])
@given(texts=st.lists(st.one_of(ANY_TEXT, st.just(TEXT)), max_size=6), length=st.integers(1, 20))
def test_documents_in_arrays_are_the_rows_one_by_one(
    tokenizer: Tokenizer, long: str, texts: list[str], length: int
) -> None:
    choice, examples = f"document(long={long})", [*map(Example, texts)]
    single, together = encoding(choice, length, tokenizer), encoding(choice, length, tokenizer)
    wanted = list(single.rows(examples))
    found, cuts = together.columns(examples, 0, tokenizer.size)
    assert cuts == single.cuts
    expected = columns_of(wanted, tokenizer.size) if wanted else {}
    assert found.keys() == expected.keys()
    for name, column in expected.items():
        assert found[name].dtype == column.dtype and found[name].tolist() == column.tolist()


def test_a_refused_document_is_named_in_arrays_too() -> None:
    examples = [Example("the fox"), Example(TEXT, place="notes line 3"), Example(TEXT, place="line 4")]
    with pytest.raises(DataError, match=r"A text at notes line 3 has \d+ tokens where 5 fit"):
        encoding("document(long=refuse)", 5, WORD).columns(examples, 0, WORD.size)


def test_a_pair_is_start_a_separator_b_stop_with_segments() -> None:
    (row,) = rows("pair", 20, Example("the fox", pair="lazy dog"), tokenizer=WORD)
    assert [WORD.token(i) for i in row.ids] == ["<START>", "the", "fox", "<SEP>", "lazy", "dog", "<STOP>"]
    assert row.types == [0, 0, 0, 0, 1, 1, 1]


@given(a=ANY_TEXT, b=ANY_TEXT)
def test_pairs_are_those_of_the_tokenizers_own_post_processor(a: str, b: str) -> None:
    (row,) = rows("pair", 1000, Example(a, pair=b))
    theirs = BPE.inner.encode(a, b)
    assert row.ids == theirs.ids
    assert row.types == theirs.type_ids


@given(a=st.integers(0, 40), b=st.integers(0, 40), room=st.integers(1, 50))
def test_the_longer_of_a_pair_gives_token_by_token(a: int, b: int, room: int) -> None:
    left, right = a, b
    while left + right > room:
        if left > right:
            left -= 1
        else:
            right -= 1
    assert kept(a, b, room, "longest") == (left, right)


def test_pairs_can_be_shortened_on_one_side_only() -> None:
    assert kept(10, 4, 8, "first") == (4, 4)
    assert kept(4, 10, 8, "second") == (4, 4)
    example = Example("the quick brown fox", pair="the lazy dog")
    (row,) = rows("pair(shorten=first, cut=start)", 8, example, tokenizer=WORD)
    assert WORD.decode(row.ids) == "brown fox the lazy dog"


def test_labels_are_numbered_and_unknown_ones_named() -> None:
    made = encoding("single", 16, labels=("no", "yes"))
    assert [row.label for row in made.rows([Example("a", label="yes"), Example("b", label="no")])] == [1, 0]
    with pytest.raises(
        DataError, match=r'The label "yse" at x line 2 .*, which knows no, yes\. Did you mean "yes"'
    ):
        list(made.rows([Example("a", label="yse", place="x line 2")]))


def test_single_cuts_are_counted_from_either_side() -> None:
    for cut, text in (("end", "the quick"), ("start", "and wait")):
        made = encoding(f"single(cut={cut})", 4, WORD)
        (row,) = made.rows([Example(TEXT)])
        assert WORD.decode(row.ids) == text
        assert made.cuts.cut == 1 and made.cuts.lost == len(WORD.encode(TEXT)) - 2
    assert str(made.cuts).startswith("1 of 1 texts cut (100.0%), ")


WORDS = st.lists(st.sampled_from([*TEXT.split(), "(naïve)", "🙂🙂", "x\ty"]), min_size=1, max_size=40)


@pytest.mark.parametrize("tokenizer", [BPE, WORD], ids=["bpe", "word"])
@given(words=WORDS, data=st.data())
def test_answer_offsets_point_at_the_answer_text(
    tokenizer: Tokenizer, words: list[str], data: st.DataObject
) -> None:
    passage = " ".join(words)
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, min(first + 3, len(words) - 1)))
    text = " ".join(words[first : last + 1])
    start = len(" ".join(words[:first])) + (first > 0)
    example = Example("who is it", pair=passage, answers=(Answer(text, start),))
    made = rows("question(overlap=20, question_length=16)", 64, example, tokenizer=tokenizer)
    holding = [row for row in made if row.start]
    answer_tokens = len(tokenizer.encode(" " + text))
    assert holding or answer_tokens > 20, "an answer shorter than the overlap is whole in some window"
    for row in holding:
        assert row.char_start is not None and row.char_end is not None
        assert row.start is not None and row.end is not None
        assert passage[row.char_start[row.start] : row.char_end[row.end]] == text


@given(words=WORDS)
def test_windows_cover_every_token_of_the_passage_with_its_place(words: list[str]) -> None:
    passage = " ".join(words)
    made = rows("question(overlap=8, question_length=8)", 32, Example("who", pair=passage))
    seen: dict[tuple[int, int], set[int]] = {}
    for row in made:
        assert len(row.ids) <= 32 and row.start == row.end == 0
        assert row.char_start is not None and row.char_end is not None
        for token, a, b in zip(row.ids, row.char_start, row.char_end, strict=True):
            if a >= 0:
                seen.setdefault((a, b), set()).add(token)
    covered = {c for a, b in seen for c in range(a, b)}
    assert covered >= {i for i, c in enumerate(passage) if not c.isspace()}


@given(count=st.integers(0, 300), room=st.integers(2, 50), data=st.data())
def test_windows_overlap_as_asked(count: int, room: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, room - 1))
    made = list(windows(count, room, overlap))
    assert made[0][0] == 0 and made[-1][1] == count
    assert all(b[0] == a[1] - overlap and b[1] > a[1] for a, b in itertools.pairwise(made))


def test_a_window_must_exceed_its_overlap() -> None:
    with pytest.raises(DataError, match=r"must exceed the overlap; raise data\.length"):
        encoding("question(overlap=32, question_length=48)", 64)


def test_a_decoder_gets_its_target_between_start_and_stop() -> None:
    made = encoding("translation", 6, WORD)
    (row,) = made.rows([Example("the quick fox", target=TEXT)])
    assert [WORD.token(i) for i in row.ids] == ["<START>", "the", "quick", "fox", "<STOP>"]
    assert row.target is not None
    assert [WORD.token(i) for i in row.target] == ["<START>", "the", "quick", "brown", "fox", "<STOP>"]
    assert made.cuts.examples == 1 and made.cuts.lost == len(WORD.encode(TEXT)) - 4


def test_a_prefix_marks_its_source() -> None:
    (row,) = rows("prefix", 20, Example("the fox", target="lazy dog"), tokenizer=WORD)
    assert [WORD.token(i) for i in row.ids[: row.source]] == ["<START>", "the", "fox", "<SEP>"]
    assert WORD.decode(row.ids[row.source :]) == "lazy dog"


@pytest.mark.parametrize(
    ("choice", "field"), [("pair", "pair"), ("translation", "target"), ("question", "pair")]
)
def test_a_missing_field_is_named(choice: str, field: str) -> None:
    with pytest.raises(
        DataError, match=rf"needs a {field} in every example \(at a line 1\).*--{field} COLUMN"
    ):
        rows(choice, 128, Example("only text", place="a line 1"))


def test_a_length_without_room_is_refused() -> None:
    with pytest.raises(DataError, match=r"data\.length 3 leaves no room for text next to 3 special tokens"):
        rows("pair", 3, Example("a", pair="b"))


@pytest.mark.parametrize(
    ("choice", "example", "other"),
    [
        ("document", Example("a", target="b"), "prefix or translation"),
        ("single", Example("a", pair="b", label="x"), "pair"),
        ("pair", Example("a", pair="b", answers=(Answer("b", 0),)), "question"),
        ("translation", Example("a", pair="c", target="b"), "pair"),
    ],
)
def test_text_that_would_be_left_out_is_not_left_out_in_silence(
    choice: str, example: Example, other: str
) -> None:
    with pytest.raises(
        DataError, match=f"encoding would leave out; use data.encoding {other}, or do without"
    ):
        rows(choice, 128, example)


def test_an_answer_inside_a_token_is_held_by_it_and_counted() -> None:
    made = encoding("question(overlap=4, question_length=8)", 32, WORD)
    (row,) = made.rows([Example("who", pair="the quick fox", answers=(Answer("ick", 6),))])
    assert row.start == row.end and WORD.token(row.ids[row.start or 0]) == "quick"
    assert made.cuts.inexact == 1 and str(made.cuts).endswith("1 answers begin or end inside a token")
