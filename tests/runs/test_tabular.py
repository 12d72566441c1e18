"""What a result shows of itself: short, and with other people's text as text."""

from attnlab.runs.tabular import ShortTable, Tabular


class Held(Tabular, dict):
    def table(self):
        return ShortTable(
            "A <b>title</b> [bold]", ("name", "value"), [(key, str(v)) for key, v in self.items()]
        )


def test_a_result_is_its_table_and_stays_what_it_is():
    held = Held({"<script>x</script>": 1, "[red]": 2})
    assert held["[red]"] == 2 and isinstance(held, dict)
    assert "[red]" in repr(held) and "[bold]" in repr(held)
    page = held._repr_html_()
    assert "<script>" not in page and "&lt;script&gt;" in page and "<b>" not in page
    assert all(len(line) <= 80 for line in repr(held).splitlines())
