"""Pages before axe-core: nobody is kept out, in the light on a screen and in the dark on a phone.

Needs a Chromium and the package axe-playwright-python; without them the tests are skipped and say so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import axe
from chromium import Chromium
from pages import SIZES, THEMES, show


# Widths have their own layout and themes their own colours: together they show nothing else.
@pytest.mark.parametrize(("width", "theme"), [*zip(SIZES, THEMES)])
def test_axe_finds_nothing_serious(
    opened: Chromium,
    page: Path,
    comparisons: list[Path],
    reviewed: Path,
    sweep: Path,
    simulations: dict[str, Path],
    width: int,
    theme: str,
) -> None:
    script = axe.find()
    if script is None:
        pytest.skip("no axe-core: pages are not judged")
    # The page of `hitm sim` has what these two have, in 72,000 elements that take axe ten seconds.
    pages = [page, *comparisons, reviewed, sweep, simulations["reproduce"]]
    broken = {}
    for one in pages:
        show(opened, one, width, theme)
        broken[one.name] = axe.violations(opened, script)
    assert broken == {name: [] for name in broken}


def test_axe_finds_what_keeps_somebody_out(opened: Chromium) -> None:
    script = axe.find()
    if script is None:
        pytest.skip("no axe-core: pages are not judged")
    opened.evaluate("document.querySelector('.opener').textContent = ''")
    broken = axe.violations(opened, script)
    assert [one.split(" ")[0] for one in broken] == ["button-name"]
