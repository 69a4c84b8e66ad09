// Arrays in and out: every function that reads or fills an array takes each kind of array, and none takes elements that
// are not contiguous.
#include <umbo/tensorflow.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#if __cplusplus >= 202002L
#include <span>
#endif

#include "../c/check.h"

namespace {

// Calls a function with four numbers, 1 to 4, in each kind of array.
template <class Number, class Use>
void each_input(Use use) {
    const std::vector<Number> vector{Number(1), Number(2), Number(3), Number(4)};
    const std::array<Number, 4> array{Number(1), Number(2), Number(3), Number(4)};
    const Number plain[] = {Number(1), Number(2), Number(3), Number(4)};
    Number open[] = {Number(1), Number(2), Number(3), Number(4)};
    use(vector);
    use(std::vector<Number>(vector));
    use(array);
    use(plain);
    use(open);
    use(umbo::span<const Number>(vector));
    use(umbo::view_of<const Number>(umbo::view_of_memory(vector)));
#if __cplusplus >= 202002L
    use(std::span<const Number>(vector));
    use(std::span<Number, 4>(open));
#endif
}

// Has a function fill each kind of array, of as many elements, and looks at them.
template <class Number, class Use>
void each_output(Use use, const std::vector<Number> &expected) {
    std::vector<Number> vector(expected.size());
    use(vector);
    CHECK(vector == expected);
    vector.assign(expected.size(), Number());
    use(umbo::span<Number>(vector));
    CHECK(vector == expected);
    vector.assign(expected.size(), Number());
    use(umbo::view_of<Number>(umbo::view_of_memory(vector)));
    CHECK(vector == expected);
#if __cplusplus >= 202002L
    vector.assign(expected.size(), Number());
    use(std::span<Number>(vector));
    CHECK(vector == expected);
#endif
    std::array<Number, 4> array{};
    use(array);
    CHECK(std::vector<Number>(array.begin(), array.end()) == expected);
    Number plain[4] = {};
    use(plain);
    CHECK(std::vector<Number>(plain, plain + 4) == expected);
}

const std::vector<float> one_to_four{1, 2, 3, 4};

void inputs(const umbo::strategy &strategy) {
    const auto zeros = umbo::tensor::create_zeros(umbo::dtype::float32, {2, 2});
    const auto variable = strategy.create_variable("v", zeros);
    each_input<float>([&](const auto &numbers) {
        variable.assign(zeros);
        variable.upload(numbers);
        CHECK(variable.read().template to_vector<float>() == one_to_four);
        variable.assign(zeros);
        umbo::variable::upload_flat({variable}, numbers);
        CHECK(variable.read().template to_vector<float>() == one_to_four);
        auto own = umbo::tensor::create_zeros(umbo::dtype::float32, {2, 2});
        own.upload(numbers);
        CHECK(own.template to_vector<float>() == one_to_four);
        CHECK(umbo::tensor::from_vector(numbers).template to_vector<float>() == one_to_four);
        CHECK(umbo::tensor::from_data({2, 2}, numbers).template to_vector<float>() == one_to_four);
        CHECK(umbo::value::from_data({2, 2}, numbers).tensor().template to_vector<float>() == one_to_four);
        CHECK(umbo::dtype_convert_to_float(umbo::dtype::float16,
                                           umbo::dtype_convert_from_float(umbo::dtype::float16, numbers)) == one_to_four);
        const auto flat = umbo::view_of_memory(numbers);
        CHECK(flat.ndim == 1 && flat.shape[0] == 4);
        const auto square = umbo::view_of_memory({2, 2}, numbers);
        CHECK(square.ndim == 2 && umbo::view_of<const float>(square)(1, 0) == 3);
        const auto rows = umbo::dataset::from_arrays({square, umbo::view_of<const float>(square)}, {"a", "b"});
        CHECK(rows.cardinality() == 2);
    });
    variable.upload({4.0f, 3.0f, 2.0f, 1.0f});
    CHECK(umbo::tensor::from_vector({4.0f, 3.0f, 2.0f, 1.0f}).to_vector<float>() ==
          variable.read().to_vector<float>());
    each_input<std::int64_t>([&](const auto &shape) {
        CHECK(umbo::tensor::create_zeros(umbo::dtype::uint8, shape).template to_vector<std::uint8_t>().size() == 24);
        CHECK(umbo::element_spec::create_tensor(umbo::dtype::uint8, shape).shape().size() == 4);
        CHECK(umbo::dataset::from_range(0, 10).batch(10).rebatch(shape).cardinality() != 0);
    });
    each_input<std::int64_t>([&](const auto &kept) {
        const auto table = strategy.create_variable("t", umbo::tensor::from_vector({9.0f, 1.0f, 2.0f, 3.0f, 4.0f}));
        const auto changed = umbo::optimizer::sgd(strategy).change_rows(table, kept);
        CHECK(changed.read().template to_vector<float>() == one_to_four);
    });
    each_input<double>([](const auto &seconds) {
        CHECK(umbo::replica_choice_count(8, seconds).count == 8 && !umbo::replica_choice_count(8, seconds).is_chosen);
        CHECK(umbo::replica_choice_text(8, seconds) == "8 replicas: nothing was measured");
    });
    CHECK(umbo::replica_choice_count(1, {}).is_chosen);
    // The memory of the program's, in place.
    auto memory = std::make_shared<std::vector<float>>(one_to_four);
    auto in_place = umbo::tensor::from_memory({2, 2}, *memory, memory);
    in_place.view_as<float>()(1, 1) = 5;
    CHECK((*memory)[3] == 5);
    CHECK(umbo::view_of_memory(*memory).mutable_data == memory->data());
    CHECK(umbo::view_of_memory(one_to_four).mutable_data == nullptr);
}

void outputs(const umbo::strategy &strategy) {
    const auto variable = strategy.create_variable("v", umbo::tensor::from_vector(one_to_four));
    const auto tensor = variable.read();
    each_output<float>([&](auto &&to) { variable.download(to); }, one_to_four);
    each_output<float>([&](auto &&to) { tensor.download(to); }, one_to_four);
    each_output<float>([&](auto &&to) { umbo::variable::download_flat({variable}, to); }, one_to_four);
    each_output<std::uint16_t>(
        [&](auto &&to) { umbo::dtype_convert_from_float(umbo::dtype::float16, one_to_four, to); },
        umbo::dtype_convert_from_float(umbo::dtype::float16, one_to_four));
    const auto halves = umbo::dtype_convert_from_float(umbo::dtype::float16, one_to_four);
    each_output<float>([&](auto &&to) { umbo::dtype_convert_to_float(umbo::dtype::float16, halves, to); }, one_to_four);
    umbo::random_key key;
    key.seed = 3;
    std::vector<float> drawn(4);
    key.uniform(drawn, 2);
    each_output<float>([&](auto &&to) { key.uniform(to, 2); }, drawn);
    key.normal(drawn, 2);
    each_output<float>([&](auto &&to) { key.normal(to, 2); }, drawn);
    key.bernoulli(0.5, 2, drawn, 2);
    each_output<float>([&](auto &&to) { key.bernoulli(0.5, 2, to, 2); }, drawn);
    std::vector<std::int64_t> integers(4);
    key.integers(100, integers, 2);
    each_output<std::int64_t>([&](auto &&to) { key.integers(100, to, 2); }, integers);
}

// Objects in braces, in a vector, in an array.
void lists(const umbo::strategy &strategy) {
    const auto w = strategy.create_variable("w", umbo::tensor::scalar(1.0f));
    const auto b = strategy.create_variable("b", umbo::tensor::scalar(2.0f));
    const std::vector<umbo::variable> vector{w, b};
    const std::array<umbo::variable, 2> array{w, b};
    const umbo::variable plain[] = {w, b};
    const auto sums = umbo::loss_reduction::sum;
    CHECK(umbo::gradients::create(strategy, {w, b}, sums).info().variable_count == 2);
    CHECK(umbo::gradients::create(strategy, vector, sums).info().variable_count == 2);
    CHECK(umbo::gradients::create(strategy, array, sums).info().variable_count == 2);
    const auto gradients = umbo::gradients::create(strategy, plain, sums);
    CHECK(gradients.info().variable_count == 2);
    CHECK(umbo::variable::views({w, b}).size() == 2 && umbo::variable::views(plain).size() == 2);
    const umbo::value values[] = {w, b};
    CHECK(umbo::value::create_tuple(values).item_count() == 2);
    const std::array<umbo::dataset, 2> datasets{umbo::dataset::from_range(0, 3), umbo::dataset::from_range(0, 3)};
    const std::array<std::string, 2> names{"x", "y"};
    CHECK(umbo::dataset::concatenate(datasets).cardinality() == 6 && umbo::dataset::zip(datasets, names).cardinality() == 3);
    strategy.run([&](umbo::replica_context &context, const umbo::value &) {
        umbo_view plain_views[2];
        std::array<umbo_view, 2> array_views;
        std::vector<umbo_view> vector_views(2);
        context.views(array, plain_views);
        context.views({w, b}, array_views);
        context.views(gradients, vector_views, umbo::gradient_mode::add);
        CHECK(umbo::view_of<const float>(plain_views[1])() == 2 && umbo::view_of<const float>(array_views[0])() == 1);
        umbo::view_of<float>{vector_views[0]}() = 1;
        auto scratch = context.scratch<float>(3);
        CHECK(scratch.size() == 3 && !scratch.empty());
        for (float &each : scratch) each = 1;
        CHECK(scratch[2] == 1);
#if __cplusplus >= 202002L
        const std::span<float> standard = context.scratch<float>(3);
        CHECK(standard.size() == 3);
#endif
        context.submit(gradients, 1);
    });
}

template <class Use>
void refused(umbo::status status, const char *words, Use use) {
    try {
        use();
        CHECK(false);
    } catch (const umbo::error &error) {
        CHECK(error.status() == status);
        CHECK(std::string(error.what()).find(words) != std::string::npos);
    }
}

void refusals(const umbo::strategy &strategy) {
    // Every second number, of which `data()` and `size()` tell nothing.
    const auto numbers = umbo::tensor::from_vector(std::vector<float>{1, 2, 3, 4, 5, 6});
    auto half = numbers.slice(0, 0, 6, 2);
    const auto strided = half.view_as<float>();
    const auto variable = strategy.create_variable("v", umbo::tensor::create_zeros(umbo::dtype::float32, {3}));
    const umbo::random_key key;
    const auto mistake = [&](auto use) { refused(umbo::status::failed_precondition, "not contiguous", use); };
    mistake([&] { variable.upload(strided); });
    mistake([&] { variable.download(strided); });
    mistake([&] { numbers.download(strided); });
    auto own = umbo::tensor::create_zeros(umbo::dtype::float32, {3});
    mistake([&] { own.upload(strided); });
    mistake([&] { umbo::variable::upload_flat({variable}, strided); });
    mistake([&] { umbo::variable::download_flat({variable}, strided); });
    mistake([&] { umbo::tensor::from_vector(strided); });
    mistake([&] { umbo::value::from_data({3}, strided); });
    mistake([&] { umbo::view_of_memory(strided); });
    mistake([&] { umbo::view_of_memory({3}, strided); });
    mistake([&] { key.uniform(strided, 1); });
    mistake([&] { umbo::dtype_convert_from_float(umbo::dtype::float16, strided); });
    // Other numbers of elements than a shape has, or than there are.
    const std::vector<float> three(3);
    std::vector<float> out(3);
    const auto wrong = [&](const char *words, auto use) { refused(umbo::status::invalid_argument, words, use); };
    wrong("data: 3 elements, and the shape has 4", [&] { umbo::tensor::from_data({2, 2}, three); });
    wrong("data: 3 elements, and the shape has 2", [&] { umbo::value::from_data({2}, three); });
    wrong("data: 3 elements", [&] { umbo::view_of_memory({-1}, three); });
    wrong("data: 3 elements", [&] { umbo::tensor::from_memory({4}, out, {}); });
    wrong("as many", [&] { umbo::dtype_convert_to_float(umbo::dtype::float16, std::vector<std::uint16_t>(2), out); });
    wrong("bytes", [&] { numbers.download(out); });
    wrong("bytes", [&] { variable.upload({1.0f, 2.0f}); });
}

void bytes(const umbo::strategy &strategy) {
    const auto variable = strategy.create_variable("v", umbo::tensor::from_vector(one_to_four));
    const auto checkpoint = umbo::checkpoint::create(strategy);
    checkpoint.add(variable);
    const auto saved = checkpoint.save_to_memory();
    const std::string text(saved.begin(), saved.end());
    const auto again = [&](const auto &from) {
        variable.assign(umbo::tensor::create_zeros(umbo::dtype::float32, {4}));
        checkpoint.restore_from_memory(from);
        CHECK(variable.read().template to_vector<float>() == one_to_four);
        CHECK(checkpoint.load_weights_from_memory(from).loaded.size() == 1);
    };
    again(saved);
    again(text);
    again(umbo::span<const std::uint8_t>(saved));
}

} // namespace

int main() {
    {
        const auto strategy = umbo::strategy::create_cpu(2);
        inputs(strategy);
        outputs(strategy);
        lists(strategy);
        refusals(strategy);
        bytes(strategy);
    }
    umbo::clear_last_error();
    return finish();
}
