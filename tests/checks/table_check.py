#!/usr/bin/env python3
"""Each row of a table "item | ... | test" names tests that exist, ran and passed.

table_check.py TABLE.md RESULTS.xml... | --self-test

TABLE.md: tables in which one column's heading is "test" or "tests"; the cells name tests in `backticks`, and `*`
stands for any text. A row without a test is a problem, unless its cell begins with "none:" and a reason.
RESULTS.xml: what ctest --output-junit wrote; later files add to earlier ones. A test that passed in one of them
and failed in another has failed; one that was skipped everywhere did not run.
"""
import fnmatch
import pathlib
import re
import sys
import tempfile
import xml.etree.ElementTree


def read_results(paths):
    results = {}
    rank = {"skipped": 0, "passed": 1, "failed": 2}
    for path in paths:
        for case in xml.etree.ElementTree.parse(path).iter("testcase"):
            status = case.get("status")
            if case.find("failure") is not None or status == "fail":
                outcome = "failed"
            elif case.find("skipped") is not None or status in ("notrun", "disabled"):
                outcome = "skipped"
            else:
                outcome = "passed"
            name = case.get("name")
            if name not in results or rank[outcome] > rank[results[name]]:
                results[name] = outcome
    return results


def cells(line):
    return [c.strip() for c in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def rows(text):
    """Yields (line number, first cell, test cell) of each row of each table with a column of tests."""
    column = None
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if not line.lstrip().startswith("|"):
            column = None
            continue
        row = cells(line)
        if all(re.fullmatch(r":?-+:?", c) for c in row):
            continue
        if number < len(lines) and re.match(r"^\s*\|[\s:|-]+\|?\s*$", lines[number]):
            heads = [c.lower() for c in row]
            column = next((i for i, head in enumerate(heads) if head in ("test", "tests")), None)
            continue
        if column is not None:
            yield number, row[0], row[column] if column < len(row) else ""


def check(text, results):
    problems, count = [], 0
    for number, item, cell in rows(text):
        count += 1
        where = f"line {number} ({item})"
        names = re.findall(r"`([^`]+)`", cell)
        if not names:
            if not re.match(r"none: \S", cell):
                problems.append(f"{where}: names no test")
            continue
        for name in names:
            matching = [n for n in results if fnmatch.fnmatchcase(n, name)]
            if not matching:
                problems.append(f"{where}: there is no test {name}")
            elif any(results[n] == "failed" for n in matching):
                problems.append(f"{where}: {name} failed")
            elif all(results[n] == "skipped" for n in matching):
                problems.append(f"{where}: {name} was skipped")
    if count == 0:
        problems.append("there is no table with a column of tests")
    return problems, count


def self_test():
    junit = """<testsuite name="x">
      <testcase name="A.passes" status="run"/>
      <testcase name="A.fails" status="fail"><failure message=""/></testcase>
      <testcase name="A.skips" status="notrun"><skipped message=""/></testcase>
      <testcase name="B.one/cpu" status="run"/><testcase name="B.one/opencl" status="notrun"><skipped/></testcase>
    </testsuite>"""
    head = "| item | test |\n| --- | --- |\n"
    cases = [
        (head + "| 1 | `A.passes` |\n", 0),
        (head + "| 1 | `A.passes`, `B.one/*` |\n", 0),
        (head + "| 1 | none: only Ascend has it |\n", 0),
        ("| item | what | test |\n|---|:--|--:|\n| 1 | a \\| b | `A.passes` |\n", 0),
        (head + "| 1 | `A.fails` |\n", 1),
        (head + "| 1 | `A.skips` |\n", 1),
        (head + "| 1 | `A.*` |\n", 1),
        (head + "| 1 | `A.unknown` |\n", 1),
        (head + "| 1 |  |\n| 2 | A.passes |\n| 3 | none: |\n", 3),
        (head + "| 1 |\n", 1),
        ("no table\n", 1),
        ("| item | what |\n| --- | --- |\n| 1 | `A.unknown` |\n", 1),
    ]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "r.xml"
        file.write_text(junit)
        results = read_results([file])
        for text, expected in cases:
            found = check(text, results)[0]
            if len(found) != expected:
                wrong += 1
                print(f"self-test: {text!r}: expected {expected} problems, found {found}")
    return wrong


if sys.argv[1:] == ["--self-test"]:
    sys.exit(1 if self_test() else 0)
found, total = check(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), read_results(sys.argv[2:]))
print("\n".join(f"{sys.argv[1]}: {p}" for p in found) if found else f"{sys.argv[1]}: {total} rows, each with a test that passed")
sys.exit(1 if found else 0)
