// Functions of datasets.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "../../c/check.h"
#include "world.hpp"

namespace callables {

struct map {
    using signature = value(const value &);
    static value call(const value &element) noexcept { return element; }
    static constexpr const char *name = "dataset::map";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &, Fn &&fn) { umbo::dataset::from_range(0, 2).map(std::forward<Fn>(fn)).iterate().next(); }
};

struct filter {
    using signature = bool(const value &);
    static bool call(const value &) noexcept { return true; }
    static constexpr const char *name = "dataset::filter";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &, Fn &&fn) { umbo::dataset::from_range(0, 2).filter(std::forward<Fn>(fn)).iterate().next(); }
};

inline umbo::element_spec number_spec() { return umbo::element_spec::create_tensor(umbo::dtype::float32, {}); }

// A pass of a generator may be one that can only be moved, too.
struct only_movable_pass {
    std::unique_ptr<int> left = std::make_unique<int>(1);
    std::optional<value> operator()() {
        if ((*left)-- == 0) return std::nullopt;
        return value(umbo::tensor::scalar(1.0f));
    }
};

struct generator_begin {
    using signature = only_movable_pass();
    static only_movable_pass call() { return {}; }
    static constexpr const char *name = "dataset::from_generator";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &, Fn &&fn) {
        const auto elements = umbo::dataset::from_generator(number_spec(), std::forward<Fn>(fn)).iterate();
        CHECK(elements.next() && !elements.next());
    }
};

template <class Fn>
void open_files(Fn &&fn) {
    umbo::files_options how;
    how.element_spec = umbo::element_spec::create_tensor(umbo::dtype::int64, {});
    umbo::dataset::from_files({"one"}, std::forward<Fn>(fn), how).iterate().next();
}

struct open_file {
    using signature = umbo::dataset(const std::string &);
    static umbo::dataset call(const std::string &) { return umbo::dataset::from_range(0, 2); }
    static constexpr const char *name = "dataset::from_files";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &, Fn &&fn) { open_files(std::forward<Fn>(fn)); }
};

struct open_numbered_file {
    using signature = umbo::dataset(const std::string &, std::int64_t);
    static umbo::dataset call(const std::string &, std::int64_t) { return umbo::dataset::from_range(0, 2); }
    static constexpr const char *name = "dataset::from_files, with the place in the list";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &, Fn &&fn) { open_files(std::forward<Fn>(fn)); }
};

struct from_function {
    using signature = umbo::dataset(const umbo::input_context &);
    static umbo::dataset call(const umbo::input_context &) { return umbo::dataset::from_range(0, 2); }
    static constexpr const char *name = "strategy::distribute_datasets_from_function";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) { on.strategy.distribute_datasets_from_function(std::forward<Fn>(fn)); }
};

} // namespace callables
