import pytest

from attnlab.config.values import Choice, ConfigError, choice_of, coerce


def test_a_choice_reads_back_what_it_writes():
    for text in ("dot", "group(groups=4, inner=linear(feature=relu))", "(causal & window(size=3)) | source"):
        choice = choice_of(text, "x")
        assert choice_of(str(choice), "x") == choice


def test_every_way_to_write_a_choice_is_the_same_choice():
    written = ("window(size=64)", {"kind": "window", "size": 64}, Choice("window", {"size": 64}))
    assert len({str(choice_of(w, "x")) for w in written}) == 1


@pytest.mark.parametrize("bad", ["", "3", "dot(", "a + b", "import os", "f(1)", 'x["y"]', {"size": 3}, 7])
def test_what_is_no_choice_is_refused_in_words(bad):
    with pytest.raises(ConfigError, match=r"model\.mask"):
        choice_of(bad, "model.mask")


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ("12", int, "takes a whole number"),
        (True, int, "takes a whole number, not true"),
        (1.5, int, "takes a whole number"),
        ("x", float, "takes a number"),
        (1, bool, "takes true or false"),
        (3, str, "takes text"),
        (
            "tensorboard",
            tuple[str, ...],
            r"list of text, not 'tensorboard'; write \[\"tensorboard\"\]\.",
        ),
    ],
)
def test_wrong_types_say_what_is_taken(value, kind, message):
    with pytest.raises(ConfigError, match=message):
        coerce(value, kind, "model.width")


def test_whole_numbers_are_numbers():
    assert coerce(1, float, "x") == 1.0 and isinstance(coerce(1, float, "x"), float)
