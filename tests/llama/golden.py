#!/usr/bin/env python3
"""Runs the `slipway` command as a user would.

golden.py COMMAND ROOT golden DEVICE MODE    the public model's texts, byte for byte, on standard output
golden.py COMMAND ROOT version | devices | bad-options | json | all

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
problems = []


def is_required(need):
    return need in os.environ.get("SLIPWAY_REQUIRE", "").split(",")


def skip(need, why):
    if is_required(need):
        print(f"required, but missing: {need}: {why}")
        sys.exit(1)
    print(f"skipped: {need}: {why}")
    sys.exit(77)


def run(*arguments):
    # Bytes: the model's text need not be UTF-8. The first run on an OpenCL device compiles its kernels.
    return subprocess.run([command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=240, check=False)


def expect(holds, text, done=None):
    if not holds:
        problems.append(text if done is None else
                        f"{text}\n  exit status {done.returncode}\n  stdout {done.stdout!r}\n  stderr {done.stderr!r}")


def golden(device, mode):
    if device.startswith("opencl"):
        listed = run("devices").stdout.decode()
        line = re.search(r"^opencl\b.*", listed, re.M)
        if not line or "not available" in line.group():
            skip("opencl", line.group() if line else "this build has no opencl driver")
    if not (data / "stories260K.bin").is_file():
        skip("data", "no stories260K.bin in $SLIPWAY_DATA or ../shared/data")
    for file, options in (("golden-once-200.txt", ["--steps", "200"]),
                          ("golden-lily-256.txt", ["--steps", "256", "--prompt", "Lily and Tom"])):
        done = run("decode", "--model", str(data / "stories260K.bin"), "--tokenizer", str(data / "tok512.bin"),
                   "--temperature", "0", "--rounds", "1", "--device", device, "--mode", mode, *options)
        expect(done.returncode == 0 and done.stdout == (data / file).read_bytes(),
               f"{file} is not what `decode --device {device} --mode {mode}` prints", done)


def version():
    header = (pathlib.Path(root) / "include/slipway/version.h").read_text()
    parts = [re.search(rf"#define SLIPWAY_VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
    done = run("--version")
    expect(done.returncode == 0 and done.stdout.decode() == f"slipway {'.'.join(parts)}\n", "--version", done)


def devices():
    done = run("devices")
    expect(done.returncode == 0 and re.search(rb"^cpu ", done.stdout, re.M) is not None
           and re.search(rb"^null ", done.stdout, re.M) is not None, "devices does not list cpu and null", done)


def bad_options():
    for arguments, words in (
            ([], ["subcommand"]),
            (["decode", "--no-such-option"], ["--no-such-option"]),
            (["no-such-command"], ["command"]),
            (["decode", "--steps", "many"], ["--steps"]),
            (["decode", "--steps", "0"], ["--steps", "0"]),
            (["decode", "--steps", "100000"], ["--steps", "100000"]),
            (["decode", "--rounds", "-1"], ["--rounds"]),
            (["decode", "--mode", "fastest"], ["fastest", "direct"]),
            (["decode", "--device", "abacus"], ["abacus", "cpu"]),
            (["decode", "--device", "cpu:wrkers=2"], ["wrkers", "workers"]),
            (["decode", "--device", "cpu:workers=0"], ["workers", "0"]),
            (["decode", "--model", "/no/such/file"], ["/no/such/file"]),
            (["decode", "--tokenizer", "/no/such/file"], ["/no/such/file"]),
            (["decode", "--synthetic", "3,1,1,1,1,300,8"], ["3"]),
            (["decode", "--temperature", "-1"], ["temperature", "-1"]),
            (["decode", "--top-p", "2"], ["top", "2"])):
        done = run(*arguments)
        shown = "slipway " + " ".join(arguments)
        message = done.stderr.decode(errors="replace")
        expect(done.returncode == 2, f"`{shown}` should end with exit status 2", done)
        expect(message.strip() and all(word in message for word in words),
               f"`{shown}` should name {words} in a sentence on standard error", done)
        expect(done.stdout == b"", f"`{shown}` should print nothing on standard output", done)


def with_json():
    done = run("decode", "--mode", "all", "--steps", "8", "--rounds", "1", "--json")
    expect(done.returncode == 0, "decode --json failed", done)
    if problems:
        return
    result = json.loads(done.stdout)
    expect({"direct", "general", "planned"} <= {row["mode"] for row in result["modes"]}, "modes are missing", done)
    expect(all(row["equal"] and row["tokens_per_second"] > 0 for row in result["modes"]), "a mode's text differs", done)


def all_modes():
    done = run("decode", "--mode", "all", "--steps", "16", "--rounds", "2")
    expect(done.returncode == 0, "decode --mode all failed", done)
    for mode in ("direct", "general", "planned"):
        expect(re.search(rf"^{mode} .* equal$".encode(), done.stdout, re.M) is not None, f"no row of mode {mode}", done)


{"golden": golden, "version": version, "devices": devices, "bad-options": bad_options, "json": with_json,
 "all": all_modes}[what](*rest)
print("\n".join(problems) if problems else f"{what}: ok")
sys.exit(1 if problems else 0)
