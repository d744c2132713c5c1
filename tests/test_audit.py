"""The audit of .ci/run: a known vulnerability fails it, and what nobody could look up is not called sound."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

AUDIT = Path(__file__).parents[1] / ".ci" / "audit.py"
SOUND = {"name": "sound", "version": "1.0", "vulns": []}
FLAWED = {"name": "flawed", "version": "2.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"]}]}
UNKNOWN = {"name": "unknown", "skip_reason": "Dependency not found on PyPI and could not be audited"}
PIP_AUDIT = """
import json, sys
pinned, installed = json.loads({answers!r})
answer = pinned if "--requirement" in sys.argv else installed
if answer is None:
    sys.exit("requests.exceptions.ConnectionError: no route")
print(json.dumps({{"dependencies": answer, "fixes": []}}))
"""


@pytest.mark.parametrize(
    ("pinned", "installed", "status", "said"),
    [
        ([SOUND], [SOUND, UNKNOWN], 0, "Audited 1 of 2 installed packages."),
        ([SOUND], [SOUND, FLAWED], 1, "flawed 2.0: PYSEC-1, fixed in 2.1"),
        ([FLAWED], [FLAWED], 1, "Audited 1 of 1"),
        ([UNKNOWN, UNKNOWN], [FLAWED], 0, "Not audited: the database of known vulnerabilities is out of reach"),
        (None, None, 0, "Not audited"),
    ],
)
def test_what_the_audit_makes_of_answers(
    tmp_path: Path, pinned: object, installed: object, status: int, said: str
) -> None:
    (tmp_path / "pip_audit").mkdir()
    (tmp_path / "pip_audit" / "__init__.py").touch()  # a package without it would give way to the installed one
    (tmp_path / "pip_audit" / "__main__.py").write_text(PIP_AUDIT.format(answers=json.dumps([pinned, installed])))
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, str(AUDIT)], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("Traceback")) == (status, 0)
    assert said in done.stdout
