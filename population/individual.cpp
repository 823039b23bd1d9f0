// SPDX-License-Identifier: Apache-2.0
#include "population/individual.hpp"

namespace cultivar {

std::string name_of(Origin origin, const std::string& op) {
  switch (origin) {
    case Origin::seed:
      return "seed";
    case Origin::submission:
      return "submit";
    case Origin::operator_:
      break;
  }
  return op;
}

void set_origin(Descent& descent, std::string_view name) {
  descent.origin = name == "seed" ? Origin::seed : name == "submit" ? Origin::submission : Origin::operator_;
  descent.op = descent.origin == Origin::operator_ ? std::string(name) : std::string();
}

}  // namespace cultivar
