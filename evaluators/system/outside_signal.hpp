// SPDX-License-Identifier: Apache-2.0
// Whether a process was ended by another one.
#pragma once

namespace cultivar {

// True for signals that end a process and that nothing it did raises, for example those of a batch system
// that ends a job. The sandbox lets no variant send a signal.
bool sent_from_outside(int signal);

}  // namespace cultivar
