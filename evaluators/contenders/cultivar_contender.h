// SPDX-License-Identifier: Apache-2.0
/* The C interface of a contender: a baseline library that Cultivar times beside its kernels, in the same
 * interleaved and checked run.
 *
 * A contender is a shared library that defines the functions below with C linkage (the results are optional).
 * A user names it on the command line (--contender path/libmine.so) or in a configuration. It is loaded into
 * the device worker (one process per device), never into the search itself. A contender needs only this
 * header (C99 or any C++) and no other header of Cultivar or CUDA.
 *
 * Each function is called by one thread at a time. None may throw, exit, or change a signal handler or the
 * current directory. Strings are UTF-8, end with 0, and are owned by the side that provides them. */
#ifndef CULTIVAR_CONTENDER_H
#define CULTIVAR_CONTENDER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Increases when libraries built with an older header can no longer be used. */
#define CULTIVAR_CONTENDER_ABI 1u

/* Return values of prepare and launch; any other value counts as failed. */
#define CULTIVAR_CONTENDER_OK 0
#define CULTIVAR_CONTENDER_UNSUPPORTED                                                                  \
  1                                   /* only from prepare: this workload is not supported; not a fault \
                                       */
#define CULTIVAR_CONTENDER_FAILED 2   /* the contender is skipped, and last_error() is shown */
#define CULTIVAR_CONTENDER_UNUSABLE 3 /* only from prepare: on no workload; what it needs is missing */

typedef struct cultivar_contender_description {
  uint32_t abi;        /* CULTIVAR_CONTENDER_ABI */
  const char* name;    /* "cublas" */
  const char* version; /* of the wrapped library: "cuBLASLt 13.1.0"; shown, never compared */
  const char* task;    /* the task that it computes: "matmul"; "*": any */
  const char* target;  /* "cpu" or "cuda": where the tensors are; "*": either */
} cultivar_contender_description;

/* A dimension or a parameter of the task, as its task.yaml names it: {"S_q", 4096}, {"causal", 1}. */
typedef struct cultivar_contender_value {
  const char* name;
  double value;
} cultivar_contender_value;

/* Something else that prepare may need, such as {"cache", "/home/me/.cache/cultivar"}. */
typedef struct cultivar_contender_text {
  const char* name;
  const char* text;
} cultivar_contender_text;

typedef struct cultivar_contender_tensor {
  const char* name;
  int32_t is_output; /* 0: an input, never written; 1: an output, completely written by each launch (or by
                        results) */
  int32_t rank;      /* may be 0 */
  const char* dtype; /* "f64" "f32" "f16" "bf16" "i64" "i32" "i16" "i8" "u64" "u32" "u16" "u8"
                        "e4m3" "e5m2" */
  const int64_t* extents; /* elements in each dimension, outermost first, in the order of task.yaml */
  const int64_t* strides; /* distance in elements (not bytes) between neighbors in each dimension */
  void* data;             /* address during prepare, contents undefined; each launch has another address */
} cultivar_contender_tensor;

/* One assignment of the task's dimensions, parameters and dtype. Valid only during prepare. */
typedef struct cultivar_contender_workload {
  const char* name;  /* for messages */
  const char* dtype; /* of the tensors without a dtype of their own */
  const cultivar_contender_value* values;
  const cultivar_contender_tensor* tensors; /* in the order of task.yaml */
  uint32_t value_count;
  uint32_t tensor_count;
  uint32_t threads;    /* cpu: number of cores to use, to which this thread is bound; cuda: 0 */
  uint32_t text_count; /* 0 from a Cultivar whose workload ends here */
  const cultivar_contender_text* texts;
  void* stream; /* cuda: the CUstream of the launches, which is not blocked during prepare; cpu: null */
} cultivar_contender_workload;

/* Describes this library. Returns the same pointer each time, valid while the library is loaded; never null.
 */
const cultivar_contender_description* cultivar_contender_describe(void);

/* Optional. Called before prepare, at a time when other programs may use the device: loads what takes long
 * and needs no device, such as an interpreter and its modules. `workload` has no tensors. What fails here is
 * told by prepare. */
void cultivar_contender_warm_up(const cultivar_contender_workload* workload);

/* Optional. Called before each prepare with a function (before the next one perhaps with null) that prepare may
 * call where programs share a device: others(state, 1) lets other programs use the device, and others(state, 0)
 * takes it back, which may wait for them. For long work of the host, such as compiling, during which
 * prepare must not use the device. Only the thread of prepare may call it, and only until prepare returns. */
void cultivar_contender_share(void (*others)(void* state, int32_t may), void* state);

/* Prepares launches of one workload: plans, handles, workspaces, choice of algorithm. This is not timed, may
 * take as long as the configuration allows (evaluation.prepare_deadline, 10 minutes if omitted), and may
 * write to the tensors at their current addresses and run the computation on them. On success sets *handle
 * (null is allowed) and returns OK. Otherwise releases everything, returns another value, and gives the
 * reason in last_error().
 * - cuda: the device's primary context is current; the tensors are in device memory. */
int32_t cultivar_contender_prepare(const cultivar_contender_workload* workload, void** handle);

/* Runs the computation once. `data` holds the tensors' addresses for this launch, in the order of prepare.
 * Addresses and contents change every time, so results of an earlier launch cannot be reused. Addresses are
 * multiples of 64 bytes (cpu) or of 4096 bytes (cuda). This call is timed: allocate scratch memory in
 * prepare.
 * - cpu: `stream` is null. On return all work must be done, and all threads must be asleep or have ended.
 * - cuda: `stream` is a CUstream (a cudaStream_t). Launch only queues work there, in order, and returns. It
 *   must not wait for the device, allocate or free device memory, or use another stream: the stream is
 * blocked until everything is queued, so a call that waits for it never returns. A launch that does not
 * return within the run's deadline (default 10 seconds) ends the worker. */
int32_t cultivar_contender_launch(void* handle, void* const* data, void* stream);

/* Optional. Completes the outputs of the last launch, after its work has ended and its time is taken: a
 * library whose launch returns new tensors copies them to the outputs here. `data` is that of the launch. On
 * return, the outputs must be complete. It may wait for the device and allocate memory, and has 60 seconds.
 */
int32_t cultivar_contender_results(void* handle, void* const* data);

/* Frees what prepare created; the device is idle. Called once for each handle for which prepare returned OK.
 */
void cultivar_contender_release(void* handle);

/* Why the last prepare or launch did not return OK, in a few lines. Valid until the next call; never null. */
const char* cultivar_contender_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
