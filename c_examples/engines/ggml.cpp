// ggml under Umbo: one block of memory holds the weights, for ggml's tensors and as Umbo's variables; each
// replica has a graph of its own over it, whose gradients are lent where ggml leaves them.
//
// Built beside ggml's own training (ggml_opt), which it has to agree with: bit for bit on one replica, and to
// the last digits on several, whose sums are rounded in another order.
#include "ggml_model.hpp"

#include <cmath>
#include <memory>

namespace {

constexpr std::int64_t inputs = 20, hidden = 33, classes = 5, batch = 12, batches = 13, epochs = 36;
constexpr float spread = 0.3f;

struct examples {
  std::vector<float> x, y; // labels as one row of classes each
  examples() : x(batches * batch * inputs), y(batches * batch * classes, 0.0f) {
    std::uint32_t state = 7;
    for (std::int64_t row = 0; row < batches * batch; ++row) {
      float sum = 0;
      for (std::int64_t column = 0; column < inputs; ++column) {
        state = state * 1664525u + 1013904223u;
        const float number = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
        x[static_cast<std::size_t>(row * inputs + column)] = number;
        sum += number * static_cast<float>(column % 3);
      }
      const auto label = static_cast<std::int64_t>(std::floor(std::fabs(sum) * 1.5f)) % classes;
      y[static_cast<std::size_t>(row * classes + label)] = 1.0f;
    }
  }
};

// ---- ggml alone

ggml_opt_optimizer_params settings(void *) {
  ggml_opt_optimizer_params how{};
  how.adamw = {0.01f, 0.9f, 0.999f, 1e-8f, 0.05f};
  how.sgd = {0.01f, 0.0f};
  return how;
}

std::vector<float> alone(const examples &all) {
  block weights({inputs, hidden, classes});
  weights.draw(spread);
  own_training training(weights, batch, 1, settings);
  for (std::int64_t step = 0; step < epochs * batches; ++step) {
    const std::int64_t first = step % batches * batch;
    training.step(&all.x[static_cast<std::size_t>(first * inputs)], &all.y[static_cast<std::size_t>(first * classes)]);
  }
  return weights.copy();
}

// ---- ggml's AdamW as a rule of Umbo's. Its compiler may have fused some of the multiplications and additions,
// which the bits depend on: which, is found out by asking ggml for one step.

struct adamw {
  int first = 0, second = 0, last = 0; // 0: two roundings; 1 and 2: one, of the left or the right product

  static float sum_of(int fused, float a, float b, float c, float d) { // a * b + c * d
    volatile float left = a * b, right = c * d;
    return fused == 0 ? left + right : fused == 1 ? std::fma(a, b, right) : std::fma(c, d, left);
  }

  void update(float &w, float g, float &m, float &v, const ggml_opt_optimizer_params &how, std::int64_t step) const {
    const auto &with = how.adamw;
    const auto time = static_cast<float>(step);
    const float beta1h = 1.0f / (1.0f - std::pow(with.beta1, time)), beta2h = 1.0f / (1.0f - std::pow(with.beta2, time));
    volatile float square = g * g;
    m = sum_of(first, m, with.beta1, g, 1.0f - with.beta1);
    v = sum_of(second, v, with.beta2, square, 1.0f - with.beta2);
    volatile float mh = m * beta1h, scaled = v * beta2h, top = with.alpha * mh, decay = with.alpha * with.wd;
    const float keep = 1.0f - decay, quotient = top / (std::sqrt(scaled) + with.eps);
    volatile float kept = w * keep;
    w = last == 0 ? kept - quotient : std::fma(w, keep, -quotient);
  }

  static adamw as_ggml_was_compiled() {
    constexpr int count = 4099;
    const ggml_opt_optimizer_params how = settings(nullptr);
    const ggml_init_params size = {(1 << 20) + 8 * count * sizeof(float), nullptr, false};
    ggml_context *context = ggml_init(size);
    ggml_tensor *of[4], *params = ggml_new_tensor_1d(context, GGML_TYPE_F32, 7);
    std::vector<float> before[4];
    std::uint32_t state = 3;
    for (int which = 0; which < 4; ++which) {
      of[which] = ggml_new_tensor_1d(context, GGML_TYPE_F32, count);
      auto *numbers = static_cast<float *>(of[which]->data);
      for (int at = 0; at < count; ++at) {
        state = state * 1664525u + 1013904223u;
        numbers[at] = static_cast<float>(state >> 8) / 16777216.0f + (which == 3 ? 0.01f : -0.5f);
      }
      before[which].assign(numbers, numbers + count);
    }
    const float numbers[7] = {how.adamw.alpha, how.adamw.beta1, how.adamw.beta2, how.adamw.eps, how.adamw.wd,
                              1.0f / (1.0f - std::pow(how.adamw.beta1, 5.0f)),
                              1.0f / (1.0f - std::pow(how.adamw.beta2, 5.0f))};
    std::memcpy(params->data, numbers, sizeof(numbers));
    ggml_set_param(of[0]);
    ggml_cgraph *graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, ggml_opt_step_adamw(context, of[0], of[1], of[2], of[3], params));
    DEMAND(ggml_graph_compute_with_ctx(context, graph, 1) == GGML_STATUS_SUCCESS);
    adamw found;
    bool agrees = false;
    for (int variant = 0; variant < 18 && !agrees; ++variant) {
      found.first = variant % 3;
      found.second = variant / 3 % 3;
      found.last = variant / 9;
      agrees = true;
      for (int at = 0; at < count && agrees; ++at) {
        const auto place = static_cast<std::size_t>(at);
        float w = before[0][place], m = before[2][place], v = before[3][place];
        found.update(w, before[1][place], m, v, how, 5);
        agrees = w == static_cast<float *>(of[0]->data)[at] && m == static_cast<float *>(of[2]->data)[at] &&
                 v == static_cast<float *>(of[3]->data)[at];
      }
    }
    ggml_free(context);
    DEMAND(agrees);
    return found;
  }
};

void update_tile(const umbo_update_tile *tile, void *rule) {
  auto *w = static_cast<float *>(tile->weights);
  const auto *g = static_cast<const float *>(tile->gradient);
  auto *m = static_cast<float *>(tile->states[0]), *v = static_cast<float *>(tile->states[1]);
  for (std::int64_t at = 0; at < tile->count; ++at) {
    static_cast<const adamw *>(rule)->update(w[at], g[at], m[at], v[at], settings(nullptr), tile->step + 1);
  }
}

// ---- under Umbo

std::vector<float> under_umbo(const examples &all, std::int64_t count, adamw rule) {
  umbo::strategy_options options;
  options.cpu_replicas = count;
  const auto strategy = umbo::strategy::create(options);
  const auto weights = std::make_shared<block>(layers{inputs, hidden, classes});
  weights->draw(spread);
  std::vector<std::unique_ptr<replica>> replicas;
  for (std::int64_t index = 0; index < count; ++index) {
    replicas.push_back(std::make_unique<replica>(*weights, batch / count));
  }
  std::vector<umbo_view> views;
  for (const ggml_tensor *each : replicas[0]->net.weights) views.push_back(view_of(each));
  const auto variables = strategy.create_variables_in_memory(weight_names, views, weights);
  // A step takes the mean, as ggml_cross_entropy_loss() has it.
  const auto gradients = umbo::gradients::create(strategy, variables, umbo::loss_reduction::mean);
  umbo_custom_rule_options how = UMBO_CUSTOM_RULE_OPTIONS_INIT;
  const char *const states[2] = {"m", "v"};
  how.state_count = 2;
  how.state_names = states;
  umbo_optimizer *made = nullptr;
  umbo::check(umbo_optimizer_create_custom(strategy.get(), update_tile, &rule, nullptr, &how, &made));
  const umbo::optimizer optimizer(made);

  const auto step = [&](umbo::replica_context &context, const umbo::value &rows) {
    replica &own = *replicas[static_cast<std::size_t>(context.replica_id())];
    const auto x = rows.view_as<float>("x"), y = rows.view_as<float>("y");
    own.contribute(context, gradients, x.data(), y.data());
  };
  umbo::value::field_list fields;
  fields.emplace_back("x", umbo::value::from_data({batches * batch, inputs}, all.x.data()));
  fields.emplace_back("y", umbo::value::from_data({batches * batch, classes}, all.y.data()));
  const auto rows = umbo::dataset::from_tensor_slices(umbo::value::create_struct(fields)).batch(batch);
  const auto pass = strategy.iterate(rows);
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    double loss = 0, seen = 0;
    for (const umbo::value &element : pass) {
      strategy.run(step, element);
      optimizer.apply(gradients);
      const auto metric = strategy.metric_result("loss");
      loss += metric.sum;
      seen += metric.weight;
    }
    pass.reset();
    if (epoch % 12 == 0) std::printf("%d replicas, epoch %2d: loss %.6f\n", static_cast<int>(count), static_cast<int>(epoch), loss / seen);
  }
  return weights->copy();
}

} // namespace

int main() {
  const examples all;
  const auto expected = alone(all);
  const auto rule = adamw::as_ggml_was_compiled();
  const auto one = under_umbo(all, 1, rule);
  DEMAND(one.size() == expected.size());
  DEMAND(std::memcmp(one.data(), expected.data(), one.size() * sizeof(float)) == 0);
  std::printf("%lld steps on 1 replica: the bits of ggml_opt\n", static_cast<long long>(epochs * batches));
  for (const std::int64_t replicas : {2, 3}) {
    const auto several = under_umbo(all, replicas, rule);
    float furthest = 0;
    for (std::size_t at = 0; at < several.size(); ++at) {
      furthest = std::fmax(furthest, std::fabs(several[at] - expected[at]));
    }
    std::printf("on %d replicas: weights differ by %.2g at most\n", static_cast<int>(replicas), static_cast<double>(furthest));
    DEMAND(furthest < 1e-3f);
  }
  return 0;
}
