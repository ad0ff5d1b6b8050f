// Calling plain C functions with packed arguments: trampolines made by the compiler for the common shapes of
// signature (pointers first, then up to two scalars), libffi for the rest. A generated one costs what a call
// through a pointer costs (1.2-1.7 ns); libffi about 44 ns.
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "drivers/cpu/cpu_module.h"

#if defined(SLIPWAY_HAVE_FFI)
#include <ffi.h>
#endif

namespace slipway::internal {
namespace {

template <class... Args>
struct CTrampoline {
  static constexpr auto kOffsets = detail::natural_offsets<Args...>();

  template <std::size_t... I>
  static void call(void (*function)(Args...), [[maybe_unused]] const std::byte* packed, std::index_sequence<I...>) {
    function(detail::load_argument<Args>(packed + kOffsets[I])...);
  }
  static void entry([[maybe_unused]] const std::byte* packed, const Block&, const void* context) {
    // The context is the function's address; dlsym hands functions out as object pointers (POSIX allows it).
    auto* function = reinterpret_cast<void (*)(Args...)>(reinterpret_cast<std::uintptr_t>(context));
    call(function, packed, std::index_sequence_for<Args...>{});
  }
};

struct Generated {
  std::array<ArgKind, 8> kinds{};
  std::size_t count = 0;
  KernelEntry entry = nullptr;
};

template <std::size_t kPointers, class... Args>
constexpr Generated generate() {
  if constexpr (kPointers > 0) {
    return generate<kPointers - 1, void*, Args...>();
  } else {
    Generated g;
    ((g.kinds[g.count++] = detail::kind_of<Args>()), ...);
    g.entry = &CTrampoline<Args...>::entry;
    return g;
  }
}

template <class... Scalars, std::size_t... P>
constexpr std::array<Generated, sizeof...(P)> with_pointers(std::index_sequence<P...>) {
  return {generate<P, Scalars...>()...};
}

constexpr std::size_t kPointerCounts = 7;  // 0 to 6 pointers
using Counts = std::make_index_sequence<kPointerCounts>;
constexpr std::array<std::array<Generated, kPointerCounts>, 8> kGenerated{
    with_pointers<>(Counts{}),
    with_pointers<std::int32_t>(Counts{}),
    with_pointers<std::int64_t>(Counts{}),
    with_pointers<float>(Counts{}),
    with_pointers<std::int32_t, std::int32_t>(Counts{}),
    with_pointers<float, std::int32_t>(Counts{}),
    with_pointers<std::int32_t, float>(Counts{}),
    with_pointers<std::int64_t, std::int64_t>(Counts{})};

KernelEntry find_generated(const Signature& signature) {
  for (const auto& row : kGenerated) {
    for (const Generated& g : row) {
      bool same = g.count == signature.size();
      for (std::size_t i = 0; same && i < g.count; ++i) same = g.kinds[i] == signature[i].kind;
      if (same) return g.entry;
    }
  }
  return nullptr;
}

#if defined(SLIPWAY_HAVE_FFI)
ffi_type* ffi_type_of(ArgKind kind) noexcept {
  switch (kind) {
    case ArgKind::kTensor: return &ffi_type_pointer;
    case ArgKind::kI8: return &ffi_type_sint8;
    case ArgKind::kI16: return &ffi_type_sint16;
    case ArgKind::kI32: return &ffi_type_sint32;
    case ArgKind::kI64: return &ffi_type_sint64;
    case ArgKind::kBool:
    case ArgKind::kU8: return &ffi_type_uint8;
    case ArgKind::kU16: return &ffi_type_uint16;
    case ArgKind::kU32: return &ffi_type_uint32;
    case ArgKind::kU64: return &ffi_type_uint64;
    case ArgKind::kF32: return &ffi_type_float;
    case ArgKind::kF64: return &ffi_type_double;
    case ArgKind::kF16:
    case ArgKind::kBF16:
    case ArgKind::kBytes: break;
  }
  return nullptr;
}

struct FfiCall {
  ffi_cif cif{};
  std::vector<ffi_type*> types;
  std::vector<std::uint32_t> offsets;
  void* function = nullptr;

  static void entry(const std::byte* packed, const Block&, const void* context) {
    const auto& call = *static_cast<const FfiCall*>(context);
    // ffi_call reads through these pointers and writes nothing; its interface predates const.
    std::array<void*, kMaxArguments> values;
    for (std::size_t i = 0; i < call.offsets.size(); ++i) {
      values[i] = const_cast<std::byte*>(packed + call.offsets[i]);
    }
    ffi_call(const_cast<ffi_cif*>(&call.cif),
             reinterpret_cast<void (*)()>(reinterpret_cast<std::uintptr_t>(call.function)), nullptr, values.data());
  }
  static constexpr std::size_t kMaxArguments = 256;
};
#endif

}  // namespace

Result<CFunctionCall> call_of_c_function(void* function, const std::string& name, const Signature& signature,
                                         [[maybe_unused]] const ArgumentLayout& layout) {
  if (KernelEntry entry = find_generated(signature)) {
    return CFunctionCall{entry, std::shared_ptr<const void>(function, [](const void*) {})};
  }
#if defined(SLIPWAY_HAVE_FFI)
  auto call = std::make_shared<FfiCall>();
  call->function = function;
  if (signature.size() > FfiCall::kMaxArguments) {
    return Status(ErrorCode::kUnsupported, "the C function '" + name + "' takes " + std::to_string(signature.size()) +
                                               " arguments; at most " + std::to_string(FfiCall::kMaxArguments) +
                                               " can be passed, so pass a struct through a tensor");
  }
  for (std::size_t i = 0; i < signature.size(); ++i) {
    ffi_type* type = ffi_type_of(signature[i].kind);
    if (!type) {
      return Status(ErrorCode::kUnsupported, "parameter " + std::to_string(i) + " of the C function '" + name +
                                                 "' is " + name_of(signature[i].kind) +
                                                 ", which C functions cannot be passed by signature; pass it through a "
                                                 "tensor, or compile the kernel into a kernel table");
    }
    call->types.push_back(type);
    call->offsets.push_back(layout.slots[i].offset);
  }
  if (ffi_prep_cif(&call->cif, FFI_DEFAULT_ABI, static_cast<unsigned>(call->types.size()), &ffi_type_void,
                   call->types.data()) != FFI_OK) {
    return Status(ErrorCode::kInternal,
                  "libffi refused the signature (" + to_string(signature) + ") of '" + name + "'");
  }
  return CFunctionCall{&FfiCall::entry, std::move(call)};
#else
  return Status(ErrorCode::kUnsupported, "the C function '" + name + "' takes (" + to_string(signature) +
                                             "), which no generated trampoline fits, and Slipway was built without "
                                             "libffi; put pointers first and at most two scalars behind them");
#endif
}

}  // namespace slipway::internal
