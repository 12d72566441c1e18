"""A pytest plugin: the fixture `soundness` has the assertions of attnlab.testing.

def test_my_model(soundness):
    soundness.assert_causal(build_my_model(), vocabulary=1000)
"""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def soundness() -> ModuleType:
    """attnlab.testing, loaded when a test first asks for it."""
    from attnlab import testing

    return testing
