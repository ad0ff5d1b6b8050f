// Programs and kernels of OpenCL C.
//
// How argument kinds correspond to parameters of OpenCL C:
//   tensor        a __global or __constant pointer (const: in)
//   i8..i64, u8.. char, short, int, long and their unsigned forms
//   f32, f64      float, double
//   f16           half (needs cl_khr_fp16) or ushort, read as bits
//   bf16          ushort, read as bits
//   bool          uchar, 0 or 1 (OpenCL C has no bool parameters)
//   bytes(n, a)   a vector or a struct of n bytes
// One __local pointer more, behind all of these, receives the launch's shared bytes.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "device/driver.h"
#include "drivers/opencl/opencl_context.h"

namespace slipway::internal {

struct ClProgram {
  ClProgram(std::shared_ptr<ClContext> owner, cl_program made) noexcept : context(std::move(owner)), program(made) {}
  ~ClProgram() { context->cl.clReleaseProgram(program); }
  ClProgram(const ClProgram&) = delete;
  ClProgram& operator=(const ClProgram&) = delete;

  const std::shared_ptr<ClContext> context;
  const cl_program program;
};

struct OpenClKernel final : KernelCode {
  OpenClKernel(std::shared_ptr<ClProgram> owner, cl_kernel made) noexcept : program(std::move(owner)), kernel(made) {}
  ~OpenClKernel() override { program->context->cl.clReleaseKernel(kernel); }
  OpenClKernel(const OpenClKernel&) = delete;
  OpenClKernel& operator=(const OpenClKernel&) = delete;

  const std::shared_ptr<ClProgram> program;
  const cl_kernel kernel;
  bool takes_shared = false;               // has the __local parameter
  std::size_t max_items = 1;               // in one block of this kernel
  std::array<std::size_t, 3> own_block{};  // reqd_work_group_size; zeros: any
  std::uint64_t static_shared_bytes = 0;   // asked for before any __local argument was set
  // A cl_kernel holds its arguments: setting them and enqueueing is one step under this mutex, which is taken with a
  // stream's pump mutex held; only the memory's mutex is taken inside.
  mutable std::mutex mutex;
};

Status check_opencl_launch(const ClContext& context, const OpenClKernel& kernel, const LaunchExtent& extent);

class OpenClModule final : public DriverModule {
 public:
  // Builds; the build log becomes part of the error.
  static Result<std::unique_ptr<DriverModule>> build(const std::shared_ptr<ClContext>& context, std::string_view source,
                                                     std::string_view options);
  explicit OpenClModule(std::shared_ptr<ClProgram> program) noexcept : program_(std::move(program)) {}

  Result<std::unique_ptr<KernelCode>> kernel(const std::string& name, const Signature* signature) override;

 private:
  std::shared_ptr<ClProgram> program_;
};

}  // namespace slipway::internal
