/* A contender for softmax on the cpu, as a user would write one from cultivar_contender.h alone; and, by
 * macros, what contenders get wrong: OLD_ABI, NO_LAUNCH, OTHER_TASK, OTHER_TARGET, REFUSES, FAILS_TO_PREPARE,
 * FAILS, TALKS, CRASHES, HANGS, ENDS_BADLY, STRIKES_LATER, WRONG, LEAVES_SOME, WRITES_BEHIND, CHANGES_INPUT. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cultivar_contender.h"

struct plan {
  long rows, columns;
};

static char error_text[160] = "";

#ifdef STRIKES_LATER
#include <pthread.h>
#include <unistd.h>
static void* strike(void* nothing) {
  usleep(20000); /* the contender has long returned */
  abort();
  return nothing;
}
#endif

const cultivar_contender_description* cultivar_contender_describe(void) {
  static cultivar_contender_description told = {CULTIVAR_CONTENDER_ABI, "plain", "1.0", "softmax", "cpu"};
#ifdef OLD_ABI
  told.abi = 0;
#endif
#ifdef OTHER_TASK
  told.task = "matmul";
#endif
#ifdef OTHER_TARGET
  told.target = "cuda";
#endif
#ifdef LACKS_ITS_VENDOR
  told.version = "";
  snprintf(error_text, sizeof error_text, "libvendor.so.9 does not load: install it");
#endif
  return &told;
}

int32_t cultivar_contender_prepare(const cultivar_contender_workload* workload, void** handle) {
  struct plan plan = {0, 0};
  for (uint32_t i = 0; i < workload->value_count; ++i) {
    if (strcmp(workload->values[i].name, "R") == 0) plan.rows = (long)workload->values[i].value;
    if (strcmp(workload->values[i].name, "C") == 0) plan.columns = (long)workload->values[i].value;
  }
  const cultivar_contender_tensor* y = &workload->tensors[1];
  if (strcmp(workload->dtype, "f32") != 0) {
    snprintf(error_text, sizeof error_text, "f32 alone, and this is %s", workload->dtype);
    return CULTIVAR_CONTENDER_UNSUPPORTED;
  }
  if (workload->tensor_count != 2 || strcmp(y->name, "y") != 0 || !y->is_output || y->rank != 2 ||
      y->extents[0] != plan.rows || y->strides[0] != plan.columns || y->strides[1] != 1 ||
      workload->threads == 0) {
    snprintf(error_text, sizeof error_text, "%s is not described as the header says", workload->name);
    return CULTIVAR_CONTENDER_FAILED;
  }
#ifdef REFUSES
  if (plan.columns != 1000) {
    snprintf(error_text, sizeof error_text, "1000 columns alone, and this is %ld", plan.columns);
    return CULTIVAR_CONTENDER_UNSUPPORTED;
  }
#endif
#ifdef TALKS
  return CULTIVAR_CONTENDER_FAILED;
#endif
#ifdef STRIKES_LATER
  pthread_t thread;
  pthread_create(&thread, NULL, strike, NULL);
#endif
#ifdef FAILS_TO_PREPARE
  snprintf(error_text, sizeof error_text, "its licence has run out");
  return CULTIVAR_CONTENDER_FAILED;
#endif
  struct plan* kept = malloc(sizeof *kept);
  *kept = plan;
  *handle = kept;
  return CULTIVAR_CONTENDER_OK;
}

#ifndef NO_LAUNCH
int32_t cultivar_contender_launch(void* handle, void* const* data, void* stream) {
  const struct plan* plan = handle;
  if (stream != NULL) return CULTIVAR_CONTENDER_FAILED;
#ifdef FAILS
  snprintf(error_text, sizeof error_text, "no luck today");
  return CULTIVAR_CONTENDER_FAILED;
#endif
#ifdef CRASHES
  *(volatile int*)NULL = 1;
#endif
#ifdef HANGS
  for (volatile int i = 0;; ++i) (void)i;
#endif
  for (long r = 0; r < plan->rows; ++r) {
    const float* x = (const float*)data[0] + r * plan->columns;
    float* y = (float*)data[1] + r * plan->columns;
    float top = x[0];
    double sum = 0.0;
    long end = plan->columns;
#ifdef LEAVES_SOME
    if (r == plan->rows - 1) end -= 2;
#endif
    for (long c = 0; c < plan->columns; ++c) top = x[c] > top ? x[c] : top;
    for (long c = 0; c < plan->columns; ++c) sum += expf(x[c] - top);
    for (long c = 0; c < end; ++c) y[c] = (float)(expf(x[c] - top) / sum);
#ifdef WRONG
    y[0] *= 1.01f;
#endif
  }
#ifdef WRITES_BEHIND
  ((float*)data[1])[plan->rows * plan->columns] = 1.0f;
#endif
#ifdef CHANGES_INPUT
  ((float*)data[0])[0] += 1.0f;
#endif
  return CULTIVAR_CONTENDER_OK;
}
#endif

void cultivar_contender_release(void* handle) {
#ifdef ENDS_BADLY
  abort();
#endif
  free(handle);
}

const char* cultivar_contender_last_error(void) {
#ifdef TALKS
  const size_t size = 50000000;
  char* text = malloc(size);
  memset(text, 'e', size);
  text[size - 1] = 0;
  return text;
#endif
  return error_text;
}
