// A capture under way: the target of its streams' submissions.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/capture_target.h"
#include "device/handles.h"
#include "graph/definition.h"

namespace slipway::internal {

// Of a mark that no other branch waits for.
constexpr std::uint32_t kNotWaitedFor = ~std::uint32_t{0};

class CaptureImpl final : public CaptureTarget, public std::enable_shared_from_this<CaptureImpl> {
 public:
  CaptureImpl(const std::shared_ptr<StreamImpl>& origin, std::string name, CaptureMode mode);

  void append(StreamImpl& stream, const std::byte* record, std::uint32_t bytes, const std::string& name,
              std::span<const ParameterUse> uses) override;
  void mark(StreamImpl& stream, EventImpl& event) override;
  void wait(StreamImpl& stream, EventImpl& event) override;
  [[noreturn]] void refuse(StreamImpl& stream, const char* what) override;
  [[noreturn]] void refuse_event(const char* what) override;
  Argument initial_value(const Argument& parameter) override;
  void keep(std::shared_ptr<MemoryImpl> memory) override;

  ParameterRef add_parameter(const std::string& name, ArgKind kind, const Argument& initial);
  std::vector<ParameterRef> add_operation(const std::string& name, std::span<const ParameterRef> inputs,
                                          std::span<const OutputSpec> outputs, OperationFunction function);
  // Without a function: the registered one of this name.
  void add_external(StreamImpl& stream, const std::string& name, std::span<const ParameterRef> inputs,
                    ExternalFunction function, bool is_registered);
  // The graph's definition becomes part of this one, its variables named GRAPH/NAME, with these values at first.
  void embed(StreamImpl& stream, const std::shared_ptr<const DefinitionImpl>& child,
             const std::vector<std::byte>& values);
  // A conditional node (capture_conditional.cpp): calls the bodies, which submit to the stream, without a lock. A null
  // body does nothing.
  void add_conditional(const Stream& stream, std::uint8_t flags, const Condition& condition,
                       std::span<const GraphBody* const> bodies, std::uint64_t most_turns);
  // Throws, and the capture is invalid, inside a body.
  void refuse_end_in_body();
  // The same operation on other inputs. `first_output` is an output of an application of it.
  std::vector<ParameterRef> apply_again(const ParameterRef& first_output, std::span<const ParameterRef> inputs);

  void add_opaque(StreamImpl& stream, const std::string& name, std::span<const std::byte> payload);
  // Of this capture's own, for work that nothing in the graph waits for; not joined back.
  Stream side_stream();
  RandomDraw take_random(const std::shared_ptr<GeneratorImpl>& generator, std::uint64_t count);

  DeviceImpl& device() const noexcept { return *device_; }
  const std::string& name() const noexcept { return name_; }
  bool valid();
  // FailedPrecondition on another thread than that which began it, unless it is relaxed.
  void check_thread() const;

  // Puts the streams back in order. Once; later calls do nothing.
  void release();
  // After release(): the definition, or what made the capture invalid.
  Result<std::shared_ptr<DefinitionImpl>> finish();

 private:
  using Seen = std::map<const StreamImpl*, std::size_t>;  // nodes of each stream that are known to come before
  struct CapturedStream {
    std::shared_ptr<StreamImpl> stream;
    std::vector<std::uint32_t> last;  // nodes that the next one comes after
    Seen seen;
    std::vector<std::uint32_t> nodes{};  // its own
  };
  struct CapturedMark {
    Seen seen;
    std::uint32_t node = 0;
    std::uint32_t branch = 0;
    std::size_t entry = 0;  // among the definition's, once another branch waits for it
  };
  CapturedStream& state_of(StreamImpl& stream);
  CapturedMark add_mark(CapturedStream& state);
  void add_wait(CapturedStream& state, const CapturedMark& mark);
  void join_side_stream();
  // Around what adds to the definition in several places: where it ends by an exception, the capture is invalid.
  class IncompleteGuard {
   public:
    explicit IncompleteGuard(CaptureImpl& capture) noexcept : capture_(capture) {}
    ~IncompleteGuard() {
      if (std::uncaught_exceptions() != exceptions_) capture_.lost_ = true;
    }
    IncompleteGuard(const IncompleteGuard&) = delete;
    IncompleteGuard& operator=(const IncompleteGuard&) = delete;

   private:
    CaptureImpl& capture_;
    const int exceptions_ = std::uncaught_exceptions();
  };
  // Conditional nodes whose bodies are being captured, the innermost last.
  struct OpenConditional {
    std::uint32_t index = 0;
    std::uint32_t node = 0;
    const StreamImpl* stream = nullptr;
    std::uint32_t body = 0;
    std::size_t nodes = 0;            // before this body
    std::vector<std::uint32_t> last;  // nodes that its bodies end with
  };
  void check_condition(std::uint8_t flags, const Condition& condition) const;
  // How many were open before.
  std::size_t begin_conditional(StreamImpl& stream, const ConditionalDefinition& conditional, const std::string& kind);
  void run_body(const Stream& stream, std::uint32_t number, const GraphBody* body, const std::string& kind);
  void end_conditional(StreamImpl& stream);
  void add_entry(TapeEntry::What what, const CapturedStream& state, std::uint32_t node, std::uint32_t conditional);
  void refuse_in_body(const StreamImpl& stream, const char* what);
  void require_valid();
  [[noreturn]] void invalidate(ErrorCode code, std::string sentence);
  [[noreturn]] void refuse_question(std::string sentence);
  Status unjoined(const CapturedStream& stream, std::size_t seen) const;
  std::uint32_t add_node(CapturedStream& state, NodeDefinition node);
  std::uint32_t branch_of(const CapturedStream& state) const noexcept;
  std::uint32_t add_variable(Variable variable);
  // The launch, which comes next on the tape, takes these arguments and its grid from variables.
  void add_uses(const LaunchRecord& launch, const std::string& name, std::span<const ParameterUse> uses);
  RandomSource& source_of(const std::shared_ptr<GeneratorImpl>& generator);
  // Random numbers and bodies of conditional nodes do not go together.
  void check_draws(const std::string& what);
  void embed_random(const DefinitionImpl& child, std::uint32_t block_base);
  std::string free_prefix(const std::string& name) const;
  void check_depth(const DefinitionImpl& child);
  void embed_conditional(const CapturedStream& state, const DefinitionImpl& child, const TapeEntry& from,
                         std::uint32_t node_base, std::uint32_t conditional_base);
  void embed_record(const CapturedStream& state, const DefinitionImpl& child, const TapeEntry& from,
                    std::uint32_t block_base, std::uint32_t node_base, std::uint32_t operation_base);
  // `reads`: values that the node takes from the block itself.
  void append_locked(StreamImpl& stream, const std::byte* record, std::uint32_t bytes, const std::string& name,
                     std::span<const ParameterUse> uses, std::span<const std::uint32_t> reads);
  void add_command(StreamImpl& stream, std::unique_ptr<HostFunction> command, std::span<const std::uint32_t> reads);
  void watch(const RecordHeader& record, const std::string& name);
  std::vector<std::uint32_t> inputs_of(const std::string& name, std::span<const ParameterRef> inputs) const;
  std::vector<ParameterRef> add_application(OperationDefinition operation, std::vector<Variable> outputs);
  void check_use(const LaunchRecord& launch, const std::string& name, const ParameterUse& use);

  const std::string name_;
  const CaptureMode mode_;
  const std::uint64_t thread_;                // that began it
  const std::shared_ptr<DeviceImpl> device_;  // the definition is given away in the end
  std::mutex mutex_;
  std::shared_ptr<DefinitionImpl> definition_;
  std::vector<std::byte> block_;  // the variables' first values
  const StreamImpl* origin_;
  std::vector<CapturedStream> streams_;
  std::map<const EventImpl*, CapturedMark> marks_;
  std::shared_ptr<StreamImpl> side_;  // once there is one
  std::vector<OpenConditional> open_;
  Status invalid_;
  bool lost_ = false;  // an exception has left something half added; what threw by itself has set invalid_ too
  bool released_ = false;
};

}  // namespace slipway::internal
