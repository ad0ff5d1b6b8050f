#!/usr/bin/env python3
"""Draws a few steps of a trace as a picture: draw_trace.py TRACE.json PICTURE.svg [FIRST_STEP [LAST_STEP]]

The trace is one that `slipway decode --trace` wrote, in mode graph or overlap. For looking around freely, open the
trace in ui.perfetto.dev instead; this is for documents.
"""
import json
import sys
from xml.sax.saxutils import escape

WIDTH, LEFT, TOP = 1500, 140, 70
PALETTE = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#edc948", "#9c755f", "#ff9da7", "#86bcb6", "#d37295",
           "#a0cbe8"]


def length_us(event):
    return event["ts"] + event.get("dur", 0)


def main():
    trace_file, picture, *steps = sys.argv[1:]
    with open(trace_file, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    first, last = int(steps[0]) if steps else 4, int(steps[-1]) if steps else 6
    steps = range(first, last + 1)
    slices = [e for e in events if e["ph"] == "X"]
    replays = {e["args"]["step"]: e for e in slices if e["cat"] == "replay"}
    missing = [step for step in steps if step not in replays or "unfinished" in replays[step]["args"]]
    if missing:
        sys.exit(f"{trace_file} has no whole replay of step {missing[0]}; it has {sorted(replays)}")
    inside = [e for e in slices if e.get("args", {}).get("step") in steps and e["cat"] in ("node", "gate")]
    updates = [e for e in slices if e["cat"] == "update" and e["args"]["step"] in steps]
    launches = [e for e in events if e["ph"] == "i" and e["cat"] == "submitted" and e["args"]["step"] in steps]
    begin = min(e["ts"] for e in [replays[first], *updates, *launches])
    end = max(length_us(e) for e in [replays[last], *updates])
    # What lies before the first replay is shown as far as it is no longer than a twelfth of the whole.
    begin = max(begin, replays[first]["ts"] - (end - replays[first]["ts"]) / 12)
    scale = (WIDTH - LEFT - 30) / (end - begin)
    out = []

    def x(at_us):
        return LEFT + max(0.0, at_us - begin) * scale

    def box(event, y, height, colour, label, text="#fff", opacity=1.0, size=12):
        left, right = x(event["ts"]), x(length_us(event))
        width = max(right - left, 0.6)
        out.append(f'<rect x="{left:.1f}" y="{y}" width="{width:.1f}" height="{height}" fill="{colour}" '
                   f'fill-opacity="{opacity}"><title>{escape(event["name"])}: {event["dur"]} us</title></rect>')
        if label and width > len(label) * size * 0.56 + 6:
            out.append(f'<text x="{left + width / 2:.1f}" y="{y + height / 2 + size * 0.36:.1f}" text-anchor="middle" '
                       f'fill="{text}" font-size="{size}">{escape(label)}</text>')

    update_y, replay_y, inner_y = TOP + 44, TOP + 130, TOP + 166
    legend_y = inner_y + 82
    row_labels = [(TOP + 14, "launches"), (update_y + 17, "updates"), (replay_y + 19, "replays"),
                  (inner_y + 25, "nodes and gates")]
    for y, label in row_labels:
        out.append(f'<text x="{LEFT - 12}" y="{y}" text-anchor="end" font-size="13" fill="#333">{label}</text>')
    for i, step in enumerate(steps):
        box(replays[step], replay_y, 28, ["#30475e", "#5b7a99"][i % 2], f"replay of step {step}", size=13)
    names = sorted({e["name"] for e in inside if e["cat"] == "node"},
                   key=lambda name: -sum(e["dur"] for e in inside if e["name"] == name))
    colours = {name: PALETTE[min(i, len(PALETTE) - 1)] for i, name in enumerate(names)}
    for event in inside:
        if event["cat"] == "node":
            box(event, inner_y, 40, colours[event["name"]], event["name"], size=10)
        else:
            box(event, inner_y, 40, "url(#waits)", "")
            label = "stands at the gate"
            if event["dur"] * scale > 40:
                out.append(f'<text x="{x(event["ts"]) + event["dur"] * scale / 2:.1f}" y="{inner_y + 56}" '
                           f'text-anchor="middle" font-size="12" fill="#b02318">{label}</text>')
    for event in launches:
        at = x(event["ts"])
        if event["ts"] < begin:
            continue
        out.append(f'<path d="M{at:.1f} {TOP + 22} l-5 -9 h10 z" fill="#333"/><text x="{at:.1f}" y="{TOP + 8}" '
                   f'text-anchor="middle" font-size="12" fill="#333">step {event["args"]["step"]} launched</text>'
                   f'<path d="M{at:.1f} {TOP + 22} V{inner_y + 40}" stroke="#333" stroke-width="0.7" '
                   'stroke-dasharray="2 3"/>')
    for event in updates:
        box(event, update_y, 24, "#b02318", "")
        at, step = x(length_us(event)), event["args"]["step"]
        out.append(f'<rect x="{at - 2:.1f}" y="{update_y}" width="4" height="24" fill="#b02318"/>'
                   f'<text x="{at + 7:.1f}" y="{update_y + 16}" font-size="12" fill="#b02318">update of step {step}'
                   '</text>')
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    for event in events:
        if event["ph"] != "f" or not any(abs(length_us(u) - starts[event["id"]]["ts"]) < 0.01 for u in updates):
            continue
        source, target = x(starts[event["id"]]["ts"]), x(event["ts"])
        out.append(f'<path d="M{source:.1f} {update_y + 24} L{target:.1f} {inner_y - 4}" stroke="#b02318" '
                   'stroke-width="1.6" marker-end="url(#head)"/>')
    at_x, at_y = LEFT, legend_y
    for name, fill in [(name, colours[name]) for name in names] + [("stands at a gate", "url(#waits)")]:
        if at_x + 34 + len(name) * 7.4 > WIDTH - 20:
            at_x, at_y = LEFT, at_y + 22
        out.append(f'<rect x="{at_x}" y="{at_y - 11}" width="14" height="14" fill="{fill}"/>'
                   f'<text x="{at_x + 19}" y="{at_y}" font-size="12" fill="#333">{escape(name)}</text>')
        at_x += 34 + len(name) * 7.4
    axis_y = at_y + 30
    tick = next(t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10 ** 4, 10 ** 5, 10 ** 9)
                if (end - begin) / t <= 12)
    origin = replays[first]["ts"]
    at = 0
    while origin + at <= end:
        out.append(f'<path d="M{x(origin + at):.1f} {axis_y} v6" stroke="#333"/><text x="{x(origin + at):.1f}" '
                   f'y="{axis_y + 20}" text-anchor="middle" font-size="12" fill="#333">{at} us</text>')
        at += tick
    out.append(f'<path d="M{LEFT} {axis_y} H{WIDTH - 30}" stroke="#333"/>')
    process = next(e["args"]["name"] for e in events if e["name"] == "process_name")
    height = axis_y + 34
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            'font-family="DejaVu Sans, Verdana, sans-serif"><defs><pattern id="waits" width="8" height="8" '
            'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="8" height="8" fill="#fbe3e0"/>'
            '<rect width="3" height="8" fill="#e08a80"/></pattern><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" '
            'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#b02318"/></marker></defs>'
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/><text x="{LEFT}" y="26" font-size="16" '
            f'fill="#111">{escape(process)}: steps {first} to {last}</text>')
    with open(picture, "w", encoding="utf-8") as file:
        file.write(head + "\n" + "\n".join(out) + "\n</svg>\n")


main()
