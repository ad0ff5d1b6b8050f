#!/usr/bin/env python3
"""Counts the instructions of a launch with callgrind, and compares them with the goal and with the last record.

gate.py --program gate_count --budgets budgets.txt --compiler g++-12-x86_64 --work DIR [--record]
gate.py --self-test

Exits with 77 (skipped, for ctest) where valgrind is missing, unless SLIPWAY_REQUIRE names callgrind. `--record` prints
the lines for budgets.txt instead of comparing.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

GOAL_CASE, GOAL = "site", 100  # instructions of a finalized call site: goal 1 of bench/README.md
TOLERANCE = 1.05
LAUNCHES = 1000
# What a steady launch may not execute: allocation, locks that are not the stream's own, the kernel.
FORBIDDEN = re.compile(r"^(malloc|calloc|realloc|free|_int_malloc|_int_free|operator (new|delete).*|syscall|futex.*"
                       r"|pthread_mutex_.*|___pthread_mutex_.*|__lll_lock_.*|_dl_runtime_resolve.*|__tls_get_addr.*)$")
FAST = ("site", "typed", "typed_grid", "grid_expression", "grid_function")   # no allocation, lock or system call
NO_ALLOCATION = ("site", "typed", "typed_grid", "grid_expression", "grid_function", "typed_shared", "planned", "general", "typed_inline", "general_inline",
                 "graph_inline", "graph_1000_inline", "graph_open_inline",
                 "typed_null")


def parse_dump(text):
    """(name of the case, instructions, functions executed) of one dump."""
    thread = re.search(r"^thread: (\d+)", text, re.M)
    if thread and thread.group(1) != "1":  # a worker's
        return None
    name = re.search(r"^desc: Trigger: Client Request: (\S+)", text, re.M)
    total = re.search(r"^(?:summary|totals): (\d+)", text, re.M)
    # Names are written in full: --compress-strings=no. A compiler's clones (.isra.0) count as their function.
    functions = {re.sub(r"('\d+|\.(isra|part|constprop|cold)\.?\d*|@.*)$", "", f.strip())
                 for f in re.findall(r"^c?fn=(.*)$", text, re.M)}
    return (name.group(1), int(total.group(1)), functions) if name and total else None


def read_budgets(text, compiler):
    budgets = {}
    for line in text.splitlines():
        fields = line.split("#")[0].split()
        if len(fields) == 3 and fields[0] == compiler:
            budgets[fields[1]] = float(fields[2])
    return budgets


def judge(counts, functions, budgets):
    """Sentences about what is wrong."""
    problems = []
    if counts.get(GOAL_CASE, GOAL + 1) > GOAL:
        problems.append(f"{GOAL_CASE} takes {counts.get(GOAL_CASE)} instructions a launch; the goal is at most {GOAL}")
    for case, budget in budgets.items():
        if case not in counts:
            problems.append(f"{case} has a budget and was not counted")
        elif counts[case] > budget * TOLERANCE:
            problems.append(f"{case} takes {counts[case]:.1f} instructions a launch; {budget:.1f} were recorded. Mend it, "
                            "or record the new count with --record and say why")
    for case in NO_ALLOCATION:
        pattern = FORBIDDEN if case in FAST else re.compile(r"^(malloc|calloc|realloc|operator new.*|syscall)$")
        found = sorted(f for f in functions.get(case, set()) if pattern.match(f))
        if found:
            problems.append(f"{case} calls {', '.join(found)}; a steady launch may not")
    return problems


def self_test():
    dump = "version: 1\ndesc: Trigger: Client Request: site\nsummary: 90000\nfn=launch\ncfn=malloc\n"
    ok = parse_dump("thread: 2\n" + dump) is None
    ok = ok and parse_dump("thread: 1\n" + dump) == ("site", 90000, {"launch", "malloc"})
    ok = ok and parse_dump(dump) == ("site", 90000, {"launch", "malloc"}) and parse_dump("nothing") is None
    budgets = read_budgets("# a\ng++-12 site 90 # why\nclang site 80\n", "g++-12")
    ok = ok and budgets == {"site": 90.0}
    ok = ok and not judge({"site": 94.0}, {"site": {"launch"}}, budgets)
    ok = ok and len(judge({"site": 95.0}, {}, budgets)) == 1       # over the budget by more than 5 %
    ok = ok and len(judge({"site": 101.0}, {}, {})) == 1           # over the goal, whatever was recorded
    ok = ok and len(judge({"site": 90.0}, {"site": {"malloc", "pthread_mutex_lock"}}, budgets)) == 1
    ok = ok and len(judge({}, {}, {})) == 1                         # nothing was counted
    return 0 if ok else 1


def main():
    parser = argparse.ArgumentParser()
    for option in ("--program", "--budgets", "--compiler", "--work"):
        parser.add_argument(option, required=True)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()

    valgrind = shutil.which("valgrind")
    if not valgrind:
        required = "callgrind" in re.split(r"[,\s]+", os.environ.get("SLIPWAY_REQUIRE", ""))
        print(("failed" if required else "skipped") + ": gate.launch: valgrind is not installed")
        return 1 if required else 77
    work = pathlib.Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        run = subprocess.run(
            [valgrind, "--tool=callgrind", "--separate-threads=yes", "--collect-atstart=no", "--compress-strings=no", "--compress-pos=no",
             f"--callgrind-out-file={folder}/out", options.program],
            capture_output=True, text=True, check=False, timeout=300)
        if run.returncode != 0:
            print(run.stdout + run.stderr)
            return 1
        counts, functions = {}, {}
        for path in sorted(pathlib.Path(folder).iterdir()):
            parsed = parse_dump(path.read_text(errors="replace"))
            if parsed:
                counts[parsed[0]], functions[parsed[0]] = parsed[1], parsed[2]
    empty = counts.pop("empty", 0)
    counts = {case: (total - empty) / LAUNCHES for case, total in counts.items()}
    if options.record:
        print("\n".join(f"{options.compiler} {case} {count:.1f}" for case, count in counts.items()))
        return 0
    budgets = read_budgets(pathlib.Path(options.budgets).read_text(), options.compiler)
    print(f"instructions per launch ({options.compiler}, {LAUNCHES} launches, an empty loop subtracted):")
    for case, count in counts.items():
        print(f"  {case:14} {count:9.1f}   " + (f"recorded {budgets[case]:.1f}" if case in budgets else "not recorded"))
    if not budgets:
        print(f"no counts are recorded for {options.compiler}: only the goal of {GOAL} is checked")
    problems = judge(counts, functions, budgets)
    print("\n".join(problems) if problems else "gate.launch: within the goal and the record")
    return 1 if problems else 0


sys.exit(self_test() if sys.argv[1:] == ["--self-test"] else main())
