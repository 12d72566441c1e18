"""Tokenizers from files: our own tokenizer.json, and those that other projects publish."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tokenizers as library
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from attnlab.config.untrusted import MEBIBYTE, read_json
from attnlab.config.values import ConfigError
from attnlab.data.errors import DataError, reason_of
from attnlab.data.tokenizers.sentencepiece import CONVERT, sentencepiece
from attnlab.data.tokenizers.tokenizer import TARGET_FILE, Tokenizer
from attnlab.data.tokenizers.tokenizer_recipe import TokenizerRecipe
from attnlab.data.tokenizers.training_text import record_of, recorded

MERGES = ("merges.txt", "vocab.bpe")
VOCABULARIES = ("vocab.json", "encoder.json")
IN_TRAINING = "attnlab_post_processor"
"""In tokenizer_config.json of a model that attnlab exported: the post-processor that it was trained with. The
one in tokenizer.json does not end a text, so that a prompt can be continued."""
LARGEST = 256 * MEBIBYTE
"""Of a tokenizer's file; the largest published ones have some 30."""


class File(TokenizerRecipe):
    """A tokenizer from files: tokenizer.json, or those of BERT, GPT-2, RoBERTa, LLaMA and T5.

    Theirs are vocab.txt, vocab.json with merges.txt, and SentencePiece's tokenizer.model or spiece.model.

    `path` is the file, or the folder of a checkpoint. To adapt a pretrained model its own
    tokenizer is the only one that works: ids mean what they meant in training.
    """

    trains = False

    def __init__(self, *, path: str = "tokenizer.json"):
        self.path = path

    @property
    def most(self) -> int:
        return load(self.path).size

    def make(self, texts: Iterable[str]) -> Tokenizer:
        return load(self.path)


def load(path: str | Path) -> Tokenizer:
    """The tokenizer in a file or folder, whoever made it."""
    place = Path(path).expanduser()
    if place.is_dir():
        place = inside(place)
    if not place.is_file():
        raise DataError(
            f'There is no tokenizer at "{path}"; give a tokenizer.json, or the folder that holds it.'
        )
    if place.name.endswith(".txt"):
        return bert(place)
    if place.name in MERGES or place.suffix == ".bpe":
        place = beside(place, VOCABULARIES, "vocabulary")
    if place.suffix == ".model":
        model, settings = place, settings_beside(place)
        return tried(lambda: sentencepiece(model, settings), f"{place} is not a SentencePiece model")
    if place.suffix != ".json":
        raise DataError(f"{place} is not a tokenizer that can be read; {CONVERT}.")
    content = json_of(place)
    whole_file = isinstance(content.get("model"), dict)  # "model" is also a word of GPT-2's vocabulary
    if whole_file:
        refuse_odd_ids(held_ids(content), place)
    return whole(place) if whole_file else gpt2(content, beside(place, MERGES, "list of merges"))


def load_run(folder: Path, *, separate: bool) -> Tokenizer:
    """The tokenizer of a run, with that of its targets where they have a vocabulary of their own."""
    source = load(folder / "tokenizer.json")
    return source.with_target(load(folder / TARGET_FILE)) if separate else source


def cached(file: Path) -> Tokenizer | None:
    """A tokenizer.json that we wrote, where it is there and just that which its record is of."""
    if not file.exists():
        return None
    try:
        made = load(file)
    except DataError:
        return None
    return None if made.text is None and record_of(file).exists() else made


def inside(folder: Path) -> Path:
    """The tokenizer's file in a folder."""
    for name in ("tokenizer.json", *VOCABULARIES, "vocab.txt", "tokenizer.model", "spiece.model"):
        if (folder / name).is_file():
            return folder / name
    raise DataError(
        f"{folder} holds no tokenizer.json, vocab.json with merges.txt, vocab.txt, or tokenizer.model."
    )


def beside(file: Path, names: tuple[str, ...], what: str) -> Path:
    for name in names:
        if (file.parent / name).is_file():
            return file.parent / name
    raise DataError(f"{file} needs its {what} in the same folder ({' or '.join(names)}), which is not there.")


def settings_beside(file: Path) -> dict[str, Any]:
    """What tokenizer_config.json in the same folder says, where there is one."""
    settings = file.with_name("tokenizer_config.json")
    return json_of(settings) if settings.is_file() else {}


def json_of(file: Path) -> dict[str, Any]:
    try:
        return read_json(file, most=LARGEST)
    except ConfigError as error:
        raise DataError(f"There is no tokenizer in {file}: {error}") from error


def whole(file: Path) -> Tokenizer:
    """A tokenizer.json: everything is in it; what it was trained on may be recorded beside it."""
    made = tried(lambda: Tokenizer(_as_trained(file)), f"{file} is not a tokenizer.json")
    made.text = recorded(file, made.fingerprint)
    return made


def _as_trained(file: Path) -> library.Tokenizer:
    settings = settings_beside(file) if file.name == "tokenizer.json" else {}
    if IN_TRAINING not in settings:
        return library.Tokenizer.from_buffer(file.read_bytes())  # the library opens no path of other bytes
    return library.Tokenizer.from_str(json.dumps(json_of(file) | {"post_processor": settings[IN_TRAINING]}))


def text_lines(file: Path) -> list[str]:
    """The lines of a vocabulary or list of merges."""
    try:
        return file.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        byte = f"0x{error.object[error.start]:02X}"
        raise DataError(f"{file} is not UTF-8 (byte {byte} at {error.start:,}); restore it.") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}.") from error


GAPS = 16
"""Ids for each token that a vocabulary may leave unused: published ones leave a few, in all."""


def held_ids(held: Mapping[str, Any]) -> dict[str, Any]:
    """The ids of a tokenizer.json by token, as far as they are written as such."""
    vocabulary, added = held["model"].get("vocab"), held.get("added_tokens")
    ids = dict(vocabulary) if isinstance(vocabulary, dict) else {}
    for token in added if isinstance(added, list) else ():
        if isinstance(token, dict):
            ids[str(token.get("content"))] = token.get("id")
    return ids


def refuse_odd_ids(vocabulary: Mapping[str, Any], place: Path) -> None:
    """Ids are rows of a table: the library makes room for the largest one, or ends the process."""
    most = GAPS * len(vocabulary) + 4096
    for token, number in vocabulary.items():
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < most:
            raise DataError(
                f"{place} gives the token {token!r} the id {number!r}; ids of {len(vocabulary):,} tokens are "
                f"whole numbers from 0, below {most:,}."
            )


def tried(make: Callable[[], Tokenizer], wrong: str) -> Tokenizer:
    """A tokenizer that works, or an error."""
    with in_a_sentence(f"{wrong} that can be read"):
        made = make()
        form = made.form  # a broken post-processor shows when it is tried
    beyond = max((*form.before, *form.end, *form.middle, *form.after), default=-1)
    if beyond >= made.size:
        raise DataError(
            f"{wrong} that can be used: it puts the id {beyond:,} next to a text, and its {made.size:,} "
            "tokens have ids below that. Restore it."
        )
    return made


@contextmanager
def in_a_sentence(wrong: str) -> Iterator[None]:
    """What the library raises, as an error of ours; where it panics, it first writes a stack to stderr."""
    sys.stderr.flush()
    stderr, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    except (KeyboardInterrupt, SystemExit, DataError):
        raise
    except BaseException as error:  # it raises bare Exception, and panics that are not even that
        raise DataError(f"{wrong}: {reason_of(error)}.") from error
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nothing)


def gpt2(vocabulary: dict[str, int], merges: Path) -> Tokenizer:
    """GPT-2's and RoBERTa's files: byte-level BPE; RoBERTa's has <s> and </s>, and puts them round texts."""
    refuse_odd_ids(vocabulary, merges.parent)
    lines = text_lines(merges)
    pairs = [tuple(line.split(" ")) for line in lines if line.strip() and not line.startswith("#version")]
    if bad := next((pair for pair in pairs if len(pair) != 2), None):
        raise DataError(f'{merges} is not a list of merges: "{" ".join(bad)}" is not two parts.')
    with in_a_sentence(f"{merges} and its vocabulary do not go together"):
        tokenizer = library.Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))  # type: ignore[arg-type]
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if {"<s>", "</s>"} <= set(vocabulary):
        start, stop = ("<s>", vocabulary["<s>"]), ("</s>", vocabulary["</s>"])
        tokenizer.post_processor = processors.RobertaProcessing(stop, start, add_prefix_space=False)
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    names = ("<|endoftext|>", "<s>", "<pad>", "</s>", "<unk>", "<mask>")
    tokenizer.add_special_tokens([name for name in names if name in vocabulary])
    return Tokenizer(tokenizer)


def bert(file: Path) -> Tokenizer:
    """BERT's vocab.txt: WordPiece; cased or not as its settings say, else as its words are."""
    words = text_lines(file)
    vocabulary = {word.rstrip("\r"): number for number, word in enumerate(words)}
    if "[UNK]" not in vocabulary:
        raise DataError(f"{file} is not BERT's vocabulary: [UNK] is not in it.")
    lowercase = uncased(file, vocabulary)
    with in_a_sentence(f"{file} is not BERT's vocabulary"):
        tokenizer = library.Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    names = [name for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if name in vocabulary]
    tokenizer.add_special_tokens(names)
    if {"[CLS]", "[SEP]"} <= set(vocabulary):
        separator, start = ("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"])
        tokenizer.post_processor = processors.BertProcessing(separator, start)
    return Tokenizer(tokenizer)


def uncased(file: Path, vocabulary: Iterable[str]) -> bool:
    """Whether text is made lower case: by tokenizer_config.json, else by the words themselves."""
    lower_case = settings_beside(file).get("do_lower_case")
    if isinstance(lower_case, bool):
        return lower_case
    return not any(word != word.lower() for word in vocabulary if not word.startswith("["))
