/* A perceptron with one hidden layer, one element at a time: what a thread of a GPU computes, and what
 * the CPU does in loops. It is C and CUDA at once. */
#ifndef NETWORK_H
#define NETWORK_H

#if defined(__CUDA__) || defined(__CUDACC__)
#define NETWORK_FUNCTION static inline __attribute__((device, always_inline))
#else
#define NETWORK_FUNCTION static inline
#endif

enum { PIXELS = 64, HIDDEN = 12, CLASSES = 10 };

/* The places of the weights, or of their gradients. Each layer has a row of weights for each of its units. */
typedef struct {
    float *weights1, *biases1; /* HIDDEN x PIXELS, HIDDEN */
    float *weights2, *biases2; /* CLASSES x HIDDEN, CLASSES */
} layers;

/* What a replica works on: so many examples, and room for what is computed on the way. */
typedef struct {
    int examples;
    const unsigned char *pixels; /* examples x PIXELS, 0 to 16 */
    const unsigned char *labels;
    float *hidden, *outputs;     /* examples x HIDDEN, examples x CLASSES */
    float *losses;               /* examples */
} work;

NETWORK_FUNCTION float pixel(const work *w, int example, int at) {
    return (float)w->pixels[example * PIXELS + at] / 16.0f;
}

NETWORK_FUNCTION void compute_hidden(const layers *net, const work *w, int example, int unit) {
    float sum = net->biases1[unit];
    for (int at = 0; at < PIXELS; ++at) sum += net->weights1[unit * PIXELS + at] * pixel(w, example, at);
    w->hidden[example * HIDDEN + unit] = sum > 0 ? sum : sum / 8; /* a leaky ReLU */
}

/* Leaves, in the place of an output, its error: what the loss, half of the squared errors, changes with. */
NETWORK_FUNCTION void compute_errors(const layers *net, const work *w, int example) {
    float loss = 0;
    for (int class_ = 0; class_ < CLASSES; ++class_) {
        float sum = net->biases2[class_];
        for (int unit = 0; unit < HIDDEN; ++unit)
            sum += net->weights2[class_ * HIDDEN + unit] * w->hidden[example * HIDDEN + unit];
        sum -= w->labels[example] == class_ ? 1.0f : 0.0f;
        w->outputs[example * CLASSES + class_] = sum;
        loss += sum * sum / 2;
    }
    w->losses[example] = loss;
}

/* One weight of the second layer, or its bias, which comes last. */
NETWORK_FUNCTION void compute_gradient2(const layers *gradient, const work *w, int class_, int unit) {
    float sum = 0;
    for (int example = 0; example < w->examples; ++example) {
        const float error = w->outputs[example * CLASSES + class_];
        sum += unit == HIDDEN ? error : error * w->hidden[example * HIDDEN + unit];
    }
    if (unit == HIDDEN) gradient->biases2[class_] = sum;
    else gradient->weights2[class_ * HIDDEN + unit] = sum;
}

/* Takes an error back to a hidden unit, in the place of its value. */
NETWORK_FUNCTION void compute_back(const layers *net, const work *w, int example, int unit) {
    float sum = 0;
    for (int class_ = 0; class_ < CLASSES; ++class_)
        sum += w->outputs[example * CLASSES + class_] * net->weights2[class_ * HIDDEN + unit];
    float *hidden = &w->hidden[example * HIDDEN + unit];
    *hidden = *hidden > 0 ? sum : sum / 8;
}

/* One weight of the first layer, or its bias, which comes last. */
NETWORK_FUNCTION void compute_gradient1(const layers *gradient, const work *w, int unit, int at) {
    float sum = 0;
    for (int example = 0; example < w->examples; ++example) {
        const float error = w->hidden[example * HIDDEN + unit];
        sum += at == PIXELS ? error : error * pixel(w, example, at);
    }
    if (at == PIXELS) gradient->biases1[unit] = sum;
    else gradient->weights1[unit * PIXELS + at] = sum;
}

#endif
