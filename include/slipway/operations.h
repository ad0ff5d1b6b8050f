// Operations by name: what an operation of a graph does is told once, under its name, and found again where a graph is
// captured or read back from a file.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slipway/export.h"
#include "slipway/graph.h"

namespace slipway {

// What an operation does. Without state of its own: it may serve many graphs, and is called as OperationFunction is.
struct OperationHandler {
  // Is it to be used for these inputs? Empty: always. When not, the caller launches as if there were no handler.
  std::function<bool(std::span<const ParameterRef> inputs)> should_handle{};
  // What it computes, with scratch as large as it may ever need. Called when the operation is declared.
  std::function<std::vector<OutputSpec>(std::span<const ParameterRef> inputs)> prepare{};
  // Computes the outputs: once when it is declared, and in each step.
  OperationFunction update{};
};

// A table of handlers. One thread at a time while it is written; then any.
class SLIPWAY_API OperationRegistry {
 public:
  // True when there was one of this name, which is replaced: graphs keep the functions that they were captured with.
  // InvalidArgument for an empty name, or a handler without `prepare` or `update`.
  bool add(const std::string& name, OperationHandler handler);
  bool add_external(const std::string& name, ExternalFunction function);

  // Declares the operation in a capture. Nothing when there is no handler of this name, or it does not want these
  // inputs.
  std::optional<Operation> declare(Capture& capture, const std::string& name,
                                   std::span<const ParameterRef> inputs) const;

  // By the whole name, or what stands behind its last '/' (parts of nested graphs are named so). Null when there is
  // none.
  const OperationHandler* find(std::string_view name) const;
  const ExternalFunction* find_external(std::string_view name) const;

 private:
  std::map<std::string, OperationHandler, std::less<>> handlers_;
  std::map<std::string, ExternalFunction, std::less<>> externals_;
};

}  // namespace slipway
