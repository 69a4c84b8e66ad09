// A trainer over vectors, with lambdas: what it computes, what they throw, and what it hands out.
#include <umbo/umbo.hpp>

#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../c/check.h"

namespace {

struct point {
    float x, y;
};

std::vector<point> line_of_points() {
    std::vector<point> points(40);
    for (std::size_t i = 0; i < points.size(); ++i) {
        points[i].x = 0.05f * static_cast<float>(i) - 1.0f;
        points[i].y = 3.0f * points[i].x - 1.0f;
    }
    return points;
}

struct oops : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void trains() {
    const auto points = line_of_points();
    std::vector<float> line(2);
    umbo::trainer_options options;
    options.learning_rate = 0.5;
    options.replicas = 2;
    const auto trainer = umbo::trainer::create({line}, options);
    // What cannot be copied will do: it is used where it is.
    auto weight = std::make_unique<float>(1.0f);
    const auto learn = [&points, weight = std::move(weight)](const umbo::rows &rows) {
        double loss = 0;
        for (const std::int64_t row : rows) {
            const point &at = points[static_cast<std::size_t>(row)];
            const float error = rows.weights()[0] * at.x + rows.weights()[1] - at.y;
            loss += 0.5 * error * error * *weight;
            if (!rows.training()) continue;
            rows.gradient()[0] += error * at.x;
            rows.gradient()[1] += error;
        }
        return loss;
    };
    double first = 0, last = 0;
    for (int epoch = 0; epoch < 60; ++epoch) {
        last = trainer.epoch(40, 6, learn);
        if (epoch == 0) first = last;
    }
    CHECK(last < first / 1000 && line[0] > 2.9f && line[0] < 3.1f && line[1] < -0.95f);
    CHECK(trainer.evaluate(40, 7, learn) <= last);
    CHECK(trainer.step(3, 5, learn) < 1e-3);
    CHECK(trainer.info().epoch_count == 60 && trainer.info().replica_count == 2);

    trainer.save("test_trainer_cpp.umbo");
    std::vector<float> again(2);
    const auto other = umbo::trainer::create({umbo::parameters(again.data(), 2)}, options);
    CHECK(other.resume("test_trainer_cpp.none") == 0);
    CHECK(other.resume("test_trainer_cpp.umbo") == 60 && again == line);
    other.restore("test_trainer_cpp.umbo");
    std::remove("test_trainer_cpp.umbo");
}

void carries_exceptions() {
    std::array<float, 3> weights = {1, 2, 3};
    const auto trainer = umbo::trainer::create({weights});
    const auto fails = [](const umbo::rows &rows) -> double {
        if (rows[0] == 0) throw oops("no such luck");
        return 0;
    };
    bool caught = false;
    try {
        trainer.step(0, 4, fails);
    } catch (const oops &thrown) {
        caught = std::string(thrown.what()) == "no such luck";
    }
    CHECK(caught && weights[0] == 1);
    caught = false;
    try {
        umbo::trainer::create({weights, weights});
    } catch (const umbo::error &thrown) {
        caught = thrown.status() == umbo::status::invalid_argument;
    }
    CHECK(caught);
}

void rows_of_a_table() {
    std::vector<float> table(20), bias(1);
    umbo::parameters rows_of_two(table, "table"), other(bias, "bias");
    rows_of_two.row_length = 2;
    other.learning_rate_factor = 0.5;
    umbo::trainer_options options;
    options.learning_rate = 1;
    const auto trainer = umbo::trainer::create({rows_of_two, other}, options);
    const double loss = trainer.step(3, 1, [](const umbo::rows &rows) {
        CHECK(rows.size() == 1 && *rows.begin() == 3 && rows.replica_id() == 0);
        CHECK(rows.gradient(0) == nullptr && rows.context().replica_id() == 0);
        rows.gradient_row(0, 7)[1] -= 1;
        rows.gradient_row(0, 7)[1] -= 1;
        rows.gradient(1)[0] -= 4;
        rows.weigh(2);
        return 6.0;
    });
    CHECK(loss == 3 && table[15] == 1 && table[14] == 0 && bias[0] == 1);
    CHECK(trainer.variable(1).name() == "bias" && trainer.variable().name() == "table");
    CHECK(trainer.optimizer().info().rule == "sgd");
    CHECK(trainer.gradients().variable(0).name() == "table");
    CHECK(trainer.strategy().metric_result("loss").weight == 2);
    CHECK(trainer.dataset(10, 4).cardinality() == 3);
    CHECK(trainer.checkpoint());
}

// The rate of each update, and a number that is refused.
void learning_rates() {
    std::vector<float> weight = {0};
    umbo::trainer_options options;
    options.replicas = 2;
    const auto trainer = umbo::trainer::create({weight}, options);
    const auto slope = [](const umbo::rows &rows) {
        rows.gradient()[0] -= static_cast<float>(rows.size());
        return 0.0;
    };
    float expected = 0;
    for (const double rate : {0.5, 0.0, 2.0}) {
        trainer.set_learning_rate(rate);
        trainer.step(0, 3, slope);
        expected += static_cast<float>(rate);
        CHECK(weight[0] == expected);
    }
    umbo::status status = umbo::status::ok;
    try {
        trainer.set_learning_rate(-1);
    } catch (const umbo::error &thrown) {
        status = thrown.status();
    }
    CHECK(status == umbo::status::invalid_argument);
    trainer.step(0, 3, slope);
    CHECK(weight[0] == expected + 2);
}

} // namespace

// Gradients of 16 bits, which the update reads as they are, and weights of 16 bits for reading.
void half_gradients() {
    for (const umbo::dtype dtype : {umbo::dtype::none, umbo::dtype::bfloat16}) {
        std::vector<float> weights(2);
        umbo::trainer_options options;
        options.learning_rate = 0.25;
        options.replicas = 2;
        options.gradient_dtype = dtype;
        const auto trainer = umbo::trainer::create({weights}, options);
        const auto variable = trainer.variable(0);
        const double loss = trainer.step(0, 4, [&](const umbo::rows &rows) {
            CHECK(static_cast<float>(rows.context().read<umbo::bfloat16>(variable)[1]) == 0);
            if (dtype == umbo::dtype::none) {
                CHECK(rows.half_gradient() == nullptr);
                rows.gradient()[1] += 2.0f * static_cast<float>(rows.size());
            } else {
                CHECK(rows.gradient() == nullptr);
                auto *const sum = static_cast<umbo::bfloat16 *>(rows.half_gradient());
                sum[1] = umbo::bfloat16(static_cast<float>(sum[1]) + 2.0f * static_cast<float>(rows.size()));
            }
            return 1.0 * static_cast<double>(rows.size());
        });
        CHECK(loss == 1 && weights[0] == 0 && weights[1] == -0.5f);
    }
}

// Weights of 16 bits that are rounded, and states of 8 bits.
void fewer_bytes() {
    std::vector<umbo::bfloat16> half(5000, umbo::bfloat16(1.0f));
    std::vector<float> full(2);
    umbo::trainer_options options;
    options.rule = "adam";
    options.replicas = 2;
    bool is_refused = false;
    try {
        umbo::trainer::create({half, full}, options);
    } catch (const umbo::error &thrown) {
        is_refused = thrown.status() == umbo::status::invalid_argument;
    }
    CHECK(is_refused);
    options.stochastic_rounding = true;
    options.rounding_seed = 3;
    options.state_bits = 8;
    const auto trainer = umbo::trainer::create({half, full}, options);
    CHECK(trainer.optimizer().setting("state_bits") == 8);
    trainer.step(0, 4, [&](const umbo::rows &rows) {
        CHECK(rows.half_weights(0) == half.data() && rows.half_weights(1) == nullptr);
        CHECK(rows.weights(0) == nullptr && rows.weights(1) == full.data());
        CHECK(rows.gradient(0) == nullptr && rows.half_gradient(1) == nullptr);
        auto *const sum = static_cast<umbo::bfloat16 *>(rows.half_gradient(0));
        sum[7] = umbo::bfloat16(-2.0f);
        rows.gradient(1)[1] += 1;
        return 0.0;
    });
    CHECK(full[1] < 0 && full[0] == 0);
    CHECK(static_cast<float>(half[7]) >= 1 && half[8].bits() == umbo::bfloat16(1.0f).bits());
}

int main() {
    trains();
    half_gradients();
    fewer_bytes();
    carries_exceptions();
    rows_of_a_table();
    learning_rates();
    return finish();
}
