// Each function with each kind of callable.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include "../../c/check.h"
#include "world.hpp"

namespace callables {

// Passes each kind of callable to one function of the table, which must call it.
template <class Function, class Signature = typename Function::signature>
struct crossing;

template <class Function, class Result, class... Arguments>
struct crossing<Function, Result(Arguments...)> {
    static Result counted(Arguments... arguments) noexcept {
        ++calls;
        return Function::call(std::forward<Arguments>(arguments)...);
    }

    template <class Fn>
    static void pass(const char *kind, Fn &&fn) {
        const int before = calls;
        Function::use(*on, std::forward<Fn>(fn));
        if (calls > before) return;
        std::fprintf(stderr, "%s has not called %s\n", Function::name, kind);
        std::exit(1);
    }

    static auto only_movable() {
        return [own = std::make_unique<int>(7)](Arguments... arguments) noexcept -> Result {
            CHECK(*own == 7);
            return counted(std::forward<Arguments>(arguments)...);
        };
    }

    static void all(const world &given) {
        on = &given;
        const auto plain = [](Arguments... arguments) noexcept -> Result {
            return counted(std::forward<Arguments>(arguments)...);
        };
        pass("a function", counted);
        pass("a pointer to a function", &counted);
        pass("a lambda that is const", plain);
        pass("a temporary lambda", [plain](Arguments... arguments) noexcept -> Result {
            return plain(std::forward<Arguments>(arguments)...);
        });
        pass("a temporary that can only be moved", only_movable());
        auto named = only_movable();
        pass("one that was moved", std::move(named));
        auto owned = only_movable();
        if constexpr (Function::kinds != takes::rules) {
            pass("one that changes", [count = 0](Arguments... arguments) mutable noexcept -> Result {
                static_cast<void>(count);
                return counted(std::forward<Arguments>(arguments)...);
            });
            pass("a std::function", std::function<Result(Arguments...)>(plain));
            pass("a reference to one that can only be moved", std::ref(owned));
        }
        if constexpr (Function::kinds == takes::all_kinds) pass("one that can only be moved, where it is", owned);
    }

    static const world *on;
};

template <class Function, class Result, class... Arguments>
const world *crossing<Function, Result(Arguments...)>::on = nullptr;

template <class... Functions>
void cross(const world &on) {
    (crossing<Functions>::all(on), ...);
}

} // namespace callables
