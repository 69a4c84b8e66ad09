// Typed views: what needs contiguous elements refuses strided ones.
#include <umbo/umbo.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../c/check.h"

namespace {

template <class Body>
std::string refused(umbo::status status, Body body) {
    try {
        body();
    } catch (const umbo::error &error) {
        CHECK(error.status() == status);
        return error.what();
    }
    CHECK(!"refused");
    return {};
}

void contiguity() {
    auto table = umbo::tensor::from_data<std::int32_t>({2, 3}, std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}.data());
    const auto whole = table.view_as<std::int32_t>();
    CHECK(whole[5] == 6 && whole.end() - whole.begin() == 6);
    auto turned = table.transpose();
    const auto strided = turned.view_as<std::int32_t>();
    CHECK(strided(2, 1) == 6 && strided.data() == whole.data());
    for (const auto use : {+[](const umbo::view_of<std::int32_t> &view) { static_cast<void>(view[0]); },
                           +[](const umbo::view_of<std::int32_t> &view) { static_cast<void>(view.begin()); },
                           +[](const umbo::view_of<std::int32_t> &view) { static_cast<void>(view.end()); }}) {
        const auto message = refused(umbo::status::failed_precondition, [&] { use(strided); });
        CHECK(message.find("copy the tensor") != std::string::npos);
    }
    std::int32_t sum = 0;
    auto copied = turned.copy();
    for (const std::int32_t each : copied.view_as<std::int32_t>()) sum += each;
    CHECK(sum == 21);
}

template <class View>
constexpr bool is_to_read = std::is_const_v<std::remove_reference_t<decltype(std::declval<View>()[0])>>;

static_assert(!is_to_read<decltype(std::declval<umbo::tensor &>().view_as<float>())>);
static_assert(is_to_read<decltype(std::declval<const umbo::tensor &>().view_as<float>())>);
static_assert(is_to_read<decltype(std::declval<umbo::value &>().view_as<float>())>);
static_assert(is_to_read<decltype(std::declval<umbo::variable &>().view_as<float>())>);

void constness() {
    auto number = umbo::tensor::scalar(1.0f);
    const auto same = number;
    number.view_as<float>()() = 2;
    CHECK(same.view_as<float>()() == 2);
    CHECK(number.view().mutable_data == same.view().data);
    CHECK(same.view().mutable_data == nullptr && (same.view().flags & UMBO_VIEW_READ_ONLY) != 0);
    CHECK(umbo::value(number).view().mutable_data == nullptr);
    refused(umbo::status::failed_precondition, [&] { umbo::view_of<float>(same.view()); });
}

#if defined(__cpp_lib_span)
std::int32_t first_of(std::span<const std::int32_t> elements) { return elements.front(); }

void spans() {
    auto table = umbo::tensor::from_vector(std::vector<std::int32_t>{1, 2, 3});
    const auto view = table.view_as<std::int32_t>();
    view.span()[0] = 7;
    const std::span<std::int32_t> converted = view;
    CHECK(converted.size() == 3 && converted.data() == view.data());
    CHECK(first_of(view) == 7 && first_of(table.view_as<const std::int32_t>()) == 7);
    auto strided = table.slice(0, 0, 3, 2);
    refused(umbo::status::failed_precondition, [&] { strided.view_as<std::int32_t>().span(); });
    refused(umbo::status::failed_precondition, [&] { first_of(strided.view_as<std::int32_t>()); });
}
#endif

#if defined(__cpp_lib_mdspan)
void mdspans() {
    auto table = umbo::tensor::from_data<std::int32_t>({2, 3}, std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}.data());
    auto turned = table.transpose();
    const auto matrix = turned.view_as<std::int32_t>().mdspan<2>();
    CHECK(matrix.extent(0) == 3 && matrix.extent(1) == 2);
    CHECK((matrix[std::array<int, 2>{2, 1}] == 6));
    CHECK((matrix[std::array<int, 2>{1, 0}] == 2));
    refused(umbo::status::invalid_argument, [&] { table.view_as<std::int32_t>().mdspan<1>(); });
    auto backwards = table.view();
    backwards.strides[0] = 0;
    refused(umbo::status::failed_precondition,
            [&] { umbo::view_of<std::int32_t>(backwards).mdspan<2>(); });
}
#endif

// Elements that come from host memory, in three ways.
void uploaded() {
    auto table = umbo::tensor::from_vector(std::vector<float>(4));
    table.upload({1.0f, 2.0f, 3.0f, 4.0f});
    CHECK((table.to_vector<float>() == std::vector<float>{1, 2, 3, 4}));
    table.upload(std::vector<float>{5, 6, 7, 8});
    const float numbers[] = {9, 9, 9, 9};
    CHECK((table.to_vector<float>() == std::vector<float>{5, 6, 7, 8}));
    table.upload(numbers, 4);
    CHECK((table.to_vector<float>() == std::vector<float>{9, 9, 9, 9}));
    refused(umbo::status::invalid_argument, [&] { table.upload(std::vector<double>(4)); });
}

} // namespace

int main() {
    uploaded();
    contiguity();
    constness();
#if defined(__cpp_lib_span)
    spans();
#endif
#if defined(__cpp_lib_mdspan)
    mdspans();
#endif
    return finish();
}
