"""The ratchet: what src weighs may only fall until the rebuild is done.

    python benchmarks/sizes.py            # a line a package; exits with 1 if a sum has grown
    python benchmarks/sizes.py --write    # lowers sizes.json to what is there now

Lines count blank ones, comments and docstrings. A number is an assignment at module level whose
value is made of numeric literals (and names, as in `2 * EPS`).
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "provenet"
COMMITTED = Path(__file__).with_name("sizes.json")
KINDS = ("lines", "modules", "numbers")
_NUMERIC = (
    ast.Constant, ast.Tuple, ast.List, ast.UnaryOp, ast.BinOp, ast.USub, ast.UAdd, ast.Name,
    ast.Load, ast.operator, ast.Attribute,
)  # fmt: skip


def numbers_of(node: ast.stmt) -> int:
    """How many numbers an assignment defines."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return 0
    parts = list(ast.walk(node.value))
    literals = [part.value for part in parts if isinstance(part, ast.Constant)]
    numeric = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in literals)
    if not literals or not numeric or not all(isinstance(part, _NUMERIC) for part in parts):
        return 0
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return len(target.elts) if isinstance(target, ast.Tuple) else 1


def weigh(path: Path) -> Counter[str]:
    text = path.read_text(encoding="utf-8")
    numbers = sum(map(numbers_of, ast.parse(text).body))
    return Counter(lines=len(text.splitlines()), modules=1, numbers=numbers)


def sizes() -> dict[str, Counter[str]]:
    """By package; modules beside them are ".", the sum is "all"."""
    packages: dict[str, Counter[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        inner = path.relative_to(SOURCE).parts
        packages.setdefault(inner[0] if len(inner) > 1 else ".", Counter()).update(weigh(path))
    return packages | {"all": sum(packages.values(), Counter())}


def main() -> int:
    found = sizes()
    print(f"{'':12}" + "".join(f"{kind:>10}" for kind in KINDS))
    for name, counts in found.items():
        print(f"{name:12}" + "".join(f"{counts[kind]:10,}" for kind in KINDS))
    now = {kind: found["all"][kind] for kind in KINDS}
    if "--write" in sys.argv[1:]:
        COMMITTED.write_text(json.dumps(now) + "\n")
    allowed = json.loads(COMMITTED.read_text())
    grown = [
        f"{kind}: {now[kind]:,} > {allowed[kind]:,}" for kind in KINDS if now[kind] > allowed[kind]
    ]
    if grown:
        print(f"src has grown ({'; '.join(grown)}): take away as much as was added.")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
