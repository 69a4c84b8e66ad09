// Comparisons in the tests of engines: of errors by status and words, of weights by their largest difference.
#ifndef TESTS_ENGINES_COMPARED_HPP
#define TESTS_ENGINES_COMPARED_HPP

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <umbo/umbo.hpp>

#include "../c/check.h"

// What an action throws, as a status and its message.
template <class Action>
std::pair<umbo::status, std::string> refusal_of(Action action) {
    try {
        action();
    } catch (const umbo::error &error) {
        return {error.status(), error.what()};
    }
    return {umbo::status::ok, ""};
}

inline bool is_refused(const std::pair<umbo::status, std::string> &found, umbo::status with, const char *naming) {
    const bool right = found.first == with && found.second.find(naming) != std::string::npos;
    if (!right) std::fprintf(stderr, "expected '%s' and found: %s\n", naming, found.second.c_str());
    return right;
}

// The largest difference of two lists of weights.
inline float furthest(const std::vector<float> &a, const std::vector<float> &b) {
    CHECK(a.size() == b.size() && !a.empty());
    float found = 0;
    for (std::size_t at = 0; at < a.size(); ++at) found = std::fmax(found, std::fabs(a[at] - b[at]));
    return found;
}

#endif
