#!/usr/bin/env python3
"""The examples that README.md shows are the files that are compiled and run.

readme_example.py ROOT | --self-test

A code block behind the line <!-- example: examples/NAME.cpp --> is that file, byte for byte.
"""
import pathlib
import re
import sys
import tempfile

MARKER = re.compile(r"^<!-- example: (\S+) -->\n+```[a-z+]*\n(.*?)^```$", re.M | re.S)


def check(root):
    root = pathlib.Path(root)
    readme = root / "README.md"
    if not readme.is_file():
        return ["README.md is missing"]
    text = readme.read_text(encoding="utf-8")
    shown = MARKER.findall(text)
    problems = []
    if len(shown) != text.count("<!-- example:"):
        problems.append("README.md has an example marker without a code block right behind it")
    if not shown:
        problems.append("README.md shows no example; put one behind a line <!-- example: examples/NAME.cpp -->")
    for name, block in shown:
        file = root / name
        if not file.is_file():
            problems.append(f"README.md shows {name}, which does not exist")
        elif file.read_text(encoding="utf-8") != block:
            problems.append(f"README.md shows another text than {name} has; copy the file into the block")
    return problems


def self_test():
    code = "int main() {}\n"
    cases = [  # README, number of problems
        (None, 1),
        ("# No example\n", 1),
        (f"<!-- example: examples/a.cpp -->\n```cpp\n{code}```\n", 0),
        (f"<!-- example: examples/a.cpp -->\n\n```cpp\n{code}```\ntext\n", 0),
        ("<!-- example: examples/a.cpp -->\n```cpp\nint main() { }\n```\n", 1),
        (f"<!-- example: examples/b.cpp -->\n```cpp\n{code}```\n", 1),
        ("<!-- example: examples/a.cpp -->\ntext\n", 2),
    ]
    wrong = 0
    for readme, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "examples").mkdir()
            (pathlib.Path(folder) / "examples/a.cpp").write_text(code)
            if readme is not None:
                (pathlib.Path(folder) / "README.md").write_text(readme)
            found = check(folder)
            if len(found) != expected:
                wrong += 1
                print(f"self-test: {readme!r}: expected {expected} problems, found {found}")
    return wrong


if sys.argv[1:] == ["--self-test"]:
    sys.exit(1 if self_test() else 0)
found = check(sys.argv[1])
print("\n".join(found) if found else "readme: the examples shown are the files")
sys.exit(1 if found else 0)
