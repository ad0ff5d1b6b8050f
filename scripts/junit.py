#!/usr/bin/env python3
"""Reads what ctest --output-junit wrote, for scripts/test.

junit.py describe PART FILE.xml        what failed, and what was skipped and why, and the count of one part
junit.py sum ROOT RESULTS PART...      checks tables of tests in ROOT/docs, then the count over all parts as the
                                       last line; exit status 1 when anything failed
RESULTS has PART.status (an exit status, or "skipped") and PART.xml, or PART.txt with lines "passed|failed|skipped NAME".
A part that failed without a failed test (it did not build, or ran out of time) counts as one failure.
"""
import collections
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree


def read_cases(path):
    """Yields (name, outcome, output) of each test."""
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        output = case.findtext("system-out") or ""
        status = case.get("status")
        if case.find("failure") is not None or status == "fail":
            yield case.get("name"), "failed", output
        elif case.find("skipped") is not None or status in ("notrun", "disabled"):
            yield case.get("name"), "skipped", output
        else:
            yield case.get("name"), "passed", output


def count_part(results, part):
    counts = collections.Counter()
    status = (results / f"{part}.status").read_text().strip() if (results / f"{part}.status").exists() else "1"
    if status == "skipped":
        counts["skipped"] = 1
        return counts
    try:
        if (results / f"{part}.xml").exists():
            counts.update(outcome for _, outcome, _ in read_cases(results / f"{part}.xml"))
    except xml.etree.ElementTree.ParseError:
        counts["failed"] += 1
    if (results / f"{part}.txt").exists():
        counts.update(line.split()[0] for line in (results / f"{part}.txt").read_text().splitlines() if line)
    if status != "0" and counts["failed"] == 0:
        counts["failed"] = 1
    return counts


def text_of(counts):
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def describe(part, path):
    if not pathlib.Path(path).exists():
        print(f"{part}: ctest wrote no results")
        return 1
    counts = collections.Counter()
    reasons = collections.Counter()
    for name, outcome, output in read_cases(path):
        counts[outcome] += 1
        if outcome == "failed":
            lines = [line for line in output.splitlines() if line.strip()]
            print(f"failed: {part}: {name}")
            print("\n".join("    " + line for line in lines[-25:]))
        elif outcome == "skipped":
            found = re.search(r"skipped: (.*)|Skipped\n(.*)", output)
            reasons[next((g for g in found.groups() if g), "no reason given") if found else "did not run"] += 1
    for reason, count in sorted(reasons.items()):
        print(f"skipped: {part}: {count} tests: {reason}")
    print(f"{part}: {text_of(counts)}")
    return 0 if sum(counts.values()) else 1


def tables(root, results, parts):
    """A document with the line <!-- checked: tests --> has tables that tests/checks/table_check.py checks."""
    files = [str(f) for f in (results / f"{p}.xml" for p in parts) if f.exists()]
    failed = 0
    for document in sorted((root / "docs").glob("*.md")):
        if "<!-- checked: tests -->" in document.read_text(encoding="utf-8"):
            checker = root / "tests/checks/table_check.py"
            failed += subprocess.run([sys.executable, checker, document, *files]).returncode != 0
    return failed


def total(root, results, parts):
    counts = collections.Counter()
    for part in parts:
        counts += count_part(results, part)
    if "release" in parts and (results / "release.xml").exists():
        counts["failed"] += tables(root, results, parts)
    sys.stdout.flush()
    print(text_of(counts))
    return 1 if counts["failed"] or not counts["passed"] else 0


if sys.argv[1] == "describe":
    sys.exit(describe(sys.argv[2], sys.argv[3]))
sys.exit(total(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4:]))
