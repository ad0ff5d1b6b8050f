#include "kernels.h"

#include <atomic>
#include <bit>
#include <stdexcept>
#include <string>

namespace slipway::conformance {
namespace {

std::uint64_t linear(const Block& b) noexcept {
  return b.index.x + std::uint64_t{b.grid.x} * (b.index.y + std::uint64_t{b.grid.y} * b.index.z);
}

void add(const Block& block, float* out, const float* in, std::int32_t n, float c) {
  const std::int64_t size = block.size.x, total = std::int64_t{block.grid.x} * size;
  for (std::int64_t item = 0; item < size; ++item) {
    for (std::int64_t i = block.index.x * size + item; i < n; i += total) out[i] = in[i] + c;
  }
}

template <class T>
void put(T* out, T v) {
  out[0] = v;
}

template <class T>
std::uint64_t widened(T v) noexcept {
  return static_cast<std::uint64_t>(std::int64_t{v});
}

void six(std::int32_t a, Half b, float c, std::int64_t d, std::uint64_t* out, BFloat16 e) {
  out[0] = widened(a);
  out[1] = b.bits;
  out[2] = std::bit_cast<std::uint32_t>(c);
  out[3] = static_cast<std::uint64_t>(d);
  out[4] = e.bits;
}

// Small and large kinds in turn, so that every padding occurs.
void kinds(std::uint64_t* out, std::int8_t a, std::int64_t b, std::uint8_t c, double d, bool e, std::uint64_t f,
           std::int16_t g, float h, Half i, const float* j, std::uint16_t k, std::int32_t l, BFloat16 m,
           std::uint32_t n, Point o) {
  out[0] = widened(a);
  out[1] = static_cast<std::uint64_t>(b);
  out[2] = c;
  out[3] = std::bit_cast<std::uint64_t>(d);
  out[4] = e ? 1 : 0;
  out[5] = f;
  out[6] = widened(g);
  out[7] = std::bit_cast<std::uint32_t>(h);
  out[8] = i.bits;
  out[9] = std::bit_cast<std::uint32_t>(j[0]);
  out[10] = k;
  out[11] = widened(l);
  out[12] = m.bits;
  out[13] = n;
  out[14] = std::bit_cast<std::uint32_t>(o.x);
  out[15] = widened(o.n);
  out[16] = std::bit_cast<std::uint64_t>(o.w);
}

void point(std::uint64_t* out, Point p) {
  out[0] = std::bit_cast<std::uint32_t>(p.x);
  out[1] = widened(p.n);
  out[2] = std::bit_cast<std::uint64_t>(p.w);
}

void wide(std::uint64_t* out, Wide w) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < Wide::kWords; ++i) sum += i * w.words[i];
  out[0] = sum;
}

void count(std::uint32_t* cnt) { std::atomic_ref<std::uint32_t>(*cnt).fetch_add(1, std::memory_order_relaxed); }

void log_id(std::uint32_t* buf, std::uint32_t id) {
  buf[std::atomic_ref<std::uint32_t>(buf[0]).fetch_add(1, std::memory_order_relaxed) + 1] = id;
}

void index(const Block& b, std::uint32_t* out) {
  std::uint32_t* o = out + linear(b) * 9;
  o[0] = b.index.x, o[1] = b.index.y, o[2] = b.index.z;
  o[3] = b.grid.x, o[4] = b.grid.y, o[5] = b.grid.z;
  o[6] = b.size.x, o[7] = b.size.y, o[8] = b.size.z;
}

void scratch(const Block& b, std::uint32_t* out, std::uint32_t n, std::uint32_t seed) {
  auto* words = static_cast<std::uint32_t*>(b.shared);
  const auto id = static_cast<std::uint32_t>(linear(b));
  for (std::uint32_t i = 0; i < n; ++i) words[i] = seed + i * (id + 1);
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < n; ++i) sum += words[i];
  out[id] = sum;
}

constexpr KernelDef kTable[] = {
    kernel<&add>("add"),
    kernel<&put<std::int8_t>>("put_i8"),
    kernel<&put<std::int16_t>>("put_i16"),
    kernel<&put<std::int32_t>>("put_i32"),
    kernel<&put<std::int64_t>>("put_i64"),
    kernel<&put<std::uint8_t>>("put_u8"),
    kernel<&put<std::uint16_t>>("put_u16"),
    kernel<&put<std::uint32_t>>("put_u32"),
    kernel<&put<std::uint64_t>>("put_u64"),
    kernel<&put<Half>>("put_f16"),
    kernel<&put<BFloat16>>("put_bf16"),
    kernel<&put<float>>("put_f32"),
    kernel<&put<double>>("put_f64"),
    kernel<&put<bool>>("put_bool"),
    kernel<&six>("six"),
    kernel<&kinds>("kinds"),
    kernel<&point>("point"),
    kernel<&wide>("wide"),
    kernel<&count>("count"),
    kernel<&log_id>("log_id"),
    kernel<&index>("index"),
    kernel<&scratch>("scratch"),
};

}  // namespace

std::span<const KernelDef> standard_kernels() { return kTable; }

const KernelDef& standard_kernel(std::string_view name) {
  for (const KernelDef& def : kTable) {
    if (name == def.name) return def;
  }
  throw std::logic_error("there is no standard kernel '" + std::string(name) + "'");
}

Signature signature_of(const KernelDef& def) { return Signature(def.parameters, def.parameters + def.parameter_count); }

}  // namespace slipway::conformance
