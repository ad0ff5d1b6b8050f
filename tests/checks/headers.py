#!/usr/bin/env python3
"""Every header compiles by itself: it includes what it uses.

A header that the .cpp beside it includes first is shown to do so by the build; the others are compiled here.

headers.py --compiler CXX --root ROOT --work FOLDER [--launcher CCACHE] [--jobs N]
headers.py --compiler CXX --work FOLDER --self-test
"""
import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]


def compile_alone(compiler, work, header, include_folders, definitions=()):
    # Compiled to a file that stays where it is, so that ccache answers when nothing has changed.
    unit = work / (str(header).replace("/", "_") + ".cpp")
    # Twice: a header must also bear being included again.
    unit.write_text(f'#include "{header}"\n#include "{header}"\n')
    command = [*compiler, "-std=c++20", *WARNINGS, *definitions]
    for folder in include_folders:
        command += ["-I", str(folder)]
    done = subprocess.run([*command, "-c", str(unit), "-o", str(unit.with_suffix(".o"))], capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def is_first_in_its_source(path, name):
    source = path.with_suffix(".cpp")
    first = re.search(r'^#include [<"](.*)[>"]', source.read_text(), re.M) if source.is_file() else None
    return first is not None and first.group(1) == str(name)


def check(compiler, root, work_folder, jobs):
    work = []
    for path in sorted((root / "include").rglob("*.h")):
        work.append((path, path.relative_to(root / "include"), [root / "include"], []))  # as users compile it
    for path in sorted((root / "src").rglob("*.h")):
        name = path.relative_to(root / "src")
        if not is_first_in_its_source(path, name):
            work.append((path, name, [root / "include", root / "src"], ["-DSLIPWAY_BUILDING"]))
    problems = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for item, error in zip(work, pool.map(lambda w: compile_alone(compiler, work_folder, w[1], w[2], w[3]), work)):
            if error:
                problems.append(f"{item[0].relative_to(root)} does not compile by itself:\n{error}")
    print("\n".join(problems) if problems else f"headers: each compiles by itself ({len(work)} compiled here)")
    return 1 if problems or not work else 0


def self_test(compiler, work_folder):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "good.h").write_text("#pragma once\n#include <string>\nstruct A { std::string s; };\n")
        (pathlib.Path(folder) / "lacks.h").write_text("#pragma once\nstruct B { std::vector<int> v; };\n")
        (pathlib.Path(folder) / "twice.h").write_text("struct C {};\n")
        results = [bool(compile_alone(compiler, work_folder, n, [folder])) for n in ("good.h", "lacks.h", "twice.h")]
    return 0 if results == [False, True, True] else 1


parser = argparse.ArgumentParser()
parser.add_argument("--compiler", required=True)
parser.add_argument("--launcher", default="")
parser.add_argument("--root", type=pathlib.Path)
parser.add_argument("--work", type=pathlib.Path, required=True)
parser.add_argument("--jobs", type=int, default=2)
parser.add_argument("--self-test", action="store_true")
arguments = parser.parse_args()
arguments.work.mkdir(parents=True, exist_ok=True)
command = [arguments.launcher, arguments.compiler] if arguments.launcher else [arguments.compiler]
sys.exit(self_test(command, arguments.work) if arguments.self_test
         else check(command, arguments.root, arguments.work, arguments.jobs))
