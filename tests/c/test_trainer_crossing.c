/* Trainings that are drawn, compared with the same by hand: arrays, tables and groups, rules, clipping, accumulation,
 * smaller last batches, orders, replicas, steps that fail, and trainings that are resumed from a file. */
#include "trainer_rows.h"

#include <math.h>

enum { MOST_ARRAYS = 3, MOST_NUMBERS = 24, MOST_ROWS = 40, EPOCHS = 2 };

static uint32_t state;

static uint32_t below(uint32_t bound) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % bound;
}

/* From -1 to 1, by its key alone. */
static double hashed(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t h = a * 2654435761u ^ (b + 77) * 2246822519u ^ (c + 5) * 3266489917u;
    h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
    return (double)(h >> 8) / 8388608.0 - 1;
}

typedef struct {
    int arrays, rows, batch, accumulation, fail_at;
    umbo_parameters parameters[MOST_ARRAYS];
    const char *rule;
    double rate, decay, clip;
    int is_mean, weighs;
    uint64_t seed;
    int shuffle;
} plan;

/* ---- the mathematics: the loss of a row is a sum of parabolas, one for each number that it concerns */

/* Whether a row concerns a number. Of a table, it concerns those of two rows. */
static int concerns(const plan *p, int array, int number, int row) {
    const int length = (int)p->parameters[array].row_length;
    if (length == 0) return 1;
    const int there_are = (int)p->parameters[array].count / length;
    return number / length == row % there_are || number / length == (row * 7 + 3) % there_are;
}

static double steepness(int array, int number, int row) {
    return 1.5 + hashed((uint32_t)array, (uint32_t)number, (uint32_t)row);
}

static double place(int array, int number, int row) {
    return 2 * hashed((uint32_t)array + 9, (uint32_t)number, (uint32_t)row);
}

static double slope(int array, int number, int row, double w) {
    return steepness(array, number, row) * (w - place(array, number, row));
}

static double height(int array, int number, int row, double w) {
    const double away = w - place(array, number, row);
    return steepness(array, number, row) * away * away / 2;
}

/* The weight of a row; 1 unless rows have weights of their own. */
static double weight_of(const plan *p, int row) { return p->weighs ? 1 + row % 3 : 1; }

static umbo_status learn_drawn(const umbo_rows *rows, const float *weights, float *gradient,
                               void *user_data, double *loss) {
    const plan *const p = (const plan *)user_data;
    double weight = 0;
    CHECK(weights == rows->weights[0] && gradient == rows->gradients[0]);
    for (int64_t i = 0; i < rows->count; ++i) {
        if (rows->indices[i] == p->fail_at) return UMBO_STATUS_ABORTED;
        weight += weight_of(p, (int)rows->indices[i]);
    }
    const double scale = p->is_mean ? 1 / weight : 1;
    for (int64_t i = 0; i < rows->count; ++i) {
        const int row = (int)rows->indices[i];
        for (int a = 0; a < p->arrays; ++a)
            for (int n = 0; n < p->parameters[a].count; ++n) {
                const int length = (int)p->parameters[a].row_length;
                const double w = (double)rows->weights[a][n];
                float *to = rows->gradients[a] == NULL ? NULL : &rows->gradients[a][n];
                if (!concerns(p, a, n, row)) continue;
                *loss += scale * height(a, n, row, w);
                if (!rows->training) continue;
                if (length != 0) {
                    CHECK(to == NULL);
                    UMBO_TRY(umbo_rows_gradient_row(rows, a, n / length, &to));
                    to += n % length;
                }
                *to += (float)(scale * slope(a, n, row, w));
            }
    }
    return p->weighs ? umbo_rows_weigh(rows, weight) : UMBO_OK;
}

/* ---- by hand */

typedef struct {
    double w[MOST_ARRAYS][MOST_NUMBERS], sum[MOST_ARRAYS][MOST_NUMBERS];
    double m[MOST_ARRAYS][MOST_NUMBERS], v[MOST_ARRAYS][MOST_NUMBERS];
    int touched[MOST_ARRAYS][MOST_NUMBERS];
    double weight;
    int steps, updates;
} by_hand;

static void update(const plan *p, by_hand *h) {
    double norm = 0, scale = 1;
    const int is_adam = strncmp(p->rule, "adam", 4) == 0, is_adamw = strcmp(p->rule, "adamw") == 0;
    if (h->steps == 0) return;
    h->updates++;
    for (int a = 0; a < p->arrays; ++a)
        for (int n = 0; n < p->parameters[a].count; ++n) {
            h->sum[a][n] /= h->weight;
            if (!p->parameters[a].frozen) norm += h->sum[a][n] * h->sum[a][n];
        }
    if (p->clip > 0 && sqrt(norm) > p->clip) scale = p->clip / sqrt(norm);
    for (int a = 0; a < p->arrays; ++a)
        for (int n = 0; n < p->parameters[a].count; ++n) {
            const umbo_parameters *const of = &p->parameters[a];
            const double factor = of->learning_rate_factor == 0 ? 1 : of->learning_rate_factor;
            const double rate = p->rate * factor, decay = of->no_weight_decay ? 0 : p->decay;
            double g = scale * h->sum[a][n], *const w = &h->w[a][n];
            h->sum[a][n] = 0;
            if (of->frozen || !h->touched[a][n]) continue;
            h->touched[a][n] = 0;
            if (is_adamw) *w -= rate * decay * *w;
            else g += decay * *w;
            if (is_adam) {
                h->m[a][n] = 0.9 * h->m[a][n] + 0.1 * g;
                h->v[a][n] = 0.999 * h->v[a][n] + 0.001 * g * g;
                *w -= rate * (h->m[a][n] / (1 - pow(0.9, h->updates))) /
                      (sqrt(h->v[a][n] / (1 - pow(0.999, h->updates))) + 1e-8);
            } else if (strcmp(p->rule, "momentum") == 0) {
                h->m[a][n] = 0.9 * h->m[a][n] + g;
                *w -= rate * h->m[a][n];
            } else {
                *w -= rate * g;
            }
        }
    h->steps = 0;
    h->weight = 0;
}

/* A batch; the loss of its rows and their weight are added. */
static void step(const plan *p, by_hand *h, const int64_t *rows, int count, double *loss, double *weight) {
    for (int i = 0; i < count; ++i) {
        const int row = (int)rows[i];
        const double row_weight = weight_of(p, row);
        /* Slopes are added without weights, and divided by the weights in the end. */
        for (int a = 0; a < p->arrays; ++a)
            for (int n = 0; n < p->parameters[a].count; ++n) {
                if (p->parameters[a].row_length == 0) h->touched[a][n] = 1;
                if (!concerns(p, a, n, row)) continue;
                const int length = (int)p->parameters[a].row_length;
                for (int k = 0; length != 0 && k < length; ++k) h->touched[a][n / length * length + k] = 1;
                *loss += height(a, n, row, h->w[a][n]);
                h->sum[a][n] += slope(a, n, row, h->w[a][n]);
            }
        h->weight += row_weight;
        *weight += row_weight;
    }
    if (++h->steps == p->accumulation) update(p, h);
}

/* ---- both */

static void draw(plan *p) {
    static const char *const rules[] = {"sgd", "momentum", "adam", "adamw"};
    memset(p, 0, sizeof(*p));
    p->arrays = 1 + (int)below(MOST_ARRAYS);
    for (int a = 0; a < p->arrays; ++a) {
        umbo_parameters *const of = &p->parameters[a];
        of->row_length = (int64_t)below(4);
        of->count = of->row_length == 0 ? 1 + (int64_t)below(MOST_NUMBERS)
                                        : of->row_length * (1 + (int64_t)below(MOST_NUMBERS / 3));
        if (below(3) == 0) of->learning_rate_factor = 0.5;
        of->no_weight_decay = below(3) == 0;
        of->frozen = a > 0 && below(4) == 0;
    }
    p->rule = rules[below(4)];
    p->rate = 0.02;
    p->decay = below(2) ? 0.1 : 0;
    p->clip = below(2) ? 0.5 + 0.1 * below(20) : 0;
    p->rows = 1 + (int)below(MOST_ROWS);
    p->batch = 1 + (int)below(12);
    p->accumulation = 1 + (int)below(3);
    p->is_mean = below(3) == 0;
    p->weighs = !p->is_mean && below(3) == 0;
    p->seed = below(1000);
    p->shuffle = below(4) != 0;
    p->fail_at = -1;
}

static umbo_trainer *trainer_of(const plan *p, float (*numbers)[MOST_NUMBERS], int64_t replicas,
                                int64_t in_sync) {
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    umbo_parameters parameters[MOST_ARRAYS];
    umbo_trainer *trainer = NULL;
    memcpy(parameters, p->parameters, sizeof(parameters));
    for (int a = 0; a < p->arrays; ++a) parameters[a].weights = numbers[a];
    options.rule = p->rule;
    options.learning_rate = p->rate;
    options.weight_decay = p->decay;
    if (p->clip > 0) options.global_clip_norm = p->clip;
    options.accumulation_steps = p->accumulation;
    options.loss_reduction = p->is_mean ? UMBO_LOSS_MEAN : UMBO_LOSS_SUM;
    options.replicas = replicas;
    options.replicas_in_sync = in_sync;
    options.seed = p->seed;
    options.shuffle = p->shuffle;
    CHECK_OK(umbo_trainer_create_with_arrays(p->arrays, parameters, &options, &trainer));
    return trainer;
}

static int is_near(double a, double b) { return fabs(a - b) < 2e-4 * (1 + fabs(b)); }

static void crossing(uint32_t number) {
    float numbers[2][MOST_ARRAYS][MOST_NUMBERS];
    float left[MOST_ARRAYS][MOST_NUMBERS];
    static by_hand h;
    plan p;
    int at = 0;
    state = number * 977u + 1;
    draw(&p);
    memset(&h, 0, sizeof(h));
    memset(numbers, 0, sizeof(numbers));
    for (int a = 0; a < p.arrays; ++a)
        for (int n = 0; n < p.parameters[a].count; ++n) {
            numbers[0][a][n] = (float)hashed(number, (uint32_t)a, (uint32_t)n);
            h.w[a][n] = (double)numbers[0][a][n];
        }
    const int64_t in_sync = below(2) ? 4 : 0;
    umbo_trainer *trainer = trainer_of(&p, numbers[at], 1 + (int64_t)below(4), in_sync);
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        int64_t rows[MOST_ROWS];
        double loss = -1, sum = 0, weight = 0;
        order_of_epoch(trainer, p.rows, rows);
        for (int first = 0; first < p.rows; first += p.batch) {
            step(&p, &h, rows + first, p.rows - first < p.batch ? p.rows - first : p.batch, &sum, &weight);
        }
        update(&p, &h);
        if (below(2)) {
            p.fail_at = (int)below((uint32_t)p.rows);
            CHECK_STATUS(umbo_trainer_epoch(trainer, p.rows, p.batch, learn_drawn, &p, &loss), UMBO_STATUS_ABORTED);
            memcpy(left, numbers[at], sizeof(left));
            CHECK_STATUS(umbo_trainer_epoch(trainer, p.rows, p.batch, learn_drawn, &p, &loss), UMBO_STATUS_ABORTED);
            CHECK(memcmp(left, numbers[at], sizeof(left)) == 0 && loss == -1);
            p.fail_at = -1;
        }
        if (below(2)) {
            CHECK_OK(umbo_trainer_save(trainer, "test_trainer_crossing.umbo"));
            umbo_trainer_release(trainer);
            at = 1 - at;
            memset(numbers[at], 7, sizeof(numbers[at]));
            trainer = trainer_of(&p, numbers[at], 1 + (int64_t)below(4), in_sync);
            CHECK_OK(umbo_trainer_restore(trainer, "test_trainer_crossing.umbo"));
        }
        CHECK_OK(umbo_trainer_epoch(trainer, p.rows, p.batch, learn_drawn, &p, &loss));
        if (!is_near(loss, sum / weight)) {
            fprintf(stderr, "case %u, epoch %d: loss %.9g, by hand %.9g\n", number, epoch, loss, sum / weight);
            check_failed(__FILE__, __LINE__, "the loss");
        }
        for (int a = 0; a < p.arrays; ++a)
            for (int n = 0; n < p.parameters[a].count; ++n)
                if (!is_near((double)numbers[at][a][n], h.w[a][n])) {
                    fprintf(stderr, "case %u (%s), epoch %d: array %d[%d] is %.9g, by hand %.9g\n", number, p.rule,
                            epoch, a, n, (double)numbers[at][a][n], h.w[a][n]);
                    check_failed(__FILE__, __LINE__, "the weights");
                }
    }
    umbo_trainer_release(trainer);
}

int main(int argc, char **argv) {
    const uint32_t first = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;
    const uint32_t count = argc > 2 ? (uint32_t)atoi(argv[2]) : 60;
    int64_t messages = 0;
    expect_messages(&messages);
    for (uint32_t number = first; number < first + count; ++number) crossing(number);
    expect_no_messages();
    remove("test_trainer_crossing.umbo");
    return finish();
}
