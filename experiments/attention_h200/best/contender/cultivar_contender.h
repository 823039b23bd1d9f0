/* A contender: code that Cultivar times beside its kernels, in the same interleaved and checked run.
 *
 * A contender is a shared library that defines the five functions below with C linkage. It is loaded into the
 * device worker, one process a device, never into the search itself, when a user names it on the command line
 * (--contender path/libmine.so) or in a configuration. This header is all that it needs: C99 or any C++, no
 * header of Cultivar's or of CUDA's.
 *
 * Every function is called by one thread at a time. None may throw, exit, change a signal handler or the
 * current directory. Strings are UTF-8, end with 0, and belong to whoever gives them. */
#ifndef CULTIVAR_CONTENDER_H
#define CULTIVAR_CONTENDER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes when a library that was built with an older header could not be used any more. */
#define CULTIVAR_CONTENDER_ABI 1u

/* What prepare and launch return; any other number counts as failed. */
#define CULTIVAR_CONTENDER_OK 0
#define CULTIVAR_CONTENDER_UNSUPPORTED 1 /* by prepare alone: not this workload, which is no fault */
#define CULTIVAR_CONTENDER_FAILED 2      /* it is left out, and last_error() is shown */

typedef struct cultivar_contender_description {
  uint32_t abi;        /* CULTIVAR_CONTENDER_ABI */
  const char* name;    /* "cublas" */
  const char* version; /* of what is behind it: "cuBLASLt 13.1.0"; shown, never compared */
  const char* task;    /* the task that it computes: "matmul" */
  const char* target;  /* "cpu" or "cuda": where the tensors are */
} cultivar_contender_description;

/* A dimension or a parameter of the task, as its task.yaml names it: {"S_q", 4096}, {"causal", 1}. */
typedef struct cultivar_contender_value {
  const char* name;
  double value;
} cultivar_contender_value;

typedef struct cultivar_contender_tensor {
  const char* name;
  int32_t is_output;      /* 0: an input, never written; 1: an output, all of it written by each launch */
  int32_t rank;           /* may be 0 */
  const char* dtype;      /* "f64" "f32" "f16" "bf16" "i64" "i32" "i16" "i8" "u64" "u32" "u16" "u8" */
  const int64_t* extents; /* elements in each dimension, outermost first, in the order of task.yaml */
  const int64_t* strides; /* elements (not bytes) from one to the next in each dimension */
  void* data;             /* where it is during prepare, with arbitrary contents; elsewhere in every launch */
} cultivar_contender_tensor;

/* One assignment of the task's dimensions, parameters and dtype. Valid during prepare alone. */
typedef struct cultivar_contender_workload {
  const char* name;  /* for messages */
  const char* dtype; /* of the tensors that have none of their own */
  const cultivar_contender_value* values;
  const cultivar_contender_tensor* tensors; /* in the order of task.yaml */
  uint32_t value_count;
  uint32_t tensor_count;
  uint32_t threads; /* cpu: cores that it may use, to which this thread is bound; cuda: 0 */
  uint32_t reserved;
} cultivar_contender_workload;

/* What this library is. The same pointer each time, valid as long as the library is loaded; never null. */
const cultivar_contender_description* cultivar_contender_describe(void);

/* Makes ready for launches of one workload: plans, handles, workspaces, a choice among algorithms. It is not
 * timed, may take up to 60 seconds, and may run the computation on the tensors where they are.
 * Sets *handle, which may be null, and returns OK; or returns UNSUPPORTED or FAILED, leaves nothing behind,
 * and says why in last_error().
 * - cuda: the device's primary context is current; the tensors are in device memory. */
int32_t cultivar_contender_prepare(const cultivar_contender_workload* workload, void** handle);

/* Computes once. `data` has the tensors' addresses for this launch, in the order of prepare: other ones, with
 * other contents, every time, so that nothing of an earlier launch is of use. They are multiples of 64 bytes
 * (cpu) or of 4096 bytes (cuda). This is what is timed: scratch memory belongs into prepare.
 * - cpu: `stream` is null. All work is done, and all threads are asleep or gone, on return.
 * - cuda: `stream` is a CUstream (a cudaStream_t). Launch only queues work there, in order, and returns. It
 *   must not wait for the device, allocate or free device memory, or use another stream: the stream is held
 *   back until everything is queued, and whatever waits for it then waits for ever.
 * A launch that has not returned within the run's deadline (10 seconds unless configured) ends the worker. */
int32_t cultivar_contender_launch(void* handle, void* const* data, void* stream);

/* Frees what prepare made; the device is idle. Called once for each handle that prepare returned OK for. */
void cultivar_contender_release(void* handle);

/* Why the last prepare or launch did not return OK, in a few lines. Valid until the next call; never null. */
const char* cultivar_contender_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
