// The gradient of one variable, computed from the replicas' contributions: the sum of factor *
// contribution, in replica order and in float64, scaled, rounded once, and then clipped.
#pragma once
#include "element.cuh"
#include "layout.cuh"
#include "work.cuh"

// A number whose operators round: every operation is rounded by itself.
template <class T> struct Real {
    T value;
};
template <class T> DEVICE Real<T> operator+(Real<T> a, Real<T> b) {
    return Real<T>{add(a.value, b.value)};
}
template <class T> DEVICE Real<T> operator-(Real<T> a, Real<T> b) {
    return Real<T>{sub(a.value, b.value)};
}
template <class T> DEVICE Real<T> operator*(Real<T> a, Real<T> b) {
    return Real<T>{mul(a.value, b.value)};
}
template <class T> DEVICE Real<T> operator/(Real<T> a, Real<T> b) {
    return Real<T>{quotient(a.value, b.value)};
}
template <class T> DEVICE Real<T> operator-(Real<T> a) { return Real<T>{-a.value}; }
template <class T> DEVICE Real<T> root(Real<T> a) { return Real<T>{root(a.value)}; }
// The nearest number between -limit and limit. NaN stays NaN.
template <class T> DEVICE Real<T> limited(Real<T> number, Real<T> limit) {
    T below = limit.value < number.value ? limit.value : number.value;
    return Real<T>{-limit.value > below ? -limit.value : below};
}

#define MOST_SLOTS 3
#define SCALARS 10
// The place of the rate of a rule that measures, which its sums change.
#define RATE (SCALARS - 1)

// One replica's gradient, and the factor with which it enters the sum.
struct Contribution {
    const void *gradient;
    double factor;
};
static_assert(sizeof(Contribution) == 16, "as in Rust");

// A variable, and the inputs of its gradient.
struct Variable {
    // The weights. Kernels that only make gradients write them here instead.
    void *weights;
    void *slots[MOST_SLOTS];
    // The sum of earlier runs, where the sum starts; null if it starts from -0.
    const double *accumulated;
    // The numbers of the rows that the sum is over; null if it is over all rows.
    const u64 *rows;
    // The elements of a row, and the factor and shift for divisions by it.
    u64 width;
    u64 width_factor;
    u32 width_shift;
    // The index of its treatment.
    u32 treatment;
    // The elements of the sum.
    u64 elements;
    u64 first_contribution;
    u32 contributions;
    // The number of the contributions' dtype.
    u32 gradient_dtype;
    // The place for the results of measuring it: two sums, or the quotient of two norms, which is
    // negative if one of them is 0. May be null.
    double *result;
    // Becomes 1 if an element of the gradient is not finite.
    u32 *not_finite;
    // The index of the first of its tiles among those of all variables.
    u64 first_tile;
};
static_assert(sizeof(Variable) == 120, "as in Rust");

// What is done with some variables' gradients.
template <class T> struct Treatment {
    // The number by which the sum is divided, or with which it is multiplied.
    double scale;
    // The learning rate of a rule that measures, and the factor of the quotient of its norms.
    double rate;
    double coefficient;
    u32 divides;
    u32 has_l2;
    // The clipping: two factors, applied one after the other, and the largest magnitude.
    T first_factor;
    T second_factor;
    T limit;
    T l2;
    // The scalars of the update's step.
    T scalars[SCALARS];
};
static_assert(sizeof(Treatment<float>) == 88 && sizeof(Treatment<double>) == 144, "as in Rust");

// Adds N elements of each of R contributions, every `step`-th from `first` on, times its factor to the sums, in replica
// order. All are asked for before the first is used, which hides the time that memory takes.
template <class G, int N, int R>
DEVICE void add_contributions(GLOBAL const Contribution *contributions, u64 first, u64 step,
                              double (&sums)[N]) {
    typename G::Stored elements[R][N];
    UNROLL
    for (int replica = 0; replica < R; replica++) {
        GLOBAL const typename G::Stored *data =
            reading<typename G::Stored>(contributions[replica].gradient) + first;
        UNROLL
        for (int i = 0; i < N; i++) {
            elements[replica][i] = data[i * step];
        }
    }
    UNROLL
    for (int replica = 0; replica < R; replica++) {
        double factor = contributions[replica].factor;
        UNROLL
        for (int i = 0; i < N; i++) {
            sums[i] = add(sums[i], mul(factor, G::wide(elements[replica][i])));
        }
    }
}

enum { DTYPE_FLOAT16 = 1, DTYPE_BFLOAT16 = 2, DTYPE_FLOAT32 = 3, DTYPE_FLOAT64 = 4 };

// The types that the contributions to a variable of this type can have.
template <class T> struct Gradient;
template <> struct Gradient<float> {
    template <int N, int R>
    DEVICE void contributions(u32 dtype, GLOBAL const Contribution *of, u64 first, u64 step,
                              double (&sums)[N]) {
        // This branch is the same for all threads of a block.
        if (dtype == DTYPE_FLOAT32) {
            add_contributions<F32, N, R>(of, first, step, sums);
        } else if (dtype == DTYPE_BFLOAT16) {
            add_contributions<BF16, N, R>(of, first, step, sums);
        } else {
            add_contributions<F16, N, R>(of, first, step, sums);
        }
    }
};
template <> struct Gradient<double> {
    template <int N, int R>
    DEVICE void contributions(u32, GLOBAL const Contribution *of, u64 first, u64 step,
                              double (&sums)[N]) {
        add_contributions<F64, N, R>(of, first, step, sums);
    }
};

// What a block needs to make the gradient of its variable. A gradient of ROWS has no
// contributions: it is the sum at which it starts.
template <class T, bool ROWS = false> struct Source {
    GLOBAL const Variable *variable;
    GLOBAL const Contribution *contributions;
    GLOBAL const Treatment<T> *treatment;
    u32 count;

    DEVICE_MEMBER Source(const Variable *variables, const Contribution *all,
                         const Treatment<T> *treatments, u32 item) {
        variable = reading<Variable>(variables) + item;
        contributions = reading<Contribution>(all) + variable->first_contribution;
        treatment = reading<Treatment<T>>(treatments) + variable->treatment;
        count = variable->contributions;
    }

    // N elements of the gradient, every STEP-th from `first` on.
    template <int N, int STEP> DEVICE_MEMBER void make(u64 first, Real<T> (&gradient)[N]) const {
        make_every<N>(first, STEP, gradient);
    }

    // N elements of the gradient, every `step`-th from `first` on.
    template <int N>
    DEVICE_MEMBER void make_every(u64 first, u64 step, Real<T> (&gradient)[N]) const {
        double sums[N];
        sum<N>(first, step, sums);
        scale<N>(sums, gradient);
        Real<T> one = {treatment->first_factor}, two = {treatment->second_factor};
        Real<T> limit = {treatment->limit};
        UNROLL
        for (int i = 0; i < N; i++) {
            gradient[i] = limited(gradient[i] * one * two, limit);
        }
    }

    template <int N> DEVICE_MEMBER void sum(u64 first, u64 step, double (&sums)[N]) const {
        const double *accumulated = variable->accumulated;
        UNROLL
        for (int i = 0; i < N; i++) {
            // A number plus -0 is the number itself; -0 plus -0 is -0.
            sums[i] =
                ROWS || accumulated ? reading<double>(accumulated)[first + i * step] : -0.0;
        }
        u32 dtype = variable->gradient_dtype;
        u32 replica = 0;
        NO_UNROLL
        for (; !ROWS && replica + 2 <= count; replica += 2) {
            Gradient<T>::template contributions<N, 2>(dtype, contributions + replica, first,
                                                        step, sums);
        }
        NO_UNROLL
        for (; !ROWS && replica + 1 <= count; replica += 1) {
            Gradient<T>::template contributions<N, 1>(dtype, contributions + replica, first,
                                                        step, sums);
        }
    }

    template <int N> DEVICE_MEMBER void scale(double (&sums)[N], Real<T> (&gradient)[N]) const {
        double scale = treatment->scale;
        if (treatment->divides) {
            UNROLL
            for (int i = 0; i < N; i++) {
                sums[i] = quotient(sums[i], scale);
            }
        } else {
            UNROLL
            for (int i = 0; i < N; i++) {
                sums[i] = mul(sums[i], scale);
            }
        }
        UNROLL
        for (int i = 0; i < N; i++) {
            gradient[i].value = (T)sums[i];
        }
    }
};
