// What happens when something goes wrong: a wrong argument, a replica that throws, and one that takes too long. Teaches
// that messages say what and where, that a failed step changes nothing, and that the strategy can be used afterwards.
#include <cstdio>
#include <stdexcept>
#include <umbo/umbo.hpp>

// Calls something that throws, and gives the status of the error.
template <class Fn>
static umbo::status status_of(Fn &&fails) {
  try {
    fails();
  } catch (const umbo::error &error) {
    std::printf("%s: %s\n", umbo_status_name(static_cast<umbo_status>(error.status())), error.what());
    for (const auto &record : error.records()) { // the same, one by one
      if (record.replica >= 0) std::printf("  replica %d on %s\n", record.replica, record.device.c_str());
    }
    return error.status();
  }
  return umbo::status::ok;
}

int main() {
  const auto refused = status_of([] { umbo::strategy::create_cpu(-2); });

  const auto strategy = umbo::strategy::create_cpu(2);
  umbo::variable_options adding;
  adding.aggregation = umbo::aggregation::sum; // what replicas assign is added up
  const auto total = strategy.create_variable("total", umbo::tensor::create_zeros(umbo::dtype::float32, {}), adding);
  const auto read_total = [&] { return total.read().to_vector<float>().at(0); };

  // An exception of the program's own comes back as it was thrown.
  bool thrown = false;
  try {
    strategy.run([&](umbo::replica_context &context, const umbo::value &) {
      total.assign_add(1.0f); // takes effect when all replicas are done
      if (context.replica_id() == 1) throw std::out_of_range("picture 17 is cut off");
    });
  } catch (const std::out_of_range &error) {
    std::printf("thrown: %s\n", error.what());
    thrown = true;
  }
  const float after_failure = read_total();

  umbo::run_options limits;
  limits.timeout_seconds = 0.1;
  const auto slow = [total](umbo::replica_context &context, const umbo::value &) {
    total.assign_add(1.0f);
    // Long work asks now and then whether it is still wanted.
    while (context.replica_id() == 1 && !context.is_cancelled()) {
    }
  };
  const auto late = status_of([&] { strategy.run(slow, {}, limits); });
  strategy.synchronize(); // the late replica has noticed, and is back
  const float after_timeout = read_total();

  // As if nothing had been.
  strategy.run([&](umbo::replica_context &, const umbo::value &) { total.assign_add(1.0f); });
  const float after_success = read_total();
  std::printf("total: %.0f after the failure, %.0f after the timeout, %.0f after success\n",
              static_cast<double>(after_failure), static_cast<double>(after_timeout), static_cast<double>(after_success));
  return refused == umbo::status::invalid_argument && thrown && late == umbo::status::deadline_exceeded &&
                 after_failure == 0 && after_timeout == 0 && after_success == 2
             ? 0
             : 1;
}
