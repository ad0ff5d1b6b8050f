#!/usr/bin/env python3
"""Includes run downward only.

layers.py ROOT           checks the tree, one line per violation
layers.py --self-test    checks that a violation of each kind is found
"""
import pathlib
import re
import sys
import tempfile

# What the files of a folder of src/ may include, beside their own folder and slipway/*.h. A name with a file
# ending is that one header.
DRIVER_INTERFACE = "device/driver.h"
ALLOWED = {
    "base": [],
    "trace": ["base"],
    "record": ["base"],
    "engine": ["base", "trace", "record", DRIVER_INTERFACE],
    "device": ["base", "trace", "record"],
    "launch": ["base", "trace", "record", "device"],
    "graph": ["base", "trace", "record", "engine", "device", "launch"],
    "tree": ["base", "trace", "record", "engine", "device", "launch", "graph"],
}
DRIVER = ["base", "trace", "record", "engine", DRIVER_INTERFACE]  # drivers/X, which also sees drivers/X
REGISTRY = "drivers/registry.cpp"  # the one file that names drivers

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
STANDARD = re.compile(r"^[a-z0-9_]+$")  # a header of the standard library has no ending


def files(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in {".h", ".cpp", ".inc"}) if folder.is_dir() else []


def includes(path):
    text = path.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1) == "<", match.group(2)


def allows(rules, target):
    return any(target == rule or ("." not in rule and target.startswith(rule + "/")) for rule in rules)


def check(root):
    root = pathlib.Path(root)
    src, public = root / "src", root / "include"
    layers = [p.name for p in sorted(src.iterdir()) if p.is_dir()] if src.is_dir() else []
    problems = []

    def report(path, line, text):
        problems.append(f"{path.relative_to(root)}:{line}: {text}")

    for layer in layers:
        if layer != "drivers" and layer not in ALLOWED:
            problems.append(f"src/{layer}: a layer that tests/checks/layers.py does not know; give it its place there")
    for path in files(src):
        where = path.relative_to(src)
        inside = where.as_posix()
        if where.parts[0] == "drivers":
            own = "/".join(where.parts[:2]) if len(where.parts) > 2 else "drivers"
            rules = ["base", DRIVER_INTERFACE, "drivers"] if inside == REGISTRY else DRIVER + (
                [own] if own != "drivers" else [])
        else:
            rules = ALLOWED.get(where.parts[0], []) + [where.parts[0]]
        for line, angled, target in includes(path):
            if angled:
                if target.startswith("slipway/") or target.split("/")[0] in layers:
                    report(path, line, f'<{target}> is ours: write "{target}"')
                continue
            if target.startswith("slipway/"):
                if not (public / target).is_file():
                    report(path, line, f"there is no include/{target}")
            elif not (src / target).is_file():
                report(path, line, f'"{target}" is not a path from src/ or include/')
            elif not allows(rules, target):
                report(path, line, f"{inside} may not include {target}")
    for path in files(public):
        for line, angled, target in includes(path):
            if angled and not STANDARD.match(target):
                report(path, line, f"a public header may not include <{target}>")
            if not angled and not (target.startswith("slipway/") and (public / target).is_file()):
                report(path, line, f'a public header may not include "{target}"')
    # Users see include/ only, and so do the programs that are shown to them.
    for folder in ("examples", "tools", "bench", "tests/consumer"):
        for path in files(root / folder):
            for line, _, target in includes(path):
                if target.split("/")[0] in layers and not (path.parent / target).is_file():
                    report(path, line, f"{folder}/ may not include {target} of src/")
    return problems


def self_test():
    good = {
        "include/slipway/a.h": '#include <vector>\n#include "slipway/b.h"\n',
        "include/slipway/b.h": "#include <cstdint>\n",
        "src/base/x.h": '#include "slipway/a.h"\n#include <linux/futex.h>\n',
        "src/trace/x.h": '#include "base/x.h"\n',
        "src/record/x.h": '#include "base/x.h"\n',
        "src/device/driver.h": '#include "record/x.h"\n#include "trace/x.h"\n',
        "src/device/impl.h": '#include "device/driver.h"\n',
        "src/engine/x.h": '#include "device/driver.h"\n#include "record/x.h"\n',
        "src/launch/x.h": '#include "device/impl.h"\n',
        "src/graph/x.h": '#include "launch/x.h"\n#include "engine/x.h"\n',
        "src/tree/x.h": '#include "graph/x.h"\n',
        "src/drivers/cpu/x.h": '#include "engine/x.h"\n#include "device/driver.h"\n',
        "src/drivers/cpu/y.cpp": '#include "drivers/cpu/x.h"\n',
        "src/drivers/null/x.h": '#include "engine/x.h"\n',
        "src/drivers/registry.cpp": '#include "drivers/cpu/x.h"\n#include "drivers/null/x.h"\n',
        "tools/main.cpp": '#include "slipway/a.h"\n#include <CLI/CLI.hpp>\n',
    }
    bad = [
        ("include/slipway/c.h", '#include "base/x.h"'),
        ("include/slipway/c.h", "#include <fmt/core.h>"),
        ("include/slipway/c.h", "#include <unistd.h>"),
        ("src/base/y.h", '#include "record/x.h"'),
        ("src/base/y.h", '#  include "trace/x.h"'),
        ("src/base/y.h", '#include "../record/x.h"'),
        ("src/base/y.h", '#include "x.h"'),
        ("src/base/y.h", "#include <base/x.h>"),
        ("src/base/y.h", "#include <slipway/a.h>"),
        ("src/base/y.h", '#include "slipway/none.h"'),
        ("src/trace/y.h", '#include "record/x.h"'),
        ("src/record/y.h", '#include "trace/x.h"'),
        ("src/record/y.h", '#include "device/driver.h"'),
        ("src/engine/y.h", '#include "device/impl.h"'),
        ("src/engine/y.h", '#include "drivers/cpu/x.h"'),
        ("src/device/y.h", '#include "engine/x.h"'),
        ("src/device/y.h", '#include "launch/x.h"'),
        ("src/device/y.h", '#include "drivers/cpu/x.h"'),
        ("src/launch/y.h", '#include "engine/x.h"'),
        ("src/launch/y.h", '#include "graph/x.h"'),
        ("src/graph/y.h", '#include "drivers/cpu/x.h"'),
        ("src/graph/y.h", '#include "tree/x.h"'),
        ("src/drivers/cpu/z.cpp", '#include "drivers/null/x.h"'),
        ("src/drivers/cpu/z.cpp", '#include "device/impl.h"'),
        ("src/drivers/other.cpp", '#include "drivers/cpu/x.h"'),
        ("src/newlayer/y.h", ""),
        ("tools/more.cpp", '#include "record/x.h"'),
        ("examples/one.cpp", '#include "device/driver.h"'),
    ]
    failures = 0
    for name, text in [(None, "")] + bad:
        with tempfile.TemporaryDirectory() as folder:
            tree = dict(good)
            if name:
                tree[name] = text + "\n"
            for path, content in tree.items():
                file = pathlib.Path(folder) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
            problems = check(folder)
            expected = 0 if name is None else 1
            if len(problems) != expected:
                failures += 1
                print(f"self-test: {name} with '{text}': expected {expected} problems, found {problems}")
    print(f"self-test: {len(bad) + 1} trees, {failures} judged wrongly")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        return 1 if self_test() else 0
    problems = check(sys.argv[1])
    print("\n".join(problems) if problems else "layers: every include runs downward")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
