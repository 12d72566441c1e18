from tests.web.asking import ask, opened, served  # noqa: F401 - fixtures
