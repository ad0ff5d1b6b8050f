#!/usr/bin/env python3
"""Runs the example of serving as a user would.

command.py COMMAND ROOT table DEVICE | model DEVICE | bad-options

Exit status 77: skipped, with one line that says why.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

command, root, what, *rest = sys.argv[1:]
data = pathlib.Path(os.environ.get("SLIPWAY_DATA") or pathlib.Path(root) / "../shared/data")
ORDERS = ["sync", "update-first", "overlap-1", "overlap-2"]
problems = []


def run(*arguments):
    return subprocess.run([command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=240, check=False)


def expect(holds, text, done):
    if not holds:
        problems.append(f"{text}\n  exit status {done.returncode}\n  stdout {done.stdout!r}\n  stderr {done.stderr!r}")


def table(device):
    done = run("--steps", "24", "--batch", "3", "--draft", "2", "--plan-cost-us", "20", "--plan-sleeps", "--rounds", "1",
               "--device", device)
    expect(done.returncode == 0, "the run failed", done)
    for order in ["plain", *ORDERS]:
        expect(re.search(rf"^{order} .* equal$".encode(), done.stdout, re.M), f"no row of {order}", done)


def model(device):
    if not (data / "stories260K.bin").is_file():
        if "data" in os.environ.get("SLIPWAY_REQUIRE", "").split(","):
            print("required, but missing: data: no stories260K.bin")
            sys.exit(1)
        print("skipped: data: no stories260K.bin in $SLIPWAY_DATA or ../shared/data")
        sys.exit(77)
    done = run("--model", str(data / "stories260K.bin"), "--tokenizer", str(data / "tok512.bin"), "--steps", "96",
               "--rounds", "1", "--json", "--device", device)
    expect(done.returncode == 0, "the run failed", done)
    if problems:
        return
    result = json.loads(done.stdout)
    rows = result["orders"]
    expect([row["order"] for row in rows] == ["plain", *ORDERS], "orders are missing", done)
    expect(all(row["equal"] and row["tokens_per_second"] > 0 for row in rows), "a text differs", done)
    expect(all(row["accepted_per_step"] > 0 for row in rows[1:]), "no draft was accepted", done)
    expect(len(result["texts"]) == 8 and result["texts"][2].startswith("Once upon a time"), "not the model's text", done)


def bad_options():
    for arguments, words in (
            (["--no-such-option"], ["--no-such-option"]),
            (["--steps", "0"], ["--steps", "0"]),
            (["--steps", "100000"], ["--steps", "100000"]),
            (["--batch", "0"], ["--batch"]),
            (["--batch", "100", "--draft", "4"], ["500", "128"]),
            (["--draft", "-1"], ["--draft"]),
            (["--split", "1"], ["parts", "608"]),
            (["--order", "fastest"], ["fastest", "overlap-2"]),
            (["--device", "abacus"], ["abacus", "cpu"]),
            (["--device", "null"], ["null", "cpu"]),
            (["--model", "/no/such/file"], ["/no/such/file"]),
            (["--tokenizer", "/no/such/file"], ["/no/such/file"])):
        done = run(*arguments)
        shown = " ".join(arguments)
        message = done.stderr.decode(errors="replace")
        expect(done.returncode == 2, f"`{shown}` should end with exit status 2", done)
        expect(message.strip() and all(word in message for word in words),
               f"`{shown}` should name {words} in a sentence on standard error", done)
        expect(done.stdout == b"", f"`{shown}` should print nothing on standard output", done)
    done = run("--help")
    expect(done.returncode == 0 and b"--plan-cost-us" in done.stdout, "--help", done)


{"table": table, "model": model, "bad-options": bad_options}[what](*rest)
print("\n".join(problems) if problems else f"{what}: ok")
sys.exit(1 if problems else 0)
