// Whose kernels a GPU runs now. The workers of a search share a card, so that one computes on the host while
// another runs; other searches may use it too. They take turns by a lock on a file, which the kernel opens
// again when its holder dies. By another one beside it whoever is hastened goes ahead of all who are not.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace cultivar::cuda {

class Turns {
 public:
  // Throws MissingError when the file can be neither found nor made.
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
  // Waits until nobody else has it; turns of one process nest. Throws std::runtime_error after five minutes.
  [[nodiscard]] Turn take();
  // For destructors. nullopt: it cannot be had, for whatever reason; take() then throws that reason for good.
  [[nodiscard]] std::optional<Turn> take_or_not() noexcept;
  // Nobody gets it before this process has ended, because its kernels may still be running.
  void keep() { kept_ = true; }
  // From now on the next turn is this process's whenever it waits for one: somebody waits for its answer (a
  // duel, a confirmation), and with equal chances several workers that only search would have nearly all of
  // the GPU.
  void hasten(bool ahead) { ahead_ = ahead; }
  // Called now and then by whoever waits.
  void while_waiting(std::function<void()> call) { waiting_ = std::move(call); }

 private:
  bool try_take();         // with what is held of `first_descriptor_` meanwhile
  void let_go() noexcept;  // of going ahead
  void give();
  std::filesystem::path file_;
  std::string failed_;
  std::function<void()> waiting_ = [] {};
  int descriptor_ = -1, first_descriptor_ = -1, depth_ = 0;
  bool kept_ = false, ahead_ = false, first_ = false;  // first_: the others let this process go ahead now
};

}  // namespace cultivar::cuda
