"""No network, no progress bars, and the random state as it was."""

from attnlab.pytest_plugin import soundness  # noqa: F401 - an entry point, where attnlab is installed anew
from tests.parity.conftest import quiet  # noqa: F401 - a fixture
