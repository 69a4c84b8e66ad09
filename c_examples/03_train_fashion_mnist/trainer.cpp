// The C++ counterpart of trainer.c and main.c: the same network, options and pictures, on several replicas whose
// variables live in one place.
extern "C" {
#include "data.h"
#include "matrix.h"
#include "mlp.h"
#include "options.h"
}

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <umbo/umbo.hpp>
#include <vector>

namespace {

// Ends the program after --help, and where something is wrong.
options parse(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--help") {
      std::printf("usage: 03_train_fashion_mnist_cpp [options]\n%s"
                  "  --help                  print this\n\n"
                  "03_train_fashion_mnist, the program in C, also saves checkpoints and a history, and compares.\n",
                  options_of_all_programs);
      std::exit(0);
    }
  }
  const options chosen = options_parse(argc, argv);
  if (chosen.checkpoint != nullptr || chosen.history != nullptr || chosen.compare || chosen.state_bits != 0 ||
      chosen.rounds_weights) {
    std::fputs("03_train_fashion_mnist_cpp: --checkpoint, --history, --state-bits, --weights and --compare are options "
               "of the program in C alone\n",
               stderr);
    std::exit(2);
  }
  return chosen;
}

struct tally {
  double loss = 0.0, correct = 0.0, examples = 0.0;
};

class trainer {
public:
  trainer(const picture_data &data, const options &chosen, const umbo::communicator &together)
      : mean_(data.mean), deviation_(data.deviation) {
    shape_ = {4, {data.pixels, 256, 128, 64, data.classes}};
    umbo::strategy_options replicas;
    replicas.cpu_replicas = chosen.replicas;
    replicas.replicas_in_sync = chosen.replicas_in_sync;
    replicas.communicator = together; // all that several processes need
    replicas.bind_threads = chosen.replicas > 1; // one replica may leave threads to BLAS
    strategy_ = umbo::strategy::create(replicas);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      const std::string name = "layer" + std::to_string(layer);
      const std::int64_t *sizes = shape_.sizes + layer;
      variables_.push_back(strategy_.create_variable(
          name + "/weights", umbo::dtype::float32, {sizes[0], sizes[1]}, [&](const umbo_view &memory) {
            mlp_initialize_weights(&shape_, layer, chosen.seed, umbo::view_of<float>(memory).data());
          }));
      variables_.push_back(
          strategy_.create_variable(name + "/biases", umbo::dtype::float32, {sizes[1]}, umbo::initial::zeros));
    }
    // The network adds up over its rows; the library divides by all rows.
    gradients_ = umbo::gradients::create(strategy_, variables_, umbo::loss_reduction::sum);
    umbo::adam_options adam;
    umbo::momentum_options momentum;
    adam.learning_rate = momentum.learning_rate = chosen.learning_rate;
    optimizer_ = chosen.rule == RULE_ADAM ? umbo::optimizer::adam(strategy_, adam)
                                          : umbo::optimizer::momentum(strategy_, momentum);
    training_ = umbo::iterator(data_training_batches(&data, strategy_.get(), chosen.batch_size, chosen.seed));
    test_ = umbo::iterator(data_test_batches(&data, strategy_.get()));
  }

  // One pass; the learning rate falls along a line.
  tally train(double rate, double fall_per_example) {
    tally total;
    for (const umbo::value &batch : training_) {
      optimizer_.set_learning_rate(rate - fall_per_example * total.examples);
      strategy_.run([this](umbo::replica_context &context, const umbo::value &own) { step(context, own, true); }, batch);
      optimizer_.apply(gradients_);
      add_metrics(total);
    }
    return total;
  }

  tally evaluate() {
    tally total;
    umbo::evaluate(strategy_, test_,
                   [this](umbo::replica_context &context, const umbo::value &own) { step(context, own, false); });
    add_metrics(total);
    return total;
  }

private:
  void step(umbo::replica_context &context, const umbo::value &batch, bool learn) const {
    const auto pixels = batch.view_as<std::uint8_t>("x"), labels = batch.view_as<std::uint8_t>("y");
    const std::int64_t rows = pixels.shape(0);
    mlp_score score = {0.0, 0};
    if (rows > 0) { // a last batch can be too small for all replicas; a part without rows weighs nothing
      float *const inputs = context.scratch<float>(pixels.size()).data();
      char *const workspace = context.scratch<char>(mlp_workspace_bytes(&shape_, rows)).data();
      const std::uint8_t *const from = pixels.begin();
      const float scale = 1.0f / deviation_, shift = -mean_ / deviation_;
      for (std::size_t i = 0; i < pixels.size(); ++i) inputs[i] = static_cast<float>(from[i]) * scale + shift;
      mlp_parameters read;
      mlp_gradients written;
      for (int layer = 0; layer < shape_.layers; ++layer) {
        const auto gradient = [&](int index) {
          return context.gradient<float>(gradients_, index, umbo::gradient_mode::overwrite).data();
        };
        read.weights[layer] = context.read<float>(variables_[static_cast<std::size_t>(2 * layer)]).data();
        read.biases[layer] = context.read<float>(variables_[static_cast<std::size_t>(2 * layer + 1)]).data();
        if (learn) written.weights[layer] = gradient(2 * layer);
        if (learn) written.biases[layer] = gradient(2 * layer + 1);
      }
      score = learn ? mlp_differentiate(&shape_, &read, rows, inputs, labels.data(), workspace, &written)
                    : mlp_evaluate(&shape_, &read, rows, inputs, labels.data(), workspace);
    }
    context.add_metric("loss", score.loss, static_cast<double>(rows));
    context.add_metric("accuracy", static_cast<double>(score.correct), static_cast<double>(rows));
    if (learn) context.submit(gradients_);
  }

  // Takes what the replicas of the last run, or of the last epoch, reported.
  void add_metrics(tally &total) const {
    const auto loss = strategy_.metric_result("loss");
    total.loss += loss.sum;
    total.correct += strategy_.metric_result("accuracy").sum;
    total.examples += loss.weight;
  }

  mlp_shape shape_{};
  float mean_, deviation_; // of a pixel
  umbo::strategy strategy_;
  std::vector<umbo::variable> variables_; // the weights and then the biases of each layer
  umbo::gradients gradients_;
  umbo::optimizer optimizer_;
  umbo::iterator training_, test_;
};

} // namespace

int main(int argc, char **argv) {
  const options chosen = parse(argc, argv);
  // With --workers mpi the processes that mpirun has started train as one, and the first of them prints.
  const auto together = chosen.workers ? umbo::communicator::create_mpi() : umbo::communicator();
  const bool prints = !together || together.info().rank == 0;
  picture_data data = data_open(chosen.data);
  const bool only = chosen.replicas == 1 && chosen.replicas_in_sync == 0;
  const bool alone = only && (!together || together.info().node_rank_count == 1);
  matrix_set_threads(alone ? matrix_most_threads() : 1);
  double seconds = 0.0, examples = 0.0, accuracy = 0.0;
  {
    trainer t(data, chosen, together);
    const double fall = chosen.learning_rate / (static_cast<double>(data.training_examples) * chosen.epochs);
    for (int epoch = 1; epoch <= chosen.epochs; ++epoch) {
      const auto start = std::chrono::steady_clock::now();
      const tally total = t.train(chosen.learning_rate - fall * examples, fall);
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      examples += total.examples;
      const tally test = t.evaluate();
      accuracy = test.correct / test.examples;
      if (prints && !chosen.json_only) {
        std::printf("epoch %d/%d: loss %.4f, accuracy %.4f, test accuracy %.4f\n", epoch, chosen.epochs,
                    total.loss / total.examples, total.correct / total.examples, accuracy);
      }
    }
  }
  if (prints) {
    std::printf("{\"replicas\": %d, \"epochs\": %d, \"test_accuracy\": %.4f, \"samples_per_second\": %.1f, "
                "\"seconds\": %.3f}\n",
                chosen.replicas, chosen.epochs, accuracy, examples / seconds, seconds);
  }
  data_close(&data);
}
