/* Runs the samples of docs/from-tensorflow.md, which readme.from_tensorflow extracts into files of these names, on two
 * replicas. */
#include <stdio.h>
#include <string.h>

#include <umbo/cluster.h>
#include <umbo/tensorflow.h>

#undef NDEBUG
#include <assert.h>
#include <stdlib.h>

/* The numbers of a value: "|" between replicas, items of tuples in brackets. */
static void write_numbers(const umbo_value *value, char *text) {
  umbo_value_info info = UMBO_VALUE_INFO_INIT;
  umbo_variable *variable = NULL;
  umbo_view view;
  UMBO_CHECK(umbo_value_get_info(value, &info));
  if (info.kind == UMBO_VALUE_TUPLE || info.kind == UMBO_VALUE_PER_REPLICA) {
    const int is_tuple = info.kind == UMBO_VALUE_TUPLE;
    if (is_tuple) strcat(text, "(");
    for (int64_t i = 0; i < info.item_count; ++i) {
      umbo_value *item = NULL;
      UMBO_CHECK(umbo_value_item(value, i, &item));
      if (i > 0) strcat(text, is_tuple ? ", " : " | ");
      write_numbers(item, text);
      umbo_value_release(item);
    }
    if (is_tuple) strcat(text, ")");
    return;
  }
  if (info.kind == UMBO_VALUE_VARIABLE) {
    UMBO_CHECK(umbo_value_variable(value, &variable));
    UMBO_CHECK(umbo_variable_view(variable, NULL, UMBO_DTYPE_FLOAT32, &view));
    umbo_variable_release(variable);
  } else {
    UMBO_CHECK(umbo_value_view(value, NULL, UMBO_DTYPE_NONE, &view));
  }
  assert(view.flags & UMBO_VIEW_CONTIGUOUS);
  int64_t count = 1;
  for (int32_t axis = 0; axis < view.ndim; ++axis) count *= view.shape[axis];
  for (int64_t i = 0; i < count; ++i) {
    double number = 0;
    if (view.dtype == UMBO_DTYPE_FLOAT32) number = (double)((const float *)view.data)[i];
    else if (view.dtype == UMBO_DTYPE_FLOAT64) number = ((const double *)view.data)[i];
    else if (view.dtype == UMBO_DTYPE_INT64) number = (double)((const int64_t *)view.data)[i];
    else if (view.dtype == UMBO_DTYPE_INT32) number = (double)((const int32_t *)view.data)[i];
    else assert(0 && "no dtype of these samples");
    sprintf(text + strlen(text), i > 0 ? " %g" : "%g", number);
  }
}

/* Compares a value and releases it. */
static void expect(umbo_value *value, const char *numbers) {
  char text[1024] = "";
  write_numbers(value, text);
  if (strcmp(text, numbers) != 0) {
    fprintf(stderr, "the document says '%s', it is '%s'\n", numbers, text);
    exit(1);
  }
  umbo_value_release(value);
}

static umbo_status scalar(float number, umbo_value **value) {
  return umbo_value_from_data(UMBO_DTYPE_FLOAT32, 0, NULL, &number, NULL, value);
}

static umbo_status variable_of(umbo_strategy *s, float number, umbo_variable **variable) {
  umbo_value *value = NULL;
  umbo_tensor *start = NULL;
  UMBO_TRY(scalar(number, &value));
  UMBO_TRY(umbo_value_tensor(value, &start));
  umbo_value_release(value);
  const umbo_status status = umbo_variable_create(s, "v", start, NULL, variable);
  umbo_tensor_release(start);
  return status;
}

#include "loop.c"
#include "reduce.c"
#include "run.c"
#include "gather.c"
#include "replica_context.c"
#include "scope.c"
#include "merge_call.c"
#include "colocate.c"
#include "from_function.c"
#include "dataset.c"
#include "numpy.c"
#include "resolver.c"
#include "logical.c"

typedef struct {
  const char *name;
  umbo_status (*run)(umbo_strategy *s);
} sample;

int main(void) {
  const sample samples[] = {
      {"loop", loop}, {"reduce", reduce}, {"run", run}, {"gather", gather}, {"replica_context", replica_context},
      {"scope", scope}, {"merge_call", merge_call}, {"colocate", colocate}, {"from_function", from_function},
      {"dataset", dataset}, {"numpy", numpy}, {"resolver", resolver}, {"logical", logical}};
  umbo_strategy *s = NULL;
  int64_t before = 0, after = 0;
  UMBO_CHECK(umbo_strategy_create_cpu(2, &s));
  UMBO_CHECK(umbo_live_handles(UMBO_HANDLE_ANY, &before));
  for (size_t i = 0; i < sizeof samples / sizeof samples[0]; ++i) {
    UMBO_CHECK(samples[i].run(s));
    UMBO_CHECK(umbo_live_handles(UMBO_HANDLE_ANY, &after));
    if (after != before) {
      fprintf(stderr, "%s leaves %d handles\n", samples[i].name, (int)(after - before));
      return 1;
    }
  }
  umbo_strategy_release(s);
  return 0;
}
