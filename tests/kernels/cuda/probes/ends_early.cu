// Probe: the first kernel works for so many nanoseconds and lets the second start at once; the second ends at once, or waits.
extern "C" __global__ void works(unsigned long long* out, unsigned nanoseconds, unsigned) {
  asm volatile("griddepcontrol.launch_dependents;");
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
  if (threadIdx.x == 0) out[blockIdx.x] = now - start;
}
extern "C" __global__ void ends(unsigned long long*) {}
extern "C" __global__ void waits(unsigned long long*) { asm volatile("griddepcontrol.wait;" ::: "memory"); }
