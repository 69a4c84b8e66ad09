// The fused pass: it updates weights and state by the gradients of all replicas.
#pragma once
#include "rules.cuh"

template <class Rule, class T, bool ROWS> struct Updating {
    const Source<T, ROWS> &source;
    Real<T> scalars[SCALARS];
    GLOBAL T *weights;
    GLOBAL T *slots[MOST_SLOTS];
    // 0 as long as all gradients were finite, NaN from the first that was not.
    mutable Real<T> trace;

    DEVICE_MEMBER Updating(const Source<T, ROWS> &of) : source(of) {
        UNROLL
        for (int i = 0; i < SCALARS; i++) {
            scalars[i].value = of.treatment->scalars[i];
        }
        if (Rule::MEASURES) {
            double quotient = *reading<double>(of.variable->result), rate = of.treatment->rate;
            double trust = mul(of.treatment->coefficient, quotient);
            scalars[RATE].value = (T)(quotient < 0 ? rate : mul(rate, trust));
        }
        weights = writing<T>(of.variable->weights);
        UNROLL
        for (int slot = 0; slot < MOST_SLOTS; slot++) {
            slots[slot] = writing<T>(of.variable->slots[slot]);
        }
        trace.value = 0;
    }

    // The position of the weight for an element of the sum.
    DEVICE_MEMBER u64 place(u64 element) const {
        if (!ROWS) {
            return element;
        }
        GLOBAL const Variable *variable = source.variable;
        u64 width = variable->width;
        u64 row = divided_by(element, width, variable->width_factor, variable->width_shift);
        return reading<u64>(variable->rows)[row] * width + (element - row * width);
    }

    template <int N> DEVICE_MEMBER void run(u64 first) const {
        Real<T> gradient[N], weight[N], state[N][MOST_SLOTS];
        u64 places[N];
        UNROLL
        for (int i = 0; i < N; i++) {
            places[i] = place(first + i * THREADS);
            weight[i].value = weights[places[i]];
            UNROLL
            for (int slot = 0; slot < Rule::SLOTS; slot++) {
                state[i][slot].value = slots[slot][places[i]];
            }
        }
        source.template make<N, THREADS>(first, gradient);
        Real<T> zero = {0};
        UNROLL
        for (int i = 0; i < N; i++) {
            trace = trace + gradient[i] * zero;
        }
        if (source.treatment->has_l2) {
            Real<T> l2 = {source.treatment->l2};
            UNROLL
            for (int i = 0; i < N; i++) {
                gradient[i] = gradient[i] + l2 * weight[i];
            }
        }
        UNROLL
        for (int i = 0; i < N; i++) {
            weight[i] = Rule::apply(scalars, weight[i], state[i], gradient[i]);
            weights[places[i]] = weight[i].value;
            UNROLL
            for (int slot = 0; slot < Rule::SLOTS; slot++) {
                slots[slot][places[i]] = state[i][slot].value;
            }
        }
    }

    DEVICE_MEMBER void note() const {
        // A number that is not 0 is NaN. All threads that find one write the same.
        if (source.variable->not_finite && !(trace.value == 0)) {
            *(volatile GLOBAL u32 *)writing<u32>(source.variable->not_finite) = 1;
        }
    }
};

template <class Rule, class T, int MOST, bool ROWS>
DEVICE void update_elements(const Variable *variables, const Contribution *contributions,
                            const Treatment<T> *treatments, Part part) {
    Source<T, ROWS> source(variables, contributions, treatments, part.item);
    Updating<Rule, T, ROWS> updating(source);
    for_each_element<MOST>(part.start, smaller(part.end, source.variable->elements), updating);
    updating.note();
}

template <class Rule, class T>
DEVICE void update_part(const Variable *variables, const Contribution *contributions,
                        const Treatment<T> *treatments, const Chunk *chunks, u64 size) {
    Part part = part_of(chunks, size);
    if (Rule::HAS_ROWS && reading<Variable>(variables)[part.item].rows) {
        update_elements<Rule, T, 1, true>(variables, contributions, treatments, part);
    } else {
        update_elements<Rule, T, TOGETHER, false>(variables, contributions, treatments, part);
    }
}

// Three blocks have 80 registers for each thread.
template <class Rule, class T> constexpr int blocks_at_once() {
    return sizeof(T) == 4 && Rule::SLOTS < MOST_SLOTS ? 3 : 1;
}

#define UPDATE_OF(name, Rule, type, T)                                                           \
    KERNEL_WITH((blocks_at_once<Rule, T>()))                                                     \
    void umbo_##name##_##type(const Variable *variables, const Contribution *contributions,      \
                              const Treatment<T> *treatments, const Chunk *chunks, u64 size) {   \
        update_part<Rule, T>(variables, contributions, treatments, chunks, size);                \
    }
#define UPDATE(name, Rule)                                                                       \
    UPDATE_OF(name, Rule, f32, float)                                                            \
    UPDATE_OF(name, Rule, f64, double)
UPDATE(sgd, Sgd)
UPDATE(momentum, Momentum)
UPDATE(nesterov, Nesterov)
UPDATE(adam, Adam)
UPDATE(adamw, AdamW)
UPDATE(nadam, NAdam)
UPDATE(radam, RAdam)
UPDATE(lion, Lion)
UPDATE(adagrad, Adagrad)
UPDATE(rmsprop, RmsProp)
UPDATE(rmsprop_momentum, RmsPropMomentum)
UPDATE(rmsprop_centered, RmsPropCentered)
UPDATE(rmsprop_centered_momentum, RmsPropCenteredMomentum)
UPDATE(lamb, Lamb)
UPDATE(lars, Lars)
UPDATE(ftrl, Ftrl)
UPDATE(amsgrad, AmsGrad)
UPDATE(amsgradw, AmsGradW)
UPDATE(treated, Treated)

// Gradients that are written to memory.
template <class T> struct Writing {
    const Source<T> &source;

    template <int N> DEVICE_MEMBER void run(u64 first) const {
        Real<T> gradient[N];
        source.template make<N, THREADS>(first, gradient);
        UNROLL
        for (int i = 0; i < N; i++) {
            writing<T>(source.variable->weights)[first + i * THREADS] = gradient[i].value;
        }
    }
};

#define GRADIENT(type, T)                                                                        \
    KERNEL void umbo_gradient_##type(const Variable *variables,                                  \
                                     const Contribution *contributions,                          \
                                     const Treatment<T> *treatments, const Chunk *chunks,        \
                                     u64 size) {                                                 \
        Part part = part_of(chunks, size);                                                       \
        Source<T> source(variables, contributions, treatments, part.item);                       \
        u64 end = smaller(part.end, source.variable->elements);                                  \
        for_each_element<TOGETHER>(part.start, end, Writing<T>{source});                         \
    }
GRADIENT(f32, float)
GRADIENT(f64, double)

// Sums in float64, from which an update some runs later starts. `accumulated` is where they
// start, and `weights` is where they are written; both may be the same.
template <class T> struct Accumulating {
    const Source<T> &source;

    template <int N> DEVICE_MEMBER void run(u64 first) const {
        double sums[N];
        source.template sum<N>(first, THREADS, sums);
        UNROLL
        for (int i = 0; i < N; i++) {
            writing<double>(source.variable->weights)[first + i * THREADS] = sums[i];
        }
    }
};

#define ACCUMULATE(type, T)                                                                      \
    KERNEL void umbo_accumulate_##type(const Variable *variables,                                \
                                       const Contribution *contributions,                        \
                                       const Treatment<T> *treatments, const Chunk *chunks,      \
                                       u64 size) {                                               \
        Part part = part_of(chunks, size);                                                       \
        Source<T> source(variables, contributions, treatments, part.item);                       \
        u64 end = smaller(part.end, source.variable->elements);                                  \
        for_each_element<TOGETHER>(part.start, end, Accumulating<T>{source});                    \
    }
ACCUMULATE(f32, float)
ACCUMULATE(f64, double)
