from tests.web.asking import ask, opened, served  # noqa: F401 - fixtures
from tests.web.browsing import own, page, tab  # noqa: F401 - fixtures
from tests.web.picture_runs import ask_about_pictures, opened_pictures, pictures_served  # noqa: F401 - fixtures
