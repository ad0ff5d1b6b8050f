#!/usr/bin/env python3
"""No source file over 500 lines: such a file wants to be two.

sizes.py ROOT | --self-test
"""
import pathlib
import sys
import tempfile

LIMIT = 500
FOLDERS = ("src", "include", "examples", "tools")


def check(root):
    problems = []
    for folder in FOLDERS:
        for path in sorted((pathlib.Path(root) / folder).rglob("*")):
            if path.suffix not in {".h", ".cpp", ".c", ".cl", ".inc", ".py"}:
                continue
            lines = path.read_bytes().count(b"\n")
            if lines > LIMIT:
                problems.append(f"{path.relative_to(root)}: {lines} lines, the limit is {LIMIT}; make two files of it")
    return problems


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "src/base").mkdir(parents=True)
        (pathlib.Path(folder) / "src/base/ok.cpp").write_text("\n" * LIMIT)
        if check(folder):
            return 1
        (pathlib.Path(folder) / "src/base/long.h").write_text("\n" * (LIMIT + 1))
        return 0 if len(check(folder)) == 1 else 1


if sys.argv[1:] == ["--self-test"]:
    sys.exit(self_test())
found = check(sys.argv[1])
print("\n".join(found) if found else f"sizes: no file over {LIMIT} lines")
sys.exit(1 if found else 0)
