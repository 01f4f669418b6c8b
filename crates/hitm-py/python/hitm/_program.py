"""The program `hitm` that the wheel brings."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ._hitm import HitmError

_NAME = "hitm"


def path() -> str:
    """Path of the program that came with this package, else of the one in PATH."""
    for candidate in _installed():
        if os.access(candidate, os.X_OK):
            return str(candidate)
    found = shutil.which(_NAME)
    if found is None:
        raise HitmError("cannot find the program hitm: neither the package nor PATH has it")
    return found


def _installed() -> Iterator[Path]:
    """Places of the program, as the installer noted them; `pip install --target` moves it afterwards."""
    try:
        files = importlib.metadata.files(_NAME) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == _NAME and file.parent.name in ("bin", "Scripts"):
            yield Path(os.fspath(file.locate())).resolve()
    yield Path(__file__).parents[1] / "bin" / _NAME
