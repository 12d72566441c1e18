"""Two files of lines that belong together, and what is wrong with pairs of texts."""

from pathlib import Path

import pytest

from attnlab.data.corpora import CORPORA
from attnlab.data.corpora.corpus import Corpus
from attnlab.data.errors import DataError
from attnlab.data.tokenizers import TOKENIZERS


def parallel(folder: Path, sources: str, targets: str, **more: object) -> Corpus:
    (folder / "train.en").write_text(sources)
    (folder / "train.fr").write_text(targets)
    files = {"path": str(folder / "train.en"), "target_path": str(folder / "train.fr")}
    return CORPORA.build({"kind": "files", **files, **more})


def test_line_i_of_one_file_belongs_to_line_i_of_the_other(tmp_path: Path) -> None:
    examples = list(parallel(tmp_path, "Go.\n\nI run.\n", "Va !\n\nJe cours.\n").read())
    assert [(e.text, e.target) for e in examples] == [("Go.", "Va !"), ("I run.", "Je cours.")]
    assert examples[1].place.endswith("train.en line 3")


def test_other_numbers_of_lines_are_told_with_both(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train.en has 3 lines and .*train.fr has 5"):
        list(parallel(tmp_path, "a\nb\nc\n", "a\nb\nc\nd\ne\n").read())
    with pytest.raises(DataError, match=r"train.en has 2 lines and .*train.fr has 1"):
        list(parallel(tmp_path, "a\nb\n", "a\n").read())


def test_a_line_that_is_empty_on_one_side_is_told_with_its_number(tmp_path: Path) -> None:
    sides = "a\nb\nc\n", "a\n \nc\n"
    with pytest.raises(DataError, match=r"train.fr line 2: it is empty, while line 2 of .*train.en is not"):
        list(parallel(tmp_path, *sides).read())
    corpus = parallel(tmp_path, *sides, skip_bad=True)
    assert [example.text for example in corpus.read()] == ["a", "c"] and corpus.skipped == 1


def test_each_split_has_its_two_files(tmp_path: Path) -> None:
    (tmp_path / "held.en").write_text("x\n")
    (tmp_path / "held.fr").write_text("y\n")
    dev = {"dev": str(tmp_path / "held.en")}
    with pytest.raises(DataError, match="dev has 1 file of sources and 0 files of targets"):
        parallel(tmp_path, "a\n", "b\n", **dev)
    corpus = parallel(tmp_path, "a\n", "b\n", **dev, target_dev=str(tmp_path / "held.fr"))
    assert [(e.text, e.target) for e in corpus.read("dev")] == [("x", "y")]


def test_the_fingerprint_follows_the_targets_too(tmp_path: Path) -> None:
    before = parallel(tmp_path, "a\n", "b\n").fingerprint()
    assert parallel(tmp_path, "a\n", "c\n").fingerprint() != before


def test_a_table_is_not_one_of_two_files(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("source\ttarget\na\tb\n")
    with pytest.raises(DataError, match=r"pairs.tsv is a table"):
        parallel(tmp_path, "a\n", "b\n", target_path=str(tmp_path / "pairs.tsv"))


def test_broken_pairs_of_a_table_are_told_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("source\ttarget\nGo.\tVa !\nno tab here\nI run.\t\n")
    with pytest.raises(DataError) as raised:
        list(CORPORA.build(str(file)).read())
    told = str(raised.value)
    assert "line 3: it has 1 field where the header has 2" in told
    assert 'line 4: its "target" is empty' in told


def test_a_table_without_names_is_told_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("Go.\tVa !\nI run.\tJe cours.\n")
    with pytest.raises(DataError, match="where the first line is data, put a line with the columns' names"):
        list(CORPORA.build(str(file)).read())


def test_single_digits_are_tokens_of_their_own_and_the_text_comes_back() -> None:
    texts = ["year 1987, code 1987", "in 1987 and 198"] * 20
    single = TOKENIZERS.build("bpe(vocabulary=300, digits=single)").train(texts, source="here")
    merged = TOKENIZERS.build("bpe(vocabulary=300)").train(texts, source="here")
    pieces = [single.token(token) for token in single.encode(texts[0])]
    assert (
        sum(piece.isdigit() for piece in pieces) == 8 and single.decode(single.encode(texts[0])) == texts[0]
    )
    assert any(len(merged.token(token).strip("Ġ")) > 1 for token in merged.encode("1987"))


def test_characters_that_the_training_text_never_had_are_known(tmp_path: Path) -> None:
    tokenizer = TOKENIZERS.build("bpe(vocabulary=300)").train(["Bonjour à tous"], source="here")
    assert tokenizer.text is not None
    assert tokenizer.text.unseen("Привет à tous, tous") == ["П", "р", "и", "в", "е", "т", ","]
