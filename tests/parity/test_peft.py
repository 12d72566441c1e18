"""Adapters in peft's files: what we write answers the same there, and what it writes the same here."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
from peft import LoraConfig, PeftModel, PrefixTuningConfig, PromptTuningConfig, get_peft_model

from attnlab.config.values import ConfigError
from attnlab.generation.generate import generate
from attnlab.interop.foreign import load_model
from attnlab.interop.peft.adapter_files import CONFIG, WEIGHTS, read_adapter, write_adapter
from attnlab.model.adapters import ADAPTERS
from attnlab.model.tokens import Tokens
from tests.parity.theirs import ALL, HEADS, LAYERS, WIDTH, V, scores

CLOSE = {"rtol": 1e-4, "atol": 2e-5}
N = 3
TASK = {"gpt2": "CAUSAL_LM", "llama": "CAUSAL_LM", "t5": "SEQ_2_SEQ_LM"}
ODD = {"t5": {"num_layers": 3}}
"""With an even number of layers peft's prefix is half unused: see below."""
MODELS = ["gpt2", "llama", "bert", "roberta", "distilbert", "t5"]
HEADED = ["bert, classes", "roberta, classes", "distilbert, classes", "bert, answers"]
KINDS = {
    "prompt": f"prompt(tokens={N})",
    "prefix": f"prefix(tokens={N})",
    "lora": "lora(rank=2, alpha=3.0, targets=[query, key, value, output, down], shared_down=true)",
    "rslora": "lora(rank=4, alpha=3.0, scaling=root, targets=[query, value], shared_down=true)",
}
LINEAR = {"gpt2": ["c_attn", "mlp.c_proj"], "llama": ["q_proj", "down_proj"], "t5": ["q", "v", "wo"]}
DISTIL = {"token_dim": WIDTH, "num_attention_heads": HEADS, "num_layers": LAYERS}
"""What peft does not find in DistilBERT's config by itself."""


def can(name, kind):
    pooled = "classes" in name and kind == "prompt"
    return not pooled and not (name.startswith("distilbert") and kind == "prefix")


PAIRS = [(n, k) for n in MODELS for k in KINDS if can(n, k)] + [
    (n, k) for n in HEADED for k in ("prompt", "prefix", "lora") if can(n, k)
]
pairs = pytest.mark.parametrize(("name", "kind"), PAIRS)


@pytest.fixture(autouse=True)
def quietly():
    """Their warnings are theirs: of missing base configs, of token types that they drop."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def model(tmp_path):
    """(theirs, ours) of a case."""

    def of(name, **changes):
        theirs = ALL[name].make(**ODD.get(name, {}) | changes)
        theirs.save_pretrained(tmp_path / "model")
        return theirs, load_model(tmp_path / "model")

    return of


def place_of(ours):
    return {"family": ours.certificate.family, "architecture": ours.certificate.architecture}


def moved(parameters, seed=5):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in parameters:
            p.add_(torch.randn(p.shape, generator=generator) * 0.4)


def ours_written(ours, kind, folder, **options):
    adapter = ADAPTERS.build(KINDS.get(kind, kind)).attach(ours.model, **options)
    moved(adapter.parameters().values())
    write_adapter(folder, adapter, **place_of(ours))
    return adapter


def theirs_written(theirs, name, kind, folder, **options):
    """A new adapter of peft's, off its initial values, and its files."""
    task = TASK.get(name, "SEQ_CLS" if "classes" in name else "FEATURE_EXTRACTION")
    task = "QUESTION_ANS" if "answers" in name else task
    extra = DISTIL if name.startswith("distil") and kind == "prompt" else {}
    if kind in ("prompt", "prefix"):
        made = (PromptTuningConfig if kind == "prompt" else PrefixTuningConfig)(
            task_type=task, num_virtual_tokens=N, **extra
        )
    else:
        linear = LINEAR.get(
            name, ["q_lin", "lin2"] if "distil" in name else ["query", "value", "output.dense"]
        )
        settings = {"r": 3, "lora_alpha": 5, "target_modules": linear, "use_rslora": kind == "rslora"}
        made = LoraConfig(task_type=task, **settings | options)
    adapted = get_peft_model(theirs, made).eval()
    moved(p for p in adapted.parameters() if p.requires_grad)
    adapted.save_pretrained(folder)
    return adapted


def ids_of(rows=3, length=9, seed=1):
    return torch.randint(3, V, (rows, length), generator=torch.Generator().manual_seed(seed))


def padding(side):
    real = torch.ones(3, 9, dtype=torch.bool)
    real[0, 6:] = real[1, 8:] = False
    return real.flip(1) if side == "left" else real


@torch.no_grad()
def same_answers(name, kind, theirs, ours, side="none"):
    """The scores at real tokens of the text; peft's prompts are in its output, and so before the text."""
    real = torch.ones(3, 9, dtype=torch.bool) if side == "none" else padding(side)
    ids = ids_of().masked_fill(~real, 1 if name.startswith("roberta") else 0)
    if name == "t5":
        target = ids_of(length=7, seed=2)
        found = ours.model(target, source=ids, source_tokens=Tokens.of(9, real=real))
        mask = {"attention_mask": real.long()}
        expected = theirs(input_ids=ids, decoder_input_ids=target, **mask).logits
        return torch.testing.assert_close(found, expected, **CLOSE)
    positions = (real.long().cumsum(1) - 1).clamp(min=0)
    marks, given = {}, {"input_ids": ids, "attention_mask": real.long()}
    if kind == "prompt":  # it numbers padding too, and cannot be told otherwise
        marks = {"position": torch.arange(9).expand(3, -1)}
    elif not name.startswith(("distilbert", "roberta")):
        given["position_ids"] = positions
    found = ours.model(ids, Tokens.of(9, real=real, **marks))
    expected = scores(ALL[name], theirs(**given))
    if found.ndim == 2:
        return torch.testing.assert_close(found, expected, **CLOSE)
    return torch.testing.assert_close(found[real], expected[:, -9:][real], **CLOSE)


def sides(name, kind):
    """Where padding can stand. Some number it, and cannot be told otherwise; classes go by place 0."""
    numbered = (name.startswith("distilbert") or "answers" in name) and kind != "prompt"
    left = [] if numbered or "classes" in name else ["left"]
    return ["none", "right"] if name == "t5" else ["none", "right", *left]


@pairs
def test_what_we_write_answers_the_same_there(name, kind, model, tmp_path):
    theirs, ours = model(name)
    options = {"train": ["head"]} if name in HEADED else {}
    ours_written(ours, kind, tmp_path / "adapter", **options)
    adapted = PeftModel.from_pretrained(theirs, tmp_path / "adapter").eval()
    for side in sides(name, kind):
        same_answers(name, kind, adapted, ours, side)


@pairs
def test_what_they_write_answers_the_same_here(name, kind, model, tmp_path):
    theirs, ours = model(name)
    adapted = theirs_written(theirs, name, kind, tmp_path / "adapter")
    adapter = read_adapter(tmp_path / "adapter", ours.model, **place_of(ours))
    before = [p.clone() for p in ours.model.parameters()]
    adapter.attach(ours.model)
    for side in sides(name, kind):
        same_answers(name, kind, adapted, ours, side)
    adapter.detach()
    assert all(torch.equal(a, b) for a, b in zip(ours.model.parameters(), before, strict=True))


@pairs
def test_there_and_back_is_the_same_to_the_bit(name, kind, model, tmp_path):
    from safetensors.torch import load_file

    _, ours = model(name)
    options = {"train": ["head"]} if name in HEADED else {}
    ours_written(ours, kind, tmp_path / "adapter", **options).detach()
    again = read_adapter(tmp_path / "adapter", ours.model, **place_of(ours)).attach(ours.model)
    write_adapter(tmp_path / "again", again, **place_of(ours))
    wanted, found = (load_file(tmp_path / folder / WEIGHTS) for folder in ("adapter", "again"))
    assert found.keys() == wanted.keys() and all(torch.equal(found[n], wanted[n]) for n in wanted)
    first, second = (json.loads((tmp_path / folder / CONFIG).read_text()) for folder in ("adapter", "again"))
    assert first == second


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n, k in PAIRS if n in MODELS])
def test_gradients_are_theirs(name, kind, model, tmp_path):
    """Every trained number moves the same way: gradients in the place of the numbers, in the files."""
    from safetensors.torch import load_file

    theirs, ours = model(name)
    adapted = theirs_written(theirs, name, kind, tmp_path / "adapter")
    adapter = read_adapter(tmp_path / "adapter", ours.model, **place_of(ours)).attach(ours.model)
    ids, given = ids_of(), {}
    if name == "t5":
        given = {"decoder_input_ids": ids_of(length=7, seed=2)}
        ours.model(given["decoder_input_ids"], source=ids).square().sum().backward()
    else:
        ours.model(ids).square().sum().backward()
    logits = adapted(input_ids=ids, **given).logits
    logits[:, -7 if name == "t5" else -9 :].square().sum().backward()
    with torch.no_grad():
        for p in (*adapter.parameters().values(), *(p for p in adapted.parameters() if p.requires_grad)):
            p.copy_(p.grad)
    adapted.save_pretrained(tmp_path / "theirs")
    write_adapter(tmp_path / "ours", adapter, **place_of(ours))
    expected, found = (load_file(tmp_path / folder / WEIGHTS) for folder in ("theirs", "ours"))
    assert found.keys() == expected.keys()
    for tensor, gradient in found.items():
        wanted = expected[tensor][: len(gradient)]  # rows that peft never reads are at its end
        torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=1e-4 * float(wanted.abs().max()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_greedy_text_is_theirs(name, kind, model, tmp_path):
    """From the cache, here and there; prompts of two lengths where peft's positions skip padding."""
    theirs, ours = model(name)
    ours_written(ours, kind, tmp_path / "adapter")
    adapted = PeftModel.from_pretrained(theirs, tmp_path / "adapter").eval()
    ids = ids_of(rows=2, length=5)
    real = torch.ones_like(ids)
    long = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    if name == "t5":
        expected = adapted.generate(input_ids=ids, attention_mask=real, **long)[:, 1:]
        found = generate(ours.model, [[0], [0]], sources=ids.tolist(), length=6)
    else:
        skip = 2 if kind != "prompt" else 0
        real[0, :skip] = 0
        expected = adapted.generate(input_ids=ids, attention_mask=real, **long)[:, 5:]
        found = generate(ours.model, [ids[0, skip:].tolist(), ids[1].tolist()], length=6)
    assert [text.new for text in found] == expected.tolist()


@pytest.mark.parametrize("name", ["gpt2", "bert", "t5"])
def test_counts_are_theirs(name, model, tmp_path):
    theirs, ours = model(name)
    adapted = theirs_written(theirs, name, "lora", tmp_path / "adapter")
    adapter = read_adapter(tmp_path / "adapter", ours.model, **place_of(ours)).attach(ours.model)
    assert adapter.tuned == adapted.get_nb_trainable_parameters()[0]


# ---------------------------------------------------------------- details of the files
def test_patterns_of_rank_and_alpha_are_kept(model, tmp_path):
    theirs, ours = model("llama")
    patterns = {"rank_pattern": {"layers.1.self_attn.q_proj": 5}, "alpha_pattern": {"down_proj": 9}}
    adapted = theirs_written(theirs, "llama", "lora", tmp_path / "adapter", **patterns)
    adapter = read_adapter(tmp_path / "adapter", ours.model, **place_of(ours)).attach(ours.model)
    same_answers("llama", "lora", adapted, ours)
    write_adapter(tmp_path / "again", adapter, **place_of(ours))
    again = PeftModel.from_pretrained(ALL["llama"].make(), tmp_path / "again").eval()
    same_answers("llama", "lora", again, ours)
    config = json.loads((tmp_path / "again" / CONFIG).read_text())
    assert config["target_modules"] == ["mlp.down_proj", "self_attn.q_proj"]


def test_an_adapter_of_the_bare_trunk_fits_the_model_with_a_head(model, tmp_path):
    theirs, ours = model("gpt2")
    theirs_written(theirs.transformer, "gpt2, bare", "lora", tmp_path / "adapter", target_modules=["c_attn"])
    read_adapter(tmp_path / "adapter", ours.model, **place_of(ours)).attach(ours.model)
    with torch.no_grad():
        found, expected = ours.model.trunk(ids_of()), theirs.transformer(ids_of()).last_hidden_state
    torch.testing.assert_close(found, expected, **CLOSE)


def test_parts_of_a_fused_map(model, tmp_path):
    """One A for queries, keys and values there: parts that share it fit, others do not."""
    theirs, ours = model("gpt2")
    adapter = ours_written(ours, "lora(rank=2, targets=[value])", tmp_path / "one")
    config = json.loads((tmp_path / "one" / CONFIG).read_text())
    assert config["fan_in_fan_out"] is True and config["target_modules"] == ["attn.c_attn"]
    adapted = PeftModel.from_pretrained(theirs, tmp_path / "one").eval()
    same_answers("gpt2", "lora", adapted, ours)
    adapter.detach()
    with pytest.raises(ConfigError, match=r"c_attn is one map there.*shared_down=true"):
        ours_written(ours, "lora(rank=2, targets=[query, value])", tmp_path / "two")


def test_an_even_encoder_decoder_reads_half_of_its_prefix_twice(model, tmp_path):
    theirs, ours = model("t5", num_layers=4)
    with pytest.raises(ConfigError, match="peft reads the prefix of layers 0 and 2 from the same numbers"):
        ours_written(ours, "prefix", tmp_path / "adapter")
    ours.model.adapter.detach()
    adapted = theirs_written(theirs, "t5", "prefix", tmp_path / "theirs")
    adapter = read_adapter(tmp_path / "theirs", ours.model, **place_of(ours)).attach(ours.model)
    same_answers("t5", "prefix", adapted, ours)
    keys = adapter.before.keys
    assert (
        torch.equal(keys[0], keys[2]) and torch.equal(keys[1], keys[3]) and not torch.equal(keys[0], keys[1])
    )
    write_adapter(tmp_path / "again", adapter, **place_of(ours))
    again = PeftModel.from_pretrained(ALL["t5"].make(num_layers=4), tmp_path / "again").eval()
    same_answers("t5", "prefix", again, ours)


# ---------------------------------------------------------------- refusals, and faults on purpose
@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("bert, classes", "prompt", "looks at the first virtual token"),
        ("distilbert", "prefix", "no prefix tuning for DistilBERT"),
        ("bert", "bitfit", "no form for a bitfit adapter"),
    ],
)
def test_what_they_have_no_form_for_is_refused(name, kind, reason, model, tmp_path):
    _, ours = model(name)
    with pytest.raises(ConfigError, match=reason):
        ours_written(ours, kind, tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()


def test_a_model_of_another_family_is_refused(model, tmp_path):
    _, ours = model("gpt2")
    adapter = ADAPTERS.build("prompt").attach(ours.model)
    with pytest.raises(ConfigError, match=r"no BertForMaskedLM: that has no name for trunk\.decoder"):
        write_adapter(tmp_path / "adapter", adapter, family="bert", architecture="BertForMaskedLM")


def test_a_language_model_s_head_does_not_fit_beside_an_adapter(model, tmp_path):
    _, ours = model("bert")
    with pytest.raises(ConfigError, match="only heads of classes and of answers"):
        ours_written(ours, "lora", tmp_path / "adapter", train=["head"])


def edited(folder, **changes):
    config = json.loads((folder / CONFIG).read_text()) | changes
    (folder / CONFIG).write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"peft_type": "IA3"}, "peft_type 'IA3'; known here are PROMPT_TUNING"),
        ({"use_dora": True}, "asks for use_dora = True"),
        ({"some_new_thing": {"x": 1}}, "asks for some_new_thing"),
        ({"bias": "all"}, "biases of the model were trained"),
        ({"init_lora_weights": "pissa"}, "changes the model's own weights"),
        ({"lora_alpha": "much"}, "lora_alpha of .* takes a number, not 'much'"),
        ({"lora_alpha": 10**400}, "lora_alpha of .* must be below"),
        ({"lora_dropout": 16.0}, "lora_dropout is 16.0; it must be at least 0 and below 1"),
        ({"alpha_pattern": {"(.*)*x": 1}}, "only names of modules are read"),
        ({"init_lora_weights": ["x"]}, "changes the model's own weights"),
        ({"peft_type": ["LORA"]}, "known here are"),
    ],
)
def test_settings_that_mean_something_else_are_refused(changes, reason, model, tmp_path):
    _, ours = model("bert")
    ours_written(ours, "lora", tmp_path / "adapter").detach()
    edited(tmp_path / "adapter", **changes)
    with pytest.raises(ConfigError, match=reason):
        read_adapter(tmp_path / "adapter", ours.model, **place_of(ours))


def test_tensors_that_do_not_fit_are_named(model, tmp_path):
    from safetensors.torch import load_file, save_file

    _, ours = model("bert")
    adapter = ours_written(ours, "lora", tmp_path / "adapter")
    whole = load_file(tmp_path / "adapter" / WEIGHTS)
    first = next(n for n in whole if "lora_A" in n)

    def refused(tensors, reason):
        save_file(tensors, tmp_path / "adapter" / WEIGHTS)
        with pytest.raises(ConfigError, match=reason):
            read_adapter(tmp_path / "adapter", ours.model, **place_of(ours))

    adapter.detach()
    refused({n: t for n, t in whole.items() if n != first}, "which nothing here takes")
    refused({n: t for n, t in whole.items() if n != first.replace("lora_A", "lora_B")}, "must be there both")
    refused(whole | {"base_model.model.bert.pooler.thing": torch.zeros(2)}, "pooler.thing, which nothing")
    refused({n.replace("query", "quary"): t for n, t in whole.items()}, "quary has an update, and no map")
    refused(whole | {first: whole[first][:, :-1].clone()}, "is for a map of 23")
    refused(whole | {first: whole[first].long()}, "what is trained is one of float64, float32")
    nothing = {n: t[:0] if "lora_A" in n else t[:, :0] for n, t in whole.items()}
    refused({n: t.clone() for n, t in nothing.items()}, "must be there both, of one rank")
    (tmp_path / "adapter" / WEIGHTS).write_bytes(b"\x08\0\0\0\0\0\0\0{}      cut")
    with pytest.raises(ConfigError, match="not a complete safetensors"):
        read_adapter(tmp_path / "adapter", ours.model, **place_of(ours))


@pytest.mark.parametrize("kind", ["prompt", "prefix"])
def test_virtual_tokens_that_do_not_fit_are_named(kind, model, tmp_path):
    from safetensors.torch import save_file

    _, ours = model("gpt2")
    ours_written(ours, kind, tmp_path / "adapter").detach()
    edited(tmp_path / "adapter", num_virtual_tokens=4)
    with pytest.raises(ConfigError, match="prompt_embeddings has"):
        read_adapter(tmp_path / "adapter", ours.model, **place_of(ours))
    edited(tmp_path / "adapter", num_virtual_tokens="3")
    with pytest.raises(ConfigError, match="at least 1"):
        read_adapter(tmp_path / "adapter", ours.model, **place_of(ours))
    save_file({"other": torch.zeros(2)}, tmp_path / "adapter" / WEIGHTS)
    edited(tmp_path / "adapter", num_virtual_tokens=3)
    with pytest.raises(ConfigError, match="lacks prompt_embeddings"):
        read_adapter(tmp_path / "adapter", ours.model, **place_of(ours))
