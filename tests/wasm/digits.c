/* Learns pictures of digits without files, and prints what share of others it recognises and the SHA-256 of its weights, which
 * are the same on every system: nothing of libm is called. The pictures are those of c_examples/data/digits, which pictures.py
 * has written into pictures.h. With the argument "drawn" it also prints what page.html draws: each epoch's share of mistakes, and
 * the first of the other pictures with what it takes them for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <umbo/trainer.h>

#include "../one_sha/sha256.h"
#include "pictures.h"

enum { CLASSES = 10, DRAWN = 60, HIDDEN = 24, FIRST = HIDDEN * (PIXELS + 1), WEIGHTS = FIRST + CLASSES * (HIDDEN + 1), EPOCHS = 20 };

typedef struct {
    const unsigned char (*pictures)[PIXELS];
    const unsigned char *labels;
    int64_t right; /* the sum, where nothing is learnt */
} examples;

/* e to the power of a number that is 0 or less. */
static float power_of_e(float number) {
    float power = 1 + number / 1024;
    if (power < 0) return 0;
    for (int at = 0; at < 10; at++) power *= power;
    return power;
}

/* What the network says of a picture: the probabilities of the classes. */
static void look(const float *weights, const unsigned char *picture, float hidden[HIDDEN], float classes[CLASSES]) {
    float most, sum = 0;
    for (int unit = 0; unit < HIDDEN; unit++) {
        const float *const row = weights + unit * (PIXELS + 1);
        float excitation = row[PIXELS];
        for (int at = 0; at < PIXELS; at++) excitation += row[at] * ((float)picture[at] / 16);
        hidden[unit] = excitation > 0 ? excitation : 0;
    }
    for (int class = 0; class < CLASSES; class++) {
        const float *const row = weights + FIRST + class * (HIDDEN + 1);
        classes[class] = row[HIDDEN];
        for (int unit = 0; unit < HIDDEN; unit++) classes[class] += row[unit] * hidden[unit];
    }
    most = classes[0];
    for (int class = 1; class < CLASSES; class++) most = classes[class] > most ? classes[class] : most;
    for (int class = 0; class < CLASSES; class++) sum += classes[class] = power_of_e(classes[class] - most);
    for (int class = 0; class < CLASSES; class++) classes[class] /= sum;
}

/* The class that a picture probably is. */
static int recognised(const float classes[CLASSES]) {
    int best = 0;
    for (int class = 1; class < CLASSES; class++) best = classes[class] > classes[best] ? class : best;
    return best;
}

/* Adds the gradient of the cross entropy of a picture. */
static void learn_picture(const float *weights, const unsigned char *picture, const float hidden[HIDDEN],
                          const float errors[CLASSES], float *gradient) {
    float back[HIDDEN] = {0};
    for (int class = 0; class < CLASSES; class++) {
        const int row = FIRST + class * (HIDDEN + 1);
        for (int unit = 0; unit < HIDDEN; unit++) {
            gradient[row + unit] += errors[class] * hidden[unit];
            back[unit] += errors[class] * weights[row + unit];
        }
        gradient[row + HIDDEN] += errors[class];
    }
    for (int unit = 0; unit < HIDDEN; unit++) {
        float *const row = gradient + unit * (PIXELS + 1);
        if (hidden[unit] <= 0) continue;
        for (int at = 0; at < PIXELS; at++) row[at] += back[unit] * ((float)picture[at] / 16);
        row[PIXELS] += back[unit];
    }
}

static umbo_status learn(const umbo_rows *rows, const float *weights, float *gradient, void *user_data, double *loss) {
    examples *const of = user_data;
    for (int64_t at = 0; at < rows->count; at++) {
        const int64_t row = rows->indices[at];
        float hidden[HIDDEN], classes[CLASSES];
        int best;
        look(weights, of->pictures[row], hidden, classes);
        best = recognised(classes);
        *loss += best != of->labels[row];
        if (gradient == NULL) {
            of->right += best == of->labels[row];
            continue;
        }
        classes[of->labels[row]] -= 1;
        learn_picture(weights, of->pictures[row], hidden, classes, gradient);
    }
    return UMBO_OK;
}

/* What the page draws, a line for each picture: the digit, what it is taken for, and the pixels, from 0 to g. */
static void print_pictures(const float *weights, const examples *of) {
    for (int row = 0; row < DRAWN; row++) {
        float hidden[HIDDEN], classes[CLASSES];
        look(weights, of->pictures[row], hidden, classes);
        printf("picture %d %d ", of->labels[row], recognised(classes));
        for (int at = 0; at < PIXELS; at++) putchar("0123456789abcdefg"[of->pictures[row][at]]);
        putchar('\n');
    }
}

/* What asks for threads is refused, where there are none, and says so. */
static int is_refused_without_threads(void) {
#if defined(__wasi__)
    static float weight[1];
    umbo_trainer *trainer = NULL;
    const umbo_status status =
        umbo_trainer_create(weight, 1, &UMBO_OPTIONS(umbo_trainer, .replicas = 2), &trainer);
    if (status == UMBO_OK) return 0;
    printf("two replicas: %s: %s\n", umbo_status_name(status), umbo_last_error_message());
#endif
    return 1;
}

int main(int argc, char **argv) {
    static float weights[WEIGHTS];
    const int is_drawn = argc > 1 && strcmp(argv[1], "drawn") == 0;
    examples training = {training_pictures, training_labels, 0}, others = {other_pictures, other_labels, 0};
    umbo_trainer *trainer = NULL;
    char text[SHA_TEXT];
    struct sha256 sha;
    double loss = 0;
    unsigned state = 1;
    for (int at = 0; at < WEIGHTS; at++) {
        state = state * 1664525u + 1013904223u;
        weights[at] = ((float)(state >> 8) / 8388608.0f - 1.0f) / 4;
    }
    UMBO_CHECK(umbo_trainer_create(
        weights, WEIGHTS, &UMBO_OPTIONS(umbo_trainer, .rule = "adam", .learning_rate = 0.004, .replicas = 1), &trainer));
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        UMBO_CHECK(umbo_trainer_epoch(trainer, TRAINING, 32, learn, &training, &loss));
        if (is_drawn) printf("epoch %d %.4f\n", epoch + 1, loss);
        if (is_drawn) fflush(stdout);
    }
    UMBO_CHECK(umbo_trainer_evaluate(trainer, OTHERS, 256, learn, &others, &loss));
    if (is_drawn) printf("others %d %d\n", (int)others.right, OTHERS);
    if (is_drawn) print_pictures(weights, &others);
    umbo_trainer_release(trainer);
    sha256_begin(&sha);
    sha256_add(&sha, weights, sizeof(weights));
    sha256_end(&sha, text);
    fprintf(stderr, "%d of %d digits recognised\n", (int)others.right, OTHERS);
    if (!is_refused_without_threads()) return EXIT_FAILURE;
    puts(text);
    return others.right * 100 >= OTHERS * 85 ? EXIT_SUCCESS : EXIT_FAILURE;
}
