// Instantiates what the other tests do not.
#include <umbo/umbo.hpp>
#include <umbo/umbo.hpp>
int main() {
    auto s = umbo::strategy::central_storage();
    s.in_scope([](umbo::strategy &) {});
    auto r = s.run([](umbo::replica_context &c, const umbo::value &v) { auto *p=c.scratch<float>(3); (void)p; c.merge_call([](umbo::strategy &, const umbo::value &a) { return a; }, v); return v; });
    s.run([](umbo::replica_context, umbo::value) {}, {}, umbo::run_options{});
    auto v = s.create_variable("x", UMBO_FLOAT32, {2}, [](const umbo_view &) {});
    auto const lam = [](umbo::variable &, const umbo::value &a) { return a.as_tensor(); };
    s.update(v, lam, r);
    umbo::set_log_callback(UMBO_LOG_DEBUG, [](umbo_log_level, const char *) {});
    auto t = umbo::tensor::from_memory<float>({1}, nullptr, nullptr);
    t.view_as<const float>()(0);
    (void)t.to_vector<float>();
    auto g = umbo::gradients::create(s, {v}, UMBO_LOSS_SUM);
    s.reduce(UMBO_REDUCE_SUM, r, {});
}
