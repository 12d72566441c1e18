"""An export, read again: by the code that it was written for, or by ours where that is not installed."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tokenizers as library
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.checks.module_subject import answers_of
from attnlab.config.untrusted import read_json
from attnlab.config.values import ConfigError
from attnlab.interop.families import FAMILIES
from attnlab.interop.foreign import CONFIG, ID2LABEL, NULL_THRESHOLD, load_model, named_classes
from attnlab.interop.onnx import TOLERANCE
from attnlab.interop.peft.adapter_files import WEIGHTS as ADAPTER
from attnlab.interop.peft.adapter_files import read_adapter
from attnlab.interop.picture_models import grid_of, picture_scores
from attnlab.interop.sentence_layout import apply_modules, output_in
from attnlab.interop.weights import Safe
from attnlab.model.isolation import AnyModule
from attnlab.model.model import Model
from attnlab.model.tokens import Tokens

ROLES = ("pad", "unk", "bos", "eos", "mask")
"""Of special tokens, as transformers names them."""


PRECISE = 200_000_000
"""Parameters up to which an export and its run are compared in float64."""
EQUAL, ROUNDED = 1e-5, TOLERANCE
"""Of the largest score, in float64 (exports hold float32, and some models compute in it inside) and below."""


class NotLoadedError(ConfigError):
    """A folder that transformers cannot load, or that it is not asked to."""

    def __init__(self, implementation: str, reason: str, *, tried: bool = False):
        """`tried` says that the folder is at fault, and not what is installed."""
        self.implementation, self.tried = implementation, tried
        super().__init__(reason)


@dataclass(frozen=True)
class ReadText:
    """A text as a run reads it: ids, segments where the model has them, and a source where it reads one; of
    a picture its pixels (1,3,S,S) from −1 to 1, and no ids."""

    ids: Sequence[int]
    types: Sequence[int] | None = None
    source: Sequence[int] | None = None
    pixels: Tensor | None = None


class ReadBack(ABC):
    """What an export says. Of what it has no place for, such as a threshold in ONNX, it says None."""

    implementation: str
    equal = ROUNDED
    """Of the largest score: how far it may be from the run's."""
    lost: tuple[str, ...] = ()
    """Tensors that the other side needs or does not know."""
    names: tuple[str, ...] | None = None
    """Of classes, in order."""
    threshold: float | None = None
    special_ids: Mapping[str, int | None] | None = None
    """By role."""
    numbers: int | None = None
    """How many numbers its tensors hold, where they are an adapter's."""

    @abstractmethod
    def scores(self, text: ReadText, *, by_place: bool) -> Tensor:
        """The scores of one text: (1,T,V) by place, or (1,C) as a whole."""

    def ids(self, text: str, pair: str | None) -> list[int] | None:
        """A text, or two, by its own tokenizer; None where it has none."""
        return None

    def plain_ids(self, text: str, pair: str | None) -> list[int] | None:
        """The same by the file of the tokenizer alone, whatever class is usual for the model."""
        return self.ids(text, pair)


class ByModule(ReadBack):
    """A module of transformers, in float64."""

    module: nn.Module

    @torch.no_grad()
    def scores(self, text: ReadText, *, by_place: bool) -> Tensor:
        output = self.output(text)
        summary = None if by_place else getattr(output, "pooler_output", None)
        return answers_of(output) if summary is None else summary

    def output(self, text: ReadText) -> Any:
        return self.module(**self.inputs(text))

    def inputs(self, text: ReadText) -> dict[str, Tensor]:
        if text.pixels is not None:
            return {"pixel_values": text.pixels.to(next(self.module.parameters()))}
        ids = torch.tensor([text.ids])
        if text.source is not None:
            return {"input_ids": torch.tensor([text.source]), "decoder_input_ids": ids}
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        return given if text.types is None else given | {"token_type_ids": torch.tensor([text.types])}


class ByTransformers(ByModule):
    """A folder as transformers loads it: the class that config.json names, and AutoTokenizer."""

    tokenizer: Any = None
    """None where a model reads pictures alone."""

    @torch.no_grad()
    def scores(self, text: ReadText, *, by_place: bool) -> Tensor:
        if not hasattr(self.module, "get_image_features"):
            return super().scores(text, by_place=by_place)
        module: Any = self.module  # of pictures and texts: what each becomes, and a scale
        read = module.get_text_features if text.pixels is None else module.get_image_features
        made = read(**self.inputs(text))
        vectors: Tensor = made if isinstance(made, Tensor) else made.pooler_output
        return F.normalize(vectors, dim=-1) * (module.logit_scale / 2).exp()

    def __init__(self, folder: Path):
        module, info = load_by_transformers(folder, read_json(folder / CONFIG))
        import transformers

        self.module, self.equal = precise(module)
        self.implementation = implementation_of(module)
        keys = ("missing_keys", "unexpected_keys", "mismatched_keys")
        self.lost = tuple(sorted(str(name) for key in keys for name in info.get(key, ())))
        self.names, self.threshold = facts_of(module)
        if FAMILIES[str(read_json(folder / CONFIG)["model_type"])].pictured:
            return
        with quiet(transformers):
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
            plain = transformers.PreTrainedTokenizerFast
            self.plain_tokenizer = plain.from_pretrained(folder, local_files_only=True)
        self.special_ids = {role: getattr(self.tokenizer, f"{role}_token_id") for role in ROLES}

    def ids(self, text: str, pair: str | None) -> list[int] | None:
        return None if self.tokenizer is None else list(self.tokenizer(text, pair)["input_ids"])

    def plain_ids(self, text: str, pair: str | None) -> list[int] | None:
        return list(self.plain_tokenizer(text, pair)["input_ids"])


def facts_of(module: Any) -> tuple[tuple[str, ...], float | None]:
    """The names of classes in a module's config.json, and the margin above which it answers."""
    threshold = getattr(module.config, NULL_THRESHOLD, None)
    return named_classes(module.config.id2label), None if threshold is None else -float(threshold)


class ByModules(ByTransformers):
    """A folder of sentence-transformers: its trunk as transformers loads it, then what its files say."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.folder = folder

    @torch.no_grad()
    def scores(self, text: ReadText, *, by_place: bool) -> Tensor:
        return apply_modules(self.folder, self.output(text).last_hidden_state)


class BySentenceTransformers(ByModules):
    """The same folder as sentence-transformers loads it."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        import sentence_transformers
        import transformers

        with quiet(transformers):
            loaded = sentence_transformers.SentenceTransformer(
                str(folder), device="cpu", local_files_only=True
            )
        self.whole, self.equal = precise(loaded)
        self.implementation = f"sentence-transformers {sentence_transformers.__version__}"

    @torch.no_grad()
    def scores(self, text: ReadText, *, by_place: bool) -> Tensor:
        scores: Tensor = self.whole(self.inputs(text))["sentence_embedding"]
        return scores


class ByAttnlab(ReadBack):
    """The same folder by our own code, where transformers is not installed."""

    implementation = "attnlab"

    def __init__(self, folder: Path):
        foreign = load_model(folder, output=unread_head(folder))
        file = folder / "tokenizer.json"  # as others read it
        self.tokenizer = library.Tokenizer.from_file(str(file)) if foreign.config.picture is None else None
        self.model, self.equal = precise(foreign.model)
        named, threshold = foreign.theirs.get(ID2LABEL), foreign.theirs.get(NULL_THRESHOLD)
        self.names = named_classes(named) if isinstance(named, Mapping) else ()
        self.threshold = -float(threshold) if isinstance(threshold, int | float) else None

    @torch.no_grad()
    def scores(self, text: ReadText, *, by_place: bool) -> Tensor:
        return scores_of_model(self.model, text)

    def ids(self, text: str, pair: str | None) -> list[int] | None:
        return None if self.tokenizer is None else list(self.tokenizer.encode(text, pair).ids)


class ByOurAdapter(ReadBack):
    """An adapter in peft's files by our own code."""

    implementation = "attnlab"

    def __init__(self, folder: Path, model: Model, *, family: str, architecture: str):
        if model.adapter is not None:
            model.adapter.detach()
        adapter = read_adapter(folder, model, family=family, architecture=architecture)
        self.model, self.equal = precise(adapter.attach(model).attached)
        self.numbers = sum(tensor_sizes(folder / ADAPTER).values())

    @torch.no_grad()
    def scores(self, text: ReadText, *, by_place: bool) -> Tensor:
        return scores_of_model(self.model, text)


class ByOnnx(ReadBack):
    """A file as onnxruntime runs it, in float32."""

    def __init__(self, file: Path):
        import onnxruntime

        self.session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        self.implementation = f"onnxruntime {onnxruntime.__version__}"
        self.takes = {given.name for given in self.session.get_inputs()}

    def scores(self, text: ReadText, *, by_place: bool) -> Tensor:
        types = text.types if text.types is not None else [0] * len(text.ids)
        given = {"ids": text.ids, "real": [True] * len(text.ids), "types": types}
        if text.source is not None:
            given |= {"source": text.source, "source_real": [True] * len(text.source)}
        inputs = {name: torch.tensor([value]).numpy() for name, value in given.items() if name in self.takes}
        return torch.from_numpy(self.session.run(None, inputs)[0]).double()


class ByPeft(ByModule):
    """An adapter as peft loads it, onto its base in transformers' layout."""

    def __init__(self, folder: Path, base: Path, *, architecture: str, outputs: int):
        import peft
        import transformers

        sized = {"num_labels": outputs} if outputs else {}
        with quiet(transformers), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the head is new until the adapter brings it
            loaded = getattr(transformers, architecture).from_pretrained(base, local_files_only=True, **sized)
            adapted = peft.PeftModel.from_pretrained(loaded, str(folder))
        self.module, self.equal = precise(adapted)
        self.implementation = f"peft {peft.__version__}"
        sizes = tensor_sizes(folder / ADAPTER)
        self.lost = tuple(sorted(sizes.keys() ^ peft.get_peft_model_state_dict(adapted).keys()))
        self.numbers = sum(sizes.values())


def unread_head(folder: Path) -> dict[str, Any] | None:
    """Modules of a folder that `load_model` leaves to whoever asks, since they have no weights."""
    output = output_in(folder)
    return output if output is not None and output["kind"] == "sentence" else None


def read_back(folder: Path) -> ReadBack:
    """A folder in the layout of transformers or sentence-transformers, by these where they are installed."""
    try:
        if output_in(folder) is not None:
            return (BySentenceTransformers if find_spec("sentence_transformers") else ByModules)(folder)
        return ByTransformers(folder)
    except NotLoadedError as error:
        if error.tried:
            raise
        return ByAttnlab(folder)


def adapter_read_back(
    folder: Path, base: Path, *, run: Model, family: str, architecture: str, outputs: int
) -> ReadBack:
    """A folder of peft's by peft, onto a base in transformers' layout; where peft is not installed, by our
    own code onto the run's model, whose adapter is taken off."""
    if find_spec("peft") and find_spec("transformers"):
        return ByPeft(folder, base, architecture=architecture, outputs=outputs)
    return ByOurAdapter(folder, run, family=family, architecture=architecture)


def precise(module: AnyModule) -> tuple[AnyModule, float]:
    """A module in float64 where it is small enough, and how far its scores may then be from equal ones."""
    small = sum(parameter.numel() for parameter in module.parameters()) <= PRECISE
    return (module.double() if small else module).eval(), EQUAL if small else ROUNDED


def tensor_sizes(file: Path) -> dict[str, int]:
    """How many numbers each tensor of a file holds."""
    stored = Safe([file])
    return {name: stored.tensor(name).numel() for name in stored.names()}


def scores_of_model(model: Model, text: ReadText) -> Tensor:
    """What a model of ours says of one text, or picture."""
    if text.pixels is not None:
        return picture_scores(model, grid_of(model, text.pixels), text.pixels)
    given: dict[str, Any] = {} if text.types is None else {"types": torch.tensor([text.types])}
    if text.source is not None:
        given["source"] = torch.tensor([text.source])
    scores: Tensor = model(torch.tensor([text.ids]), Tokens.of(len(text.ids)), **given)
    return scores


def load_by_transformers(folder: Path, config: Mapping[str, Any]) -> tuple[nn.Module, Mapping[str, Any]]:
    """The module by the class that config.json names, and which tensors it missed. Code in the folder is
    never run."""
    try:
        import transformers
    except ImportError as error:
        raise NotLoadedError(
            "transformers",
            "transformers is not installed: only attnlab's implementation is checked "
            '(pip install "transformers>=5")',
        ) from error
    version = f"transformers {transformers.__version__}"
    if config.get("auto_map"):
        raise NotLoadedError(
            version, "config.json asks for code of its own (auto_map), which is not executed"
        )
    names = config.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else "AutoModel"
    known = getattr(transformers, name, None)
    if known is None:
        raise NotLoadedError(version, f"{version} has no class {name}, which config.json names")
    try:
        with quiet(transformers):
            module, info = known.from_pretrained(folder, local_files_only=True, output_loading_info=True)
    except Exception as error:  # whatever another project's library raises at a broken folder
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        broken = f"transformers cannot load this folder: {reason}"
        raise NotLoadedError(version, broken, tried=True) from error
    return module.eval(), info


def implementation_of(module: nn.Module) -> str:
    """Whose code a module of transformers is."""
    import transformers

    attention = getattr(module.config, "_attn_implementation", "unknown")
    return f"transformers {transformers.__version__} ({type(module).__name__}, attention {attention})"


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Without the progress bars and reports of transformers, which stand between our lines."""
    logging = transformers.utils.logging
    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
