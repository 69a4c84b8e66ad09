// The update rules, for one element. The formulas and the order of the scalars are those
// of ../../update/rules.rs; the scalars are rounded to the variable's type. A rule that
// MEASURES has the scalar RATE, which its sums change. A rule that HAS_ROWS can update some
// rows of a table only.
#pragma once
#include "gradient.cuh"

// The largest finite number.
DEVICE Real<float> largest(Real<float>) { return Real<float>{0x1.fffffep+127f}; }
DEVICE Real<double> largest(Real<double>) { return Real<double>{0x1.fffffffffffffp+1023}; }
// 1 or -1. 0 and NaN stay what they are.
template <class T> DEVICE Real<T> sign(Real<T> number) {
    return number.value > 0 ? Real<T>{1} : number.value < 0 ? Real<T>{-1} : number;
}
// The nearest finite number. NaN stays NaN.
template <class T> DEVICE Real<T> finite(Real<T> number) { return limited(number, largest(number)); }
// The nearest number with a finite square. NaN stays NaN.
template <class T> DEVICE Real<T> with_finite_square(Real<T> number) {
    return limited(number, root(largest(number)));
}

struct Sgd {
    enum { SLOTS = 0, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *, Real<T> gradient) {
        return weight - s[0] * gradient;
    }
};

struct Momentum {
    enum { SLOTS = 1, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        slots[0] = s[1] * slots[0] + s[2] * gradient;
        return weight - s[0] * slots[0];
    }
};

struct Nesterov {
    enum { SLOTS = 1, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        slots[0] = s[1] * slots[0] + gradient;
        return weight - s[0] * (gradient + s[1] * slots[0]);
    }
};

struct Adam {
    enum { SLOTS = 2, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> direction(const Real<T> (&s)[SCALARS], Real<T> *slots, Real<T> gradient) {
        slots[0] = s[0] * slots[0] + s[2] * gradient;
        slots[1] = s[1] * slots[1] + s[3] * (gradient * gradient);
        return slots[0] / (root(slots[1]) * s[5] + s[6]);
    }
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        return weight - s[4] * direction(s, slots, gradient);
    }
};

struct AdamW {
    enum { SLOTS = 2, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        return Adam::apply(s, s[7] * weight, slots, gradient);
    }
};

struct AmsGrad {
    enum { SLOTS = 3, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        slots[0] = s[0] * slots[0] + s[2] * gradient;
        slots[1] = s[1] * slots[1] + s[3] * (gradient * gradient);
        // A NaN stays in the second moment, and so is returned in every later update, too.
        slots[2].value = slots[1].value <= slots[2].value ? slots[2].value : slots[1].value;
        return weight - s[4] * (slots[0] / (root(slots[2]) * s[5] + s[6]));
    }
};

struct AmsGradW {
    enum { SLOTS = 3, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        return AmsGrad::apply(s, s[7] * weight, slots, gradient);
    }
};

struct NAdam {
    enum { SLOTS = 2, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        slots[0] = s[0] * slots[0] + s[2] * gradient;
        slots[1] = s[1] * slots[1] + s[3] * (gradient * gradient);
        return s[8] * weight -
               (s[4] * slots[0] + s[5] * gradient) / (root(slots[1]) * s[6] + s[7]);
    }
};

struct RAdam {
    enum { SLOTS = 2, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        slots[0] = s[0] * slots[0] + s[2] * gradient;
        slots[1] = s[1] * slots[1] + s[3] * (gradient * gradient);
        return s[7] * weight -
               (s[4] * (slots[0] / (root(slots[1]) + s[6])) + s[5] * slots[0]);
    }
};

struct Lion {
    enum { SLOTS = 1, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        Real<T> step = sign(s[0] * slots[0] + s[2] * gradient);
        slots[0] = s[1] * slots[0] + s[3] * gradient;
        return s[5] * weight - s[4] * step;
    }
};

struct Adagrad {
    enum { SLOTS = 1, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        slots[0] = slots[0] + gradient * gradient;
        return weight - s[0] * (gradient / (root(slots[0]) + s[1]));
    }
};

struct RmsProp {
    enum { SLOTS = 1, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> moment(const Real<T> (&s)[SCALARS], Real<T> moment, Real<T> value) {
        return s[0] * moment + s[1] * value;
    }
    template <class T>
    DEVICE Real<T> step(const Real<T> (&s)[SCALARS], Real<T> *slots, Real<T> gradient) {
        slots[0] = moment(s, slots[0], gradient * gradient);
        return gradient / (root(slots[0]) + s[3]);
    }
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        return weight - s[4] * step(s, slots, gradient);
    }
};

struct RmsPropMomentum {
    enum { SLOTS = 2, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        Real<T> step = RmsProp::step(s, slots, gradient);
        slots[1] = s[2] * slots[1] + step;
        return weight - s[4] * slots[1];
    }
};

struct RmsPropCentered {
    enum { SLOTS = 2, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> step(const Real<T> (&s)[SCALARS], Real<T> *slots, Real<T> gradient) {
        slots[0] = RmsProp::moment(s, slots[0], gradient * gradient);
        slots[1] = RmsProp::moment(s, slots[1], gradient);
        Real<T> variance = slots[0] - finite(slots[1] * slots[1]);
        // Rounding can make it negative.
        variance.value = variance.value < 0 ? 0 : variance.value;
        return gradient / (root(variance) + s[3]);
    }
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        return weight - s[4] * step(s, slots, gradient);
    }
};

struct RmsPropCenteredMomentum {
    enum { SLOTS = 3, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        Real<T> step = RmsPropCentered::step(s, slots, gradient);
        slots[2] = s[2] * slots[2] + step;
        return weight - s[4] * slots[2];
    }
};

struct Lamb {
    enum { SLOTS = 2, MEASURES = 1, HAS_ROWS = 0 };
    template <class T>
    DEVICE Real<T> direction(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                             Real<T> gradient) {
        return s[7] * Adam::direction(s, slots, gradient) + s[8] * weight;
    }
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        return weight - s[RATE] * direction(s, weight, slots, gradient);
    }
};

struct Lars {
    enum { SLOTS = 1, MEASURES = 1, HAS_ROWS = 0 };
    template <class T>
    DEVICE Real<T> direction(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *,
                             Real<T> gradient) {
        return gradient + s[1] * weight;
    }
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        slots[0] = s[0] * slots[0] + s[RATE] * direction(s, weight, slots, gradient);
        return weight - slots[0];
    }
};

struct Ftrl {
    enum { SLOTS = 2, MEASURES = 0, HAS_ROWS = 1 };
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&s)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        Real<T> before = slots[1];
        gradient = with_finite_square(gradient);
        slots[1] = finite(before + gradient * gradient);
        Real<T> new_root = root(slots[1]);
        slots[0] = slots[0] + gradient - (new_root - root(before)) * s[0] * weight;
        Real<T> excess = slots[0] - limited(slots[0], s[2]);
        return -(excess / ((s[1] + new_root) * s[0] + s[3]));
    }
};

// This rule updates nothing: it writes the gradient, as a rule would get it, into the state.
struct Treated {
    enum { SLOTS = 1, MEASURES = 0, HAS_ROWS = 0 };
    template <class T>
    DEVICE Real<T> apply(const Real<T> (&)[SCALARS], Real<T> weight, Real<T> *slots,
                         Real<T> gradient) {
        slots[0] = gradient;
        return weight;
    }
};
