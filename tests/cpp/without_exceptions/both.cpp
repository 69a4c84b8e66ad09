// Another part of the program, compiled with exceptions: the two do not disturb each other.
#include <umbo/umbo.hpp>

#include <vector>

#include "both.hpp"

float sum_with_exceptions() {
    const auto numbers = umbo::tensor::from_vector(std::vector<float>{1, 2});
    try {
        numbers.reshape({3});
        return 0;
    } catch (const umbo::error &) {
        float sum = 0;
        for (const float each : numbers.view_as<float>()) sum += each;
        return sum;
    }
}
