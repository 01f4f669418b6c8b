"""axe-core, which judges whether everybody can use a page, from the package that carries it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from chromium import Chromium

# Of axe's four degrees, those that keep somebody out.
FORBIDDEN = ("serious", "critical")


def find() -> Path | None:
    """Returns the path of the script; none when the package is not installed."""
    package = importlib.util.find_spec("axe_playwright_python")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).with_name("axe.min.js")


def violations(opened: Chromium, script: Path) -> list[str]:
    """Returns the rules that the opened page breaks, each with the elements that break it."""
    opened.evaluate(script.read_text())
    found = opened.evaluate(f"({RUN})({list(FORBIDDEN)})")
    assert found["passed"] > 10, "axe looked at next to nothing"
    return [str(one) for one in found["broken"]]


RUN = """async (forbidden) => {
    const result = await axe.run(document, { resultTypes: ['violations'] });
    const broken = result.violations.filter((one) => forbidden.includes(one.impact));
    const line = (one) => `${one.id} (${one.impact}): ${one.nodes.map((node) => node.html.slice(0, 160)).join(' | ')}`;
    return { passed: result.passes.length, broken: broken.map(line) };
}"""
