// Owners: moving, copying, releasing; values, views and datasets through them.
#include <umbo/tensorflow.hpp>

#include <memory>
#include <utility>
#include <vector>

#include "../c/check.h"

namespace {

void ownership() {
    auto tensor = umbo::tensor::from_vector(std::vector<float>{1, 2, 3, 4});
    CHECK(umbo::live_handles(umbo::handle_type::tensor) == 1);
    umbo_tensor *const raw = tensor.get();
    auto moved = std::move(tensor);
    CHECK(!tensor && moved.get() == raw);
    {
        const auto shared = moved; // another handle to the same tensor
        CHECK(shared.get() != raw && shared.view().data == moved.view().data);
    }
    CHECK(moved.view().shape[0] == 4);
    umbo_tensor *const given_up = moved.release();
    CHECK(!moved && given_up == raw);
    umbo_tensor_release(given_up);
    CHECK(umbo::live_handles() == 0);
}

void foreign_memory() {
    auto memory = std::make_shared<std::vector<double>>(6, 1.5);
    {
        auto tensor = umbo::tensor::from_memory({2, 3}, memory->data(), memory);
        CHECK(memory.use_count() == 2);
        auto view = tensor.view_as<double>();
        view(1, 2) = 4;
        CHECK((*memory)[5] == 4 && view.size() == 6 && view.is_contiguous());
        const auto turned = tensor.transpose();
        CHECK(!turned.view_as<const double>().is_contiguous());
        CHECK(turned.view_as<const double>()(2, 1) == 4);
        CHECK(turned.copy().to_vector<double>()[5] == 4);
        CHECK(tensor.reshape({6}).slice(0, 5, 6).to_vector<double>().at(0) == 4);
        bool refused = false;
        try {
            tensor.view_as<float>();
        } catch (const umbo::error &error) {
            refused = error.status() == umbo::status::invalid_argument;
        }
        CHECK(refused);
    }
    CHECK(memory.use_count() == 1);
}

void values() {
    const umbo::value one = umbo::tensor::scalar(1.0f), two = umbo::tensor::scalar(2.0f);
    const auto nest =
        umbo::value::create_struct({{"a", one}, {"b", umbo::value::create_tuple({one, two})}});
    CHECK(nest.kind() == umbo::value_kind::structure && nest.item_count() == 2 && nest.field_name(1) == "b");
    CHECK(nest.view_as<const float>("b.1")() == 2);
    CHECK(nest.field("b").item(1).tensor().to_vector<float>()[0] == 2);
    const auto split = umbo::value::create_per_replica({one, two});
    CHECK(split.kind() == umbo::value_kind::per_replica);
    const auto kept = nest;
    CHECK(kept.get() != nest.get()); // a handle of its own, the same object
}

void datasets(const umbo::strategy &strategy) {
    const auto numbers = umbo::dataset::from_tensor_slices(
        umbo::tensor::from_vector(std::vector<std::int32_t>{0, 1, 2, 3, 4}));
    const auto zipped = umbo::dataset::zip({numbers, numbers.skip(1)}, {"now", "next"});
    CHECK(numbers.cardinality() == 5 && zipped.cardinality() == 4);
    const auto batches = zipped.batch(3).prefetch(1);
    const auto iterator = strategy.distribute_dataset(batches).iterate();
    std::int64_t examples = 0;
    std::int32_t sum = 0;
    while (const auto element = iterator.next()) {
        examples += element.example_count();
        const auto local = strategy.local_results(element.field("next"));
        for (std::int32_t part = 0; part < local.item_count(); ++part) {
            const auto item = local.item(part);
            for (const std::int32_t number : item.view_as<const std::int32_t>()) sum += number;
        }
    }
    CHECK(examples == 4 && sum == 1 + 2 + 3 + 4);
    iterator.reset();
    CHECK(iterator.next());
    CHECK(numbers.shuffle().repeat(2).take(7).cardinality() == 7);
}

void scopes(const umbo::strategy &strategy) {
    CHECK(!umbo::tensorflow::has_strategy());
    {
        auto scope = umbo::scope::enter(strategy);
        CHECK(umbo::tensorflow::in_cross_replica_context() && umbo::strategy::current() == strategy);
        auto inner = umbo::scope::enter(strategy);
        inner.exit();
    }
    CHECK(!umbo::tensorflow::has_strategy());
    umbo::tensorflow::set_strategy(strategy);
    CHECK(umbo::strategy::current() == strategy);
    umbo::tensorflow::set_strategy({});
    CHECK(!umbo::tensorflow::has_strategy() && umbo::tensorflow::default_strategy() != strategy);
    CHECK(umbo::tensorflow::copy(strategy) != strategy);
}

void library() {
    CHECK(!umbo::version().empty() && umbo::version_number() > 0);
    CHECK(umbo::build_info().front() == '{');
    CHECK(umbo::status_name(umbo::status::ok) == "OK");
    CHECK(umbo::device_canonical_name("cpu") == "/job:localhost/replica:0/task:0/device:CPU:0");
    CHECK(umbo::device_get_info("CPU:3").device.ordinal == 3);
    const auto host = umbo::device_get_info();
    CHECK(host.name == umbo::device_canonical_name("cpu") && host.device.type == umbo::device_type::cpu);
    CHECK(host.physical_count == 1 && host.logical_count >= 1 && host.physical_ordinal == 0);
    CHECK(umbo::device_get_info("CPU:4095").physical_ordinal == UMBO_NONE);
    CHECK(host.total_bytes > 0 && host.available_bytes <= host.total_bytes);
    CHECK(umbo::worker_count() >= 1);
    CHECK(umbo::processor_count() >= 1);
    umbo::build_has_feature("cuda");
    const auto witness = std::make_shared<int>(0);
    umbo::set_log_callback(umbo::log_level::debug, [witness](umbo::log_level, const char *) {});
    CHECK(witness.use_count() == 2);
    umbo::set_log_callback(umbo::log_level::error, [](umbo::log_level, const char *) {});
    CHECK(witness.use_count() == 1);
}

} // namespace

int main() {
    ownership();
    foreign_memory();
    values();
    {
        const auto strategy = umbo::strategy::create_cpu(2);
        datasets(strategy);
        scopes(strategy);
        try {
            umbo::shutdown();
            CHECK(!"a strategy has threads");
        } catch (const umbo::error &error) {
            CHECK(error.status() == umbo::status::failed_precondition);
        }
    }
    library();
    umbo::shutdown();
    return finish();
}
