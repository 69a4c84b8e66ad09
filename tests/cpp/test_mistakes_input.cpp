// Mistakes with datasets, files and iterators.
#include <optional>
#include <stdexcept>

#include "mistakes.hpp"

namespace {

using context = umbo::replica_context;
using umbo::tensor;
using umbo::value;

struct world {
    std::string file; // one that is there, and no data
    umbo::strategy strategy = two_replicas();
    tensor one = tensor::scalar(1.0f);
    umbo::dataset numbers = umbo::dataset::from_range(0, 8);
};

std::vector<mistake> mistakes() {
    // A world for each mistake, so that none meets what another has left.
    return {
        {"a file that there is not", umbo::status::not_found,
         {"umbo_dataset_from_npy_file", "'/nowhere/digits.npy'", "No such file"},
         [] {
             umbo::dataset::from_npy_file("/nowhere/digits.npy");
         }},
        {"a file of another format", umbo::status::invalid_argument,
         {"umbo_dataset_from_idx_files", "path", "test_mistakes_input.cpp'", "not an IDX file", "two zeros"},
         [] {
             const world at{__FILE__};
             umbo::dataset::from_idx_files({at.file});
         }},
        {"a file that is no archive", umbo::status::invalid_argument,
         {"umbo_dataset_from_npz_file", "path", "test_mistakes_input.cpp'", "not a .npz file"},
         [] {
             const world at{__FILE__};
             umbo::dataset::from_npz_file(at.file, {"images"});
         }},
        {"batches of nothing", umbo::status::invalid_argument,
         {"umbo_dataset_batch", "element_count", "0;", "elements in a batch, 1 or more"},
         [] {
             const world at{__FILE__};
             at.numbers.batch(0);
         }},
        {"a shard that there is not", umbo::status::invalid_argument,
         {"umbo_dataset_shard", "index", "2;", "in [0, 2), the shards"},
         [] {
             const world at{__FILE__};
             at.numbers.shard(2, 2);
         }},
        {"leaves of different lengths", umbo::status::invalid_argument,
         {"umbo_dataset_from_tensor_slices", "components", "5 in tensor 0", "4 in tensor 1",
          "row i of each tensor belongs to element i"},
         [] {
             umbo::dataset::from_tensor_slices(value::create_struct(
                 {{"image", tensor::create_zeros(umbo::dtype::float32, {5, 2})}, {"label", tensor::create_zeros(umbo::dtype::int32, {4})}}));
         }},
        {"slices of a scalar", umbo::status::invalid_argument,
         {"umbo_dataset_from_tensor_slices", "components", "a scalar", "give it a dimension 0"},
         [] {
             umbo::dataset::from_tensor_slices(tensor::scalar(1.0f));
         }},
        {"a batch of different shapes", umbo::status::invalid_argument,
         {"umbo_iterator_next", "dataset", "element 1 of a batch", "[3]", "[2]", "have one dtype and shape"},
         [] {
             const auto two = tensor::create_zeros(umbo::dtype::float32, {2}), three = tensor::create_zeros(umbo::dtype::float32, {3});
             umbo::dataset::from_elements({two, three}).batch(2).iterate().next();
         }},
        {"a range without a step", umbo::status::invalid_argument,
         {"umbo_dataset_from_range", "step", "0;", "never reach 'stop'"},
         [] {
             umbo::dataset::from_range(0, 4, 0);
         }},
        {"a queue of negative depth", umbo::status::invalid_argument,
         {"umbo_dataset_prefetch", "depth", "-3", "between 1 and 4096"},
         [] {
             const world at{__FILE__};
             at.numbers.prefetch(-3);
         }},
        {"passes fewer than none", umbo::status::invalid_argument,
         {"umbo_dataset_repeat", "count", "-7", "or UMBO_INFINITE (-12)"},
         [] {
             const world at{__FILE__};
             at.numbers.repeat(-7);
         }},
        {"batches of no size", umbo::status::invalid_argument,
         {"umbo_dataset_rebatch", "row_counts", "none", "give one or more"},
         [] {
             const world at{__FILE__};
             at.numbers.batch(2).rebatch({});
         }},
        {"a batch of a negative size", umbo::status::invalid_argument,
         {"umbo_dataset_rebatch", "row_counts", "-1", "is negative"},
         [] {
             const world at{__FILE__};
             at.numbers.batch(2).rebatch({2, -1});
         }},
        {"a dataset that was not batched", umbo::status::invalid_argument,
         {"umbo_strategy_distribute_dataset", "dataset", "a scalar (int64 [])", "2 replicas",
          "batch the dataset before distributing it"},
         [] {
             const world at{__FILE__};
             at.strategy.distribute_dataset(at.numbers).iterate().next();
         }},
        {"an iterator that was not reset", umbo::status::invalid_argument,
         {"umbo_value_view", "value", "an iterator at its end", "reset it"},
         [] {
             const world at{__FILE__};
             const auto input = at.numbers.iterate();
             while (input.next()) {
             }
             input.next().view();
         }},
        {"a run on the end of a dataset", umbo::status::invalid_argument,
         {"umbo_value_view", "value", "replica 0", "CPU:1", "reset it"},
         [] {
             const world at{__FILE__};
             const auto input = at.strategy.distribute_dataset(at.numbers.batch(4)).iterate();
             while (input.next()) {
             }
             at.strategy.run([](context &, const value &args) { args.view(); }, input.next());
         }},
        {"an iterator in its own map", umbo::status::failed_precondition,
         {"umbo_iterator_next", "a mapped function", "use another iterator there"},
         [] {
             const world at{__FILE__};
             umbo::iterator input;
             const auto mapped = at.numbers.map([&](const value &element) {
                 input.next();
                 return value::retained(element.get());
             });
             input = mapped.iterate();
             input.next();
         }},
        {"a map that throws", umbo::status::unknown,
         {"umbo_iterator_next", "corrupt picture"},
         [] {
             const world at{__FILE__};
             at.numbers.map([](const value &) -> value { throw std::runtime_error("corrupt picture"); })
                 .iterate().next();
         }},
        {"a map that gives nothing", umbo::status::invalid_argument,
         {"umbo_iterator_next", "result", "the mapped function", "stores a value for each element"},
         [] {
             const world at{__FILE__};
             at.numbers.map([](const value &) { return value(); }).iterate().next();
         }},
        {"a map whose elements look otherwise", umbo::status::invalid_argument,
         {"umbo_iterator_next", "mapped function", "float32 of shape [3]", "int64 []", "as the spec says"},
         [] {
             const world at{__FILE__};
             at.numbers.map([](const value &) { return value(tensor::create_zeros(umbo::dtype::float32, {3})); })
                 .iterate().next();
         }},
        {"a generator whose elements are of another type", umbo::status::invalid_argument,
         {"umbo_iterator_next", "generator", "float64 of shape []", "float32 []", "as the spec says"},
         [] {
             umbo::dataset::from_generator(umbo::element_spec::create_tensor(umbo::dtype::float32, {}), [] {
                 return [] { return std::optional<value>(tensor::scalar<double>(1)); };
             }).iterate().next();
         }},
        {"names for some of the datasets", umbo::status::invalid_argument,
         {"names", "for each dataset", "or none"},
         [] {
             const world at{__FILE__};
             umbo::dataset::zip({at.numbers, at.numbers}, {"x"});
         }},
        {"datasets of different elements in a row", umbo::status::invalid_argument,
         {"umbo_dataset_concatenate", "datasets", "dataset 1 are float32 []", "dataset 0 int64 []",
          "must be the same"},
         [] {
             const world at{__FILE__};
             umbo::dataset::concatenate({at.numbers, umbo::dataset::from_tensors(at.one)});
         }},
        {"a function that makes no dataset", umbo::status::invalid_argument,
         {"umbo_strategy_distribute_datasets_from_function", "dataset", "the function",
          "stores a dataset for each pipeline"},
         [] {
             const world at{__FILE__};
             at.strategy.distribute_datasets_from_function(
                 [](const umbo::input_context &) { return umbo::dataset(); });
         }},
        {"a split that there is not", umbo::status::invalid_argument,
         {"umbo_strategy_distribute_dataset", "options.split", "999;", "valid are UMBO_SPLIT_CEIL (0)"},
         [] {
             const world at{__FILE__};
             umbo::distribute_options how;
             how.split = static_cast<umbo::split>(999);
             at.strategy.distribute_dataset(at.numbers.batch(4), how);
         }},
        {"a batch that does not divide", umbo::status::invalid_argument,
         {"umbo_input_context_per_replica_batch_size", "global_batch_size", "8 is not a multiple of 3",
          "the number of replicas"},
         [] {
             umbo::input_context given;
             given.replica_count = 3;
             umbo::tensorflow::per_replica_batch_size(given, 8);
         }},
    };
}

} // namespace

int main() {
    judge(mistakes());
    return finish();
}
