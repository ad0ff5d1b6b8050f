#!/usr/bin/env python3
"""Each row of a table "item | ... | test" names tests that exist, ran and passed.

table_check.py TABLE.md RESULTS.xml... | --self-test

TABLE.md: tables in which one column's heading is "test" or "tests"; the cells name tests in `backticks`, and `*`
stands for any text. A row without a test is a problem, unless its cell begins with "none:" and a reason.
A column "state", where a table has one, says `done` or `open` in each row. Open rows are of things that are not there
yet: they are listed and counted, and no problem, whatever tests they name.
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
    """Yields (line number, first cell, test cell, state) of each row of each table with a column of tests."""
    column = state = None
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
            state = heads.index("state") if "state" in heads else None
            continue
        if column is not None:
            cell = row[column] if column < len(row) else ""
            yield number, row[0], cell, "done" if state is None else row[state] if state < len(row) else ""


def find_problem(name, results):
    """What is wrong with a named test, or nothing."""
    matching = [n for n in results if fnmatch.fnmatchcase(n, name)]
    if not matching:
        return f"there is no test {name}"
    if any(results[n] == "failed" for n in matching):
        return f"{name} failed"
    return f"{name} was skipped" if all(results[n] == "skipped" for n in matching) else None


def check(text, results):
    """(problems, open rows, number of rows)"""
    problems, still_open, count = [], [], 0
    for number, item, cell, state in rows(text):
        count += 1
        where = f"line {number} ({item})"
        names = re.findall(r"`([^`]+)`", cell)
        found = [problem for name in names if (problem := find_problem(name, results))]
        if state == "open":
            ready = names and not found
            still_open.append(where + (": its tests pass by now, so it may be done" if ready else ""))
        elif state != "done":
            problems.append(f"{where}: its state is '{state}'; say done or open")
        elif not names:
            if not re.match(r"none: \S", cell):
                problems.append(f"{where}: names no test")
        else:
            problems += [f"{where}: {problem}" for problem in found]
    if count == 0:
        problems.append("there is no table with a column of tests")
    return problems, still_open, count


def self_test():
    junit = """<testsuite name="x">
      <testcase name="A.passes" status="run"/>
      <testcase name="A.fails" status="fail"><failure message=""/></testcase>
      <testcase name="A.skips" status="notrun"><skipped message=""/></testcase>
      <testcase name="B.one/cpu" status="run"/><testcase name="B.one/opencl" status="notrun"><skipped/></testcase>
    </testsuite>"""
    head = "| item | test |\n| --- | --- |\n"
    states = "| item | state | test |\n| --- | --- | --- |\n"
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
        (states + "| 1 | done | `A.passes` |\n", 0),
        (states + "| 1 | done | `A.unknown` |\n", 1),
        (states + "| 1 | done |  |\n", 1),
        (states + "| 1 |  | `A.passes` |\n| 2 | soon | `A.passes` |\n", 2),
        (states + "| 1 | open | `A.unknown` |\n| 2 | open |  |\n| 3 | done | `A.passes` |\n", 0, 2),
        (states + "| 1 | open | `A.passes` |\n", 0, 1),
        (states + "| 1 | open | `A.fails` |\n| 2 | done | `A.skips` |\n", 1, 1),
    ]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "r.xml"
        file.write_text(junit)
        results = read_results([file])
        for text, expected, *more in cases:
            found, still_open, _ = check(text, results)
            if len(found) != expected or len(still_open) != sum(more):
                wrong += 1
                print(f"self-test: {text!r}: expected {expected} problems, found {found}; open: {still_open}")
    return wrong


if sys.argv[1:] == ["--self-test"]:
    sys.exit(1 if self_test() else 0)
document = sys.argv[1]
found, still_open, total = check(pathlib.Path(document).read_text(encoding="utf-8"), read_results(sys.argv[2:]))
for row in still_open:
    print(f"{document}: open: {row}")
for problem in found:
    print(f"{document}: {problem}")
if not found:
    print(f"{document}: {total} rows, {len(still_open)} of them open, each other one with a test that passed")
sys.exit(1 if found else 0)
