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
  }
  return "unknown";
}

}  // namespace cultivar
