"""Fails on a known vulnerability in what is installed; says so where the database of vulnerabilities is out of reach.

The pinned requirements are asked about first: without an answer for any of them, nothing more is asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PINNED = ("--no-deps", "--disable-pip", "--requirement", str(Path(__file__).parents[1] / "requirements.txt"))


def audit(*what: str) -> list[dict[str, Any]]:
    """What pip-audit knows of each package: "vulns" where it has an answer, "skip_reason" where not."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", *what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)["dependencies"]
    except ValueError:  # it broke off: no connection
        print(done.stderr.strip().split("\n")[-1], file=sys.stderr)
        return []


def main() -> int:
    if not any("vulns" in one for one in audit(*PINNED)):
        print("Not audited: the database of known vulnerabilities is out of reach here.")
        return 0
    found = audit()
    answered = [one for one in found if "vulns" in one]
    for one in answered:
        for flaw in one["vulns"]:
            fixed = ", ".join(flaw["fix_versions"]) or "no version yet"
            print(f"{one['name']} {one['version']}: {flaw['id']}, fixed in {fixed}")
    print(f"Audited {len(answered)} of {len(found)} installed packages.")
    return int(any(one["vulns"] for one in answered))


if __name__ == "__main__":
    sys.exit(main())
