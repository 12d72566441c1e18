import pytest

from attnlab.config.registry import TABLES, card, table
from attnlab.config.values import ConfigError
from attnlab.model.attention import ATTENTION


@pytest.mark.parametrize("name", TABLES)
def test_every_variant_has_a_card_and_is_what_its_table_holds(name):
    registry = table(name)
    for variant in registry:
        entry = card(registry, variant)
        assert len(entry.summary) > 10, variant
        registry.check(registry[variant])
        assert registry.resolve(variant).kind == variant


@pytest.mark.parametrize("name", ["attention", "positions", "projections", "adapters"])
def test_cards_of_mechanisms_give_cost_use_and_paper(name):
    for variant in table(name):
        text = card(table(name), variant).text
        wanted = (
            ("When it helps:", "Paper:")
            if variant == "none"
            else ("Formula:", "Cost:", "When it helps:", "Paper:")
        )
        assert all(word in text for word in wanted), variant


def test_registering_checks_the_name_and_the_class():
    with pytest.raises(ConfigError, match='already has "dot"'):
        ATTENTION.register("dot", ATTENTION["dot"])
    with pytest.raises(ConfigError, match="is not a Rule"):
        ATTENTION.register("other", dict)
    with pytest.raises(ConfigError, match="letters"):
        ATTENTION.register("not a name", ATTENTION["dot"])
