// Trains for ten epochs, once in one go, and once with a break in the middle, from which a checkpoint leads on. Teaches
// what has to be in a checkpoint, and shows that both trainings end bit-identically.
#include <cstdio>
#include <string>
#include <umbo/umbo.hpp>
#include <vector>

// A process: it makes everything anew, resumes from the file if there is one, trains up to an epoch, and saves.
static std::vector<float> train(const std::string &path, std::int64_t last_epoch) {
  const auto strategy = umbo::strategy::create_cpu(2);
  const auto line = strategy.create_variable("line", umbo::dtype::float32, {2}, umbo::initial::normal); // {w, b}
  umbo::adam_options rule;
  rule.learning_rate = 0.1;
  const auto gradients = umbo::gradients::create(strategy, {line}, umbo::loss_reduction::sum);
  const auto optimizer = umbo::optimizer::adam(strategy, rule); // it has a state: without that, the rest would go another way

  std::vector<float> table;
  for (int i = 0; i < 100; ++i) {
    table.push_back(0.02f * static_cast<float>(i) - 1.0f);
    table.push_back(3.0f * table.back() - 1.0f);
  }
  // Each pass is in another order, which the iterator knows.
  const auto rows = umbo::dataset::from_tensor_slices(umbo::tensor::from_data({100, 2}, table)).shuffle();
  const auto batches = strategy.iterate(rows.batch(8));
  const auto step = [&](umbo::replica_context &context, const umbo::value &batch) {
    const auto row = batch.view_as<float>();
    const auto p = context.read<float>(line);
    const auto g = context.gradient<float>(gradients, 0, umbo::gradient_mode::add);
    for (std::int64_t i = 0; i < row.shape(0); ++i) {
      const float error = p[0] * row(i, 0) + p[1] - row(i, 1);
      g[0] += error * row(i, 0);
      g[1] += error;
    }
    context.submit(gradients);
  };

  // What the rest depends on: the variables, the optimizer's state, the place in the data, and how far it is.
  const auto checkpoint = umbo::checkpoint::create(strategy);
  checkpoint.add(line);
  checkpoint.add("optimizer", optimizer);
  checkpoint.add("batches", batches);
  checkpoint.set_integer("epochs", 0);
  try {
    checkpoint.restore(path);
  } catch (const umbo::error &error) {
    if (error.status() != umbo::status::not_found) throw;
  }
  auto epochs = checkpoint.integer("epochs");
  std::printf("%s: from epoch %d to %d\n", path.c_str(), static_cast<int>(epochs) + 1, static_cast<int>(last_epoch));
  for (; epochs < last_epoch; ++epochs) umbo::train_epoch(strategy, batches, optimizer, gradients, step);
  checkpoint.set_integer("epochs", epochs);
  checkpoint.save(path);
  return line.read().to_vector<float>();
}

int main() {
  std::remove("07_in_one_go_cpp.safetensors");
  std::remove("07_with_a_break_cpp.safetensors");
  const auto in_one_go = train("07_in_one_go_cpp.safetensors", 10);
  train("07_with_a_break_cpp.safetensors", 4);
  const auto with_a_break = train("07_with_a_break_cpp.safetensors", 10);
  const bool same = in_one_go == with_a_break;
  std::printf("y = %.3f x %+.3f, %s bits\n", static_cast<double>(with_a_break[0]), static_cast<double>(with_a_break[1]),
              same ? "the same" : "OTHER");
  return same ? 0 : 1;
}
