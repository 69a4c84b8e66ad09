// Optimizers.
#ifndef UMBO_CPP_OPTIMIZER_HPP
#define UMBO_CPP_OPTIMIZER_HPP

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/cpp/callback.hpp>
#include <umbo/cpp/gradients.hpp>
#include <umbo/cpp/options.hpp>

UMBO_DETAIL_BEGIN

namespace detail {

template <class Callable>
void tile_trampoline(const umbo_update_tile *tile, void *callable) noexcept {
    (*static_cast<const Callable *>(callable))(*tile);
}

// What a rule does on CPUs and on GPUs, which share their user data.
template <class Update, class OnGpu> struct both_updates {
    Update update;
    OnGpu on_gpu;

    void operator()(const umbo_update_tile &tile) const noexcept { update(tile); }
};

template <class Both>
umbo_status update_on_gpu_trampoline(const umbo_gpu_update *update, void *both) noexcept {
    return guarded([&]() -> returned<void> { return static_cast<const Both *>(both)->on_gpu(*update); });
}

template <class Callable>
umbo_status schedule_trampoline(std::int64_t step, void *callable, double *learning_rate) noexcept {
    return guarded([&]() -> returned<void> {
        UMBO_DETAIL_LET(made, (*static_cast<Callable *>(callable))(step));
        *learning_rate = made;
        return done();
    });
}

template <class Callable> umbo_status average_trampoline(void *callable) noexcept {
    return guarded([&] { return call(*static_cast<Callable *>(callable)); });
}

} // namespace detail

class optimizer : public handle<umbo_optimizer> {
public:
    using handle::handle;

    static returned<optimizer> sgd(const strategy &of, const sgd_options &how = {}) {
        return made(&umbo_optimizer_create_sgd, of, detail::raw_options(how));
    }

    static returned<optimizer> momentum(const strategy &of, const momentum_options &how = {}) {
        return made(&umbo_optimizer_create_momentum, of, detail::raw_options(how));
    }

    static returned<optimizer> adam(const strategy &of, const adam_options &how = {}) {
        return made(&umbo_optimizer_create_adam, of, detail::raw_options(how));
    }

    static returned<optimizer> adamw(const strategy &of, const adamw_options &how = {}) {
        return made(&umbo_optimizer_create_adamw, of, detail::raw_options(how));
    }

    static returned<optimizer> nadam(const strategy &of, const nadam_options &how = {}) {
        return made(&umbo_optimizer_create_nadam, of, detail::raw_options(how));
    }

    static returned<optimizer> radam(const strategy &of, const radam_options &how = {}) {
        return made(&umbo_optimizer_create_radam, of, detail::raw_options(how));
    }

    static returned<optimizer> lion(const strategy &of, const lion_options &how = {}) {
        return made(&umbo_optimizer_create_lion, of, detail::raw_options(how));
    }

    static returned<optimizer> lamb(const strategy &of, const lamb_options &how = {}) {
        return made(&umbo_optimizer_create_lamb, of, detail::raw_options(how));
    }

    static returned<optimizer> lars(const strategy &of, const lars_options &how = {}) {
        return made(&umbo_optimizer_create_lars, of, detail::raw_options(how));
    }

    static returned<optimizer> muon(const strategy &of, const muon_options &how = {}) {
        return made(&umbo_optimizer_create_muon, of, detail::raw_options(how));
    }

    static returned<optimizer> adafactor(const strategy &of, const adafactor_options &how = {}) {
        return made(&umbo_optimizer_create_adafactor, of, detail::raw_options(how));
    }

    static returned<optimizer> adagrad(const strategy &of, const adagrad_options &how = {}) {
        return made(&umbo_optimizer_create_adagrad, of, detail::raw_options(how));
    }

    static returned<optimizer> rmsprop(const strategy &of, const rmsprop_options &how = {}) {
        return made(&umbo_optimizer_create_rmsprop, of, detail::raw_options(how));
    }

    static returned<optimizer> ftrl(const strategy &of, const ftrl_options &how = {}) {
        return made(&umbo_optimizer_create_ftrl, of, detail::raw_options(how));
    }

    // A rule of the program's: `update(const umbo_update_tile &)`, which is called by several threads at
    // once and throws nothing.
    template <class Update>
    static returned<optimizer> custom(const strategy &of, const custom_rule_options &how, Update &&update) {
        return make_custom<std::decay_t<Update>>(of, how, std::forward<Update>(update), nullptr);
    }

    // The same, with what queues kernels for variables that a GPU holds:
    // `on_gpu(const umbo_gpu_update &) -> returned<void>`. If it fails, or throws, nothing changes.
    template <class Update, class OnGpu>
    static returned<optimizer> custom(const strategy &of, const custom_rule_options &how, Update &&update,
                                      OnGpu &&on_gpu) {
        using both = detail::both_updates<std::decay_t<Update>, std::decay_t<OnGpu>>;
        static_assert(std::is_nothrow_invocable_v<const std::decay_t<Update> &, const umbo_update_tile &>,
                      "a rule is noexcept: some elements would be updated and others not");
        return make_custom<both>(of, how, both{std::forward<Update>(update), std::forward<OnGpu>(on_gpu)},
                                 &detail::update_on_gpu_trampoline<both>);
    }

    // Replaces all settings.
    returned<void> configure(const optimizer_options &how) const {
        const auto options = detail::raw_options(how);
        return check(umbo_optimizer_configure(get(), &options));
    }

    returned<void> add_group(span<const variable> variables, const group_options &how) const {
        const auto options = detail::raw_options(how);
        const auto raw = detail::raw_handles(variables);
        return check(umbo_optimizer_add_group(get(), detail::count_of(raw.size()), raw.data(),
                                       &options));
    }

    // Its rule, iterations, learning rate and loss scale.
    returned<optimizer_info> info() const {
        umbo_optimizer_info out = UMBO_OPTIMIZER_INFO_INIT;
        UMBO_DETAIL_TRY(umbo_optimizer_get_info(get(), &out));
        return detail::from_c(out);
    }

    // What it is set up with: "learning_rate", "beta1", "clip_value", ...
    returned<double> setting(const std::string &name) const { return setting(variable(), name); }

    // How it treats a variable: "learning_rate_factor", "weight_decay", "frozen".
    returned<double> setting(const variable &of, const std::string &name) const {
        double out = 0;
        UMBO_DETAIL_TRY(umbo_optimizer_setting(get(), of.get(), name.c_str(), &out));
        return out;
    }

    // The learning rate of each update is `schedule(step)`, where `step` counts those before it.
    template <class Schedule>
    returned<void> set_schedule(Schedule &&schedule) const {
        using callable = std::decay_t<Schedule>;
        auto *kept = new callable(std::forward<Schedule>(schedule));
        return check(umbo_optimizer_set_schedule(get(), &detail::schedule_trampoline<callable>, kept,
                                          &detail::destroy_callable<callable>));
    }

    // The learning rate of each update follows a schedule with a name.
    returned<void> set_named_schedule(const schedule_options &how) const {
        const auto raw = detail::raw_options(how);
        return check(umbo_optimizer_set_named_schedule(get(), &raw));
    }

    // A value for the schedule `schedule_kind::plateau`.
    returned<void> observe(double value) const { return check(umbo_optimizer_observe(get(), value)); }

    // Combines what the replicas submitted and updates the variables.
    returned<apply_report> apply(const gradients &submitted, const apply_options &how = {}) const {
        const auto options = detail::raw_options(how);
        umbo_apply_report out = UMBO_APPLY_REPORT_INIT;
        UMBO_DETAIL_TRY(umbo_optimizer_apply(get(), submitted.get(), &options, &out));
        return detail::from_c(out);
    }

    // Calls `body()` while the variables have the averages of their weights as values.
    template <class Body>
    returned<void> with_average(Body &&body) const {
        using callable = detail::callable_object<Body>;
        return check(umbo_optimizer_with_average(get(), &detail::average_trampoline<callable>,
                                                 detail::lent_callable(body).user_data()));
    }

    // What the last apply did that was carried out.
    returned<apply_report> last_report() const {
        umbo_apply_report out = UMBO_APPLY_REPORT_INIT;
        UMBO_DETAIL_TRY(umbo_optimizer_last_report(get(), &out));
        return detail::from_c(out);
    }

    returned<void> set_learning_rate(double learning_rate) const {
        return check(umbo_optimizer_set_learning_rate(get(), learning_rate));
    }

    // What the optimizer keeps for a variable, as if an update had left it.
    returned<void> assign_state(const variable &of, const std::string &name, const tensor &state) const {
        return check(umbo_optimizer_assign_state(get(), of.get(), name.c_str(), state.get()));
    }

    // How often a variable was updated, and what the rule carries along.
    returned<umbo::variable_progress> variable_progress(const variable &of) const {
        umbo_variable_progress out = UMBO_VARIABLE_PROGRESS_INIT;
        UMBO_DETAIL_TRY(umbo_optimizer_variable_progress(get(), of.get(), &out));
        return detail::from_c(out);
    }

    returned<void> set_variable_progress(const variable &of, const umbo::variable_progress &progress) const {
        const auto raw = detail::raw_options(progress);
        return check(umbo_optimizer_set_variable_progress(get(), of.get(), &raw));
    }

    returned<void> set_iterations(std::int64_t iterations) const {
        return check(umbo_optimizer_set_iterations(get(), iterations));
    }

    // The loss scale, and how many applies in a row have taken effect with it.
    returned<void> set_loss_scale(double loss_scale, std::int64_t applies = 0) const {
        return check(umbo_optimizer_set_loss_scale(get(), loss_scale, applies));
    }

    // A variable with the rows `kept` of one, in this order, and behind them those of `appended`, which takes that
    // one's place: make new gradients with it.
    returned<variable> change_rows(const variable &of, span<const std::int64_t> kept,
                                   const tensor &appended = tensor()) const {
        static const std::int64_t none = 0; // A NULL array would keep the first rows.
        return changed_rows(of, detail::count_of(kept.size()), kept.size() == 0 ? &none : kept.data(), appended);
    }

    // The same; the first `kept_count` rows stay.
    returned<variable> change_rows(const variable &of, std::int64_t kept_count,
                                   const tensor &appended = tensor()) const {
        return changed_rows(of, kept_count, nullptr, appended);
    }

    // A copy of what the optimizer keeps for a variable: "momentum", "m", "v".
    returned<tensor> read_state(const variable &of, const std::string &name) const {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_optimizer_read_state(get(), of.get(), name.c_str(), &out));
        return tensor(out);
    }

private:
    returned<variable> changed_rows(const variable &of, std::int64_t count, const std::int64_t *kept,
                                    const tensor &appended) const {
        umbo_variable *out = nullptr;
        UMBO_DETAIL_TRY(umbo_optimizer_change_rows(get(), of.get(), count, kept, appended.get(), &out));
        return variable(out);
    }

    template <class Raw>
    static returned<optimizer> made(umbo_status (*create)(const umbo_strategy *, const Raw *,
                                                umbo_optimizer **),
                          const strategy &of, const Raw &options) {
        umbo_optimizer *out = nullptr;
        UMBO_DETAIL_TRY(create(of.get(), &options, &out));
        return optimizer(out);
    }

    template <class Callable, class Given>
    static returned<optimizer> make_custom(const strategy &of, const custom_rule_options &how, Given &&update,
                                           umbo_update_on_gpu_fn on_gpu) {
        static_assert(std::is_nothrow_invocable_v<const Callable &, const umbo_update_tile &>,
                      "a rule is noexcept: some elements would be updated and others not");
        if (!how.state_initials.empty() && how.state_initials.size() != how.state_names.size()) {
            UMBO_DETAIL_FAIL(status::invalid_argument,
                             "state_initials: " + std::to_string(how.state_initials.size()) + " for " +
                                 std::to_string(how.state_names.size()) + " states");
        }
        const auto names = detail::raw_texts(how.state_names);
        umbo_custom_rule_options options = UMBO_CUSTOM_RULE_OPTIONS_INIT;
        options.name = how.name.c_str();
        options.learning_rate = how.learning_rate;
        options.weight_decay = how.weight_decay;
        options.decoupled_weight_decay = how.decoupled_weight_decay ? 1 : 0;
        options.update_on_gpu = on_gpu;
        options.state_count = detail::count_of(names.size());
        options.state_names = names.empty() ? nullptr : names.data();
        options.state_initials = how.state_initials.empty() ? nullptr : how.state_initials.data();
        auto *kept = new Callable(std::forward<Given>(update));
        umbo_optimizer *out = nullptr;
        UMBO_DETAIL_TRY(umbo_optimizer_create_custom(of.get(), &detail::tile_trampoline<Callable>, kept,
                                                     &detail::destroy_callable<Callable>, &options, &out));
        return optimizer(out);
    }
};

UMBO_DETAIL_END

#endif
