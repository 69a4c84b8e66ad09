// Whether a step means the same on one replica and on all.
#ifndef UMBO_CPP_EQUIVALENCE_HPP
#define UMBO_CPP_EQUIVALENCE_HPP

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/cpp/optimizer.hpp>
#include <umbo/cpp/replica_context.hpp>

UMBO_DETAIL_BEGIN

struct equivalence_options {
    umbo::gradients gradients = {}; // what the step submits; none: only metrics are compared
    double relative_tolerance = UMBO_AUTO;
    double absolute_tolerance = 0;
};

namespace detail {

inline umbo_equivalence_options raw_options(const equivalence_options &how) noexcept {
    auto raw = umbo_equivalence_options_default();
    raw.relative_tolerance = how.relative_tolerance;
    raw.absolute_tolerance = how.absolute_tolerance;
    return raw;
}

} // namespace detail

// One thing that was found; see umbo_equivalence_finding.
struct equivalence_finding {
    equivalence_subject subject{};
    equivalence_verdict verdict{};
    std::int64_t variable = -1; // its place among the gradients
    std::int64_t element = -1;
    double factor = 0;
    double difference = 0;
    std::string name; // of the variable or metric
    std::string text;
};

// What `strategy::check_equivalence` has found.
class equivalence : public handle<umbo_equivalence> {
public:
    using handle::handle;

    // Whether an update and the metrics are the same on one replica and on all.
    returned<bool> holds() const {
        std::int32_t out = 0;
        UMBO_DETAIL_TRY(umbo_equivalence_holds(get(), &out));
        return out != 0;
    }

    // All that was found, for people.
    returned<std::string> text() const {
        const char *out = nullptr;
        UMBO_DETAIL_TRY(umbo_equivalence_text(get(), &out));
        return out;
    }

    returned<std::int64_t> count() const {
        std::int64_t out = 0;
        UMBO_DETAIL_TRY(umbo_equivalence_count(get(), &out));
        return out;
    }

    returned<equivalence_finding> at(std::int64_t index) const {
        auto raw = detail::sized<umbo_equivalence_finding>();
        UMBO_DETAIL_TRY(umbo_equivalence_at(get(), index, &raw));
        equivalence_finding out;
        out.subject = equivalence_subject{raw.subject};
        out.verdict = equivalence_verdict{raw.verdict};
        out.variable = raw.variable;
        out.element = raw.element;
        out.factor = raw.factor;
        out.difference = raw.difference;
        if (raw.name != nullptr) out.name = raw.name;
        out.text = raw.text;
        return out;
    }
};

template <class Fn>
returned<equivalence> strategy::check_equivalence(Fn &&fn, const value &batch,
                                                  const equivalence_options &how) const {
    using callable = detail::callable_object<Fn>;
    const auto options = detail::raw_options(how);
    umbo_equivalence *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_check_equivalence(
        get(), &detail::replica_trampoline<callable>, detail::lent_callable(fn).user_data(),
        batch.get(), how.gradients.get(), &options, &out));
    return equivalence(out);
}

template <class Fn>
returned<equivalence> strategy::check_equivalence(Fn &&fn, const value &batch) const {
    return check_equivalence(std::forward<Fn>(fn), batch, equivalence_options());
}

UMBO_DETAIL_END

#endif
