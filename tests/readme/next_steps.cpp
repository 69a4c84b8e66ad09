// Takes the next steps of docs/start.md in one program; readme.next_steps compares every line of the table with this text.
#include <umbo/umbo.hpp>

#include <cstdlib>

#undef NDEBUG
#include <cassert>

// Is not called: there may be no MPI.
[[maybe_unused]] static void over_processes(umbo::strategy_options &replicas) {
  replicas.communicator = umbo::communicator::create_mpi();
}

int main() {
  assert(umbo::strategy::create_cpu(UMBO_AUTO).local_replica_count() == umbo::processor_count());
  const auto strategy = umbo::strategy::create_cpu(4);
  const auto weights = strategy.create_variable("weights", umbo::dtype::float32, {2}, umbo::initial::zeros);
  const auto gradients = umbo::gradients::create(strategy, {weights}, umbo::loss_reduction::sum);

  const float x[] = {-3, -2, -1, 0, 1, 2, 3}, y[] = {-5, -3, -1, 1, 3, 5, 7};
  umbo::value::field_list fields;
  fields.emplace_back("x", umbo::value::from_data({7}, x));
  fields.emplace_back("y", umbo::value::from_data({7}, y));
  const auto rows = umbo::dataset::from_tensor_slices(umbo::value::create_struct(fields));
  const auto batches = strategy.iterate(rows.shuffle().batch(4));
  const auto test = strategy.iterate(rows.batch(4).prefetch(2));

  const auto error_of = [&](umbo::replica_context &context, const umbo::value &batch, auto with) {
    const auto part = batch.view_as<float>("x"), right = batch.view_as<float>("y");
    const auto w = context.read<float>(weights);
    for (std::int64_t i = 0; i < part.shape(0); ++i) with(part(i), w(0) * part(i) + w(1) - right(i));
    return part.shape(0);
  };
  const auto step = [&](umbo::replica_context &context, const umbo::value &batch) {
    const auto sum = context.gradient<float>(gradients, 0, umbo::gradient_mode::add);
    error_of(context, batch, [&](float at, float error) {
      sum(0) += error * at;
      sum(1) += error;
    });
    context.submit(gradients);
  };
  const auto evaluate_step = [&](umbo::replica_context &context, const umbo::value &batch) {
    double loss = 0;
    const auto examples = error_of(context, batch, [&](float, float error) { loss += static_cast<double>(error * error) / 2; });
    context.add_metric("loss", loss, static_cast<double>(examples));
  };

  const auto checkpoint = umbo::checkpoint::create(strategy);
  checkpoint.add("weights", weights);
  const auto manager = umbo::checkpoint_manager::create(checkpoint, "next_steps_cpp");
  const auto adam = umbo::optimizer::adam(strategy);
  for (int epoch = 1; epoch <= 2; ++epoch) {
    umbo::evaluate(strategy, test, evaluate_step);
    const double before = strategy.metric_result("loss").mean;
    umbo::train_epoch(strategy, batches, adam, gradients, step);
    umbo::evaluate(strategy, test, evaluate_step);
    assert(strategy.metric_result("loss").mean < before);
    assert(manager.save(epoch, {}, true));
  }
  assert(manager.latest() == 2);
}
