// SPDX-License-Identifier: Apache-2.0
// Turns on a shared GPU. The workers of a search share a card, so that one computes on the host while another
// runs kernels; other searches may use it too. A turn is a lock on a file, which the operating system
// releases when its holder dies. A second lock file lets processes with priority (see `hasten`) go before all
// others.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace cultivar::cuda {

class Turns {
 public:
  // Throws MissingError if the file can neither be opened nor created.
  explicit Turns(const std::filesystem::path& file);
  ~Turns();
  Turns(const Turns&) = delete;

  class Turn {
   public:
    explicit Turn(Turns& turns) : turns_(&turns) {}
    Turn(Turn&& other) noexcept : turns_(other.turns_) { other.turns_ = nullptr; }
    ~Turn() {
      if (turns_ != nullptr) turns_->give();
    }

   private:
    Turns* turns_;
  };
  // Waits until no other process holds the turn; turns of one process nest. Throws std::runtime_error after
  // five minutes.
  [[nodiscard]] Turn take();
  // For destructors. nullopt if no turn can be had for any reason; from then on take() throws that reason.
  [[nodiscard]] std::optional<Turn> take_or_not() noexcept;
  // Keeps the turn until this process ends, because its kernels may still be running.
  void keep() { kept_ = true; }
  // From now on this process gets the next turn whenever it waits for one. Used when a result is awaited (a
  // duel, a confirmation): with equal chances, workers that only search would take nearly all of the GPU's
  // time.
  void hasten(bool ahead) { ahead_ = ahead; }
  // Sets a function that is called at intervals while waiting.
  void while_waiting(std::function<void()> call) { waiting_ = std::move(call); }

 private:
  bool try_take();         // while holding the lock of `first_descriptor_`, if any
  void let_go() noexcept;  // gives up the priority lock
  void give();
  std::filesystem::path file_;
  std::string failed_;
  std::function<void()> waiting_ = [] {};
  int descriptor_ = -1, first_descriptor_ = -1, depth_ = 0;
  bool kept_ = false, ahead_ = false, first_ = false;  // first_: this process holds the priority lock
};

}  // namespace cultivar::cuda
