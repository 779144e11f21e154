"""The family of docs/families.md, as a user has it: a module that Python finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def save(repository: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, family: str) -> None:
    """Write the page's example to MODULE.py in a folder that Python searches; its family gets another name, since names are global."""
    (code,) = re.findall(r"```python\n(.*?)```", (repository / "docs" / "families.md").read_text(), re.S)
    assert code.count('name = "gather"') == 1
    (folder / f"{module}.py").write_text(code.replace('name = "gather"', f'name = "{family}"'))
    monkeypatch.syspath_prepend(folder)
