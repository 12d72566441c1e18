"""Tokenizers of other projects give the ids that transformers gives, on awkward Unicode."""

import json
from pathlib import Path

import pytest
import tokenizers as library
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertTokenizer, GPT2Tokenizer, PreTrainedTokenizerFast, RobertaTokenizer

from attnlab.config.values import ConfigError
from attnlab.data.errors import DataError
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.data.tokenizers.tokenizer_files import load

TEXT = [
    "Hello there, don't panic: we'll see the naïve café at 12:30.",
    "The unbelievable tokenization of 1,234.5 emails — “quoted” text…",
    "你好世界 これは मानक हिन्दी مرحبا İstanbul ß ﬁ 🙂👩‍👩‍👧 e\u0301",
] * 3
AWKWARD = [
    "",
    " ",
    "  two  spaces ",
    "e\u0301 vs é",
    "🙂👩\u200d👩\u200d👧🏳️\u200d🌈",
    "\u200b\u200d\ufeff",
    "ﬁ Ⅷ ① Ａｆｕｌｌ",
    "مرحبا हिन्दी ไทย",
    "\t\n\r\n x",
    "I'm can't WE'LL 'tis",
    "a" * 300,
    "\u00a0nbsp\u3000",
    "𝔘𝔫𝔦 \U0010ffff \ue000",
    "\x01\x7f",
    "İstanbul ẞ",
]
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def byte_level(specials: list[str]) -> library.Tokenizer:
    tokenizer = library.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small vocabulary in the files that GPT-2 was published in."""
    folder = tmp_path_factory.mktemp("gpt2")
    held = json.loads(byte_level(["<|endoftext|>"]).to_str())["model"]
    (folder / "encoder.json").write_text(json.dumps(held["vocab"] | {"model": len(held["vocab"])}))
    merges = "".join(f"{a} {b}\n" for a, b in held["merges"])
    (folder / "vocab.bpe").write_text("#version: 0.2\n" + merges, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("roberta")
    byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]).model.save(str(folder))
    return folder


@pytest.fixture(scope="module", params=["cased", "uncased"])
def bert(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp(f"bert_{request.param}")
    tokenizer = library.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=request.param == "uncased")
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=specials, show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.model.save(str(folder))
    return folder


def compare(ours, theirs, text: str, other: str) -> None:  # type: ignore[no-untyped-def]
    assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"], repr(text)
    if theirs.cls_token is not None:
        a, b = ours.encode(text), ours.encode(other)
        assert ours.form.single(a) == theirs(text)["input_ids"]
        assert ours.form.pair(a, b) == theirs(text, other)["input_ids"]
        types = theirs(text, other, return_token_type_ids=True)["token_type_ids"]
        assert ours.form.pair_types(len(a), len(b)) == types


def check(ours, theirs) -> None:  # type: ignore[no-untyped-def]
    for text in AWKWARD:
        compare(ours, theirs, text, "and another")

    @settings(max_examples=80, deadline=None)
    @given(text=ANY_TEXT, other=ANY_TEXT.filter(bool))  # they take an empty second text for none
    def any_text(text: str, other: str) -> None:
        compare(ours, theirs, text, other)

    any_text()


def test_gpt2s_files(gpt2: Path) -> None:
    ours = load(gpt2)
    check(ours, GPT2Tokenizer(vocab=str(gpt2 / "encoder.json"), merges=str(gpt2 / "vocab.bpe")))
    assert ours.specials.stop == ours.id("<|endoftext|>") == ours.pad
    assert load(gpt2 / "vocab.bpe").fingerprint == load(gpt2 / "encoder.json").fingerprint == ours.fingerprint
    for text in AWKWARD:
        assert ours.decode(ours.encode(text)) == text
    stop = ours.specials.stop
    assert ours.form.pair([7], [8]) == [7, stop, 8, stop]


def test_robertas_files(roberta: Path) -> None:
    ours = load(roberta)
    check(ours, RobertaTokenizer(vocab=str(roberta / "vocab.json"), merges=str(roberta / "merges.txt")))
    start, stop = ours.id("<s>"), ours.id("</s>")
    assert ours.form.pair([7], [8]) == [start, 7, stop, stop, 8, stop]
    assert ours.form.pair_types(1, 1) == [0] * 6


def test_berts_files(bert: Path) -> None:
    ours = load(bert)
    lower = "uncased" in bert.name
    check(ours, BertTokenizer(vocab=str(bert / "vocab.txt"), do_lower_case=lower))
    cls, sep = ours.id("[CLS]"), ours.id("[SEP]")
    assert ours.form.pair([7], [8]) == [cls, 7, sep, 8, sep]
    assert ours.form.pair_types(1, 1) == [0, 0, 0, 1, 1]


def test_berts_settings_decide_about_case(bert: Path, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text((bert / "vocab.txt").read_text(encoding="utf-8"), encoding="utf-8")
    for lower in (True, False):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower}))
        ours = load(tmp_path)
        assert (ours.encode("Hello") == ours.encode("hello")) is lower


def test_llamas_tokenizer_json(tmp_path: Path) -> None:
    """LLaMA's form: ▁ for spaces, bytes for unknown characters, <s> before every text and no stop."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", *"abcdehlnot", "he", "▁he"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    model = models.BPE(
        vocab=vocabulary, merges=[("h", "e"), ("▁", "he")], unk_token="<unk>", byte_fallback=True
    )
    tokenizer = library.Tokenizer(model)
    steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    tokenizer.normalizer = normalizers.Sequence(steps)
    fuse = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(fuse)
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    ours = load(tmp_path)
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    for text in ["hello there", "日本 e", "a\nb"]:
        assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.form.single(ours.encode(text)) == theirs(text)["input_ids"]
        assert ours.form.pair(ours.encode(text), ours.encode("a")) == theirs(text, "a")["input_ids"]
        assert ours.decode(ours.encode(text)) == text
    assert (ours.specials.start, ours.specials.stop, ours.specials.pad) == (1, 2, None)


def test_a_kind_or_a_path_is_told_apart(gpt2: Path) -> None:
    assert TOKENIZERS.build(str(gpt2)).make([]).size == load(gpt2).size
    with pytest.raises(ConfigError, match='Did you mean "wordpiece"'):
        TOKENIZERS.resolve("wordpeice", "data.tokenizer")


def test_files_that_are_no_tokenizer(tmp_path: Path) -> None:
    def refused(name: str, content: str, message: str) -> None:
        folder = tmp_path / name.replace(".", "_")
        folder.mkdir()
        (folder / name).write_text(content)
        with pytest.raises(DataError, match=message):
            load(folder / name)

    refused(
        "vocab.json", '{"a": 0}', r"needs its list of merges in the same folder \(merges\.txt or vocab\.bpe\)"
    )
    refused("tokenizer.json", '{"model": {"type": "Nonsense"}}', "that can be read")
    refused("broken.json", "{", "is not JSON")
    refused("list.json", "[1]", "must hold a JSON object, not a list")
    refused("vocab.txt", "the\ncat\n", r"not BERT's vocabulary: \[UNK\] is not in it")
    refused("tokenizer.model", "x", "not a SentencePiece model that can be read")
    refused("merges.bin", "x", "is not a tokenizer that can be read; convert it")
    with pytest.raises(DataError, match="There is no tokenizer at"):
        load(tmp_path / "nowhere.json")
    with pytest.raises(DataError, match="holds no tokenizer"):
        load(tmp_path)
