// Mistakes with variables, gradients and optimizers.
#include <cmath>
#include <stdexcept>

#include "mistakes.hpp"

namespace {

using context = umbo::replica_context;
using umbo::tensor;
using umbo::value;

struct world {
    umbo::strategy strategy = two_replicas();
    tensor one = tensor::scalar(1.0f);
    umbo::variable weight = strategy.create_variable("w", one);
    umbo::variable table = strategy.create_variable("table", tensor::create_zeros(umbo::dtype::float32, {4, 2}));
    umbo::gradients gradients = fresh();
    umbo::gradients table_gradients =
        umbo::gradients::create(strategy, {table}, umbo::loss_reduction::sum, {1, {true}});
    umbo::optimizer sgd = umbo::optimizer::sgd(strategy);

    umbo::gradients fresh() const {
        return umbo::gradients::create(strategy, {weight}, umbo::loss_reduction::sum);
    }

    // A step in which each replica contributes this gradient.
    void step(float gradient) const {
        strategy.run([&](context &own, const value &) {
            own.gradient<float>(gradients, 0, umbo::gradient_mode::overwrite)[0] = gradient;
            own.submit(gradients, 1);
        });
    }
};

std::vector<mistake> mistakes() {
    // A world for each mistake, so that none meets what another has left.
    return {
        {"a replica that forgets to submit", umbo::status::failed_precondition,
         {"umbo_optimizer_apply", "gradients", "replica 1 (CPU:1)", "each replica submits them once in each run"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 own.gradient<float>(at.gradients, 0, umbo::gradient_mode::overwrite)[0] = 1;
                 if (own.replica_id() == 0) own.submit(at.gradients, 1);
             });
             at.sgd.apply(at.gradients);
         }},
        {"a replica that submits twice", umbo::status::failed_precondition,
         {"umbo_gradients_submit_weighted", "replica 1 has submitted", "submit once"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 own.submit(at.gradients, 1);
                 if (own.replica_id() == 1) own.submit(at.gradients, 1);
             });
         }},
        {"a gradient that is viewed after it was submitted", umbo::status::failed_precondition,
         {"umbo_gradients_view", "replica 0 has submitted", "replica 1 has submitted", "view and write them before"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 own.submit(at.gradients, 1);
                 own.gradient<float>(at.gradients, 0, umbo::gradient_mode::add);
             });
         }},
        {"a gradient of the wrong type", umbo::status::invalid_argument,
         {"view", "replica 0", "CPU:1", "float32, not float64", "view them as what they are"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 own.gradient<double>(at.gradients, 0, umbo::gradient_mode::overwrite);
             });
         }},
        {"a gradient of a variable that there is not", umbo::status::out_of_range,
         {"umbo_gradients_view", "index", "replica 1", "3 is not in [0, 1)",
          "the variables that the gradients were made of"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 own.gradient<float>(at.gradients, 3, umbo::gradient_mode::overwrite);
             });
         }},
        {"a gradient mode that there is not", umbo::status::invalid_argument,
         {"umbo_gradients_view", "mode", "replica 0", "999",
          "valid are UMBO_GRADIENT_OVERWRITE (701) and UMBO_GRADIENT_ADD (702)"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 own.gradient<float>(at.gradients, 0, static_cast<umbo::gradient_mode>(999));
             });
         }},
        {"a negative weight", umbo::status::invalid_argument,
         {"umbo_gradients_submit_weighted", "weight", "replica 1", "-1", "must be finite and at least 0"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) { own.submit(at.gradients, -1); });
         }},
        {"a weight that is nothing", umbo::status::failed_precondition,
         {"umbo_gradients_submit", "how many examples", "replica 0", "submit with a weight"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) { own.submit(at.gradients); });
         }},
        {"an apply without a run", umbo::status::failed_precondition,
         {"umbo_optimizer_apply", "gradients", "no run that submitted", "run a step first"},
         [] {
             const world at;
             at.sgd.apply(at.fresh());
         }},
        {"two applies of one run", umbo::status::failed_precondition,
         {"umbo_optimizer_apply", "gradients", "since the last apply", "apply once for each run"},
         [] {
             const world at;
             at.step(1);
             at.sgd.apply(at.gradients);
             at.sgd.apply(at.gradients);
         }},
        {"two runs before one apply", umbo::status::failed_precondition,
         {"umbo_gradients_view", "gradients", "replica 0", "the run before this one", "Apply after each run",
          "accumulation_steps", "make new gradients"},
         [] {
             const world at;
             at.step(1);
             at.step(1);
             at.sgd.apply(at.gradients);
         }},
        {"an apply after a run that failed", umbo::status::failed_precondition,
         {"umbo_optimizer_apply", "gradients", "the last run failed", "run the step again"},
         [] {
             const world at;
             try {
                 at.strategy.run([&](context &own, const value &) {
                     own.submit(at.gradients, 1);
                     throw umbo::error(umbo::status::data_loss, "half of it");
                 });
             } catch (const umbo::error &) {
             }
             at.sgd.apply(at.gradients);
         }},
        {"a gradient that is NaN", umbo::status::invalid_argument,
         {"umbo_optimizer_apply", "gradients", "variable 'w'", "step 1", "replica 0", "element []", "NaN",
          "Have such applies skipped"},
         [] {
             const world at;
             umbo::optimizer_options how;
             how.non_finite = umbo::non_finite::fail;
             const auto careful = umbo::optimizer::sgd(at.strategy);
             careful.configure(how);
             at.step(std::nanf(""));
             careful.apply(at.gradients);
         }},
        {"gradients of another strategy", umbo::status::failed_precondition,
         {"umbo_gradients_submit_weighted", "gradients", "replica 0", "made for a different one",
          "make gradients for each strategy"},
         [] {
             const world at;
             const world other;
             at.strategy.run([&](context &own, const value &) { own.submit(other.gradients, 1); });
         }},
        {"an optimizer of another strategy", umbo::status::invalid_argument,
         {"umbo_optimizer_apply", "gradients", "a strategy other than the optimizer", "make both for one"},
         [] {
             const world at;
             const world other;
             at.step(1);
             other.sgd.apply(at.gradients);
         }},
        {"gradients of a variable of another strategy", umbo::status::invalid_argument,
         {"umbo_gradients_create", "variables[0]", "'w'", "make it in this one's scope"},
         [] {
             const world at;
             const world other;
             umbo::gradients::create(at.strategy, {other.weight}, umbo::loss_reduction::sum);
         }},
        {"gradients of integers", umbo::status::invalid_argument,
         {"umbo_gradients_create", "variables[0]", "'count'", "int32", "float32, float64 and bfloat16 have"},
         [] {
             const world at;
             const auto count = at.strategy.create_variable("count", tensor::scalar<std::int32_t>(0));
             umbo::gradients::create(at.strategy, {count}, umbo::loss_reduction::sum);
         }},
        {"a loss reduction that was not said", umbo::status::invalid_argument,
         {"umbo_gradients_create", "loss_reduction", "0;", "valid are UMBO_LOSS_SUM (801)"},
         [] {
             const world at;
             umbo::gradients::create(at.strategy, {at.weight}, static_cast<umbo::loss_reduction>(0));
         }},
        {"a variable twice among gradients", umbo::status::invalid_argument,
         {"umbo_gradients_create", "variables[1]", "'w'", "as variables[0]", "list it once"},
         [] {
             const world at;
             umbo::gradients::create(at.strategy, {at.weight, at.weight}, umbo::loss_reduction::sum);
         }},
        {"a row that the table does not have", umbo::status::out_of_range,
         {"umbo_gradients_submit_weighted", "indices: 9", "position 0", "replica 1", "variable 'table'",
          "is not in [0, 4)"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 auto rows = own.add_rows<float>(at.table_gradients, 0, 1);
                 rows.indices[0] = 9;
                 rows.values[0] = rows.values[1] = 1;
                 own.submit(at.table_gradients, 1);
             });
         }},
        {"rows of a gradient that is not row-sparse", umbo::status::failed_precondition,
         {"umbo_gradients_add_rows", "replica 0", "variable 'w'", "say so when they are made (row_sparse)"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 own.add_rows<float>(at.gradients, 0, 1);
             });
         }},
        {"a rule that needs whole gradients, and rows", umbo::status::invalid_argument,
         {"umbo_optimizer_apply", "gradients", "variable 'table'", "lamb", "Use another rule"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 auto rows = own.add_rows<float>(at.table_gradients, 0, 1);
                 rows.indices[0] = 0;
                 rows.values[0] = rows.values[1] = 1;
                 own.submit(at.table_gradients, 1);
             });
             umbo::optimizer::lamb(at.strategy).apply(at.table_gradients);
         }},
        {"an assignment of another shape", umbo::status::invalid_argument,
         {"umbo_variable_assign", "value", "[3]", "variable 'w'", "[]", "reshape the value"},
         [] {
             const world at;
             at.weight.assign(tensor::create_zeros(umbo::dtype::float32, {3}));
         }},
        {"an assignment of another type", umbo::status::invalid_argument,
         {"umbo_variable_assign", "value", "float64", "variable 'w' is float32", "convert the value"},
         [] {
             const world at;
             at.weight.assign(tensor::scalar<double>(1));
         }},
        {"an assignment in replicas without an aggregation", umbo::status::invalid_argument,
         {"umbo_variable_assign", "variable", "'w'", "replica 1", "CPU:0",
          "create it with SUM, MEAN or ONLY_FIRST_REPLICA"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 at.weight.assign(tensor::scalar<float>(static_cast<float>(own.replica_id())));
             });
         }},
        {"a variable without a value", umbo::status::invalid_argument,
         {"umbo_variable_create", "initial_value", "is NULL",
          "a tensor, options.initializer or options.initial is expected"},
         [] {
             const world at;
             umbo_variable *out = nullptr;
             umbo::check(umbo_variable_create(at.strategy.get(), "w", nullptr, nullptr, &out));
         }},
        {"an initialiser that throws", umbo::status::unknown,
         {"umbo_variable_create", "no seed"},
         [] {
             const world at;
             at.strategy.create_variable("w", umbo::dtype::float32, {2}, [](const umbo_view &) {
                 throw std::runtime_error("no seed");
             });
         }},
        {"a negative learning rate", umbo::status::invalid_argument,
         {"umbo_optimizer_create_sgd", "learning_rate", "-1", "must be finite and at least 0"},
         [] {
             const world at;
             umbo::sgd_options how;
             how.learning_rate = -1;
             umbo::optimizer::sgd(at.strategy, how);
         }},
        {"a beta of two", umbo::status::invalid_argument,
         {"umbo_optimizer_create_adam", "beta1", "2;", "less than 1"},
         [] {
             const world at;
             umbo::adam_options how;
             how.beta1 = 2;
             umbo::optimizer::adam(at.strategy, how);
         }},
        {"a schedule that gives NaN", umbo::status::invalid_argument,
         {"umbo_optimizer_apply", "learning_rate", "the schedule gave NaN for update 0",
          "must be finite and at least 0"},
         [] {
             const world at;
             const auto scheduled = umbo::optimizer::sgd(at.strategy);
             scheduled.set_schedule([](std::int64_t) { return std::nan(""); });
             at.step(1);
             scheduled.apply(at.gradients);
         }},
        {"a schedule that calls its strategy", umbo::status::failed_precondition,
         {"umbo_variable_assign", "strategy", "a learning-rate schedule", "call it after that has returned"},
         [] {
             const world at;
             const auto scheduled = umbo::optimizer::sgd(at.strategy);
             scheduled.set_schedule([&](std::int64_t) {
                 at.weight.assign(at.one);
                 return 0.5;
             });
             at.step(1);
             scheduled.apply(at.gradients);
         }},
        {"a state that the rule does not have", umbo::status::not_found,
         {"umbo_optimizer_read_state", "name", "'m'", "sgd keeps nothing"},
         [] {
             const world at;
             at.step(1);
             at.sgd.apply(at.gradients);
             at.sgd.read_state(at.weight, "m");
         }},
        {"a variable in two groups", umbo::status::invalid_argument,
         {"umbo_optimizer_add_group", "variables[0]", "'w'", "one group at most"},
         [] {
             const world at;
             const auto grouped = umbo::optimizer::sgd(at.strategy);
             umbo::group_options how;
             how.frozen = true;
             grouped.add_group({at.weight}, how);
             grouped.add_group({at.weight}, how);
         }},
        {"a growing factor that shrinks", umbo::status::invalid_argument,
         {"umbo_optimizer_configure", "loss_scale_growth_factor", "0.5", "more than 1"},
         [] {
             const world at;
             umbo::optimizer_options how;
             how.loss_scaling = umbo::loss_scaling::dynamic;
             how.loss_scale_growth_factor = 0.5;
             umbo::optimizer::sgd(at.strategy).configure(how);
         }},
        {"a scatter of rows that there are not", umbo::status::out_of_range,
         {"umbo_variable_scatter", "indices", "7 at position 0", "variable 'table'", "not in [0, 4)"},
         [] {
             const world at;
             at.table.scatter(value::create_indexed_slices(tensor::create_zeros(umbo::dtype::float32, {1, 2}),
                                                           tensor::from_vector<std::int64_t>({7}), {4, 2}),
                              umbo::scatter_op::add);
         }},
        {"a copy in a type that there is not", umbo::status::invalid_argument,
         {"umbo_variable_view", "dtype", "variable 'w'", "int8", "float16 and bfloat16"},
         [] {
             const world at;
             at.weight.view_as(umbo::dtype::int8);
         }},
    };
}

} // namespace

int main() {
    judge(mistakes());
    return finish();
}
