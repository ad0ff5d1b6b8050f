#include "harness.h"

namespace slipway::conformance {
namespace {

constexpr const char* kConfigurations[] = {"opencl:memory=svm", "opencl:memory=buffer", "opencl:memory=svm,queue=spin",
                                           "opencl:memory=buffer,queue=park"};

// OpenCL C takes no bool as an argument and has no bfloat16: these travel as the bits of uchar and ushort.
constexpr const char* kSource = R"(
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef struct { float x; int n; double w; } Point;
typedef struct { uint words[1022]; } Wide;

kernel void add(global float* out, global const float* in, int n, float c) {
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) out[i] = in[i] + c;
}
#define PUT(name, type) kernel void name(global type* out, type v) { out[0] = v; }
PUT(put_i8, char) PUT(put_i16, short) PUT(put_i32, int) PUT(put_i64, long)
PUT(put_u8, uchar) PUT(put_u16, ushort) PUT(put_u32, uint) PUT(put_u64, ulong)
PUT(put_f16, ushort) PUT(put_bf16, ushort) PUT(put_f32, float) PUT(put_f64, double) PUT(put_bool, uchar)

kernel void six(int a, ushort b, float c, long d, global ulong* out, ushort e) {
  out[0] = (long)a; out[1] = b; out[2] = as_uint(c); out[3] = d; out[4] = e;
}
kernel void kinds(global ulong* out, char a, long b, uchar c, double d, uchar e, ulong f, short g, float h, ushort i,
                  global const float* j, ushort k, int l, ushort m, uint n, Point o) {
  out[0] = (long)a; out[1] = b; out[2] = c; out[3] = as_ulong(d); out[4] = e; out[5] = f; out[6] = (long)g;
  out[7] = as_uint(h); out[8] = i; out[9] = as_uint(j[0]); out[10] = k; out[11] = (long)l; out[12] = m; out[13] = n;
  out[14] = as_uint(o.x); out[15] = (long)o.n; out[16] = as_ulong(o.w);
}
kernel void point(global ulong* out, Point p) {
  out[0] = as_uint(p.x); out[1] = (long)p.n; out[2] = as_ulong(p.w);
}
kernel void wide(global ulong* out, Wide w) {
  ulong sum = 0;
  for (ulong i = 0; i < 1022; ++i) sum += i * w.words[i];
  out[0] = sum;
}
kernel void count(global uint* cnt) {
  if (get_local_id(0) == 0 && get_local_id(1) == 0 && get_local_id(2) == 0) atomic_inc(cnt);
}
kernel void log_id(global uint* buf, uint id) { buf[atomic_inc(buf) + 1] = id; }

uint linear(void) {
  return get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2));
}
kernel void index(global uint* out) {
  if (get_local_id(0) != 0 || get_local_id(1) != 0 || get_local_id(2) != 0) return;
  global uint* o = out + 9 * linear();
  for (int i = 0; i < 3; ++i) {
    o[i] = get_group_id(i); o[3 + i] = get_num_groups(i); o[6 + i] = get_local_size(i);
  }
}
kernel void scratch(global uint* out, uint n, uint seed, local uint* words) {
  uint id = linear();
  for (uint i = 0; i < n; ++i) words[i] = seed + i * (id + 1);
  uint sum = 0;
  for (uint i = 0; i < n; ++i) sum += words[i];
  out[id] = sum;
}
)";

}  // namespace

const Driver kOpenCl{
    .name = "opencl",
    .configurations = kConfigurations,
    .load = [](const Device& device) { return device.load_source(kSource); },
    .supports = [](const std::string&) -> unsigned { return kRuns | kSees; },
    .unsupported = {},
    .expected_failures = {},
};

}  // namespace slipway::conformance
