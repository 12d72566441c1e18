import pytest

from attnlab.model import losses
from attnlab.model.attention import additive, linear


@pytest.fixture(autouse=True)
def _small_and_exact(double, monkeypatch):
    """float64 throughout, and chunks so small that a few tokens cross their borders."""
    monkeypatch.setattr(linear, "CHUNK", 3)
    monkeypatch.setattr(additive, "BLOCK", 150)
    monkeypatch.setattr(additive, "ROWS", 2)
    monkeypatch.setattr(losses, "CHUNK", 5)
