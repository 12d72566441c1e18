"""What a result shows of itself: short, and with other people's text as text."""

from attnlab.documents.nodes import DocumentPage, Table
from attnlab.documents.notebook import SelfShowing


class Held(SelfShowing, dict):
    def document(self):
        rows = [(key, value) for key, value in self.items()]
        return DocumentPage("held", "A <b>title</b> [bold]", [Table(("name", "value"), rows)])


def test_a_result_is_its_table_and_stays_what_it_is():
    held = Held({"<script>x</script>": 1, "[red]": 2})
    assert held["[red]"] == 2 and isinstance(held, dict)
    assert "[red]" in repr(held) and "[bold]" in repr(held)
    page = held._repr_html_()
    assert "<script>" not in page and "&lt;script&gt;" in page and "<b>title" not in page
    assert all(len(line) <= 80 for line in repr(held).splitlines())
