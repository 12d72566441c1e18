"""A tokenizer as transformers loads it: tokenizer.json, and what it must be told beside that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers as library

from attnlab.data.tokenizers.tokenizer import Tokenizer
from attnlab.data.tokenizers.tokenizer_files import IN_TRAINING
from attnlab.model.model import Model


def save_tokenizer(tokenizer: Tokenizer, target: Path, model: Model, *, length: int, typed: bool) -> None:
    """Write it for a model that reads `length` tokens, with token types where it is `typed`.

    A text that a decoder is to continue must not end with the stop token, and is padded on the left; one that
    it classifies ends with it, also where the tokenizer adds nothing by itself. The post-processor of
    training is kept beside it for whoever imports the folder.
    """
    settings = _settings(tokenizer, length, typed)
    prompted = model.writes and not model.trunk.reads_source
    own = json.loads(tokenizer.inner.to_str())
    other = _open_ended(own.get("post_processor")) if prompted else _ended(tokenizer)
    tokenizer.save(target)
    if prompted:
        settings["padding_side"] = "left"
    if other is not None:
        settings[IN_TRAINING] = own["post_processor"]
        inner = library.Tokenizer.from_str(json.dumps(own | {"post_processor": other}))
        inner.save(str(target / "tokenizer.json"))
    text = json.dumps(settings, indent=2) + "\n"
    (target / "tokenizer_config.json").write_text(text, encoding="utf-8")


def _ended(tokenizer: Tokenizer) -> dict[str, Any] | None:
    """What puts the stop token after each text, where we do that and the tokenizer's own file does not."""
    text, stop = tokenizer.encode("a"), tokenizer.specials.stop
    if stop is None or tokenizer.inner.encode("a").ids == tokenizer.form.single(text):
        return None
    name = tokenizer.token(stop)
    end = {"SpecialToken": {"id": name, "type_id": 0}}
    first, second = ({"Sequence": {"id": which, "type_id": 0}} for which in "AB")
    return {
        "type": "TemplateProcessing",
        "single": [first, end],
        "pair": [first, end, second, end],
        "special_tokens": {name: {"id": name, "ids": [stop], "tokens": [name]}},
    }


def _open_ended(post_processor: Any) -> dict[str, Any] | None:
    """The same without the special tokens after the last text; None where none stands there."""
    if not isinstance(post_processor, dict):
        return None
    if post_processor.get("type") == "Sequence":
        parts = [(_open_ended(part), part) for part in post_processor["processors"]]
        changed = any(new is not None for new, _ in parts)
        return post_processor | {"processors": [new or old for new, old in parts]} if changed else None
    if post_processor.get("type") != "TemplateProcessing":
        return None
    cut = {form: _without_last_specials(post_processor[form]) for form in ("single", "pair")}
    return None if cut["single"] == post_processor["single"] else post_processor | cut


def _without_last_specials(template: list[dict[str, Any]]) -> list[dict[str, Any]]:
    texts = [number for number, piece in enumerate(template) if "Sequence" in piece]
    return template[: texts[-1] + 1]


def _settings(tokenizer: Tokenizer, length: int, typed: bool) -> dict[str, Any]:
    specials, token = tokenizer.specials, tokenizer.token
    roles = {
        "pad": specials.pad,
        "unk": specials.unknown,
        "bos": specials.start,
        "eos": specials.stop,
        "mask": specials.mask,
    }
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": length,
        "model_input_names": ["input_ids", *["token_type_ids"] * typed, "attention_mask"],
        **{f"{role}_token": token(number) for role, number in roles.items() if number is not None},
    }
