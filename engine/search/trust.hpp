// SPDX-License-Identifier: Apache-2.0
// A record may come from anybody, and its configuration names programs that run as this user, outside the
// sandbox, or to which it would send, and files that it would read: the launcher of the workers, the
// commands, addresses, mailboxes and recorded answers of models, contenders' libraries and the interpreter of
// those in Python. The contents of a program count too.
#pragma once

#include "engine/config/config.hpp"
#include "engine/store/run_folder.hpp"

namespace cultivar {

struct Runtime;

// Throws InputError with the remedy if the record of this run names a launcher, or anything else of these
// that no search begun here has named; never if the runtime is trusting. `own_settings`: KEY=VALUE that the
// user gave with this command; an interpreter among them is trusted.
void require_trust(const Config&, const RunFolder&, const Runtime&,
                   const std::vector<std::string>& own_settings = {});
// The user wrote this configuration or trusts it: except its launcher, nothing needs a word the next time.
void remember_programs(const Config&, const RunFolder&, const Runtime&);

}  // namespace cultivar
