// The check of one replica against all, from C++.
#include <umbo/umbo.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#include "../c/check.h"

namespace {

struct trainer {
    umbo::strategy strategy;
    umbo::variable weight;
    umbo::gradients gradients;
    umbo::value batch;

    // The mean over the rows, or their sum.
    umbo::equivalence check(bool mean, bool throws_without_rows = false) const {
        return strategy.check_equivalence(
            [&](umbo::replica_context &context, const umbo::value &own) {
                const auto rows = own.view_as<const float>();
                const auto count = rows.shape(0);
                if (count == 0 && throws_without_rows) throw std::runtime_error("no rows at all");
                float sum = 0;
                for (std::int64_t row = 0; row < count; row++) sum += rows(row);
                if (mean && count > 0) sum /= static_cast<float>(count);
                context.gradient<float>(gradients, 0, umbo::gradient_mode::overwrite)() = sum;
                context.submit(gradients);
            },
            batch, gradients);
    }
};

void findings(const trainer &at) {
    const auto right = at.check(false);
    CHECK(right.info().holds && right.info().finding_count == 1);
    CHECK(right.info().text.rfind("equivalent: 1 replica and 3, on 2 + 2 + 1 examples", 0) == 0);
    CHECK(right.at(0).verdict == umbo::equivalence_verdict::equal && right.at(0).name == "w");

    const auto wrong = at.check(true);
    const auto finding = wrong.at(0);
    CHECK(!wrong.info().holds && finding.verdict == umbo::equivalence_verdict::wrong_reduction);
    CHECK(finding.subject == umbo::equivalence_subject::gradient && finding.variable_index == 0);
    CHECK(finding.factor > 0 && finding.factor < 1 && finding.element_index == UMBO_NONE);
    CHECK(finding.text.find("writes a mean") != std::string::npos);
    CHECK(wrong.info().text.find(finding.text) != std::string::npos);

    const auto copy = wrong;
    CHECK(!copy.info().holds);
}

// What is written through a view is found and put back; what depends on the whole batch does no harm.
void apart(const trainer &at) {
    const auto written = at.strategy.check_equivalence(
            [&](umbo::replica_context &context, const umbo::value &) {
            const auto view = context.read<float>(at.weight);
            if (context.replica_id() == 0) *const_cast<float *>(view.data()) = 0.5f;
        },
        at.batch);
    CHECK(!written.info().holds && written.info().finding_count == 1);
    CHECK(written.at(0).verdict == umbo::equivalence_verdict::variable_written);
    CHECK(written.at(0).subject == umbo::equivalence_subject::variable && written.at(0).name == "w");
    CHECK(written.at(0).variable_index == UMBO_NONE && written.at(0).element_index == 0);
    CHECK(at.weight.read().to_vector<float>() == std::vector<float>{0});

    std::vector<std::int64_t> steps;
    const auto sized = at.strategy.check_equivalence(
            [&](umbo::replica_context &context, const umbo::value &) {
            const auto position = context.info();
            if (context.replica_id() == 0) steps.push_back(position.step);
            const auto examples = static_cast<double>(position.local_example_count);
            const auto all = static_cast<double>(position.global_example_count);
            context.add_metric("loss", all * examples, examples);
        },
        at.batch);
    CHECK(sized.info().holds && sized.at(0).verdict == umbo::equivalence_verdict::size_dependent);
    at.strategy.run([&](umbo::replica_context &context, const umbo::value &) {
        if (context.replica_id() == 0) steps.push_back(context.info().step);
    });
    for (const std::int64_t step : steps) CHECK(step == steps.front());
}

// An exception on the usual parts comes out; one on empty parts is a finding.
void exceptions(const trainer &at) {
    const auto failed = at.check(false, true);
    CHECK(failed.at(0).verdict == umbo::equivalence_verdict::callback_failed && failed.at(0).name.empty());
    CHECK(failed.at(0).text.find("no rows at all") != std::string::npos);
    try {
        at.strategy.check_equivalence(
            [](umbo::replica_context &, const umbo::value &) { throw std::out_of_range("mine"); },
            at.batch);
        CHECK(!"it threw");
    } catch (const std::out_of_range &error) {
        CHECK(std::string(error.what()) == "mine");
    }
    try {
        umbo::equivalence_options options;
        options.absolute_tolerance = -1;
        at.strategy.check_equivalence(
            [](umbo::replica_context &, const umbo::value &) {}, at.batch,
            at.gradients, options);
        CHECK(!"it threw");
    } catch (const umbo::error &error) {
        CHECK(error.status() == umbo::status::invalid_argument);
    }
}

} // namespace

int main() {
    {
        const auto strategy = umbo::strategy::create_cpu(3);
        const auto weight = strategy.create_variable("w", umbo::tensor::scalar(0.0f));
        const auto gradients = umbo::gradients::create(strategy, {weight}, umbo::loss_reduction::sum);
        const auto batch = umbo::tensor::from_vector(std::vector<float>{1, 2, 4, 8, 16});
        const trainer at{strategy, weight, gradients, batch};
        findings(at);
        apart(at);
        exceptions(at);
    }
    return finish();
}
