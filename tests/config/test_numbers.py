"""Numbers that libraries underneath would answer with errors of their own are refused when a config loads."""

import pytest

from attnlab.config.files import load, parse_override
from attnlab.config.values import ConfigError
from attnlab.model.feedforward import FEEDFORWARDS


def refused(*settings):
    with pytest.raises(ConfigError) as error:
        load("mini-gpt", set=dict(map(parse_override, settings)))
    return str(error.value)


@pytest.mark.parametrize(
    "setting",
    [
        "model.embedding_scale=nan",
        "model.dropout=nan",
        "training.optimizer.learning_rate=nan",
        "training.optimizer.learning_rate=inf",
        "training.clip=inf",
        "training.budget.seconds=nan",
        "data.dev_share=-inf",
    ],
)
def test_what_is_no_number_is_refused(setting):
    key = setting.partition("=")[0].rpartition(".")[2]
    assert key in refused(setting) and "finite" in refused(setting)


@pytest.mark.parametrize(
    "setting",
    [
        "training.evaluate_batches=99999999999999999999",
        "data.tokenizer={kind='bpe',vocabulary=100000000000000000000}",
        "model.width=" + "9" * 400,
        "training.budget.tokens=" + "9" * 400,
    ],
)
def test_what_no_count_can_be_is_refused(setting):
    assert "must be below 2^63" in refused(setting)


def test_large_numbers_that_mean_something_are_taken():
    settings = {"training.budget.flops": 10**20, "training.optimizer.learning_rate": 1e38}
    config = load("mini-gpt", set=settings)
    assert config.training.budget.flops == 1e20
    assert "10^400" in refused("training.budget.flops=1" + "0" * 400)


def test_a_negative_count_among_options_is_refused_with_its_name():
    assert "minimum_count is -1" in refused("data.tokenizer={kind='word',minimum_count=-1}")


@pytest.mark.parametrize("kind", FEEDFORWARDS)
@pytest.mark.parametrize("expand", ["100000000000000000000", "1e20", "1e300"])
def test_a_multiple_that_no_tensor_can_have_is_refused(kind, expand):
    """Such a hidden size is more than the library underneath can count."""
    assert "at most 1,000,000" in refused(f"model.feedforward={kind}(expand={expand})")


def test_tables_of_absurd_depth_are_refused():
    deep = "dot"
    for _ in range(3000):
        deep = {"kind": "group", "inner": deep}
    with pytest.raises(ConfigError, match="nested too deep"):
        load({"model": {"attention": deep}})


@pytest.mark.parametrize("depth", [21, 60, 200, 400, 1000, 3000])
@pytest.mark.parametrize("form", ["--set", "toml", "json"])
def test_choices_of_any_depth_that_is_written_are_refused_by_a_sentence(tmp_path, form, depth):
    """A few hundred could be read, and ended in an error of Python where they were built or written."""
    if form == "json":
        written = '{"kind": "group", "inner": ' * depth + '"dot"' + "}" * depth
        (tmp_path / "deep.json").write_text(f'{{"model": {{"attention": {written}}}}}')
    else:
        written = "{kind='group',inner=" * depth + "'dot'" + "}" * depth
        (tmp_path / "deep.toml").write_text(f"[model]\nattention = {written}\n")
    with pytest.raises(ConfigError, match="nested too deep") as told:
        load("mini-gpt", set=[f"model.attention={written}"]) if form == "--set" else load(
            tmp_path / f"deep.{form}"
        )
    assert len(str(told.value)) < 300


@pytest.mark.parametrize("form", ["--set", "toml", "json"])
def test_a_number_of_thousands_of_digits_is_named_wherever_it_is_written(tmp_path, form):
    digits = "9" * 5000
    (tmp_path / "long.toml").write_text(f"[model]\nwidth = {digits}\n")
    (tmp_path / "long.json").write_text(f'{{"model": {{"width": {digits}}}}}')
    with pytest.raises(ConfigError, match="it has a whole number of more than 4,300 digits") as told:
        load("mini-gpt", set=[f"model.width={digits}"]) if form == "--set" else load(
            tmp_path / f"long.{form}"
        )
    assert ("model.width" if form == "--set" else f"long.{form}") in str(told.value)


def test_a_choice_of_absurd_depth_is_refused_and_not_shown_in_full():
    deep = "group(inner=" * 3000 + "dot" + ")" * 3000
    told = refused(f"model.attention={deep}")
    assert len(told) < 600 and "model.attention" in told


@pytest.mark.parametrize("value", ["causal & " * 3000, "x" * 30_000])
def test_what_is_quoted_makes_no_message_too_long_to_read(value):
    said = refused(f'training.listeners="{value}"')
    assert "training.listeners takes a list" in said and "more characters" in said
    assert len(f"Error: {said}\n") <= 2000
