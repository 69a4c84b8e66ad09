/* A network whose weights are one array of floats learns on all processors with a trainer: the function that learns from
 * rows is all that a program has to have. It resumes from a file if there is one, and Ctrl-C saves.
 *
 * Points inside of a ring are told from those outside of it. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <umbo/trainer.h>

enum { POINTS = 4000, HIDDEN = 16, WEIGHTS = 4 * HIDDEN + 1 };

typedef struct {
  float x, y, is_inside;
} point;

static float next_random(void) { /* from -1 to 1 */
  static unsigned state = 1;
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) / 8388608.0f - 1.0f;
}

static void make_points(point *points) {
  for (int i = 0; i < POINTS; ++i) {
    point *p = &points[i];
    p->x = 2 * next_random(), p->y = 2 * next_random();
    const float radius = hypotf(p->x, p->y);
    p->is_inside = radius > 0.7f && radius < 1.6f ? 1.0f : 0.0f;
  }
}

/* Adds the gradient of a point to `g`, if there is one, and returns its loss. Each hidden unit has four weights: of x, of y,
 * its bias, and of its output. */
static double learn_point(const point *p, const float *w, float *g) {
  float unit[HIDDEN], sum = w[WEIGHTS - 1];
  for (int k = 0; k < HIDDEN; ++k) {
    const float *u = w + 4 * k;
    unit[k] = tanhf(u[0] * p->x + u[1] * p->y + u[2]);
    sum += u[3] * unit[k];
  }
  const float probability = 1 / (1 + expf(-sum)), error = probability - p->is_inside;
  for (int k = 0; g != NULL && k < HIDDEN; ++k) {
    const float back = error * w[4 * k + 3] * (1 - unit[k] * unit[k]);
    g[4 * k] += back * p->x;
    g[4 * k + 1] += back * p->y;
    g[4 * k + 2] += back;
    g[4 * k + 3] += error * unit[k];
  }
  if (g != NULL) g[WEIGHTS - 1] += error;
  return -log(fmax(p->is_inside > 0 ? (double)probability : 1 - (double)probability, 1e-7));
}

/* Runs on all replicas at the same time, on each with its rows of the batch. */
static umbo_status learn(const umbo_rows *rows, const float *weights, float *gradient, void *user_data, double *loss) {
  const point *points = user_data;
  for (int64_t i = 0; i < rows->count; ++i) *loss += learn_point(&points[rows->indices[i]], weights, gradient);
  return UMBO_OK;
}

int main(int argc, char **argv) {
  static point points[POINTS];
  static float weights[WEIGHTS];
  const char *const path = argc > 1 ? argv[1] : "12_trainer.umbo";
  umbo_trainer *trainer = NULL;
  double loss = 0;
  int64_t epoch = 0;
  make_points(points);
  for (int i = 0; i < WEIGHTS; ++i) weights[i] = next_random();

  UMBO_CHECK(umbo_trainer_create(weights, WEIGHTS,
                                 &UMBO_OPTIONS(umbo_trainer, .rule = "adam", .learning_rate = 0.02, .interrupt_path = path),
                                 &trainer));
  UMBO_CHECK(umbo_trainer_resume(trainer, path, &epoch)); /* 0 if there is no such file */
  for (; epoch < 20; ++epoch) {
    UMBO_CHECK(umbo_trainer_epoch(trainer, POINTS, 64, learn, points, &loss)); /* each in another order */
    if (epoch % 5 == 4) printf("epoch %2d: loss %.4f\n", (int)epoch + 1, loss);
  }
  UMBO_CHECK(umbo_trainer_save(trainer, path));
  UMBO_CHECK(umbo_trainer_evaluate(trainer, POINTS, 1024, learn, points, &loss));
  printf("in the end %.4f, in %s\n", loss, path);
  umbo_trainer_release(trainer);
  return loss < 0.2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
