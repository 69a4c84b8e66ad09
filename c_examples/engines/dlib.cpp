// dlib under Umbo: an engine whose layers own their parameters. Each replica has a net of its own; a step copies
// the weights into it, and its gradients are lent where dlib leaves them.
//
// Trained beside dlib alone, with which it has to agree up to rounding.
#include <dlib/dnn.h>

#include <umbo/umbo.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

using net_type = dlib::loss_multiclass_log<dlib::fc<4, dlib::relu<dlib::fc<16, dlib::input<dlib::matrix<float>>>>>>;
using sample = dlib::matrix<float>;

constexpr std::int64_t inputs = 9, batch = 10, batches = 8, epochs = 6;
constexpr double rate = 0.1;

#define DEMAND(condition) \
  do { \
    if (!(condition)) { \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1); \
    } \
  } while (0)

struct examples {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  examples() {
    std::uint32_t state = 11;
    for (std::int64_t row = 0; row < batches * batch; ++row) {
      float sum = 0;
      for (std::int64_t column = 0; column < inputs; ++column) {
        state = state * 1664525u + 1013904223u;
        x.push_back(static_cast<float>(state >> 8) / 8388608.0f - 1.0f);
        sum += x.back() * static_cast<float>(column % 4);
      }
      y.push_back(static_cast<std::int64_t>(std::floor(std::fabs(sum))) % 4);
    }
  }
};

sample sample_of(const float *row) {
  sample made(inputs, 1);
  for (std::int64_t column = 0; column < inputs; ++column) made(column) = row[column];
  return made;
}

// A net whose parameters are there: dlib makes them when it first sees a sample.
std::unique_ptr<net_type> make_net() {
  auto net = std::make_unique<net_type>();
  sample zeros(inputs, 1);
  zeros = 0;
  dlib::resizable_tensor seen;
  net->to_tensor(&zeros, &zeros + 1, seen);
  net->forward(seen);
  return net;
}

// The parameters of each layer that has some, as dlib holds them: weights and biases in one tensor.
std::vector<dlib::tensor *> parameters_of(net_type &net) {
  std::vector<dlib::tensor *> found;
  dlib::visit_layer_parameters(net, [&](std::size_t, dlib::tensor &each) {
    if (each.size() != 0) found.push_back(&each);
  });
  return found;
}

std::vector<dlib::tensor *> gradients_of(net_type &net) {
  std::vector<dlib::tensor *> found;
  dlib::visit_layer_parameter_gradients(net, [&](std::size_t, dlib::tensor &each) {
    if (each.size() != 0) found.push_back(&each);
  });
  return found;
}

void begin_from_the_same(net_type &net) {
  std::uint32_t state = 5;
  for (dlib::tensor *each : parameters_of(net)) {
    float *const numbers = each->host();
    for (std::size_t at = 0; at < each->size(); ++at) {
      state = state * 1664525u + 1013904223u;
      numbers[at] = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
    }
  }
}

std::vector<float> flattened(net_type &net) {
  std::vector<float> all;
  for (dlib::tensor *each : parameters_of(net)) all.insert(all.end(), each->host(), each->host() + each->size());
  return all;
}

// ---- dlib alone: plain gradient descent on whole batches

std::vector<float> alone(const examples &all) {
  const auto net = make_net();
  begin_from_the_same(*net);
  for (std::int64_t step = 0; step < epochs * batches; ++step) {
    std::vector<sample> samples;
    std::vector<unsigned long> labels;
    for (std::int64_t row = 0; row < batch; ++row) {
      const auto at = static_cast<std::size_t>(step % batches * batch + row);
      samples.push_back(sample_of(&all.x[at * inputs]));
      labels.push_back(static_cast<unsigned long>(all.y[at]));
    }
    net->compute_parameter_gradients(samples.begin(), samples.end(), labels.begin());
    const auto weights = parameters_of(*net), gradients = gradients_of(*net);
    for (std::size_t layer = 0; layer < weights.size(); ++layer) {
      float *const w = weights[layer]->host();
      const float *const g = gradients[layer]->host();
      for (std::size_t at = 0; at < weights[layer]->size(); ++at) w[at] -= static_cast<float>(rate) * g[at];
    }
  }
  return flattened(*net);
}

// ---- under Umbo

umbo_view view_of(const dlib::tensor &tensor) {
  const auto size = static_cast<std::int64_t>(tensor.size());
  return umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 1, &size, tensor.host());
}

std::vector<float> under_umbo(const examples &all, std::int64_t count) {
  umbo::strategy_options options;
  options.cpu_replicas = count;
  const auto strategy = umbo::strategy::create(options);
  std::vector<std::unique_ptr<net_type>> nets;
  for (std::int64_t index = 0; index < count; ++index) nets.push_back(make_net());
  begin_from_the_same(*nets[0]);
  std::vector<umbo::variable> variables;
  for (dlib::tensor *each : parameters_of(*nets[0])) {
    variables.push_back(strategy.create_variable(
        "layer" + std::to_string(variables.size()),
        umbo::tensor::from_data(umbo::dimensions{static_cast<std::int64_t>(each->size())}, each->host())));
  }
  // A step takes the mean, as dlib has it.
  const auto gradients = umbo::gradients::create(strategy, variables, umbo::loss_reduction::mean);
  umbo::sgd_options plain;
  plain.learning_rate = rate;
  const auto optimizer = umbo::optimizer::sgd(strategy, plain);

  const auto step = [&](umbo::replica_context &context, const umbo::value &rows) {
    net_type &net = *nets[static_cast<std::size_t>(context.replica_id())];
    const auto x = rows.view_as<float>("x");
    const auto y = rows.view_as<std::int64_t>("y");
    std::vector<sample> samples;
    std::vector<unsigned long> labels;
    for (std::size_t row = 0; row < y.size(); ++row) {
      samples.push_back(sample_of(x.data() + row * inputs));
      labels.push_back(static_cast<unsigned long>(y[row]));
    }
    double loss = 0;
    if (!samples.empty()) { // a replica's part may be empty, and dlib wants an example
      const auto weights = parameters_of(net);
      for (std::size_t layer = 0; layer < weights.size(); ++layer) {
        std::memcpy(weights[layer]->host_write_only(), context.read<float>(variables[layer]).data(),
                    weights[layer]->size() * sizeof(float));
      }
      loss = net.compute_parameter_gradients(samples.begin(), samples.end(), labels.begin());
      const auto made = gradients_of(net);
      for (std::size_t layer = 0; layer < made.size(); ++layer) {
        context.attach(gradients, static_cast<std::int64_t>(layer), view_of(*made[layer]));
      }
    }
    context.add_metric("loss", loss * static_cast<double>(y.size()), static_cast<double>(y.size()));
    context.submit(gradients);
  };
  umbo::value::field_list fields;
  fields.emplace_back("x", umbo::value::from_data({batches * batch, inputs}, all.x.data()));
  fields.emplace_back("y", umbo::value::from_data({batches * batch}, all.y.data()));
  const auto rows = umbo::dataset::from_tensor_slices(umbo::value::create_struct(fields)).batch(batch);
  const auto pass = strategy.iterate(rows);
  double before = 0, after = 0;
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
    (epoch == 0 ? before : after) = loss / seen;
  }
  std::printf("%d replicas: loss %.4f, then %.4f\n", static_cast<int>(count), before, after);
  DEMAND(after < before);
  std::vector<float> weights;
  for (const auto &each : variables) {
    const auto numbers = each.read().to_vector<float>();
    weights.insert(weights.end(), numbers.begin(), numbers.end());
  }
  return weights;
}

} // namespace

int main() {
  const examples all;
  const auto expected = alone(all);
  for (const std::int64_t replicas : {1, 2, 3}) {
    const auto weights = under_umbo(all, replicas);
    DEMAND(weights.size() == expected.size());
    float furthest = 0;
    for (std::size_t at = 0; at < weights.size(); ++at) furthest = std::fmax(furthest, std::fabs(weights[at] - expected[at]));
    std::printf("%d replicas: weights differ by %.2g at most from dlib's own\n", static_cast<int>(replicas), static_cast<double>(furthest));
    DEMAND(furthest < 1e-5f);
  }
  return 0;
}
