#!/usr/bin/env python3
"""Runs `slipway decode --trace` as a user would, and reads what it wrote.

command_trace.py COMMAND planned | graph | overlap | refusals
command_trace.py --self-test    checks that each kind of damage is found
"""
import collections
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

STEPS = 24
LAUNCHES = 78  # of the default synthetic model, and one copy
problems = []


def expect(holds, text):
    if not holds:
        problems.append(text)


def run(command, *arguments):
    return subprocess.run([command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)


def is_inside(inner, outer):
    # Half a nanosecond is what the decimal fractions may be off.
    return inner["ts"] >= outer["ts"] - 5e-4 and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 5e-4


def slices(events, category):
    return [e for e in events if e["ph"] == "X" and e["cat"] == category]


def check(trace, mode):
    events = trace["traceEvents"]
    expect(trace["otherData"]["dropped"] == 0, "entries were dropped")
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    expect(len(set(tracks.values())) == len(tracks), f"two tracks have one name: {tracks}")
    for e in events:
        if e["ph"] == "M":
            continue
        expect(e["ts"] >= 0 and e.get("dur", 0) >= 0, f"a time is negative: {e}")
        expect(e["tid"] in tracks, f"an event is on no track: {e}")
    rows = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            rows[e["tid"]].append(e)
    for row in rows.values():
        open_slices = []
        for e in sorted(row, key=lambda e: (e["ts"], -e["dur"])):
            while open_slices and open_slices[-1]["ts"] + open_slices[-1]["dur"] <= e["ts"] + 5e-4:
                open_slices.pop()
            expect(not open_slices or is_inside(e, open_slices[-1]), f"slices overlap without nesting: {e}")
            open_slices.append(e)
    (check_planned if mode == "planned" else check_graph)(events, mode)


def check_planned(events, _):
    names = collections.Counter(e["name"] for e in slices(events, "submission"))
    expect(names["matmul"] == 36 * STEPS and names["attention"] == 5 * STEPS and names["copy"] == STEPS,
           f"launches are missing: {names}")


def check_graph(events, mode):
    whole = [e for e in slices(events, "replay") if "unfinished" not in e["args"]]
    replays = {e["args"]["step"]: e for e in whole}
    expect(sorted(replays) == list(range(1, STEPS + 1)), f"not each step has one whole replay: {sorted(replays)}")
    nodes = collections.defaultdict(list)
    for e in slices(events, "node"):
        nodes[e["args"]["step"]].append(e)
    graph = [e["name"] for e in sorted(nodes[1], key=lambda e: e["ts"])]
    expect(len(graph) == LAUNCHES + 1 and set(graph) == {"embed", "rmsnorm", "matmul", "rope", "store_kv", "attention",
                                                        "add", "silu_mul", "copy"}, f"the nodes of step 1: {graph}")
    for step, replay in replays.items():
        mine = sorted(nodes[step], key=lambda e: e["ts"])
        expect([e["name"] for e in mine] == graph, f"step {step} has other nodes than step 1")
        expect(all(is_inside(e, replay) and e["tid"] == replay["tid"] for e in mine),
               f"a node of step {step} lies outside its replay")
    updates = {e["args"]["step"]: e for e in slices(events, "update")}
    expect(sorted(updates) == list(range(1, STEPS + 1)), f"not each step has an update: {sorted(updates)}")
    overlapping = [step for step in replays if step in updates and is_inside(updates[step], replays[step])]
    waits = slices(events, "gate")
    for e in waits:
        step = e["args"]["step"]
        expect(step not in replays or is_inside(e, replays[step]), f"a gate wait lies outside its replay: {e}")
    if mode == "overlap":
        # A replay that another program kept from the processor begins late; most do not.
        expect(overlapping, "no update lies inside the replay of its step")
        expect(waits, "no replay stood at its gate")
    else:
        expect(not overlapping and not waits, "values came after their replay in mode graph")
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    expect(len(starts) == len(ends) == STEPS and starts.keys() == ends.keys(), "not each update has one arrow")
    for number, end in ends.items():
        expect(end["ts"] >= starts[number]["ts"], "an arrow leads backwards")
        if mode == "overlap":
            expect(any(r["ts"] <= end["ts"] <= r["ts"] + r["dur"] for r in whole), "an arrow leads into no replay")


def traced(command, mode):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "trace.json"
        done = run(command, "decode", "--mode", mode, "--steps", str(STEPS), "--rounds", "1", "--trace", str(file))
        expect(done.returncode == 0, f"decode --trace failed: {done.stderr!r}")
        expect(f"trace of {STEPS} steps" in done.stderr.decode(errors="replace"), f"it is not told: {done.stderr!r}")
        return json.loads(file.read_bytes().decode("utf-8")) if not problems else None


def refusals(command):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "trace.json")
        nowhere = os.path.join(folder, "none", "trace.json")
        for arguments, words in ((["--mode", "all", "--trace", file], ["--trace", "all"]),
                                 (["--trace", file], ["--trace", "all"]),
                                 (["--mode", "direct", "--trace", file], ["--trace", "direct"]),
                                 (["--mode", "graph", "--trace", nowhere], [nowhere]),
                                 (["--mode", "graph", "--trace", folder], [folder]),
                                 (["--mode", "graph", "--trace"], ["--trace"])):
            done = run(command, "decode", *arguments)
            message = done.stderr.decode(errors="replace")
            shown = "decode " + " ".join(arguments)
            expect(done.returncode == 2, f"`{shown}` ended with {done.returncode}: {message}")
            expect(all(word in message for word in words), f"`{shown}` should name {words}: {message}")
            expect(done.stdout == b"", f"`{shown}` decoded before it looked: {done.stdout!r}")
        expect(not os.path.exists(file), "a refused call made its file")
    if os.path.exists("/dev/full"):
        done = run(command, "decode", "--mode", "graph", "--steps", "4", "--rounds", "1", "--trace", "/dev/full")
        expect(done.returncode == 2 and b"/dev/full" in done.stderr, f"a full disk went unnoticed: {done.stderr!r}")


def sample():
    """A trace as mode overlap leaves it."""
    names = (["embed", "rmsnorm", "rope", "store_kv", "attention", "add", "silu_mul"] + ["matmul"] * 71 + ["copy"])
    events = [{"ph": "M", "name": "thread_name", "tid": t, "args": {"name": n}} for t, n in ((1, "u"), (2, "s"))]
    for step in range(1, STEPS + 1):
        at, of = 1000.0 * step, {"step": step}
        events += [{"ph": "X", "cat": "replay", "name": "r", "tid": 2, "ts": at, "dur": 900.0, "args": of},
                   {"ph": "X", "cat": "gate", "name": "g", "tid": 2, "ts": at + 1, "dur": 9.0, "args": of},
                   {"ph": "X", "cat": "update", "name": "u", "tid": 1, "ts": at + 5, "dur": 1.0, "args": of},
                   {"ph": "s", "name": "o", "tid": 1, "ts": at + 5.5, "id": step},
                   {"ph": "f", "name": "o", "tid": 2, "ts": at + 9.5, "id": step}]
        events += [{"ph": "X", "cat": "node", "name": n, "tid": 2, "ts": at + 20 + 10 * i, "dur": 8.0, "args": of}
                   for i, n in enumerate(names)]
    return {"traceEvents": events, "otherData": {"dropped": 0}}


def self_test():
    def first(trace, category):
        return next(e for e in trace["traceEvents"] if e.get("cat") == category)

    def without(trace, event):
        trace["traceEvents"].remove(event)

    def all_updates_late(trace):
        for e in slices(trace["traceEvents"], "update"):
            e["ts"] += 950

    damages = {
        "none": lambda t: None,
        "a node is missing": lambda t: without(t, first(t, "node")),
        "a node is outside": lambda t: first(t, "node").update(ts=500.0),
        "a node runs over": lambda t: first(t, "node").update(dur=15.0),
        "an update is missing": lambda t: without(t, first(t, "update")),
        "no update overlaps": all_updates_late,
        "no gate": lambda t: t.update(traceEvents=[e for e in t["traceEvents"] if e.get("cat") != "gate"]),
        "negative": lambda t: first(t, "update").update(dur=-1.0),
        "no arrow": lambda t: without(t, next(e for e in t["traceEvents"] if e["ph"] == "f")),
        "backwards": lambda t: next(e for e in t["traceEvents"] if e["ph"] == "f").update(ts=1001.0),
        "dropped": lambda t: t["otherData"].update(dropped=1),
        "an unfinished replay": lambda t: first(t, "replay")["args"].update(unfinished=True),
    }
    for name, damage in damages.items():
        trace = copy.deepcopy(sample())
        damage(trace)
        problems.clear()
        check(trace, "overlap")
        if (not problems) != (name == "none"):
            print(f"'{name}' should {'pass' if name == 'none' else 'be found'}: {problems[:3]}")
            return 1
    return 0


if sys.argv[1:] == ["--self-test"]:
    sys.exit(self_test())
program, what = sys.argv[1:]
if what == "refusals":
    refusals(program)
else:
    written = traced(program, what)
    if written is not None:
        check(written, what)
print("\n".join(problems[:20]) if problems else f"{what}: ok")
sys.exit(1 if problems else 0)
