#!/usr/bin/env python3
"""Counts instructions per launch with callgrind, and fails when there are too many.

count.py --program PATH --valgrind PATH --key COMPILER-ARCH --budgets FILE [--work FOLDER] [--record]
count.py --self-test

The typed path may take LIMIT instructions whatever happens; each row may take 5 % more than what was recorded for this
compiler and architecture (--record writes that down). Ends with 77, which ctest calls skipped, when valgrind is missing
and SLIPWAY_REQUIRE does not name callgrind.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LIMIT = 100        # instructions of a typed planned launch
TOLERANCE = 0.05   # over what was recorded
LAUNCHES = 1000
SKIPPED = 77


def read_dumps(folder):
    """{row: instructions per launch} of the first thread."""
    totals = {}
    for path in pathlib.Path(folder).glob("callgrind.out*"):
        text = path.read_text(errors="replace")
        thread = re.search(r"^thread: (\d+)", text, re.M)
        label = re.search(r"^desc: Trigger: Client Request: (\w+) (\d+)", text, re.M)
        total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
        if thread and int(thread[1]) == 1 and label and total:
            totals[label[1]] = int(total[1]) / int(label[2])
    empty = totals.pop("empty", None)
    if empty is None:
        return {}
    return {row: total - empty for row, total in totals.items()}


def read_budgets(path):
    """{(key, row): instructions}; lines of KEY ROW INSTRUCTIONS, '#' begins a comment."""
    budgets = {}
    if pathlib.Path(path).exists():
        for line in pathlib.Path(path).read_text().splitlines():
            words = line.split("#")[0].split()
            if len(words) == 3:
                budgets[words[0], words[1]] = float(words[2])
    return budgets


def judge(rows, key, budgets):
    problems = []
    if "typed" not in rows:
        problems.append("the typed path was not counted")
    for row, counted in rows.items():
        recorded = budgets.get((key, row))
        if row == "typed" and counted > LIMIT:
            problems.append(f"{row}: {counted:.1f} instructions per launch, the limit is {LIMIT}")
        if recorded is not None and counted > recorded * (1 + TOLERANCE):
            problems.append(f"{row}: {counted:.1f} instructions per launch, {recorded:.1f} are recorded for {key}; "
                            "win them back, or record what is needed now (--record) and say why")
    for known_key, row in budgets:
        if known_key == key and row not in rows:
            problems.append(f"{row}: a budget is recorded for {key}, but the row was not counted")
    return problems


def record(path, rows, key):
    lines = [line for line in pathlib.Path(path).read_text().splitlines() if line.split()[:1] != [key]]
    lines += [f"{key} {row} {counted:.1f}" for row, counted in sorted(rows.items())]
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


def skip_or_fail(why):
    required = "callgrind" in os.environ.get("SLIPWAY_REQUIRE", "").split(",")
    print(f"required, but missing: callgrind: {why}" if required else f"skipped: callgrind: {why}")
    return 1 if required else SKIPPED


def count(arguments, work):
    command = [arguments.valgrind, "--tool=callgrind", "--separate-threads=yes", "--collect-atstart=no",
               f"--callgrind-out-file={work}/callgrind.out", arguments.program, str(LAUNCHES)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240)
    if run.returncode != 0:
        print(run.stdout + run.stderr)
        return 1
    rows = read_dumps(work)
    if not rows:
        return skip_or_fail("no counts came out; was bench/count_launch.cpp compiled without valgrind/callgrind.h?")
    budgets = read_budgets(arguments.budgets)
    if not any(key == arguments.key for key, _ in budgets):
        print(f"no budget is recorded for {arguments.key}: only the limit of {LIMIT} holds")
    for row, counted in sorted(rows.items()):
        recorded = budgets.get((arguments.key, row))
        print(f"{row:16}{counted:10.1f} instructions per launch" + (f" (recorded: {recorded:.1f})" if recorded else ""))
    if arguments.record:
        record(arguments.budgets, rows, arguments.key)
        return 0
    problems = judge(rows, arguments.key, budgets)
    print("\n".join(problems) if problems else "gate: within all budgets")
    return 1 if problems else 0


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        def dump(number, thread, label, total):
            pathlib.Path(folder, f"callgrind.out.{number}").write_text(
                f"pid: 1\nthread: {thread}\ndesc: Trigger: Client Request: {label}\ntotals: {total}\n")
        dump(1, 1, "empty 10", 20)
        dump(2, 1, "typed 10", 920)
        dump(3, 2, "typed 10", 99999)   # another thread's
        rows = read_dumps(folder)
        file = pathlib.Path(folder, "budgets.txt")
        file.write_text("# a comment\nother-x typed 1.0\n")
        record(file, rows, "a-b")
        kept = read_budgets(file)
    results = [
        rows == {"typed": 90.0},
        kept == {("other-x", "typed"): 1.0, ("a-b", "typed"): 90.0},
        not judge(rows, "a-b", kept),
        not judge(rows, "unknown", kept),
        bool(judge({"typed": 100.5}, "unknown", kept)),   # the limit holds without a budget
        bool(judge({"typed": 95.0}, "a-b", kept)),        # and the budget below the limit
        bool(judge({}, "unknown", kept)),                 # nothing counted is no success
        bool(judge({"typed": 90.0}, "a-b", {("a-b", "general"): 5.0})),
    ]
    print(f"gate self-test: {sum(results)} of {len(results)} as expected")
    return 0 if all(results) else 1


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser()
    for name in ("program", "valgrind", "key", "budgets"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--work")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    if not shutil.which(arguments.valgrind):
        return skip_or_fail("valgrind was not found")
    with tempfile.TemporaryDirectory(dir=arguments.work) as work:
        return count(arguments, work)


sys.exit(main())
