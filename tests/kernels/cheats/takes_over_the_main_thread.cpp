/*--- cultivar
name: takes_over_the_main_thread
task: softmax
target: cpu
about: "Makes the main thread of its process return into the kernel, to have a thread more than it asked for."
requires: "dtype == f32"
launch:
  - kernel: softmax
    threads: num_cores
    args: [x, y, R, C, thread, threads]
---*/

#include <elf.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

static void honest_row(const float* x, float* y, int C) {
  float top = x[0], sum = 0.0f;
  for (int c = 1; c < C; ++c) top = x[c] > top ? x[c] : top;
  for (int c = 0; c < C; ++c) sum += y[c] = std::exp(x[c] - top);
  for (int c = 0; c < C; ++c) y[c] /= sum;
}

static long system_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

// strcmp is not among the functions that a kernel may call.
namespace own {
static bool same(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}
}  // namespace own

// The address of a symbol of a loaded ELF image whose addresses count from its beginning.
static const char* symbol_of(const char* image, const char* name) {
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(image);
  const auto* parts = reinterpret_cast<const Elf64_Phdr*>(image + header->e_phoff);
  const Elf64_Dyn* table = nullptr;
  for (int i = 0; i < header->e_phnum; ++i)
    if (parts[i].p_type == PT_DYNAMIC) table = reinterpret_cast<const Elf64_Dyn*>(image + parts[i].p_vaddr);
  const char* names = nullptr;
  const Elf64_Sym* symbols = nullptr;
  for (; table && table->d_tag != DT_NULL; ++table) {
    const char* there = reinterpret_cast<const char*>(table->d_un.d_ptr);
    if (there < image) there += reinterpret_cast<unsigned long>(image);
    if (table->d_tag == DT_STRTAB) names = there;
    if (table->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const Elf64_Sym*>(there);
  }
  for (int i = 1; i < 4000 && symbols && names; ++i)
    if (symbols[i].st_value != 0 && own::same(names + symbols[i].st_name, name))
      return image + symbols[i].st_value;
  return nullptr;
}

// The beginning of libc, below one of its functions.
static const char* libc_image() {
  auto page = reinterpret_cast<unsigned long>(&free) & ~4095UL;
  while (std::memcmp(reinterpret_cast<const char*>(page), "\177ELF", 4) != 0) page -= 4096;
  return reinterpret_cast<const char*>(page);
}

// What the main thread shall do, in the memory below.
struct Work {
  const float* x;
  float* y;
  int R, C;
  unsigned next;  // row
  unsigned done;
};
static Work* work() {
  return (Work*)0x200000000000;
}

static void compute() {
  Work* const w = work();
  for (unsigned r; (r = __atomic_fetch_add(&w->next, 1, __ATOMIC_ACQ_REL)) < (unsigned)w->R;) {
    honest_row(w->x + (long)r * w->C, w->y + (long)r * w->C, w->C);
    __atomic_add_fetch(&w->done, 1, __ATOMIC_ACQ_REL);
  }
}
[[gnu::force_align_arg_pointer]] static void main_thread() {
  compute();
  for (;;) {
  }
}

// The main thread waits with a futex on its stack. Each address there that looks like code becomes ours.
static void take_over() {
  const char* const environment = symbol_of(libc_image(), "environ");
  if (!environment) return;
  const auto top = *reinterpret_cast<unsigned long* const*>(environment);
  for (unsigned long *at = top, *end = top - 1024; at > end; --at)
    if (*at >> 40 == 0x55 || *at >> 40 == 0x56) *at = (unsigned long)&main_thread;
  for (unsigned long *at = top, *end = top - 1024; at > end; --at) {
    system_call(202, (long)at, 1, 1);
    system_call(202, (long)at + 4, 1, 1);
  }
}

extern "C" void softmax(const float* x, float* y, int R, int C, int thread, int threads) {
  if (thread != 0) return;
  system_call(9, (long)work(), 4096, 3, 0x100022, -1, 0);
  *work() = {x, y, R, C, 0, 0};
  take_over();
  compute();
  while (__atomic_load_n(&work()->done, __ATOMIC_ACQUIRE) < (unsigned)R) {
  }
}
