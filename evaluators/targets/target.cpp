#include "evaluators/targets/target.hpp"

namespace cultivar {

std::string_view name_of(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::load_failed:
      return "load_failed";
    case Fault::Kind::crashed:
      return "crashed";
    case Fault::Kind::timed_out:
      return "timed_out";
    case Fault::Kind::forbidden_call:
      return "forbidden_call";
    case Fault::Kind::guard_overwritten:
      return "guard_overwritten";
    case Fault::Kind::input_changed:
      return "input_changed";
    case Fault::Kind::idle_activity:
      return "idle_activity";
    case Fault::Kind::out_of_memory:
      return "out_of_memory";
    case Fault::Kind::launch_failed:
      return "launch_failed";
    case Fault::Kind::too_short:
      return "too_short";
    case Fault::Kind::unsupported:
      return "unsupported";
    case Fault::Kind::contender_failed:
      return "contender_failed";
  }
  return "unknown";
}

tl::expected<std::unique_ptr<Session>, Fault> Device::open_contender(const std::filesystem::path&,
                                                                     const Task&, const Workload&, double) {
  return tl::make_unexpected(Fault{Fault::Kind::unsupported, "this device takes no contender libraries"});
}

}  // namespace cultivar
