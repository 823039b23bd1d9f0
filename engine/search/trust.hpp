// A record may come from anybody, and its configuration names programs that run as this user, outside the
// sandbox: the launcher of the workers, the commands of models, contenders' libraries.
#pragma once

#include "engine/config/config.hpp"
#include "engine/store/run_folder.hpp"

namespace cultivar {

struct Runtime;

// Throws InputError with the remedy if the record of this run names a launcher, or commands or libraries that
// no search begun here has named; never if the runtime is trusting.
void require_trust(const Config&, const RunFolder&, const Runtime&);
// The user wrote this configuration or trusts it: its commands and libraries need no word the next time.
void remember_programs(const Config&, const Runtime&);

}  // namespace cultivar
