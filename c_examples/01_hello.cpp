// The library says hello: its version, the devices of this machine, and one function run on two replicas.
#include <cstdio>
#include <umbo/umbo.hpp>

int main() {
  std::printf("umbo %s\n", umbo::version().c_str());
  std::printf("physical devices: %d CPU, %d GPU\n", static_cast<int>(umbo::device_get_info("CPU:0").physical_count),
              static_cast<int>(umbo::device_get_info("GPU:0").physical_count));

  const auto strategy = umbo::strategy::create_cpu(2);
  std::printf("variables live on %s\n", strategy.parameter_device().c_str());

  // Runs once on every replica, at the same time. What it returns comes back as a per-replica value.
  const auto greetings = strategy.run([](umbo::replica_context &context, const umbo::value &) { return 10 * (context.replica_id() + 1); });

  // The replicas ran in no particular order; their results come in replica order.
  const auto results = strategy.local_results(greetings);
  for (int replica = 0; replica < results.item_count(); ++replica) {
    std::printf("replica %d on %s says %d\n", replica, strategy.compute_device(replica).c_str(),
                static_cast<int>(results.item(replica).view_as<std::int32_t>()()));
  }
}
