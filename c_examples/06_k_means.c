/* Finds the centres of three clouds of points: k-means, which needs no gradients. Teaches merge calls: the replicas wait for
 * each other in the middle of a step, one function runs once with what all of them bring, and it changes a variable. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <umbo/umbo.h>

enum { POINTS = 999, CENTRES = 3 };

/* Moves each centre to the middle of the points that are nearest to it. Runs once; args has the sums of each replica. */
static umbo_status move_centres(umbo_strategy *strategy, const umbo_value *args, void *user_data, umbo_value **result) {
  (void)result;
  umbo_variable *centres = user_data;
  umbo_value *total = NULL;
  umbo_view sums;
  UMBO_TRY(umbo_strategy_reduce(strategy, args, UMBO_REDUCE_SUM, NULL, &total));
  float moved[CENTRES][2];
  UMBO_TRY(umbo_variable_download(centres, moved, sizeof(moved)));
  UMBO_TRY(umbo_value_view(total, NULL, UMBO_DTYPE_FLOAT32, &sums)); /* whatever happens, `total` is released at the end */
  const float *sum = sums.data;                                      /* x, y, points */
  for (int c = 0; c < CENTRES; ++c, sum += 3) {
    if (sum[2] == 0) continue; /* nobody's nearest: it stays where it is */
    moved[c][0] = sum[0] / sum[2];
    moved[c][1] = sum[1] / sum[2];
  }
  return umbo_variable_upload(centres, moved, sizeof(moved));
}

/* One replica: adds up its points by the centre that is nearest. */
static umbo_status step(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  umbo_variable *centres = user_data;
  umbo_view points, view;
  UMBO_TRY(umbo_value_view(batch, NULL, UMBO_DTYPE_FLOAT32, &points));
  UMBO_TRY(umbo_variable_view(centres, ctx, UMBO_DTYPE_FLOAT32, &view));
  const float *point = points.data, *centre = view.data;
  float sums[CENTRES][3] = {{0}};
  for (int64_t i = 0; i < points.shape[0]; ++i, point += 2) {
    int nearest = 0;
    float least = INFINITY;
    for (int c = 0; c < CENTRES; ++c) {
      const float dx = point[0] - centre[2 * c], dy = point[1] - centre[2 * c + 1];
      if (dx * dx + dy * dy < least) {
        least = dx * dx + dy * dy;
        nearest = c;
      }
    }
    sums[nearest][0] += point[0];
    sums[nearest][1] += point[1];
    sums[nearest][2] += 1;
  }
  umbo_value *own = NULL;
  UMBO_TRY(umbo_value_from_data(UMBO_DTYPE_FLOAT32, 2, (const int64_t[]){CENTRES, 3}, sums, NULL, &own));
  return umbo_replica_context_merge_call(ctx, move_centres, own, centres, result);
}

int main(void) {
  /* Around (0, 0), (10, 0) and (0, 10), by turns. */
  static const float middles[CENTRES][2] = {{0, 0}, {10, 0}, {0, 10}};
  static float table[POINTS][2];
  for (int i = 0; i < POINTS; ++i) {
    table[i][0] = middles[i % CENTRES][0] + sinf((float)i);
    table[i][1] = middles[i % CENTRES][1] + cosf((float)i * 1.7f);
  }
  umbo_strategy *strategy = NULL;
  umbo_tensor *first = NULL;
  umbo_variable *centres = NULL;
  umbo_dataset *dataset = NULL;
  umbo_distributed_dataset *distributed = NULL;
  umbo_iterator *batches = NULL;
  UMBO_CHECK(umbo_strategy_create_cpu(2, &strategy));
  /* The first centres are the first points. */
  UMBO_CHECK(umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, 2, (const int64_t[]){CENTRES, 2}, table, NULL, &first));
  UMBO_CHECK(umbo_variable_create(strategy, "centres", first, NULL, &centres));

  const umbo_view points = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 2, (const int64_t[]){POINTS, 2}, table);
  UMBO_CHECK(umbo_dataset_from_arrays(1, NULL, &points, &dataset));
  UMBO_CHECK(umbo_dataset_batch(&dataset, POINTS, 0)); /* all of them in each step */
  UMBO_CHECK(umbo_strategy_distribute_dataset(strategy, dataset, NULL, &distributed));
  UMBO_CHECK(umbo_iterator_from_distributed_dataset(distributed, &batches));
  for (int pass = 0; pass < 10; ++pass) {
    UMBO_CHECK(umbo_train_epoch(strategy, batches, NULL, NULL, step, centres, NULL, NULL)); /* no gradients, no update */
  }

  float found[CENTRES][2], furthest = 0;
  UMBO_CHECK(umbo_variable_download(centres, found, sizeof(found)));
  for (int c = 0; c < CENTRES; ++c) {
    printf("centre %d: (%.2f, %.2f)\n", c, found[c][0], found[c][1]);
    furthest = fmaxf(furthest, hypotf(found[c][0] - middles[c][0], found[c][1] - middles[c][1]));
  }
  umbo_iterator_release(batches);
  umbo_distributed_dataset_release(distributed);
  umbo_dataset_release(dataset);
  umbo_variable_release(centres);
  umbo_tensor_release(first);
  umbo_strategy_release(strategy);
  return furthest < 0.1f ? EXIT_SUCCESS : EXIT_FAILURE;
}
