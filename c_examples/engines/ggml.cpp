// ggml under Umbo: a perceptron learns handwritten digits on two replicas, from a dataset of ggml's. Teaches how a network trains
// there: its parameters become the strategy's variables, where ggml reads them, and the loop of ggml_opt stays as it is.
//
//   ggml FOLDER [REPLICAS]     a folder with files in the IDX format of MNIST, such as c_examples/data/digits
#include <umbo/adapters/ggml.hpp>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t pixels = 64, hidden = 48, classes = 10;

struct perceptron {
  ggml_tensor *w1, *b1, *w2, *b2;

  explicit perceptron(ggml_context *ctx) {
    const auto parameter = [&](const char *name, std::int64_t from, std::int64_t to) {
      ggml_tensor *const made = from == 1 ? ggml_new_tensor_1d(ctx, GGML_TYPE_F32, to) : ggml_new_tensor_2d(ctx, GGML_TYPE_F32, from, to);
      ggml_set_param(made);
      return ggml_set_name(made, name);
    };
    w1 = parameter("w1", pixels, hidden), b1 = parameter("b1", 1, hidden);
    w2 = parameter("w2", hidden, classes), b2 = parameter("b2", 1, classes);
  }

  ggml_tensor *forward(ggml_context *ctx, ggml_tensor *pictures) const {
    ggml_tensor *const first = ggml_relu(ctx, ggml_add(ctx, ggml_mul_mat(ctx, w1, pictures), b1));
    return ggml_add(ctx, ggml_mul_mat(ctx, w2, first), b2);
  }

  void draw() const { // biases stay 0
    std::mt19937 generator(1);
    for (ggml_tensor *each : {w1, w2}) {
      std::normal_distribution<float> normal(0, 0.2f);
      auto *const numbers = static_cast<float *>(each->data);
      for (std::int64_t at = 0; at < ggml_nelements(each); ++at) numbers[at] = normal(generator);
    }
  }
};

std::vector<unsigned char> bytes_of(const std::string &path, long header) {
  std::FILE *const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr || std::fseek(file, 0, SEEK_END) != 0) std::perror(path.c_str()), std::exit(1);
  std::vector<unsigned char> bytes(static_cast<std::size_t>(std::ftell(file) - header));
  std::fseek(file, header, SEEK_SET);
  if (std::fread(bytes.data(), 1, bytes.size(), file) != bytes.size()) std::perror(path.c_str()), std::exit(1);
  std::fclose(file);
  return bytes;
}

// Pictures of 8 x 8 bytes, from 0 to 16, and labels as one number for each class.
ggml_opt_dataset_t digits(const std::string &folder) {
  const auto pictures = bytes_of(folder + "/train-images-idx3-ubyte", 16), labels = bytes_of(folder + "/train-labels-idx1-ubyte", 8);
  const auto rows = static_cast<std::int64_t>(labels.size());
  const ggml_opt_dataset_t made = ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, pixels, classes, rows, 1);
  float *const x = ggml_get_data_f32(ggml_opt_dataset_data(made)), *const y = ggml_get_data_f32(ggml_opt_dataset_labels(made));
  for (std::size_t at = 0; at < pictures.size(); ++at) x[at] = static_cast<float>(pictures[at]) / 16;
  for (std::size_t at = 0; at < labels.size() * classes; ++at) y[at] = labels[at / classes] == at % classes ? 1.0f : 0.0f;
  return made;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FOLDER [REPLICAS]\n", argv[0]);
    return 2;
  }
  const ggml_opt_dataset_t dataset = digits(argv[1]);
  umbo::adapters::ggml_options how;
  how.datapoint_size = pixels;
  umbo::adapters::ggml_model<perceptron> model(umbo::strategy::create_cpu(argc > 2 ? std::atoi(argv[2]) : 2), how,
                                               [](ggml_context *ctx) { return perceptron(ctx); }, [](perceptron &net) { net.draw(); });
  const auto found = umbo::adapters::ggml_fit(model, dataset, GGML_OPT_OPTIMIZER_TYPE_ADAMW, ggml_opt_get_default_optimizer_params,
                                              /*nepoch=*/20, /*nbatch_logical=*/32, /*val_split=*/0.2f, /*silent=*/false);
  model.save("digits.gguf"); // for programs without Umbo
  ggml_opt_dataset_free(dataset);
  std::printf("%d replicas: %.1f %% of %d pictures are right\n", static_cast<int>(model.strategy().replica_count()),
              100 * found.second.accuracy, static_cast<int>(found.second.ndata));
  return found.second.accuracy > 0.9 ? 0 : 1;
}
