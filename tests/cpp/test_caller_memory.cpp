// Values, variables and views through memory of the caller.
#include <umbo/dlpack.h>
#include <umbo/tensorflow.hpp>
#include <umbo/umbo.hpp>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "../c/check.h"

namespace {

void values() {
    const auto number = umbo::value::scalar(2.5);
    CHECK(number.view_as<const double>()() == 2.5);
    const float row[3] = {1, 2, 3};
    const auto array = umbo::value::from_data({1, 3}, row);
    CHECK(array.view().ndim == 2 && array.view_as<const float>()(0, 2) == 3);
}

void variables(const umbo::strategy &strategy) {
    const auto zeros = umbo::tensor::create_zeros(umbo::dtype::float32, {2});
    const std::vector<umbo::variable> both = {strategy.create_variable("a", zeros),
                                              strategy.create_variable("b", zeros)};
    both[1].upload(std::vector<float>{4, 5});
    float now[2] = {};
    both[1].download(now, 2);
    CHECK(now[0] == 4 && now[1] == 5);
    bool refused = false;
    try {
        both[1].upload(std::vector<double>{4});
    } catch (const umbo::error &error) {
        refused = error.status() == umbo::status::invalid_argument;
    }
    CHECK(refused); // eight bytes, but no floats
    const auto outside = umbo::variable::views(both);
    CHECK(umbo::view_of<const float>(outside.at(1))[1] == 5);
    const auto gradients = umbo::gradients::create(strategy, both, umbo::loss_reduction::sum);
    strategy.run([&](umbo::replica_context &context, const umbo::value &) {
        umbo_view weights[2], one[1];
        std::vector<umbo_view> buffers(2);
        context.views(both, weights);
        context.views(gradients, buffers);
        bool is_refused = false;
        try {
            context.views(both, one);
        } catch (const umbo::error &error) {
            is_refused = error.status() == umbo::status::invalid_argument;
        }
        CHECK(is_refused);
        CHECK(weights[1].data == context.read<float>(both[1]).data());
        CHECK(buffers[0].mutable_data != nullptr && buffers[0].mutable_data != buffers[1].mutable_data);
    });
}

void initial(const umbo::strategy &strategy) {
    const auto he = umbo::initial::he_uniform;
    const auto weights = strategy.create_variable("w", umbo::dtype::float32, {6, 4}, he);
    const auto second = strategy.create_variable("w", umbo::dtype::float32, {6, 4}, he);
    const auto numbers = weights.read().to_vector<float>();
    CHECK(numbers != second.read().to_vector<float>() && numbers[0] != numbers[1]);
    // The first one of a name is the same in another strategy.
    const auto elsewhere = umbo::strategy::create({}).create_variable("w", umbo::dtype::float32, {6, 4}, he);
    CHECK(numbers == elsewhere.read().to_vector<float>());
    for (const float number : numbers) CHECK(number >= -1 && number <= 1);
    umbo::variable_options normal;
    normal.dtype = umbo::dtype::float64;
    normal.initial = umbo::initial::normal;
    normal.initial_mean = 7;
    CHECK(strategy.create_variable("n", normal).read().to_vector<double>()[0] > 6);
}

void splitting(const umbo::strategy &strategy) {
    const umbo::value batch = umbo::tensor::from_vector(std::vector<float>{1, 2, 3});
    const auto parts = strategy.split(batch);
    CHECK(parts.kind() == umbo::value_kind::per_replica && parts.example_count(0) == 2 && parts.example_count(1) == 1);
    CHECK(parts.item(1).view_as<const float>()(0) == 3);
    // Arrays are split in place: what they have later is seen.
    float x[3] = {1, 2, 3};
    const std::int32_t y[3] = {4, 5, 6};
    const auto fields = strategy.split_arrays({umbo::view_of_memory({3}, x), umbo::view_of_memory({3}, y)}, {"x", "y"});
    x[2] = 7;
    CHECK(fields.field("x").item(1).view_as<const float>()(0) == 7);
    CHECK(fields.field("y").item(0).view_as<const std::int32_t>()(1) == 5);
    CHECK(strategy.split_arrays({umbo::view_of_memory({3}, x)}).item(0).view_as<const float>().data() == x);
}

void arrays() {
    const float table[4] = {1, 2, 3, 4};
    const std::int32_t labels[2] = {5, 6};
    const auto dataset = umbo::dataset::from_arrays(
        {umbo::view_of_memory({2, 2}, table), umbo::view_of_memory({2}, labels)}, {"x", "y"});
    const auto iterator = dataset.iterate();
    iterator.next();
    const auto element = iterator.next();
    CHECK(element.view_as<const float>("x")(1) == 4);
    CHECK(element.view_as<const std::int32_t>("y")() == 6);
    bool refused = false;
    try {
        umbo::dataset::from_arrays({umbo::view_of_memory({2}, labels)}, {"x", "y"});
    } catch (const umbo::error &error) {
        refused = error.status() == umbo::status::invalid_argument;
    }
    CHECK(refused);
    refused = false;
    try {
        umbo::dataset::from_idx_files({"no such file", "nor this one"});
    } catch (const umbo::error &error) {
        refused = error.status() == umbo::status::not_found;
    }
    CHECK(refused);
}

void lists() {
    const umbo::value one = umbo::tensor::scalar(1.0f);
    const auto list = umbo::tensorflow::create_list({one, one});
    CHECK(list.kind() == umbo::value_kind::list && list.item_count() == 2);
    CHECK(umbo::value::create_per_replica({list, list}).kind() == umbo::value_kind::list);
    const auto leaf = umbo::element_spec::create_tensor(umbo::dtype::float32, {});
    CHECK(umbo::tensorflow::create_list({leaf, leaf}).kind() == umbo::value_kind::list);
}

void conversions() {
    const auto halves = umbo::dtype_convert_from_float(umbo::dtype::float16, {1.5f, 2049});
    CHECK(halves.size() == 2 && halves[0] == 0x3e00 && halves[1] == 0x6800);
    CHECK(umbo::dtype_convert_to_float(umbo::dtype::float16, halves)[1] == 2048);
}

void other_libraries() {
    const auto numbers = umbo::tensor::from_vector(std::vector<float>{1, 2, 3});
    const auto back = umbo::tensor::from_dlpack(numbers.to_dlpack());
    CHECK(back.view().data == numbers.view().data);
    CHECK(umbo::tensor::from_dlpack_legacy(numbers.to_dlpack_legacy()).view().data == numbers.view().data);
    const auto owner = std::make_shared<std::vector<float>>(4, 7.0f);
    // Memory that the program may write can be written through the view, too.
    const auto writable = umbo::view_of_memory({4}, owner->data());
    const auto readable = umbo::view_of_memory({4}, std::as_const(*owner).data());
    CHECK(writable.mutable_data == owner->data() && readable.mutable_data == nullptr);
    for (const umbo_view &view : {writable, readable}) {
        DLManagedTensorVersioned *const managed = umbo::view_to_dlpack(view, owner);
        const bool read_only = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
        CHECK(owner.use_count() == 2 && read_only == (view.mutable_data == nullptr));
        managed->deleter(managed);
        CHECK(owner.use_count() == 1);
    }
}

} // namespace

// Gradients that stay where an engine has them, and its threads.
void engines() {
    std::atomic<int> started{0}, stopped{0}, released{0};
    umbo::strategy_options options;
    options.cpu_replicas = 2;
    options.replica_thread_start = [&](const umbo_replica_thread &thread) {
        CHECK(thread.computing_thread_count >= 1);
        ++started;
        if (thread.replica_id == 1) throw 1; // is dropped
    };
    options.replica_thread_stop = [&](const umbo_replica_thread &) { ++stopped; };
    {
        const auto strategy = umbo::strategy::create(options);
        const auto weights = strategy.create_variable("w", umbo::tensor::create_zeros(umbo::dtype::float32, {2}));
        const auto unused = strategy.create_variable("u", umbo::tensor::from_vector<float>({3}));
        const auto gradients =
            umbo::gradients::create(strategy, {weights, unused}, umbo::loss_reduction::mean);
        umbo::adamw_options decay;
        decay.learning_rate = 1;
        decay.weight_decay = 0.5;
        const auto adamw = umbo::optimizer::adamw(strategy, decay);
        std::vector<float> memory = {1, 2};
        const auto engine = umbo::tensor::from_memory<float>({2}, memory.data(), nullptr);
        strategy.run([&](umbo::replica_context &context, const umbo::value &) {
            const std::shared_ptr<void> owner(&released, [](void *count) {
                ++*static_cast<std::atomic<int> *>(count);
            });
            context.attach(gradients, 0, engine.view(), owner);
            context.gradient<float>(gradients, 1, umbo::gradient_mode::add);
            context.discard(gradients, 1);
            context.submit(gradients, 1);
        });
        CHECK(released == 0);
        adamw.apply(gradients);
        CHECK(released == 2 && started == 2);
        CHECK(weights.read().to_vector<float>()[1] < 0);
        CHECK(unused.read().to_vector<float>()[0] == 3); // no decay either
    }
    CHECK(stopped == 1);
}

// Weights packed in one block of an engine's, and statistics that are assigned together.
void packed() {
    const auto strategy = umbo::strategy::create_cpu(2);
    const auto block = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
    auto two = umbo::tensor::from_memory<float>({2}, block->data(), nullptr);
    auto one = umbo::tensor::from_memory<float>({}, block->data() + 2, nullptr);
    umbo::variable_options mean;
    mean.aggregation = umbo::aggregation::mean;
    {
        const auto both = strategy.create_variables_in_memory({"a", "b"}, {two.view(), one.view()}, block, mean);
        CHECK(both[1].name() == "b" && block.use_count() == 2);
        CHECK(both[0].read().to_vector<float>() == (std::vector<float>{1, 2}));
        strategy.run([&](umbo::replica_context &context, const umbo::value &) {
            float own[3] = {4, 5, 6};
            for (auto &number : own) number += 8.0f * static_cast<float>(context.replica_id());
            const auto first = umbo::tensor::from_memory<float>({2}, own, nullptr);
            const auto second = umbo::tensor::from_memory<float>({}, own + 2, nullptr);
            context.assign_all(both, {first.view(), second.view()}, context.replica_id() == 0 ? 1.0 : 3.0);
        });
        CHECK((*block == std::vector<float>{10, 11, 12}));
    }
    CHECK(block.use_count() == 1);
}

int main() {
    engines();
    packed();
    values();
    other_libraries();
    umbo::strategy_options options;
    options.cpu_replicas = 2;
    {
        const auto strategy = umbo::strategy::create(options);
        variables(strategy);
        initial(strategy);
        splitting(strategy);
    }
    arrays();
    lists();
    conversions();
    umbo::shutdown();
    return finish();
}
