// Options: what is left out is what the C interface calls the default.
#include <umbo/umbo.hpp>

#include <string>
#include <vector>

#include "../c/check.h"

namespace {

template <class... Members, class Raw>
bool same(const Raw &made, const Raw &expected, Members Raw::*...members) {
    return made.struct_size == expected.struct_size && ((made.*members == expected.*members) && ...);
}

void optimizers() {
    using umbo::detail::raw_options;
    const umbo_sgd_options sgd = UMBO_SGD_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::sgd_options{}), sgd, &umbo_sgd_options::learning_rate));
    using momentum = umbo_momentum_options;
    const momentum of_momentum = UMBO_MOMENTUM_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::momentum_options{}), of_momentum, &momentum::learning_rate,
               &momentum::momentum, &momentum::nesterov, &momentum::dampening));
    using adam = umbo_adam_options;
    const adam of_adam = UMBO_ADAM_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::adam_options{}), of_adam, &adam::learning_rate, &adam::beta1,
               &adam::beta2, &adam::epsilon, &adam::amsgrad));
    using adamw = umbo_adamw_options;
    const adamw of_adamw = UMBO_ADAMW_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::adamw_options{}), of_adamw, &adamw::learning_rate, &adamw::beta1,
               &adamw::beta2, &adamw::epsilon, &adamw::weight_decay, &adamw::amsgrad));
    using nadam = umbo_nadam_options;
    const nadam of_nadam = UMBO_NADAM_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::nadam_options{}), of_nadam, &nadam::learning_rate, &nadam::beta1,
               &nadam::beta2, &nadam::epsilon, &nadam::momentum_decay,
               &nadam::decoupled_weight_decay));
    using radam = umbo_radam_options;
    const radam of_radam = UMBO_RADAM_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::radam_options{}), of_radam, &radam::learning_rate, &radam::beta1,
               &radam::beta2, &radam::epsilon, &radam::decoupled_weight_decay));
    using lion = umbo_lion_options;
    const lion of_lion = UMBO_LION_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::lion_options{}), of_lion, &lion::learning_rate, &lion::beta1,
               &lion::beta2, &lion::weight_decay));
    using lamb = umbo_lamb_options;
    const lamb of_lamb = UMBO_LAMB_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::lamb_options{}), of_lamb, &lamb::learning_rate, &lamb::beta1,
               &lamb::beta2, &lamb::epsilon, &lamb::weight_decay));
    using lars = umbo_lars_options;
    const lars of_lars = UMBO_LARS_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::lars_options{}), of_lars, &lars::learning_rate, &lars::momentum,
               &lars::trust_coefficient, &lars::weight_decay));
    using muon = umbo_muon_options;
    const muon of_muon = UMBO_MUON_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::muon_options{}), of_muon, &muon::learning_rate, &muon::momentum,
               &muon::nesterov, &muon::weight_decay, &muon::epsilon, &muon::match_adamw));
    using adafactor = umbo_adafactor_options;
    const adafactor of_adafactor = UMBO_ADAFACTOR_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::adafactor_options{}), of_adafactor, &adafactor::learning_rate,
               &adafactor::beta2_decay, &adafactor::epsilon1, &adafactor::epsilon2,
               &adafactor::clip_threshold, &adafactor::weight_decay));
    using adagrad = umbo_adagrad_options;
    const adagrad of_adagrad = UMBO_ADAGRAD_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::adagrad_options{}), of_adagrad, &adagrad::learning_rate,
               &adagrad::initial_accumulator, &adagrad::epsilon,
               &adagrad::learning_rate_decay));
    using rmsprop = umbo_rmsprop_options;
    const rmsprop of_rmsprop = UMBO_RMSPROP_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::rmsprop_options{}), of_rmsprop, &rmsprop::learning_rate,
               &rmsprop::rho, &rmsprop::momentum, &rmsprop::epsilon, &rmsprop::centered));
    using ftrl = umbo_ftrl_options;
    const ftrl of_ftrl = UMBO_FTRL_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::ftrl_options{}), of_ftrl, &ftrl::learning_rate, &ftrl::beta,
               &ftrl::l1, &ftrl::l2, &ftrl::initial_accumulator));
    using around = umbo_optimizer_options;
    const around of_around = UMBO_OPTIMIZER_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::optimizer_options{}), of_around, &around::weight_decay,
               &around::global_clip_norm, &around::clip_value, &around::non_finite,
               &around::loss_scaling, &around::loss_scale, &around::loss_scale_growth_factor,
               &around::loss_scale_backoff_factor, &around::loss_scale_minimum,
               &around::loss_scale_growth_interval, &around::maximize, &around::average,
               &around::average_decay, &around::average_start, &around::average_interval,
               &around::average_warmup, &around::state_bits, &around::stochastic_rounding,
               &around::rounding_seed));
    using group = umbo_group_options;
    const group of_group = UMBO_GROUP_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::group_options{}), of_group, &group::learning_rate_factor,
               &group::weight_decay, &group::frozen));
    using schedule = umbo_schedule_options;
    const schedule of_schedule = UMBO_SCHEDULE_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::schedule_options{}), of_schedule, &schedule::kind, &schedule::learning_rate,
               &schedule::warmup_updates, &schedule::updates, &schedule::final_factor, &schedule::initial_factor,
               &schedule::factor, &schedule::interval, &schedule::patience, &schedule::cooldown,
               &schedule::threshold, &schedule::larger_is_better));
    using apply = umbo_apply_options;
    const apply of_apply = UMBO_APPLY_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::apply_options{}), of_apply, &apply::flush, &apply::measure_norm));
    using gradients = umbo_gradients_options;
    const gradients of_gradients = UMBO_GRADIENTS_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::gradients_options{}, {}), of_gradients, &gradients::accumulation_steps,
               &gradients::row_sparse, &gradients::dtype));
}

void the_others() {
    using umbo::detail::raw_options;
    using strategy = umbo_strategy_options;
    const strategy of_strategy = UMBO_STRATEGY_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::strategy_options{}, {}), of_strategy, &strategy::compute_devices,
               &strategy::compute_device_count, &strategy::cpu_replicas, &strategy::parameter_device,
               &strategy::bind_threads, &strategy::thread_stack_bytes,
               &strategy::replica_thread_start, &strategy::replica_thread_stop,
               &strategy::replica_thread_user_data, &strategy::replica_thread_user_data_destroy,
               &strategy::strict,
               &strategy::communicator, &strategy::fingerprint_interval,
               &strategy::replicas_in_sync, &strategy::elastic));
    using run = umbo_run_options;
    const run of_run = UMBO_RUN_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::run_options{}), of_run, &run::timeout_seconds, &run::cancellation,
               &run::user_data_destroy));
    using reduce = umbo_reduce_options;
    const reduce of_reduce = UMBO_REDUCE_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::reduce_options{}), of_reduce, &reduce::axes, &reduce::axis_count,
               &reduce::destination, &reduce::output));
    using variable = umbo_variable_options;
    const variable of_variable = UMBO_VARIABLE_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::variable_options{}), of_variable, &variable::dtype, &variable::ndim,
               &variable::shape, &variable::trainable, &variable::aggregation, &variable::initial,
               &variable::initial_mean, &variable::initial_spread, &variable::initial_seed));
    using shuffle = umbo_shuffle_options;
    const shuffle of_shuffle = UMBO_SHUFFLE_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::shuffle_options{}), of_shuffle, &shuffle::buffer_capacity,
               &shuffle::seed, &shuffle::keep_order_each_pass));
    using map = umbo_map_options;
    const map of_map = UMBO_MAP_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::map_options{}), of_map, &map::element_spec, &map::parallel_call_count));
    using files = umbo_files_options;
    const files of_files = UMBO_FILES_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::files_options{}), of_files, &files::element_spec, &files::open_file_count,
               &files::consecutive_count, &files::seed, &files::shuffle_files));
    using distribute = umbo_distribute_options;
    const distribute of_distribute = UMBO_DISTRIBUTE_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::distribute_options{}), of_distribute, &distribute::split,
               &distribute::drop_partial_step, &distribute::host_only,
               &distribute::prefetch_count, &distribute::sharding, &distribute::compared_steps));
    using equivalence = umbo_equivalence_options;
    const equivalence of_equivalence = UMBO_EQUIVALENCE_OPTIONS_INIT;
    CHECK(same(raw_options(umbo::equivalence_options{}), of_equivalence,
               &equivalence::relative_tolerance, &equivalence::absolute_tolerance));
}

void use() {
    const auto range = umbo::dataset::from_range(0, 5);
    CHECK(range.batch(2).cardinality() == 3 && range.batch(2, {true}).cardinality() == 2);
    CHECK(range.padded_batch(2, {true}).cardinality() == 2);
    int whole = 0;
    for (const umbo::value &batch : range.batch(2).rebatch({3}, {true}).iterate()) {
        CHECK(batch.view().shape[0] == 3);
        ++whole;
    }
    CHECK(whole == 1);
#if __cplusplus >= 202002L
    const auto strategy = umbo::strategy::create({.cpu_replicas = 2});
    const auto weight = strategy.create_variable("w", umbo::tensor::scalar(1.0f),
                                                 {.trainable = true});
    const auto gradients = umbo::gradients::create(
        strategy, {weight}, umbo::loss_reduction::sum, {.accumulation_steps = 2});
    const auto sgd = umbo::optimizer::sgd(strategy, {.learning_rate = 0.5});
    sgd.configure({.global_clip_norm = 2});
    CHECK(sgd.info().learning_rate == 0.5);
    CHECK(range.batch(2, {.drop_remainder = true}).cardinality() == 2);
    CHECK(strategy.distribute_dataset(range.batch(2), {.drop_partial_step = true}).cardinality() == 3);
    CHECK(range.shuffle({.seed = 3}).map([](const umbo::value &each) { return each; },
                                         {.parallel_call_count = 2}).cardinality() == 5);
    strategy.run([](umbo::replica_context &, const umbo::value &) {}, {}, {.timeout_seconds = 60});
#endif
}

} // namespace

int main() {
    optimizers();
    the_others();
    use();
    return finish();
}
