"""The notebooks run from their first cell to their last."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "examples" / "notebooks"


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.ipynb")))
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    for package in ["nbclient", "ipykernel", "altair", "polars"]:
        pytest.importorskip(package)
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(FOLDER / name, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": tmp_path}}).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    charts = [
        output
        for cell in cells
        for output in cell.outputs
        if "vega" in output.get("data", {}).get("text/html", "")
    ]
    assert len(charts) >= 2
