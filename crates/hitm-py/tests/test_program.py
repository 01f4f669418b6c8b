"""The program and its libraries, as the wheel brings them: nothing of the checkout, nothing in PATH."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hitm

ROOT = Path(__file__).resolve().parents[3]
LIBRARIES = ["clock", "heap", "locks", "qemu_api1", "qemu_api2"]


def installed(name: str) -> Path:
    """A file of the package, by the end of its path."""
    found = [file for file in importlib.metadata.files("hitm") or [] if str(file).endswith(name)]
    assert len(found) == 1, (name, found)
    return Path(os.fspath(found[0].locate())).resolve()


def test_the_package_brings_the_program_and_its_libraries() -> None:
    program = installed("bin/hitm")
    assert program == Path(sys.prefix).resolve() / "bin" / "hitm"
    for library in LIBRARIES:
        assert installed(f"hitm/libhitm_{library}.so").parent == program.parents[1] / "lib" / "hitm"
    assert "GNU GENERAL PUBLIC LICENSE" in installed("LICENSE-GPL").read_text()
    assert "GPL-2.0-or-later" in importlib.metadata.metadata("hitm")["License-Expression"]


def test_the_program_runs_by_its_name_and_as_a_module() -> None:
    for command in [[str(installed("bin/hitm"))], [sys.executable, "-m", "hitm"]]:
        shown = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert shown.stdout == f"hitm {hitm.__version__}\n"
    failed = subprocess.run([sys.executable, "-m", "hitm", "nonsense"], capture_output=True, check=False)
    assert failed.returncode == 2


def test_a_recording_needs_nothing_but_the_package_and_qemu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, qemu = shutil.which("cc"), shutil.which("qemu-x86_64")
    if compiler is None or qemu is None:
        pytest.skip("no C compiler or no qemu-x86_64")
    source = ROOT / "examples" / "false_sharing.c"
    subprocess.run([compiler, "-O2", "-g", "-pthread", "-o", "run", source], cwd=tmp_path, check=True)
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "qemu-x86_64").symlink_to(qemu)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    report = hitm.record([tmp_path / "run", "20000"], tmp_path / "run.hitm")
    rows = report.lines.to_dict()
    assert "false-sharing" in rows["verdict"], rows
    monkeypatch.setenv("PATH", "")
    with pytest.raises(hitm.HitmError, match="qemu-x86_64 is not installed"):
        hitm.record([tmp_path / "run"], tmp_path / "none.hitm")


def test_without_the_program_an_error_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.metadata, "files", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(hitm.HitmError, match="neither the package nor PATH"):
        hitm.record(["run"], tmp_path / "none.hitm")
