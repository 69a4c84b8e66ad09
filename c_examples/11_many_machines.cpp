// Trains with all processes that were started together, on one machine or on many:
//
//   11_many_machines_cpp                        alone
//   mpirun -n 2 11_many_machines_cpp mpi        two processes, which train as one
//
// Teaches what of a program is about that: a communicator in the strategy's options, and that one process speaks for
// all. With replicas_in_sync the weights are bit-identical however many processes there are.
#include <cmath>
#include <cstdio>
#include <string>
#include <umbo/umbo.hpp>
#include <vector>

int main(int argc, char **argv) {
  // MPI is found now, and not when this is compiled. Any other engine can be brought: umbo::communicator::create.
  umbo::strategy_options options;
  if (argc > 1 && std::string(argv[1]) == "mpi") options.communicator = umbo::communicator::create_mpi();
  options.cpu_replicas = 1;      // devices of this process
  options.replicas_in_sync = 12; // of all processes together
  const auto strategy = umbo::strategy::create(options);
  const bool speaks = strategy.rank() == 0;
  if (speaks) {
    std::printf("12 replicas in sync, %d of them here; processes: %d\n", static_cast<int>(strategy.local_replica_count()),
                static_cast<int>(strategy.rank_count()));
  }

  // From here on every process does the same. What rank 0 gives a variable counts.
  const auto line = strategy.create_variable("line", umbo::dtype::float32, {2}, umbo::initial::zeros); // {slope, offset}
  umbo::momentum_options rate;
  rate.learning_rate = 0.1;
  const auto gradients = umbo::gradients::create(strategy, {line}, umbo::loss_reduction::sum);
  const auto optimizer = umbo::optimizer::momentum(strategy, rate);

  // One replica, on whatever machine: its part of the global batch, which may be empty.
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

  std::vector<float> table; // on the line y = 3 x - 1
  for (int i = 0; i < 100; ++i) {
    table.push_back(0.02f * static_cast<float>(i) - 1.0f);
    table.push_back(3.0f * table.back() - 1.0f);
  }
  umbo::shuffle_options order;
  order.seed = 1; // the same on all ranks, each of which takes its own rows of each batch
  const auto examples = umbo::dataset::from_tensor_slices(umbo::tensor::from_data({100, 2}, table));
  const auto batches = strategy.iterate(examples.shuffle(order).batch(15)); // of all processes together
  for (int epoch = 0; epoch < 60; ++epoch) umbo::train_epoch(strategy, batches, optimizer, gradients, step);

  // All have the same weights. They save together, since each keeps a part of what an optimizer remembers.
  const auto found = line.read().to_vector<float>();
  const auto fingerprint = static_cast<unsigned long long>(strategy.fingerprint());
  const auto checkpoint = umbo::checkpoint::create(strategy);
  checkpoint.add(line);
  checkpoint.add("optimizer", optimizer);
  checkpoint.save("11_many_machines_cpp.safetensors");
  if (speaks) {
    std::printf("y = %.3f x %+.3f, weights %016llx\n", static_cast<double>(found[0]), static_cast<double>(found[1]),
                fingerprint);
  }
  return std::fabs(found[0] - 3) < 0.01f && std::fabs(found[1] + 1) < 0.01f ? 0 : 1;
}
