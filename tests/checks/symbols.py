#!/usr/bin/env python3
"""The shared library shows the public interface and nothing else.

symbols.py NM LIBRARY | --self-test

Allowed: what is in namespace slipway, with the type information of its classes; weak instantiations of the
standard library's templates. Not allowed: slipway::internal (but type information of a class that an exception
or a public class carries), anything in an anonymous namespace, C names, names of other libraries.
"""
import re
import subprocess
import sys

TYPE_INFORMATION = re.compile(r"^(typeinfo for|typeinfo name for|vtable for|VTT for|guard variable for|"
                              r"(non-)?virtual thunk to) (.*)$")
LINKER = {"_init", "_fini", "_edata", "_end", "__bss_start"}


def problem_with(kind, name):
    """Why this exported symbol may not be there, or None. `kind` is nm's letter."""
    if name in LINKER:
        return None
    about_type = TYPE_INFORMATION.match(name)
    subject = about_type.group(3) if about_type else name
    # A function template's name is preceded by its return type.
    own = re.match(r"^(?:[\w:<>*&, ]+ )?slipway::", subject) is not None
    if "(anonymous namespace)" in subject:
        return "is local to a file"
    if kind in "WVu" and re.match(r"^(?:[\w:<>*&, ]+ )?(std|__gnu_cxx|operator (new|delete))", subject):
        return None
    if not own:
        return "is not in namespace slipway"
    if re.match(r"^(?:[\w:<>*&, ]+ )?slipway::internal::", subject) and not about_type:
        return "is internal; leave SLIPWAY_API away from it"
    return None


def check(lines):
    problems, public = [], 0
    for line in lines:
        match = re.match(r"^[0-9a-fA-F]+ (\S) (.*)$", line)
        if not match:
            continue
        why = problem_with(match.group(1), match.group(2))
        if why:
            problems.append(f"{match.group(2)} is exported, but {why}")
        public += match.group(2).startswith("slipway::")
    return problems, public


def self_test():
    good = ["0000 T slipway::Device::open(std::basic_string_view<char>)", "0000 V typeinfo for slipway::Error",
            "0000 V vtable for slipway::Error", "0000 W std::vector<int>::push_back(int)", "0000 T _init",
            "0000 W void std::__sort<int*>(int*, int*)", "0000 T slipway::to_string[abi:cxx11](int)"]
    bad = ["0000 T slipway::internal::now_ns()", "0000 T helper", "0000 T fmt::format(int)",
           "0000 T slipway::(anonymous namespace)::f()", "0000 T std::something_strong(int)"]
    wrong = [line for line in good if check([line])[0]] + [line for line in bad if not check([line])[0]]
    print("\n".join(wrong) or "self-test: ok")
    return 1 if wrong else 0


if sys.argv[1:] == ["--self-test"]:
    sys.exit(self_test())
listing = subprocess.run([sys.argv[1], "-DC", "--defined-only", sys.argv[2]], check=True, capture_output=True, text=True)
found, count = check(listing.stdout.splitlines())
if count == 0:
    found.append("the library exports nothing of namespace slipway")
print("\n".join(found) if found else f"symbols: {count} public ones, nothing else of ours")
sys.exit(1 if found else 0)
