"""`make look`: pictures of pages at desktop and phone width, light and dark, to look at.

    python -m tests.studies.look [PAGE.html] [FOLDER]

Without a page, reports are made from the fixtures. Chromium comes from Debian's packages if it is missing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
SLICE = 2400  # a picture's height at most, so that it can be looked at without scrolling for ever
REPORTS = {"small": "two_arms", "failing": "five_arms", "large": "many_arms", "one-seed": "one_seed"}
"""Studies of tests/studies/results.py."""


def main(page: str = "", folder: str = "look") -> None:
    install()
    from tests.browser import chromium

    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    pages = {Path(page).stem: Path(page)} if page else {k: p for make in PAGES for k, p in make(out).items()}
    with chromium() as tab:
        for name, file in pages.items():
            for width, size in WIDTHS.items():
                for scheme in ("light", "dark"):
                    take(
                        tab,
                        file,
                        out,
                        name=f"{name}-{width}-{scheme}",
                        size=size,
                        dark=scheme == "dark",
                    )
    print(f"Pictures of {', '.join(pages)} are in {out}/")


def install() -> None:
    if any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        return
    if not shutil.which("apt-get"):
        sys.exit("make look needs Chromium; install it with your system's packages.")
    subprocess.run(["apt-get", "update", "-qq"], check=True)
    subprocess.run(["apt-get", "install", "-y", "-qq", "chromium"], check=True)


def reports(out: Path) -> dict[str, Path]:
    """Of a small study, a large one, and one with arms that are invalid or failed."""
    from tests.studies import results

    return {
        name: results.write(getattr(results, study)(), out / "pages" / name)
        for name, study in REPORTS.items()
    }


PAGES: list[Callable[[Path], dict[str, Path]]] = [reports]
"""What is looked at: each gives pages by their names."""


def take(tab, page: Path, out: Path, *, name: str, size: tuple[int, int], dark: bool) -> None:
    """The whole page, in slices; the window is made as tall as the page, so that every plot is drawn."""
    tab.size(*size, dark=dark)
    tab.open(page)
    height = 0
    while height != (now := tab.run("document.documentElement.scrollHeight")):
        height = now
        tab.size(size[0], height, dark=dark)
        tab.until("[...document.querySelectorAll('[data-plot]')].every((f) => 'drawn' in f.dataset)")
    for old in out.glob(f"{name}-*.png"):
        old.unlink()
    for i, top in enumerate(range(0, height, SLICE)):
        clip = {"x": 0, "y": top, "width": size[0], "height": min(SLICE, height - top)}
        tab.screenshot(out / f"{name}-{i + 1}.png", clip=clip)
    for error in tab.errors:
        print(f"{name}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
