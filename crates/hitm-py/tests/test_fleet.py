"""Looks at a running program become those of three hosts, and the example answers what costs them most."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import HITM

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "python" / "fleet_of_lines.py"
MISSING = 3
"""The exit code where the kernel allows no samples."""


def look(command: list[str], folder: Path) -> Path:
    """Looks at a program while it runs."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    with subprocess.Popen(command, **quiet) as program:
        try:
            pid = str(program.pid)
            lines = [HITM, "live", "lines", "-p", pid, "-d", "1s", "--output", folder]
            ended = subprocess.run(lines, capture_output=True, text=True, check=False)
        finally:
            program.kill()
    if ended.returncode == MISSING:
        pytest.skip(f"the kernel allows no samples: {ended.stderr.strip()}")
    assert ended.returncode == 0, ended.stderr
    [file] = folder.glob("lines-*.parquet")
    return file


def test_the_example_finds_member_hosts_and_hour(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source = ROOT / "examples" / "false_sharing.c"
    files = {}
    for name, defines in {"packed": [], "padded": ["-DPADDED"]}.items():
        program = tmp_path / name
        subprocess.run([compiler, "-O2", "-g", "-pthread", *defines, "-o", program, source], check=True)
        for _ in range(5):
            shutil.rmtree(tmp_path / f"{name}.looks", ignore_errors=True)
            files[name] = look([str(program), "4000000000"], tmp_path / f"{name}.looks")
            found = duckdb.execute(f"FROM '{files[name]}' WHERE line IS NOT NULL").fetchall()
            # On a busy host threads run one after the other, and then there is nothing to see.
            if found or defines:
                break
        else:
            pytest.skip("threads do not meet on this host")
    looks = tmp_path / "looks"
    looks.mkdir()
    hosts = [
        ("web1", "2026-11-28T07:10:00Z", "padded"),
        ("web2", "2026-11-28T07:10:00Z", "padded"),
        ("web3", "2026-11-28T07:10:00Z", "padded"),
        ("web1", "2026-11-28T08:10:00Z", "padded"),
        ("web2", "2026-11-28T08:10:00Z", "packed"),
        ("web3", "2026-11-28T08:10:00Z", "packed"),
    ]
    for number, (host, time, name) in enumerate(hosts):
        other = f"SELECT * REPLACE ('{host}' AS host, '{time}' AS time) FROM '{files[name]}'"
        duckdb.execute(f"COPY ({other}) TO '{looks / str(number)}.parquet'")
    answer = subprocess.run([sys.executable, EXAMPLE], cwd=tmp_path, capture_output=True, text=True, check=True)
    [last] = answer.stdout.splitlines()[-1:]
    assert last.startswith("f.") and last.endswith("on 2 hosts, since 2026-11-28 08:00:00"), answer.stdout


def test_columns_have_their_types_without_a_line(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    file = look(["sleep", "60"], tmp_path / "empty")
    assert duckdb.execute(f"SELECT line, host IS NULL FROM '{file}'").fetchall() == [(None, False)]
    columns = duckdb.execute(f"DESCRIBE FROM '{file}'").fetchall()
    types = {column[0]: column[1] for column in columns}
    assert (types["member"], types["pid"], types["most_share"]) == ("VARCHAR", "BIGINT", "DOUBLE")
