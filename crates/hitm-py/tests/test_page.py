"""The page of `hitm report --format html` in a real Chromium: drawn, clicked, saved, looked at.

Needs Debian's chromium (scripts/setup installs it where it may); without it the
tests are skipped and say so. Screenshots go to HITM_SCREENSHOTS, when that names a folder.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from chromium import Chromium
from pages import SIZES, THEMES, show


def check_readable(opened: Chromium) -> None:
    """No text is cut or pale, and no control is without a name."""
    assert opened.evaluate(OUTSIDE) == []
    assert opened.evaluate(LOW_CONTRAST) == []
    assert opened.evaluate(UNLABELLED) == []


def keep(opened: Chromium, name: str) -> None:
    """Keeps a screenshot where one is wanted."""
    folder = os.environ.get("HITM_SCREENSHOTS")
    if folder:
        opened.screenshot(Path(folder) / f"{name}.png")


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("theme", THEMES)
def test_every_size_and_theme(opened: Chromium, page: Path, width: int, theme: str) -> None:
    show(opened, page, width, theme)
    assert opened.evaluate("document.querySelectorAll('.canvas svg').length") >= 6
    keep(opened, f"report-{width}-{theme}")
    # Colours of the theme, on the page and in its pictures.
    background = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 22, 29)"}[theme]
    assert opened.evaluate(LOW_CONTRAST) == []


def test_no_text_of_a_picture_is_outside_of_it(opened: Chromium, page: Path) -> None:
    for width in SIZES:
        show(opened, page, width)
        assert opened.evaluate(OUTSIDE) == []


def test_runs_side_by_side(opened: Chromium, comparisons: list[Path]) -> None:
    for page in comparisons:
        for width in SIZES:
            show(opened, page, width)
            assert opened.evaluate("document.querySelectorAll('.canvas svg rect').length") >= 4
            assert opened.evaluate("document.querySelectorAll('tbody td').length") >= 4
            check_readable(opened)
            keep(opened, f"{page.stem}-{width}")


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("theme", THEMES)
def test_a_review_of_two_builds(opened: Chromium, reviewed: Path, width: int, theme: str) -> None:
    show(opened, reviewed, width, theme)
    names = opened.evaluate("[...document.querySelectorAll('[data-save]')].map((b) => b.dataset.save)")
    assert names == ["hitm-review-1-layout", "hitm-review-1-costs"]
    # The picture follows the machine that is chosen.
    cycles = "document.querySelector('.canvas svg').textContent.match(/[0-9,]+ cycles/)[0]"
    first = opened.evaluate(cycles)
    opened.evaluate(f"({CHOOSE})('Machine', 'kunpeng920-96')")
    assert opened.evaluate(cycles) != first
    check_readable(opened)
    keep(opened, f"review-{width}-{theme}")


SWEEP_FIGURES = ["hitm-sweep-curve", "hitm-sweep-map", "hitm-sweep-box", "hitm-sweep-front"]
# Chooses an option of the choice with this label.
CHOOSE = """(label, option) => {
    const name = [...document.querySelectorAll('.choice label')].find((e) => e.textContent === label);
    const select = document.getElementById(name.htmlFor);
    select.value = [...select.options].find((e) => e.textContent === option).value;
    select.dispatchEvent(new Event('change'));
}"""


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("theme", THEMES)
def test_a_sweep_in_four_pictures(opened: Chromium, sweep: Path, width: int, theme: str) -> None:
    show(opened, sweep, width, theme)
    names = opened.evaluate("[...document.querySelectorAll('[data-save]')].map((b) => b.dataset.save)")
    assert names == SWEEP_FIGURES
    # A line for each layout, a cell for each pair, a box for each layout, a point for each layout.
    marks = "[...document.querySelectorAll('.canvas')].map((c, at) => c.querySelectorAll(['circle', 'g rect', 'g rect', 'circle'][at]).length)"
    assert opened.evaluate(marks) == [4 * 5, 4 * 5, 4, 4]
    check_readable(opened)
    keep(opened, f"sweep-{width}-{theme}")


def test_choices_of_a_sweep_reach_its_pictures(opened: Chromium, sweep: Path) -> None:
    opened.open(sweep)
    opened.settle()
    status = "document.querySelector('.run-choices [aria-live]').textContent"
    assert opened.evaluate(status) == "40 of 40 points have this metric and are chosen."
    opened.evaluate(f"({CHOOSE})('layout', 'linux-6.12')")
    opened.evaluate(f"({CHOOSE})('Metric', 'timers.wakeups (count)')")
    opened.settle()
    assert opened.evaluate(status) == "10 of 40 points have this metric and are chosen."
    assert opened.evaluate("document.querySelectorAll('.canvas')[0].querySelectorAll('circle').length") == 5
    assert "timers.wakeups" in opened.evaluate("document.querySelector('.canvas svg').getAttribute('aria-label')")
    # The table behind a picture has the figures of its tips.
    opened.evaluate("document.querySelector('.figure-head button[aria-controls]').click()")
    rows = opened.evaluate(
        "[...document.querySelectorAll('.behind tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    assert [row[:3] for row in rows] == [["linux-6.12", str(cpus), "6"] for cpus in (2, 4, 8, 16, 64)]
    tip = opened.evaluate("document.querySelector('.canvas circle').closest('[data-tip]').getAttribute('data-tip')")
    assert tip.startswith("linux-6.12, machine.cpus 2\n") and f"mean {rows[0][3]}," in tip


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("theme", THEMES)
def test_published_figures_beside_simulated_ones(
    opened: Chromium, simulations: dict[str, Path], width: int, theme: str
) -> None:
    for name, page in simulations.items():
        show(opened, page, width, theme)
        parts = opened.evaluate("document.querySelectorAll('section.part:not([aria-labelledby=words])').length")
        names = opened.evaluate("[...document.querySelectorAll('[data-save]')].map((b) => b.dataset.save)")
        assert names.count("hitm-sweep-box") == parts and (parts == 1) == (name == "sim")
        # A point for each published figure that has a ratio.
        rows, points = opened.evaluate(
            "(() => { const data = JSON.parse(document.getElementById('data').textContent);"
            "const ratio = (table) => table.fields.findIndex((field) => field.id === 'simulated');"
            "const rows = data.scenarios.flatMap((one) => one.published.rows.filter((row) => row[ratio(one.published)] > 0)).length;"
            "const canvas = [...document.querySelectorAll('[data-save=hitm-published]')].map((b) => b.closest('.figure').querySelector('.canvas'));"
            "return [rows, canvas.flatMap((one) => [...one.querySelectorAll('circle')]).length]; })()"
        )
        assert rows == points > 0
        if name == "sim":
            # Lines of layouts over the load, and published figures beside them.
            curve = "document.querySelector('[data-save=hitm-sweep-curve]').closest('.figure').querySelector('.canvas')"
            assert opened.evaluate(f"{curve}.querySelectorAll('circle').length") == 6 * 6
            assert opened.evaluate(f"{curve}.querySelectorAll('[data-tip^=published]').length") > 0
        else:
            opened.evaluate("document.querySelector('details:not(.meanings)').open = true")
            opened.settle()
            widths = "[...document.querySelectorAll('details[open] .canvas svg')].map((e) => e.getBoundingClientRect().width)"
            assert [each > width / 2 for each in opened.evaluate(widths)] == [True] * 3
        check_readable(opened)
        keep(opened, f"{name}-{width}-{theme}")


def test_a_line_closes_and_opens(opened: Chromium) -> None:
    state = """(() => {
        const button = document.querySelector('.opener');
        const detail = document.getElementById(button.getAttribute('aria-controls'));
        return [button.getAttribute('aria-expanded'), !detail.hidden];
    })()"""
    assert opened.evaluate(state) == ["true", True]
    opened.evaluate("document.querySelector('.opener').focus()")
    opened.key("Enter")
    assert opened.evaluate(state) == ["false", False]
    opened.key("Enter")
    assert opened.evaluate(state) == ["true", True]


def test_an_address_opens_a_finding(opened: Chromium, page: Path) -> None:
    detail = "document.getElementById('finding-1-detail').hidden"
    opened.evaluate("document.querySelector('#finding-1 .opener').click()")
    assert opened.evaluate(detail) is True
    opened.evaluate("location.hash = '#finding-1'")
    opened.settle()
    assert opened.evaluate(detail) is False
    # A link opens its line in the table of lines; opening a finding by hand names it in the address.
    opened.evaluate("document.querySelector('a[href=\"#line-1\"]').click()")
    opened.settle()
    assert opened.evaluate("document.getElementById('line-1-detail').hidden") is False
    assert opened.evaluate("location.hash") == "#line-1"
    for _ in range(2):
        opened.evaluate("document.querySelector('#finding-1 .opener').click()")
    assert opened.evaluate("location.hash") == "#finding-1"


def test_the_first_screen_has_the_findings_and_a_line(opened: Chromium) -> None:
    ends = "['#summary', '[data-save=hitm-line-1]', '#findings'].map((one) => document.querySelector(one).getBoundingClientRect().top)"
    assert all(top < 900 for top in opened.evaluate(ends))
    colour = "[...document.querySelectorAll('.choice label')].find((e) => e.textContent === 'Colour')"
    assert opened.evaluate(f"document.getElementById({colour}.htmlFor).value") == "lost"
    assert "of the run lost" in opened.evaluate("document.querySelector('.first-screen .legend').textContent")
    assert opened.evaluate("document.querySelectorAll('.sources pre .here').length") > 0


def test_the_findings_are_copied_as_markdown(opened: Chromium) -> None:
    opened.evaluate("navigator.clipboard.writeText = (text) => { window.copiedText = text; return Promise.resolve(); }")
    opened.evaluate("[...document.querySelectorAll('button')].find((b) => b.textContent === 'Copy as Markdown').click()")
    lines = opened.evaluate("window.copiedText").splitlines()
    assert lines[0].startswith("## hitm report: ./false\\_sharing")
    assert lines[2].startswith("- **Lost**: ")
    assert "| --: |" in lines[-2] and lines[-1].startswith("| 1 | f | false sharing | ")


def test_a_brush_filters_lines_and_stacks(opened: Chromium) -> None:
    total = "document.querySelector('[data-depth=\"0\"]').getAttribute('aria-label')"
    before = opened.evaluate(total)
    box = opened.evaluate(
        "(() => { document.querySelector('.brush').scrollIntoView({block: 'center'});"
        "const b = document.querySelector('.brush').getBoundingClientRect();"
        "return [b.left, b.top, b.width, b.height]; })()"
    )
    left, top, width, height = box
    opened.drag((left + width * 0.2, top + height / 2), (left + width * 0.4, top + height / 2))
    opened.settle()
    status = "document.querySelector('.brush').closest('.figure').querySelector('[aria-live]').textContent"
    assert "those of this window" in opened.evaluate(status)
    after = opened.evaluate(total)
    assert after != before
    window = opened.evaluate("document.querySelector('.lines tbody tr td:last-child').textContent")
    assert window not in ("", "0")
    # By keyboard the sliders do the same; the button takes it back.
    opened.evaluate(
        "[...document.querySelectorAll('button')].find((b) => b.textContent === 'Whole run').click()"
    )
    opened.settle()
    assert opened.evaluate(total) == before


def test_the_theme_switches(opened: Chromium) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    fill = "document.querySelector('.canvas svg text').getAttribute('fill')"
    light = [opened.evaluate(background), opened.evaluate(fill)]
    opened.evaluate(
        "(() => { const s = document.querySelector('.page-head select');"
        "s.value = 'dark'; s.dispatchEvent(new Event('change')); })()"
    )
    opened.settle()
    dark = [opened.evaluate(background), opened.evaluate(fill)]
    assert light[0] != dark[0] and light[1] != dark[1]
    opened.evaluate("localStorage.clear()")


def test_pictures_are_saved_as_svg(opened: Chromium, tmp_path: Path) -> None:
    opened.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    names = opened.evaluate(
        "[...document.querySelectorAll('[data-save]')].map((b) => (b.click(), b.dataset.save))"
    )
    opened.settle()
    # Chromium asks before it saves several files of one page: the first is enough for the disk, and
    # what all of them would be is asked of the page.
    wanted = tmp_path / f"{names[0]}.svg"
    for _ in range(100):
        if wanted.exists():
            break
        opened.settle()
    root = ElementTree.fromstring(wanted.read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("width") and list(root.iter("{http://www.w3.org/2000/svg}title"))
    assert {"hitm-time", "hitm-line-1", "hitm-line-1-layout-1", "hitm-flame"} <= set(names)


def test_the_flame_graph_by_keyboard(opened: Chromium) -> None:
    opened.evaluate("document.querySelector('[data-depth=\"0\"]').focus()")
    opened.key("ArrowDown")
    opened.key("ArrowRight")
    focused = "document.activeElement.getAttribute('data-depth')"
    assert opened.evaluate(focused) == "1"
    opened.key("Enter")
    opened.settle()
    zoomed = "document.activeElement.querySelector('rect').getAttribute('width')"
    assert float(opened.evaluate(zoomed)) > 900


def test_what_a_screen_reader_needs(opened: Chromium) -> None:
    assert opened.evaluate(UNLABELLED) == []
    assert opened.evaluate("new Set([...document.querySelectorAll('[id]')].map((e) => e.id)).size") == (
        opened.evaluate("document.querySelectorAll('[id]').length")
    )
    levels = opened.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((e) => +e.tagName[1])")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))
    # Behind each picture is a table with the same figures.
    opened.evaluate(
        "document.querySelectorAll('.figure-head button[aria-controls]').forEach((b) => b.click())"
    )
    empty = "[...document.querySelectorAll('.behind')].filter((e) => !e.querySelector('td')).length"
    assert opened.evaluate(empty) == 0


# Controls without a name, pictures without one, tables without a caption.
UNLABELLED = """[
    ...[...document.querySelectorAll('button')].filter((e) => !e.textContent.trim()),
    ...[...document.querySelectorAll('input, select')].filter((e) => e.labels.length === 0),
    ...[...document.querySelectorAll('svg')].filter((e) => !e.getAttribute('aria-label') || !e.getAttribute('role')),
    ...[...document.querySelectorAll('svg [role=button]')].filter((e) => !e.getAttribute('aria-label')),
    ...[...document.querySelectorAll('table')].filter((e) => !e.caption || !e.caption.textContent.trim()),
    ...[...document.querySelectorAll('[aria-labelledby]')].filter((e) => !document.getElementById(e.getAttribute('aria-labelledby'))),
].map((e) => e.outerHTML.slice(0, 120))"""

# Texts with a contrast below 4.5 (WCAG 2.1 AA) on the nearest background or on the box below them.
LOW_CONTRAST = """(() => {
    const parse = (text) => text.match(/[0-9.]+/g).map(Number);
    const luminance = (rgb) => rgb.slice(0, 3).map((part) => part / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
    const contrast = (a, b) => {
        const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
        return (light + 0.05) / (dark + 0.05);
    };
    const behind = (element) => {
        for (let one = element; one; one = one.parentElement) {
            const colour = parse(getComputedStyle(one).backgroundColor);
            if (colour.length < 4 || colour[3] > 0) return colour;
        }
        return [255, 255, 255];
    };
    const bad = [];
    for (const text of document.querySelectorAll('.canvas text')) {
        if (!text.textContent) continue;
        const box = text.parentElement.tagName === 'g' && text.parentElement.querySelector('rect[fill]');
        const holds = (outer, inner) => inner.left + inner.right > 2 * outer.left && inner.left + inner.right < 2 * outer.right
            && inner.top + inner.bottom > 2 * outer.top && inner.top + inner.bottom < 2 * outer.bottom;
        const centred = box && holds(box.getBoundingClientRect(), text.getBoundingClientRect());
        const ground = centred ? parse(getComputedStyle(box).fill) : behind(text.closest('div'));
        const found = contrast(parse(getComputedStyle(text).fill), ground);
        if (found < 4.5) bad.push([text.textContent, found]);
    }
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const owner = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || owner.closest('svg, script, noscript, [hidden], option, .tip')) continue;
        const found = contrast(parse(getComputedStyle(owner).color), behind(owner));
        if (found < 4.5) bad.push([walker.currentNode.data.slice(0, 40), found]);
    }
    return bad;
})()"""

# Texts that leave their picture.
OUTSIDE = """[...document.querySelectorAll('.canvas svg')].flatMap((svg) => {
    const frame = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('text')].filter((text) => {
        const box = text.getBoundingClientRect();
        return text.textContent && (box.left < frame.left - 1 || box.right > frame.right + 1
            || box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
    }).map((text) => `${svg.getAttribute('aria-label')}: ${text.textContent}`);
})"""
