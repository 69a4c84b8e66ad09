// Enums: types of their own, which no number becomes by itself.
#include <umbo/umbo.hpp>

#include <type_traits>

#include "../c/check.h"

namespace {

static_assert(umbo::dtype{UMBO_DTYPE_BOOL} == umbo::dtype::boolean);
static_assert(!std::is_convertible_v<umbo_dtype, umbo::dtype>);
static_assert(!std::is_convertible_v<umbo::dtype, umbo_dtype>);
static_assert(!std::is_convertible_v<int, umbo::dtype>);

void use() {
    const auto zeros = umbo::tensor::create_zeros(umbo::dtype::int16, {2});
    CHECK(zeros.view().dtype == UMBO_DTYPE_INT16);
    CHECK(umbo::value(zeros).kind() == umbo::value_kind::tensor);
    CHECK(umbo::device_get_info("CPU:3").device.type == umbo::device_type::cpu);
    try {
        umbo::tensor::create_zeros(umbo::dtype{UMBO_DTYPE_NONE}, {2});
        CHECK(!"refused");
    } catch (const umbo::error &error) {
        CHECK(error.status() == umbo::status::invalid_argument);
    }
}

} // namespace

int main() {
    use();
    return finish();
}
