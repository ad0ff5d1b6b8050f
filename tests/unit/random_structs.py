#!/usr/bin/env python3
"""Writes C++ with random structs and what the compiler makes of them: random_structs.py OUTPUT

Each signature becomes two structs, for the compiler is the one who knows how a struct is laid out: one with the
arguments alone, and one as an Ascend kernel finds them, with hidden pointers in front and the grid behind. The seed
is fixed, so a failure can be looked at again.
"""
import random
import sys

SEED, COUNT = 20261130, 300
TYPES = {"tensor": "float*", "bool": "bool", "i8": "std::int8_t", "i16": "std::int16_t", "i32": "std::int32_t",
         "i64": "std::int64_t", "u8": "std::uint8_t", "u16": "std::uint16_t", "u32": "std::uint32_t",
         "u64": "std::uint64_t", "f16": "Bits16", "bf16": "Bits16", "f32": "float", "f64": "double"}
HEAD = """// Written by random_structs.py.
#include "random_structs.h"

#include <cstddef>
#include <cstdint>

namespace slipway::internal {
namespace {

struct Bits16 {
  std::uint16_t bits;
};
"""


def member(kind, name, wide_bool):
    if kind.startswith("bytes"):
        size, alignment = kind[6:-1].split(",")
        return f"alignas({alignment}) unsigned char {name}[{size}];"
    return f"{'std::uint32_t' if wide_bool and kind == 'bool' else TYPES[kind]} {name};"


def offsets(struct, names):
    return "{" + ", ".join(f"offsetof({struct}, {name})" for name in names) + "}"


def main():
    rng = random.Random(SEED)
    text, rows = [HEAD], []
    for i in range(COUNT):
        kinds = []
        for _ in range(rng.randint(1, 14)):
            kind = rng.choice([*TYPES, "bytes", "bytes"])
            if kind == "bytes":
                kind = f"bytes({rng.randint(1, 90)},{2 ** rng.randint(0, 6)})"
            kinds.append(kind)
        control, simt_only = rng.randint(0, 1), rng.randint(0, 1)
        hidden = ["void* control;"] * control + ["void* lock;", "void* workspace;"] * (1 - simt_only)
        names = [f"a{k}" for k in range(len(kinds))]
        plain = [member(kind, name, False) for kind, name in zip(kinds, names)]
        wide = [member(kind, name, True) for kind, name in zip(kinds, names)]
        text.append(f"struct Plain{i} {{ {' '.join(plain)} }};\n"
                    f"struct Ascend{i} {{ {' '.join(hidden + wide)} std::int32_t grid[3]; }};\n")
        text.append(f"constexpr std::size_t kPlain{i}[] = {offsets(f'Plain{i}', names)};\n"
                    f"constexpr std::size_t kAscend{i}[] = {offsets(f'Ascend{i}', names)};\n")
        rows.append(f'    {{"{", ".join(kinds)}", {str(bool(control)).lower()}, {str(bool(simt_only)).lower()}, '
                    f"kPlain{i}, sizeof(Plain{i}), kAscend{i}, offsetof(Ascend{i}, grid), sizeof(Ascend{i})}},\n")
    text.append("constexpr RandomStruct kStructs[] = {\n")
    text += rows
    text.append("};\n\n}  // namespace\n\nstd::span<const RandomStruct> random_structs() { return kStructs; }\n\n"
                "}  // namespace slipway::internal\n")
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("".join(text))


main()
