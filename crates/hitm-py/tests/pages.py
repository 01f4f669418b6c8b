"""Pages of every kind, made once for all tests, and the browser that shows them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import chromium
from chromium import Chromium
from conftest import HITM

ROOT = Path(__file__).resolve().parents[3]
SIZES = (1280, 400)
THEMES = ("light", "dark")


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("no qemu-x86_64 to record with")
    for name in ("false_sharing",):
        source = ROOT / "examples" / f"{name}.c"
        subprocess.run(["cc", "-O2", "-g", "-pthread", "-o", name, source], cwd=folder, check=True)
        recorded = [HITM, "record", "-o", "run.hitm", f"./{name}", "20000"]
        subprocess.run(recorded, cwd=folder, check=True, capture_output=True)
    report = [HITM, "report", "-i", "run.hitm", "--format", "html", "-o", "page.html"]
    subprocess.run(report, cwd=folder, check=True, capture_output=True)
    return folder / "page.html"


@pytest.fixture(scope="session")
def comparisons(page: Path) -> list[Path]:
    """Pages of a replay on another machine, and of a recording beside itself."""
    commands = {
        "whatif.html": ["whatif", "-i", "run.hitm", "--machine", "milan-2s"],
        "diff.html": ["diff", "run.hitm", "run.hitm"],
    }
    for name, command in commands.items():
        command = [HITM, *command, "--format", "html", "-o", name]
        subprocess.run(command, cwd=page.parent, check=True, capture_output=True)
    return [page.parent / name for name in commands]


SWEEP = """schema = 1
name = "p"
scenarios = "small.toml"
seeds = 3
[[vary]]
key = "machine.cpus"
values = [2, 4, 8, 16, 64]
[[vary]]
key = "layout"
values = ["linux-6.12", "root-domain-restructured", "cpupri-vec-line-each", "rto-count-per-node"]
[[vary]]
key = "kernel.tick"
values = ["100/s", "1000/s"]
"""
SMALL = """schema = 1
name = "small"
description = "d"
source = "made"
[machine]
preset = "broadwell-4s"
[[workload]]
kind = "cyclic"
name = "timers"
[run]
duration = "2ms"
"""


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a sweep over two numbers and a text."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "small.toml").write_text(SMALL)
    (folder / "plan.toml").write_text(SWEEP)
    for command in (["sweep", "plan.toml", "-o", "out"], ["report", "-i", "out", "--format", "html", "-o", "sweep.html"]):
        subprocess.run([HITM, *command], cwd=folder, check=True, capture_output=True)
    return folder / "sweep.html"


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    program = chromium.find()
    if program is None:
        pytest.skip("no chromium: pages are not looked at")
    with Chromium(program) as started:
        yield started


@pytest.fixture
def opened(browser: Chromium, page: Path) -> Iterator[Chromium]:
    """The page, wide and light. Nothing may go wrong or leave it while a test uses it."""
    browser.size(1280, 900)
    browser.prefers("light")
    browser.problems.clear()
    browser.requests.clear()
    browser.open(page)
    browser.settle()
    yield browser
    assert browser.problems == []
    outside = [url for url in browser.requests if not url.startswith(("file:", "blob:", "data:"))]
    assert outside == []


def show(opened: Chromium, page: Path, width: int, theme: str = "light") -> None:
    """Opens a page, which fits the width."""
    opened.size(width, 900)
    opened.prefers(theme)
    opened.open(page)
    opened.settle()
    assert opened.evaluate("document.documentElement.scrollWidth") == width


@pytest.fixture(scope="session")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a review of the root_domain patch."""
    page = tmp_path_factory.mktemp("review") / "review.html"
    profile = ROOT / "profiles" / "root-domain-c2c.csv"
    command = [HITM, "review", "linux-6.12", "root-domain-restructured", "-p", profile, "-o", page]
    subprocess.run(command, check=True, capture_output=True)
    return page


@pytest.fixture(scope="session")
def simulations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of a scenario with published figures, layouts and loads, and of a case."""
    folder = tmp_path_factory.mktemp("simulations")
    commands = {
        "sim": ["sim", "000-root-domain/ffmpeg", "--quick", "--seeds", "2"],
        "reproduce": ["reproduce", "001", "--quick", "--seeds", "2"],
    }
    for name, command in commands.items():
        command = [HITM, *command, "--format", "html", "-o", f"{name}.html"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return {name: folder / f"{name}.html" for name in commands}
