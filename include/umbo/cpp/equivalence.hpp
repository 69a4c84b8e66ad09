// Whether a step means the same on one replica and on all.
#ifndef UMBO_CPP_EQUIVALENCE_HPP
#define UMBO_CPP_EQUIVALENCE_HPP

#include <cstdint>

#include <umbo/cpp/options.hpp>
#include <umbo/cpp/replica_context.hpp>

UMBO_DETAIL_BEGIN

// What `strategy::check_equivalence` has found.
class equivalence : public handle<umbo_equivalence> {
public:
    using handle::handle;

    // Whether the step does the same on one replica as on all, and all that was found as text.
    returned<equivalence_info> info() const {
        umbo_equivalence_info out = UMBO_EQUIVALENCE_INFO_INIT;
        UMBO_DETAIL_TRY(umbo_equivalence_get_info(get(), &out));
        return detail::from_c(out);
    }

    returned<equivalence_finding> at(std::int64_t index) const {
        umbo_equivalence_finding out = UMBO_EQUIVALENCE_FINDING_INIT;
        UMBO_DETAIL_TRY(umbo_equivalence_at(get(), index, &out));
        return detail::from_c(out);
    }
};

template <class Fn>
returned<equivalence> strategy::check_equivalence(Fn &&fn, const value &batch,
                                                  const handle<umbo_gradients> &written,
                                                  const equivalence_options &how) const {
    using callable = detail::callable_object<Fn>;
    const auto options = detail::raw_options(how);
    umbo_equivalence *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_check_equivalence(
        get(), written.get(), &detail::replica_trampoline<callable>,
        batch.get(), detail::lent_callable(fn).user_data(), &options, &out));
    return equivalence(out);
}

UMBO_DETAIL_END

#endif
