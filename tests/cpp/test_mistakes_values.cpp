// Mistakes with handles, tensors, values and reductions.
#include "mistakes.hpp"

namespace {

using umbo::tensor;
using umbo::value;

struct world {
    umbo::strategy strategy = two_replicas();
    tensor one = tensor::scalar(1.0f);
    tensor ones = tensor::create_zeros(umbo::dtype::float32, {2});
    value both = value::create_per_replica({ones, ones});
};

std::vector<mistake> mistakes() {
    // A world for each mistake, so that none meets what another has left.
    return {
        {"a handle that is released twice", umbo::status::invalid_argument,
         {"umbo_retain", "tensor", "the handle was released", "keep a reference of your own"},
         [] {
             umbo_tensor *raw = tensor::scalar(1.0f).release();
             umbo_tensor *another = nullptr;
             umbo_tensor_release(raw);
             umbo_tensor_release(raw);
             umbo::check(umbo_tensor_retain(raw, &another));
         }},
        {"a handle that is used after its release", umbo::status::invalid_argument,
         {"umbo_tensor_view", "tensor", "the handle was released", "keep a reference of your own"},
         [] {
             umbo_tensor *raw = tensor::scalar(1.0f).release();
             umbo_tensor_release(raw);
             umbo_view view{};
             umbo::check(umbo_tensor_view(raw, &view));
         }},
        {"a handle of another kind", umbo::status::invalid_argument,
         {"umbo_value_view", "value", "is a tensor handle", "not a value"},
         [] {
             const auto one = tensor::scalar(1.0f);
             umbo_view view{};
             umbo::check(umbo_value_view(reinterpret_cast<const umbo_value *>(one.get()), nullptr, UMBO_DTYPE_NONE, &view));
         }},
        {"a handle that is NULL", umbo::status::invalid_argument,
         {"umbo_tensor_view", "tensor", "is NULL", "a tensor is expected"},
         [] {
             umbo_view view{};
             umbo::check(umbo_tensor_view(nullptr, &view));
         }},
        {"an output that is NULL", umbo::status::invalid_argument,
         {"umbo_tensor_create_zeros", "tensor", "is NULL", "a place for the output is expected"},
         [] {
             const std::int64_t shape[] = {2};
             umbo::check(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, shape, nullptr, nullptr));
         }},
        {"a field that there is not", umbo::status::not_found,
         {"umbo_value_field", "name", "'y'", "the struct has 'x', 'label'"},
         [] {
             const world at;
             value::create_struct({{"x", at.one}, {"label", at.one}}).field("y");
         }},
        {"an item that there is not", umbo::status::out_of_range,
         {"umbo_value_item", "index", "2 is not in", "[0, 2), the items of a tuple"},
         [] {
             const world at;
             value::create_tuple({at.one, at.one}).item(2);
         }},
        {"a path that leads to no leaf", umbo::status::not_found,
         {"umbo_value_view", "name", "no item '1'", "the tuple has 1 items"},
         [] {
             const world at;
             value::create_struct({{"x", value::create_tuple({at.one})}}).view("x.1");
         }},
        {"a nest that is viewed as a tensor", umbo::status::invalid_argument,
         {"umbo_value_view", "value", "is a tuple", "name one tensor in it"},
         [] {
             const world at;
             value::create_tuple({at.one, at.one}).view();
         }},
        {"two fields of one name", umbo::status::invalid_argument,
         {"umbo_value_create_struct", "names", "'x' appears twice", "give each field a name of its own"},
         [] {
             const world at;
             value::create_struct({{"x", at.one}, {"x", at.one}});
         }},
        {"a tensor of a nest", umbo::status::invalid_argument,
         {"umbo_value_tensor", "value", "is a tuple", "name one tensor in it"},
         [] {
             const world at;
             value::create_tuple({at.one}).tensor();
         }},
        {"a view of the wrong type", umbo::status::invalid_argument,
         {"view", "float32, not float64", "view them as what they are"},
         [] {
             const tensor one = tensor::scalar(1.0f);
             one.view_as<double>();
         }},
        {"a dtype that there is not", umbo::status::invalid_argument,
         {"umbo_tensor_create_zeros", "dtype", "999", "valid are UMBO_DTYPE_FLOAT16 (301) to UMBO_DTYPE_BOOL (313)"},
         [] {
             tensor::create_zeros(static_cast<umbo::dtype>(999), {2});
         }},
        {"a negative size", umbo::status::invalid_argument,
         {"umbo_tensor_create_zeros", "shape", "dimension 1 is -3", "sizes are 0 or more"},
         [] {
             tensor::create_zeros(umbo::dtype::float32, {2, -3});
         }},
        {"a reshape that does not fit", umbo::status::invalid_argument,
         {"umbo_tensor_reshape", "shape", "[4] has 4 elements", "[2, 3] has 6", "a reshape keeps their number"},
         [] {
             tensor::create_zeros(umbo::dtype::float32, {2, 3}).reshape({4});
         }},
        {"a slice beyond the end", umbo::status::out_of_range,
         {"umbo_tensor_slice", "start, stop", "[2, 9)", "dimension 0 of shape [4]", "within [0, 4)"},
         [] {
             tensor::create_zeros(umbo::dtype::float32, {4}).slice(0, 2, 9);
         }},
        {"a slice along an axis that there is not", umbo::status::out_of_range,
         {"umbo_tensor_slice", "axis", "2 is not in", "[-1, 1), the axes of shape [4]"},
         [] {
             tensor::create_zeros(umbo::dtype::float32, {4}).slice(2, 0, 1);
         }},
        {"axes that are no order", umbo::status::invalid_argument,
         {"umbo_tensor_transpose", "axes", "[0, 0]", "[4, 2]", "name each of its axes once"},
         [] {
             tensor::create_zeros(umbo::dtype::float32, {4, 2}).transpose({0, 0});
         }},
        {"a buffer that is too small", umbo::status::invalid_argument,
         {"umbo_tensor_download", "bytes", "4; shape [4] of float32", "has 16"},
         [] {
             float number = 0;
             const auto four = tensor::create_zeros(umbo::dtype::float32, {4});
             umbo::check(umbo_tensor_download(four.get(), &number, sizeof(number)));
         }},
        {"a reduction that there is not", umbo::status::invalid_argument,
         {"umbo_strategy_reduce", "op", "999;", "valid are UMBO_REDUCE_SUM (601) to UMBO_REDUCE_MAX (604)"},
         [] {
             const world at;
             at.strategy.reduce(at.both, static_cast<umbo::reduce_op>(999));
         }},
        {"a mean of booleans", umbo::status::invalid_argument,
         {"umbo_strategy_reduce", "value", "bool values", "convert them to numbers first"},
         [] {
             const world at;
             const auto no = tensor::create_zeros(umbo::dtype::boolean, {2});
             at.strategy.reduce(value::create_per_replica({no, no}), umbo::reduce_op::mean);
         }},
        {"a reduction of different types", umbo::status::invalid_argument,
         {"umbo_strategy_reduce", "value", "replica 0 float32", "replica 1 float64", "needs one dtype"},
         [] {
             const world at;
             const auto other = tensor::scalar<double>(1);
             at.strategy.reduce(value::create_per_replica({at.one, other}), umbo::reduce_op::sum);
         }},
        {"a reduction of different shapes", umbo::status::invalid_argument,
         {"umbo_strategy_reduce", "value", "replica 0 []", "replica 1 [3]", "reshape before"},
         [] {
             const world at;
             const auto three = tensor::create_zeros(umbo::dtype::float32, {3});
             at.strategy.reduce(value::create_per_replica({at.one, three}), umbo::reduce_op::sum);
         }},
        {"a reduction along an axis that there is not", umbo::status::out_of_range,
         {"umbo_strategy_reduce", "axis", "4 is not in", "[-1, 1), the axes of shape [2]"},
         [] {
             const world at;
             umbo::reduce_options how;
             how.axes = {4};
             at.strategy.reduce(at.both, umbo::reduce_op::sum, how);
         }},
        {"a reduction onto a device that there is not", umbo::status::not_found,
         {"umbo_strategy_reduce", "options.destination", "CPU:55", "set the number of logical CPUs to 56"},
         [] {
             const world at;
             umbo::reduce_options how;
             how.destination = "CPU:55";
             at.strategy.reduce(at.both, umbo::reduce_op::sum, how);
         }},
        {"a reduction into memory of another shape", umbo::status::invalid_argument,
         {"umbo_strategy_reduce", "output", "float32 of shape [7]", "the result is float32 of shape [2]"},
         [] {
             const world at;
             umbo::reduce_options how;
             how.output = tensor::create_zeros(umbo::dtype::float32, {7});
             at.strategy.reduce(at.both, umbo::reduce_op::sum, how);
         }},
        {"a gather along an axis that there is not", umbo::status::out_of_range,
         {"umbo_strategy_gather", "axis", "3 is not in", "[-1, 1), the axes of shape [2]"},
         [] {
             const world at;
             at.strategy.gather(at.both, 3);
         }},
        {"a gather of scalars", umbo::status::invalid_argument,
         {"umbo_strategy_gather", "value", "on each replica", "reshape them to [1]"},
         [] {
             const world at;
             at.strategy.gather(value::create_per_replica({at.one, at.one}), 0);
         }},
        {"a gather of different widths", umbo::status::invalid_argument,
         {"umbo_strategy_gather", "value", "replica 0 [2, 2]", "replica 1 [2, 3]", "can be gathered along axis 1"},
         [] {
             const world at;
             at.strategy.gather(value::create_per_replica({tensor::create_zeros(umbo::dtype::float32, {2, 2}),
                                                   tensor::create_zeros(umbo::dtype::float32, {2, 3})}), 0);
         }},
        {"components of different structure", umbo::status::invalid_argument,
         {"umbo_value_create_per_replica", "components", "a tuple of 1 on replica 0", "a tensor of 1 on replica 1",
          "the structures differ"},
         [] {
             const world at;
             value::create_per_replica({value::create_tuple({at.one}), at.one});
         }},
        {"slices with fewer indices than rows", umbo::status::invalid_argument,
         {"umbo_value_create_indexed_slices", "values", "[3, 2]", "2 indices", "need shape [2, 2]"},
         [] {
             value::create_indexed_slices(tensor::create_zeros(umbo::dtype::float32, {3, 2}),
                                   tensor::from_vector<std::int64_t>({0, 1}), {8, 2});
         }},
        {"indices that are no integers", umbo::status::invalid_argument,
         {"umbo_value_create_indexed_slices", "indices", "float32 of shape [1]",
          "int64 of one dimension is expected"},
         [] {
             value::create_indexed_slices(tensor::create_zeros(umbo::dtype::float32, {1, 2}),
                                   tensor::from_vector<float>({0}), {8, 2});
         }},
        {"options without their size", umbo::status::invalid_argument,
         {"umbo_strategy_check_equivalence", "options", "struct_size is 0", "UMBO_EQUIVALENCE_OPTIONS_INIT or UMBO_OPTIONS(umbo_equivalence, ...)"},
         [] {
             const world at;
             umbo_equivalence_options options{};
             umbo_equivalence *out = nullptr;
             umbo::check(umbo_strategy_check_equivalence(
                 at.strategy.get(),
                 nullptr,
                 [](umbo_replica_context *, const umbo_value *, void *, umbo_value **) -> umbo_status {
                     return UMBO_OK;
                 }, at.both.get(), nullptr, &options, &out));
         }},
    };
}

} // namespace

int main() {
    judge(mistakes());
    return finish();
}
